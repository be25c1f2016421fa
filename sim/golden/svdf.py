"""SVDF, with int8 activations and its state.

Sources: `reference/svdf.h EvalIntegerSVDF`, `svdf.cc`, for the int8 state TFLite Micro's `svdf_common.cc`. The state
tensor is an input. The kernel updates it in place, so the caller passes an array of its own.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.model.rules.variables import SVDF_STATE
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier, quantize_multiplier, saturate, wrap_int32
from tq_hw.sim.golden.mac import bias_values
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    int_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["SvdfParams", "svdf_params"]


@dataclass(frozen=True)
class SvdfParams:
    """Derived integers of SVDF: stage 1 fills the state, stage 2 the int8 output.

    Members
    -------
    state_bits : 16, or 8 for the form that only TFLite Micro has; also of the time weights
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
    """Derive the integers of an SVDF."""
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
    # The reference kernel ignores the activation and only clamps to int8.
    require(activation == "RELU", f"fused activation must be RELU, not {activation}")
    rank = int_option(op, "rank")
    require(rank >= 1 and feature.shape[0] % rank == 0,
            f"rank {rank} must divide the {feature.shape[0]} filters")
    scale_1 = factor(subgraph, [tensor.scale, feature.scale], state.scale)
    scale_2 = factor(subgraph, [state.scale, time.scale], output.scale)
    return SvdfParams(rank, tensor.zero_point, 16 if state.dtype == "int16" else 8,
                      state.zero_point, *quantize_multiplier(scale_1), *quantize_multiplier(scale_2), output.zero_point)


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
    # The zero point is added after saturation, so an int8 state wraps, as in the source.
    state[..., -1] = (saturate(dot, p.state_bits) + p.state_zero_point).astype(state.dtype)
    per_filter = ((state.astype(np.int64) - p.state_zero_point) * time).sum(axis=-1)
    acc = per_filter.reshape(x.shape[0], filters // p.rank, p.rank).sum(axis=-1)
    acc = wrap_int32(acc + bias_values(op, subgraph, inputs, 3))
    scaled = multiply_by_quantized_multiplier(acc, p.multiplier_2, p.shift_2)
    return [narrow(scaled + p.output_zero_point, -128, 127)]
