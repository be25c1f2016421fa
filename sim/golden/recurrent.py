"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, with int8 activations and their state.

Sources: `reference/svdf.h EvalIntegerSVDF`, `svdf.cc`, for the int8 state TFLite Micro's
`svdf_common.cc`; `lstm_eval.cc LstmStepInteger8x8_16`,
`unidirectional_sequence_lstm.cc PopulateQuantizedLstmParams8x8_16`,
`reference/portable_tensor_utils.cc`. State tensors are inputs; the kernels update the arrays in
place, so the caller passes arrays that it owns.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import (
    IntArray,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturate,
    wrap_int32,
)
from tq_hw.sim.golden.fixedpoint import logistic, tanh
from tq_hw.sim.golden.mac import bias_values
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    float_option,
    input_tensor,
    int_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["LstmGate", "LstmParams", "SvdfParams", "lstm_params", "svdf_params"]

SVDF_STATE, LSTM_HIDDEN, LSTM_CELL = 4, 18, 19


@dataclass(frozen=True)
class SvdfParams:
    """Derived integers of SVDF: stage 1 fills the state, stage 2 the int8 output.

    Members
    -------
    state_bits : 16, or 8 for the form that only TFLite Micro has; of the time weights too
    state_zero_point : 0 with 16 bits
    """

    rank: int
    input_zero_point: int
    state_bits: int
    state_zero_point: int
    multiplier_1: int
    shift_1: int
    multiplier_2: int
    shift_2: int
    output_zero_point: int


def svdf_params(op: Operator, subgraph: Subgraph) -> SvdfParams:
    """Derive the integers of an SVDF; both factors are float32 products and quotients."""
    tensor = require_dtype(op, subgraph, "int8")
    feature = require_dtype(op, subgraph, "int8", position=1)
    time = require_dtype(op, subgraph, "int16", "int8", position=2)
    state = require_dtype(op, subgraph, time.dtype, position=SVDF_STATE)
    require(state.dtype == "int8" or state.zero_point == 0,
            f"an int16 state must have zero point 0, not {state.zero_point}")
    require(feature.zero_point == 0 and time.zero_point == 0, "weights must have zero point 0")
    output = output_tensor(op, subgraph)
    require(output.dtype == "int8", f"output must be int8, not {output.dtype}")
    activation = str_option(op, "fused_activation_function")
    # The int8 clamp is all that the reference kernel does with it.
    require(activation == "RELU", f"fused activation must be RELU, not {activation}")
    rank = int_option(op, "rank")
    require(rank >= 1 and feature.shape[0] % rank == 0,
            f"rank {rank} must divide the {feature.shape[0]} filters")
    scale_1 = np.float32(tensor.scale) * np.float32(feature.scale) / np.float32(state.scale)
    scale_2 = np.float32(state.scale) * np.float32(time.scale) / np.float32(output.scale)
    return SvdfParams(rank, tensor.zero_point, 16 if state.dtype == "int16" else 8,
                      state.zero_point, *quantize_multiplier(float(scale_1)),
                      *quantize_multiplier(float(scale_2)), output.zero_point)


