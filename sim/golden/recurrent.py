"""UNIDIRECTIONAL_SEQUENCE_LSTM, with int8 activations and its state.

Sources: `lstm_eval.cc LstmStepInteger8x8_16`, `unidirectional_sequence_lstm.cc PopulateQuantizedLstmParams8x8_16`,
`reference/portable_tensor_utils.cc`; for profile tflm its `lstm_eval.h` and `lstm_eval_common.cc`. State tensors are
inputs. The kernel updates them in place, so the caller passes arrays of its own.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.model.rules.variables import LSTM_CELL, LSTM_HIDDEN
from tq_hw.sim.golden.arith import (
    IntArray,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturate,
    wrap_int32,
)
from tq_hw.sim.golden.fixedpoint import logistic, tanh
from tq_hw.sim.golden.interpolated import interpolated_logistic, interpolated_tanh
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    float_option,
    input_tensor,
    kernel,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["LstmGate", "LstmParams", "lstm_params"]


@dataclass(frozen=True)
class LstmGate:
    """Positions of a gate's inputs, and their rescaling to Q3.12."""

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
    cell_clip : magnitude limit of the raw cell state, or None
    hidden_multiplier, hidden_shift, hidden_zero_point : from Q0.30 to the output
    interpolated : TFLite Micro's arithmetic: logistic and tanh from an interpolated table, every product rounded twice
        and saturated
    """

    input_gate: LstmGate
    forget_gate: LstmGate
    cell_gate: LstmGate
    output_gate: LstmGate
    input_zero_point: int
    state_zero_point: int
    cell_scale_log2: int
    cell_clip: int | None
    hidden_multiplier: int
    hidden_shift: int
    hidden_zero_point: int
    time_major: bool
    interpolated: bool


def lstm_params(op: Operator, subgraph: Subgraph) -> LstmParams:
    """Derive the integers of a UNIDIRECTIONAL_SEQUENCE_LSTM.

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
            factors += quantize_multiplier(factor(subgraph, [weights.scale, source], 2.0 ** -12))
        return LstmGate(1 + number, 5 + number, 12 + number, *factors)

    log2 = math.log2(cell.scale)
    require(abs(log2 - round(log2)) < 1e-3,
            f"cell state scale must be a power of two, found {cell.scale}")
    require(-15 <= round(log2) <= -9, f"cell state scale must be 2^-15..2^-9, found {cell.scale}")
    if len(op.intermediates) < 5:
        raise ModelError(f"5 intermediate tensors expected, found {len(op.intermediates)}")
    intermediate = subgraph.tensors[op.intermediates[4]]
    effective = 2.0**-30 / intermediate.scale
    if subgraph.profile != "tflm":
        effective = float(np.float32(effective))
    return LstmParams(gate(0), gate(1), gate(2), gate(3), tensor.zero_point, hidden.zero_point,
                      round(log2), _cell_clip(op, subgraph, cell.scale),
                      *quantize_multiplier(effective), intermediate.zero_point,
                      bool_option(op, "time_major"), subgraph.profile == "tflm")


def _cell_clip(op: Operator, subgraph: Subgraph, scale: float) -> int | None:
    clip = float_option(op, "cell_clip")
    raw = int(min(max(factor(subgraph, [clip], scale), 0.0), 32767.0))
    # TFLite Micro reads the real limit, LiteRT the integer.
    clips = clip > 0 if subgraph.profile == "tflm" else raw > 0
    return raw if clips else None


def _gate(gate: LstmGate, p: LstmParams, inputs: Inputs, x: IntArray, h: IntArray) -> IntArray:
    """Q3.12 gate input [batch, cells]: two rescaled products, saturated to int16 after each."""
    input_weights = value(inputs, gate.input_weights).astype(np.int64)
    recurrent_weights = value(inputs, gate.recurrent_weights).astype(np.int64)
    bias = value(inputs, gate.bias).astype(np.int64)
    acc = wrap_int32((x - p.input_zero_point) @ input_weights.T + bias)
    total = saturate(multiply_by_quantized_multiplier(
        acc, gate.input_multiplier, gate.input_shift), 16)
    acc = wrap_int32((h - p.state_zero_point) @ recurrent_weights.T)
    more = multiply_by_quantized_multiplier(acc, gate.recurrent_multiplier, gate.recurrent_shift)
    return saturate(total + (saturate(more, 16) if p.interpolated else more), 16)


def _step(p: LstmParams, inputs: Inputs, x: IntArray, h: IntArray,
          c: IntArray) -> tuple[IntArray, IntArray]:
    """Next hidden state (int8 values) and cell state (int16 values)."""
    sums = [_gate(gate, p, inputs, x, h) for gate in (p.input_gate, p.forget_gate, p.cell_gate, p.output_gate)]
    if p.interpolated:
        i, f, o = (interpolated_logistic(sums[number]) for number in (0, 1, 3))
        g = interpolated_tanh(sums[2])
        # With multipliers of 2^30, a product is halved and rounded, then shifted and rounded.
        kept = saturate(multiply_by_quantized_multiplier(f * c, 1 << 30, -14), 16)
        added = saturate(multiply_by_quantized_multiplier(i * g, 1 << 30, -29 - p.cell_scale_log2), 16)
    else:
        i, f, o = (logistic(sums[number], 3) for number in (0, 1, 3))
        g = tanh(sums[2], 3)
        kept = rounding_divide_by_pot(f * c, 15)
        added = (rounding_divide_by_pot(i * g, 30 + p.cell_scale_log2) + (1 << 15) & 0xFFFF) - (1 << 15)
    c = saturate(kept + added, 16)
    if p.cell_clip is not None:
        c = np.clip(c, -p.cell_clip, p.cell_clip)
    fraction_bits = -p.cell_scale_log2
    product = o * (interpolated_tanh(c, fraction_bits) if p.interpolated else tanh(c, 15 - fraction_bits))
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
