"""SOFTMAX and LOG_SOFTMAX over the last axis.

Sources: `reference/softmax.h`, `integer_ops/log_softmax.h`, `quantization_util.cc
PreprocessSoftmaxScaling`, `CalculateInputRadius`.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden import sixteen
from tq_hw.sim.golden.arith import (
    INT32_MAX,
    INT32_MIN,
    IntArray,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    wrap_int32,
)
from tq_hw.sim.golden.fixedpoint import (
    count_leading_zeros,
    exp_on_negative_values,
    high_mul,
    log_of_sum,
    one_over_one_plus_x,
)
from tq_hw.sim.golden.libm import Float32, expf
from tq_hw.sim.golden.libm_double import logf
from tq_hw.sim.golden.reduce import sum_in_order
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    float_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    value,
)

__all__ = ["ACCUMULATION_INTEGER_BITS", "SCALED_DIFF_INTEGER_BITS", "SoftmaxParams",
           "exp_table", "params", "softmax_of_table"]

SCALED_DIFF_INTEGER_BITS = 5
ACCUMULATION_INTEGER_BITS = 12


@dataclass(frozen=True)
class SoftmaxParams:
    """Derived integers of SOFTMAX and LOG_SOFTMAX.

    Members
    -------
    multiplier, left_shift : from an input difference to Q5.26; left_shift is 0..31
    diff_min : differences below it count as -infinity
    output_bits : 8, or 16 for SOFTMAX's int16 output
    reverse_multiplier, reverse_shift : LOG_SOFTMAX only, from Q5.26 to an input difference
    """

    multiplier: int
    left_shift: int
    diff_min: int
    output_bits: int = 8
    reverse_multiplier: int = 0
    reverse_shift: int = 0


def params(op: Operator, subgraph: Subgraph) -> SoftmaxParams:
    """Derive the integers of a SOFTMAX or LOG_SOFTMAX.

    Raises `UnsupportedError` when the output quantization is not the operator's fixed one, or the input scale is too
    small for the fixed-point exponential (the engines abort).
    """
    tensor = require_dtype(op, subgraph, "int8")
    output = output_tensor(op, subgraph)
    log = op.op == "LOG_SOFTMAX"
    output_bits = 16 if output.dtype == "int16" and not log else 8
    scale, zero_point = (16.0 / 256, 127) if log else (0.5 ** output_bits, -(1 << output_bits - 1))
    near = abs(output.scale - scale) <= (0.0 if log else 0.001 * scale)
    require(output.dtype == f"int{output_bits}" and near and output.zero_point == zero_point,
            f"output must be int{output_bits} with scale {scale} and zero point {zero_point}, found "
            f"{output.dtype}, {output.scale}, {output.zero_point}")
    beta = 1.0 if log else float_option(op, "beta")
    real = min(beta * tensor.scale * (1 << (31 - SCALED_DIFF_INTEGER_BITS)), float(INT32_MAX))
    require(real > 1.0, f"beta * input scale must be above 2^-26, found {beta * tensor.scale}")
    multiplier, left_shift = quantize_multiplier(real)
    radius = ((1 << SCALED_DIFF_INTEGER_BITS) - 1) * 2.0 ** (31 - SCALED_DIFF_INTEGER_BITS)
    diff_min = -math.floor(radius / 2.0 ** left_shift)
    if not log:
        return SoftmaxParams(multiplier, left_shift, diff_min, output_bits)
    # The source computes 1 << (31 - left_shift) as an int, which overflows for left_shift 0.
    require(left_shift >= 1, f"input scale must be above 2^-25, found {tensor.scale}")
    reverse_multiplier, reverse_shift = quantize_multiplier((1 << (31 - left_shift)) / multiplier)
    return SoftmaxParams(multiplier, left_shift, diff_min, 8, reverse_multiplier, reverse_shift)


def _scaled(diff: IntArray, p: SoftmaxParams) -> IntArray:
    """Differences >= diff_min in Q5.26; smaller ones are replaced by 0 and must be masked."""
    return multiply_by_quantized_multiplier(np.where(diff >= p.diff_min, diff, 0), p.multiplier,
                                            p.left_shift)


def exp_table(p: SoftmaxParams) -> IntArray:
    """e^diff in Q0.31 for differences 0, -1, .. -255; 0 below `diff_min`."""
    diff = -np.arange(256, dtype=np.int64)
    table = exp_on_negative_values(_scaled(diff, p), SCALED_DIFF_INTEGER_BITS)
    return np.where(diff >= p.diff_min, table, 0)


def _sum_of_exps(diff: IntArray, exponentials: IntArray) -> IntArray:
    """Row sums in Q12.19, each exponential rounded first; keeps the last axis with size 1."""
    table = rounding_divide_by_pot(exponentials, ACCUMULATION_INTEGER_BITS)
    return wrap_int32(table[-diff].sum(axis=-1, keepdims=True))


def softmax_of_table(x: IntArray, exponentials: IntArray, output_bits: int = 8) -> IntArray:
    """Softmax over the last axis of int8 values, given `exp_table`; int8 or int16 values as int64.

    Raises `UnsupportedError` when a row's exponentials sum to 512 or more for an int8 output.
    """
    diff = x - x.max(axis=-1, keepdims=True)
    total = _sum_of_exps(diff, exponentials)
    headroom = count_leading_zeros(total)
    exponent = (ACCUMULATION_INTEGER_BITS - headroom) + 31 - output_bits
    if np.any((total <= 0) | (exponent > 31)):
        raise UnsupportedError("a row's exponentials sum to more than the reference kernels can hold: they abort "
                               "on 512 or more classes equal to the maximum")
    scale = one_over_one_plus_x((total << headroom) - (1 << 31))
    product = high_mul(scale, exponentials[-diff])
    low = -(1 << (output_bits - 1))
    return np.clip(rounding_divide_by_pot(product, exponent) + low, low, -low - 1)


def _real_softmax(x: Float32, beta: float) -> Float32:
    """Softmax of float32, `reference/softmax.h`: exponentials are added in order, and each is divided by the sum.

    A row of minus infinity is NaN.
    """
    with np.errstate(invalid="ignore"):
        powers = expf((x - x.max(axis=-1, keepdims=True)) * np.float32(beta))
    return np.asarray(powers / sum_in_order(powers, (x.ndim - 1,), keep_dims=True), np.float32)


def _real_log_softmax(x: Float32) -> Float32:
    """Log-softmax of float32, `reference/log_softmax.h`: x less the maximum, less the logarithm of the sum."""
    less = x - x.max(axis=-1, keepdims=True)
    return np.asarray(less - logf(sum_in_order(expf(less), (x.ndim - 1,), keep_dims=True)), np.float32)


@kernel("SOFTMAX")
def softmax(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Softmax of int8 to int8 or int16 with a fixed-point exponential and reciprocal; of int16 with two tables.

    For float32 it is computed in float32.

    Raises `UnsupportedError` when a row sums to 512 or more for an int8 output, that is about 512 classes equal to the
    maximum: the reference kernels abort there.
    """
    if value(inputs, 0).dtype == np.float32:
        return [_real_softmax(value(inputs, 0), float_option(op, "beta"))]
    x = value(inputs, 0).astype(np.int64)
    if require_dtype(op, subgraph, "int8", "int16").dtype == "int16":
        return [sixteen.softmax(x, sixteen.softmax_params(op, subgraph), *sixteen.softmax_tables(subgraph.profile))]
    p = params(op, subgraph)
    low = -(1 << (p.output_bits - 1))
    result = narrow(softmax_of_table(x, exp_table(p), p.output_bits), low, -low - 1, f"int{p.output_bits}")
    return [np.where(x - x.max(axis=-1, keepdims=True) >= p.diff_min, result, result.dtype.type(low))]


@kernel("LOG_SOFTMAX")
def log_softmax(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 logarithm of softmax with a fixed-point exponential and logarithm; for float32 in float32."""
    if value(inputs, 0).dtype == np.float32:
        return [_real_log_softmax(value(inputs, 0))]
    p = params(op, subgraph)
    x = value(inputs, 0).astype(np.int64)
    diff = x - x.max(axis=-1, keepdims=True)
    log_sum = log_of_sum(_sum_of_exps(diff, exp_table(p)))
    # `reverse_scaling_right_shift` is negated when prepared and again when used.
    lowest = multiply_by_quantized_multiplier(log_sum + INT32_MIN, p.reverse_multiplier,
                                              p.reverse_shift)
    adjusted_diff_min = np.maximum(p.diff_min - 1, lowest)
    shift = 31 - SCALED_DIFF_INTEGER_BITS - 4
    result = rounding_divide_by_pot(wrap_int32(_scaled(diff, p) - log_sum), shift) + 127
    return [np.where(diff > adjusted_diff_min, narrow(result, -128, 127), np.int8(-128))]