@kernel("SVDF")
def svdf(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """One step of a rank-decomposed filter over time.

    Inputs: int8 [batch, in], int8 features [filters, in], time weights [filters, memory], int32 bias
    [units] or none, state [batch, filters * memory], updated in place.
    """
    p = svdf_params(op, subgraph)
    x = value(inputs, 0).astype(np.int64) - p.input_zero_point
    feature = value(inputs, 1).astype(np.int64)
    time = value(inputs, 2).astype(np.int64)
    filters, memory = time.shape
    state = value(inputs, SVDF_STATE).reshape(x.shape[0], filters, memory)
    dot = multiply_by_quantized_multiplier(wrap_int32(x @ feature.T), p.multiplier_1, p.shift_1)
    state[..., :-1] = state[..., 1:].copy()
    # The zero point is added after the saturation; an int8 state then wraps in the source too.
    state[..., -1] = (saturate(dot, p.state_bits) + p.state_zero_point).astype(state.dtype)
    per_filter = ((state.astype(np.int64) - p.state_zero_point) * time).sum(axis=-1)
    acc = per_filter.reshape(x.shape[0], filters // p.rank, p.rank).sum(axis=-1)
    acc = wrap_int32(acc + bias_values(op, subgraph, inputs, 3))
    scaled = multiply_by_quantized_multiplier(acc, p.multiplier_2, p.shift_2)
    return [narrow(scaled + p.output_zero_point, -128, 127)]


@dataclass(frozen=True)
class LstmGate:
    """Positions of a gate's inputs and its rescaling to Q3.12."""

    input_weights: int
    recurrent_weights: int
    bias: int
    input_multiplier: int
    input_shift: int
    recurrent_multiplier: int
    recurrent_shift: int


@dataclass(frozen=True)
class LstmParams:
    """Derived integers of the LSTM.

    Members
    -------
    input_gate, forget_gate, cell_gate, output_gate : each in Q3.12 before its activation
    cell_scale_log2 : the cell state has scale 2^cell_scale_log2
    cell_clip : magnitude limit of the raw cell state, 0 = none
    hidden_multiplier, hidden_shift, hidden_zero_point : from Q0.30 to the output
    """

    input_gate: LstmGate
    forget_gate: LstmGate
    cell_gate: LstmGate
    output_gate: LstmGate
    input_zero_point: int
    state_zero_point: int
    cell_scale_log2: int
    cell_clip: int
    hidden_multiplier: int
    hidden_shift: int
    hidden_zero_point: int
    time_major: bool


def lstm_params(op: Operator, subgraph: Subgraph) -> LstmParams:
    """Derive the integers of a UNIDIRECTIONAL_SEQUENCE_LSTM; factors are float32 throughout.

    Raises `UnsupportedError` for coupled gates, peepholes, projection and layer normalization.
    """
    tensor = require_dtype(op, subgraph, "int8")
    hidden = require_dtype(op, subgraph, "int8", position=LSTM_HIDDEN)
    cell = require_dtype(op, subgraph, "int16", position=LSTM_CELL)
    for positions, what in (((9, 10, 11), "peephole weights"), ((16, 17), "a projection"),
                            ((20, 21, 22, 23), "layer normalization")):
        absent = all(input_tensor(op, subgraph, position) is None for position in positions)
        require(absent, f"an LSTM with {what} is not supported; export it without")
    require(input_tensor(op, subgraph, 1) is not None,
            "an LSTM with coupled input and forget gates is not supported; export it without")
    activation = str_option(op, "fused_activation_function")
    require(activation == "TANH", f"fused activation must be TANH, not {activation}")
    require(float_option(op, "proj_clip") == 0.0, "proj_clip must be 0 without a projection")
    require(len(tensor.shape) == 3, f"input must have 3 dimensions, found {tensor.shape}")

    def gate(number: int) -> LstmGate:
        factors: list[int] = []
        for position, source in ((1 + number, tensor.scale), (5 + number, hidden.scale)):
            weights = require_dtype(op, subgraph, "int8", position=position)
            require(weights.zero_point == 0,
                    f"weights (tensor {weights.index}) must have zero point 0")
            factor = np.float32(weights.scale) * np.float32(source) / np.float32(2.0 ** -12)
            factors += quantize_multiplier(float(factor))
        return LstmGate(1 + number, 5 + number, 12 + number, *factors)

    log2 = math.log2(cell.scale)
    require(abs(log2 - round(log2)) < 1e-3,
            f"cell state scale must be a power of two, found {cell.scale}")
    require(-15 <= round(log2) <= -9, f"cell state scale must be 2^-15..2^-9, found {cell.scale}")
    if len(op.intermediates) < 5:
        raise ModelError(f"5 intermediate tensors expected, found {len(op.intermediates)}")
    intermediate = subgraph.tensors[op.intermediates[4]]
    effective = np.float32(2.0 ** -15 / intermediate.scale * 2.0 ** -15)
    clip = np.float32(float_option(op, "cell_clip")) / np.float32(cell.scale)
    return LstmParams(gate(0), gate(1), gate(2), gate(3), tensor.zero_point, hidden.zero_point,
                      round(log2), int(min(max(float(clip), 0.0), 32767.0)),
                      *quantize_multiplier(float(effective)), intermediate.zero_point,
                      bool_option(op, "time_major"))


def _gate(gate: LstmGate, p: LstmParams, inputs: Inputs, x: IntArray, h: IntArray) -> IntArray:
    """Q3.12 gate input [batch, cells]: two rescaled products, saturated to int16 after each."""
    input_weights = value(inputs, gate.input_weights).astype(np.int64)
    recurrent_weights = value(inputs, gate.recurrent_weights).astype(np.int64)
    bias = value(inputs, gate.bias).astype(np.int64)
    acc = wrap_int32((x - p.input_zero_point) @ input_weights.T + bias)
    total = saturate(multiply_by_quantized_multiplier(
        acc, gate.input_multiplier, gate.input_shift), 16)
    acc = wrap_int32((h - p.state_zero_point) @ recurrent_weights.T)
    return saturate(total + multiply_by_quantized_multiplier(
        acc, gate.recurrent_multiplier, gate.recurrent_shift), 16)


def _step(p: LstmParams, inputs: Inputs, x: IntArray, h: IntArray,
          c: IntArray) -> tuple[IntArray, IntArray]:
    """Next hidden state (int8 values) and cell state (int16 values)."""
    i = logistic(_gate(p.input_gate, p, inputs, x, h), 3)
    f = logistic(_gate(p.forget_gate, p, inputs, x, h), 3)
    g = tanh(_gate(p.cell_gate, p, inputs, x, h), 3)
    kept = rounding_divide_by_pot(f * c, 15)
    added = rounding_divide_by_pot(i * g, 30 + p.cell_scale_log2)
    c = saturate(kept + ((added + (1 << 15)) & 0xFFFF) - (1 << 15), 16)
    if p.cell_clip > 0:
        c = np.clip(c, -p.cell_clip, p.cell_clip)
    o = logistic(_gate(p.output_gate, p, inputs, x, h), 3)
    product = o * tanh(c, 15 + p.cell_scale_log2)
    h = multiply_by_quantized_multiplier(product, p.hidden_multiplier, p.hidden_shift)
    return np.clip(h + p.hidden_zero_point, -128, 127), c


@kernel("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """LSTM over a sequence, int8 activations, int16 gates and cell state.

    Input [batch, time, in], or [time, batch, in] when time-major; inputs 18 and 19 are the int8
    hidden and the int16 cell state [batch, cells], updated in place.
    """
    p = lstm_params(op, subgraph)
    x = value(inputs, 0).astype(np.int64)
    steps = x if p.time_major else x.swapaxes(0, 1)
    hidden, cell = value(inputs, LSTM_HIDDEN), value(inputs, LSTM_CELL)
    h, c = hidden.astype(np.int64), cell.astype(np.int64)
    outputs = []
    for step in steps:
        h, c = _step(p, inputs, step, h, c)
        outputs.append(h)
    hidden[...] = h
    cell[...] = c
    result = np.stack(outputs).astype(np.int8)
    return [result if p.time_major else result.swapaxes(0, 1)]
