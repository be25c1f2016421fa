"""FULLY_CONNECTED and BATCH_MATMUL.

FULLY_CONNECTED follows TFLite Micro (`integer_ops/fully_connected.h` with `MultiplyByQuantizedMultiplier`, double
product of the scales). For this operator alone, LiteRT's BUILTIN_REF requantizes in C `double`; so does profile litert.
BATCH_MATMUL follows LiteRT's `reference/batch_matmul.h`.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import (
    IntArray,
    activation_range,
    dtype_range,
    quantize_multiplier,
)
from tq_hw.sim.golden.float32 import RANGES
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.mac import (
    MacParams,
    activation_type,
    bias_values,
    channel_multipliers,
    is_wide,
    requantize,
    weight_tensor,
)
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    input_tensor,
    kernel,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["MatMulParams", "accumulate", "batch_matmul", "fully_connected", "is_of_words", "params"]


@dataclass(frozen=True, eq=False)
class MatMulParams(MacParams):
    """Derived integers of a matrix product.

    Members
    -------
    depth : length of each dot product
    weight_zero_point : subtracted from the second operand
    """

    depth: int
    weight_zero_point: int = 0


def params(op: Operator, subgraph: Subgraph) -> MatMulParams:
    """Derive the integers of a FULLY_CONNECTED or BATCH_MATMUL.

    Raises `UnsupportedError` for dtypes other than int8 and int16, and for int8 by int16 (BATCH_MATMUL: int16 by int8
    is computed).
    """
    if op.op == "BATCH_MATMUL" or is_of_words(op, subgraph):
        return _product_params(op, subgraph)
    dtype = activation_type(op, subgraph)
    tensor, output = require_dtype(op, subgraph, dtype), output_tensor(op, subgraph)
    shape = require_dtype(op, subgraph, "int8", position=1).shape
    require(len(shape) == 2, f"weights must have 2 dimensions, found {shape}")
    # Both engines subtract the zero point of weights with a single scale, which old converters wrote.
    weights = weight_tensor(op, subgraph, 1, 0, shape[0], asymmetric=True)
    zero_points = weights.quantization.zero_point if weights.quantization else (0,)
    layout = str_option(op, "weights_format")
    require(layout == "DEFAULT", f"weights_format must be DEFAULT, not {layout}")
    multiplier, shift = channel_multipliers(tensor.scale, weights, output.scale, shape[0])
    act_min, act_max = activation_range(str_option(op, "fused_activation_function"),
                                        output.scale, output.zero_point, dtype)
    real = None
    if subgraph.profile == "litert" and weights.quantization is not None:
        scales = np.array(weights.quantization.scale, np.float64)
        real = np.broadcast_to(tensor.scale * scales / output.scale, shape[:1])
    return MatMulParams(multiplier, shift, tensor.zero_point, output.zero_point, act_min, act_max,
                        shape[1], zero_points[0], real=real, dtype=dtype, wide=is_wide(op, subgraph))


def is_of_words(op: Operator, subgraph: Subgraph) -> bool:
    """Whether a FULLY_CONNECTED has weights of int16; LiteRT computes it as BATCH_MATMUL of int16."""
    weights = input_tensor(op, subgraph, 1)
    return op.op == "FULLY_CONNECTED" and weights is not None and weights.dtype == "int16"


def _product_params(op: Operator, subgraph: Subgraph) -> MatMulParams:
    dtype = activation_type(op, subgraph)
    lhs, rhs = require_dtype(op, subgraph, dtype), require_dtype(
        op, subgraph, dtype, *["int8"] * (op.op == "BATCH_MATMUL" and dtype == "int16"), position=1)
    output = output_tensor(op, subgraph)
    # `GetQuantizedConvolutionMultipler`: the quotient is always a double.
    multiplier, shift = quantize_multiplier(factor(subgraph, [lhs.scale, rhs.scale], 1.0) / output.scale)
    depth = (rhs.shape[-1] if op.op == "FULLY_CONNECTED" else
             lhs.shape[-2 if bool_option(op, "adj_x") else -1])
    return MatMulParams(np.array([multiplier]), np.array([shift]), lhs.zero_point,
                        output.zero_point, *dtype_range(dtype), depth, rhs.zero_point, dtype=dtype,
                        wide=dtype == "int16")


def accumulate(op: Operator, subgraph: Subgraph, inputs: Inputs, p: MatMulParams) -> IntArray:
    """Accumulators including the bias, of the output's shape."""
    # Doubles are exact for these sums: each product is at most 2^30, so it takes 2^23 of them to exceed 2^53.
    lhs = (value(inputs, 0).astype(np.int64) - p.input_zero_point).astype(np.float64)
    rhs = (value(inputs, 1).astype(np.int64) - p.weight_zero_point).astype(np.float64)
    if op.op == "BATCH_MATMUL":
        lhs = np.swapaxes(lhs, -1, -2) if bool_option(op, "adj_x") else lhs
        rhs = np.swapaxes(rhs, -1, -2) if bool_option(op, "adj_y") else rhs
        return p.summed((lhs @ rhs).astype(np.int64))
    if lhs.size % p.depth:
        raise ModelError(f"input of {lhs.size} values must be a multiple of the weights' "
                         f"{p.depth} columns")
    acc = (lhs.reshape(-1, p.depth) @ rhs.T).astype(np.int64)
    acc = acc + bias_values(op, subgraph, inputs, 2)
    shape: tuple[int, ...] = acc.shape
    if bool_option(op, "keep_num_dims"):
        shape = (*value(inputs, 0).shape[:-1], rhs.shape[0])
    return p.summed(acc.reshape(shape))


def _in_order(lhs: Float32, rhs: Float32) -> Float32:
    """Product of float32 matrices: products are added in order, starting from 0."""
    total: Float32 = np.zeros((*np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2]), lhs.shape[-2], rhs.shape[-1]),
                              np.float32)
    for at in range(lhs.shape[-1]):
        total = total + lhs[..., at:at + 1] * rhs[..., at:at + 1, :]
    return total


@kernel("FULLY_CONNECTED")
def fully_connected(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Product of int8, int16 or float32 with a weight matrix [units, depth], bias, fused activation."""
    if value(inputs, 0).dtype == np.float32:
        weights, target = value(inputs, 1), output_tensor(op, subgraph)
        made = _in_order(value(inputs, 0).reshape(-1, weights.shape[1]), weights.T)
        if len(inputs) > 2 and inputs[2] is not None:
            made = made + value(inputs, 2)
        low, high = RANGES[str_option(op, "fused_activation_function")]
        return [np.clip(made, np.float32(low), np.float32(high)).reshape(target.shape)]
    p = params(op, subgraph)
    return [requantize(accumulate(op, subgraph, inputs, p), p)]


@kernel("BATCH_MATMUL")
def batch_matmul(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Product of two activations, both int8, int16 or float32, over their last two axes; leading axes broadcast."""
    if value(inputs, 0).dtype == np.float32:
        lhs, rhs = (np.swapaxes(value(inputs, at), -1, -2) if bool_option(op, name) else value(inputs, at)
                    for at, name in enumerate(("adj_x", "adj_y")))
        return [_in_order(lhs, rhs)]
    p = params(op, subgraph)
    return [requantize(accumulate(op, subgraph, inputs, p), p)]
