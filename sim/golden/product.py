"""DIV and REDUCE_PROD. Sources: `div.cc`, `reference/div.h`, `reduce.cc`, `reference/reduce.h`, `common.h`."""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import InputError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import (
    INT32_MAX,
    IntArray,
    activation_range,
    dtype_range,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tq_hw.sim.golden.fixedpoint import count_leading_zeros, one_over_one_plus_x
from tq_hw.sim.golden.integers import NO_DIVISOR, divided
from tq_hw.sim.golden.reduce import axes, product_in_order, reduce_integers
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["DivParams", "ProductParams", "div_params", "product_params", "reciprocals"]


@dataclass(frozen=True)
class DivParams:
    """Derived integers of DIV: the quotient of the inputs less their zero points, rescaled."""

    zero_point_1: int
    zero_point_2: int
    multiplier: int
    shift: int
    output_zero_point: int
    act_min: int
    act_max: int


def div_params(op: Operator, subgraph: Subgraph) -> DivParams:
    """Derive the integers of a DIV.

    Raises `UnsupportedError` for a quotient of scales of 2^23 or more, or below 2^-15.
    """
    first = require_dtype(op, subgraph, "int8", "int16")
    second = require_dtype(op, subgraph, first.dtype, position=1)
    output = output_tensor(op, subgraph)
    require(output.dtype == first.dtype, f"output must be {first.dtype}, not {output.dtype}")
    points = [tensor.zero_point for tensor in (first, second, output)]
    require(first.dtype == "int8" or not any(points), f"activations of int16 must have zero point 0, found {points}")
    kind = np.float64 if subgraph.profile == "tflm" else np.float32
    with np.errstate(all="ignore"):
        real = float(kind(first.scale) / (kind(second.scale) * kind(output.scale)))
    require(2.0**-15 <= real < 2.0**23, f"the first scale divided by the other two must be 2^-15 or more and below "
                                        f"2^23, where the kernels shift by a negative count; found {real:g}")
    multiplier, shift = quantize_multiplier(real)
    low, high = activation_range(str_option(op, "fused_activation_function"), output.scale, output.zero_point,
                                 output.dtype)
    return DivParams(first.zero_point, second.zero_point, multiplier, shift, output.zero_point, low, high)


def reciprocals(x: IntArray) -> IntArray:
    """`GetReciprocal` of 1..32768 in Q0.31, normalized: 2^31 / x * 2^floor(log2 x), less than 2^31."""
    zeros = count_leading_zeros(x)
    return one_over_one_plus_x((x << zeros) - (1 << 31))


@kernel("DIV")
def div(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8, int16 or int32 quotient; the engines reject a divisor of 0."""
    if require_dtype(op, subgraph, "int8", "int16", "int32").dtype == "int32":
        return [divided(op, subgraph, inputs)]
    p = div_params(op, subgraph)
    x = value(inputs, 0).astype(np.int64) - p.zero_point_1
    y = value(inputs, 1).astype(np.int64) - p.zero_point_2
    if not y.all():
        raise InputError(NO_DIVISOR)
    x, y = np.broadcast_arrays(np.where(y < 0, -x, x), np.abs(y))
    # Redundant sign bits.
    headroom = count_leading_zeros(np.maximum(x, -1 - x)) - 1
    quotient = saturating_rounding_doubling_high_mul(x << headroom, reciprocals(y))
    scaled = saturating_rounding_doubling_high_mul(quotient, p.multiplier)
    right = headroom + 31 - count_leading_zeros(y) - p.shift
    # C leaves shifts by more than 31 bits undefined; both engines' wheels shift modulo 32, and add 1 unless negative.
    result = np.where(right > 31, (scaled >> (right & 31)) + (scaled >= 0),
                      rounding_divide_by_pot(scaled, np.minimum(right, 31)))
    return [narrow(result + p.output_zero_point, p.act_min, p.act_max, value(inputs, 0).dtype.name)]


@dataclass(frozen=True)
class ProductParams:
    """Derived integers of REDUCE_PROD: each product, and the last one a second time, is rescaled with 15 bits.

    Members
    -------
    count : elements of a product
    multiplier : of 15 bits
    shift : right shift after it, 15 less TFLite's exponent
    largest_product : bound of all products before they are rescaled
    """

    axes: tuple[int, ...]
    count: int
    input_zero_point: int
    multiplier: int
    shift: int
    output_zero_point: int
    largest_product: int


def product_params(op: Operator, subgraph: Subgraph, axis_values: Array) -> ProductParams:
    """Derive the integers of a REDUCE_PROD of int8 or int16.

    Raises `UnsupportedError` if a product may exceed 47 bits, or a rescaled one int32, which C leaves undefined.
    """
    tensor, output = require_dtype(op, subgraph, "int8", "int16"), output_tensor(op, subgraph)
    require(output.dtype == tensor.dtype, f"output must be {tensor.dtype}, not {output.dtype}")
    reduced = axes(axis_values, len(tensor.shape))
    count = math.prod(tensor.shape[axis] for axis in reduced)
    require(count >= 1, f"input of shape {tensor.shape} has nothing to reduce")
    multiplier, exponent = quantize_multiplier(tensor.scale / math.pow(output.scale, 1.0 / count))
    require(exponent < 8, f"the factor of each step is 2^{exponent}, and the kernels are undefined from 2^7 on; use a "
                          "larger output scale")
    short = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    least, most = dtype_range(tensor.dtype)
    factor = max(most - tensor.zero_point, tensor.zero_point - least)
    largest, product = factor, 0
    # The last product is rescaled a second time before the zero point is added.
    for times in [factor] * (count - 1) + [1]:
        product = max(product, largest * times)
        largest = (largest * times * short >> 15 - exponent) + 1
        require(product < 1 << 47 and largest <= INT32_MAX + least,
                "a product may exceed 47 bits, or 32 after rescaling: the kernels are undefined there; reduce fewer "
                "elements")
    return ProductParams(reduced, count, tensor.zero_point, short, 15 - exponent, output.zero_point, product)


@kernel("REDUCE_PROD")
def reduce_product(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Product over the axes of input 1, factor by factor."""
    dtype = require_dtype(op, subgraph, "int8", "int16", "int32", "float32").dtype
    if dtype == "int32":
        return reduce_integers(np.multiply, op, inputs)
    if dtype == "float32":
        x = value(inputs, 0)
        return [product_in_order(x, axes(value(inputs, 1), x.ndim), keep_dims=bool_option(op, "keep_dims"))]
    p = product_params(op, subgraph, value(inputs, 1))
    x = value(inputs, 0).astype(np.int64) - p.input_zero_point
    kept = [axis for axis in range(x.ndim) if axis not in p.axes]
    rows = x.transpose(*p.axes, *kept).reshape(p.count, -1)

    def rescaled(product: IntArray) -> IntArray:
        result: IntArray = (product * p.multiplier + (1 << p.shift - 1)) >> p.shift
        return result
    product = rows[0]
    for row in rows[1:]:
        product = rescaled(product * row)
    shape = tuple(1 if axis in p.axes else size for axis, size in enumerate(x.shape)
                  if bool_option(op, "keep_dims") or axis not in p.axes)
    return [narrow(rescaled(product) + p.output_zero_point, *dtype_range(dtype), dtype).reshape(shape)]
