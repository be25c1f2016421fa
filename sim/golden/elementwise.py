"""ADD, SUB, MUL, SQUARED_DIFFERENCE, MAXIMUM, MINIMUM and the six comparisons, with numpy's broadcasting.

Sources: `integer_ops/add.h`, `reference/sub.h`, `integer_ops/mul.h`, `reference/comparisons.h`,
`maximum_minimum.cc`, `squared_difference.cc`, and the `Prepare` of `add.cc`, `sub.cc`, `mul.cc`, `comparisons.cc`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.sixteen import power_of_two
from tq_hw.sim.golden.arith import (
    INT32_MAX,
    INT32_MIN,
    IntArray,
    activation_range,
    dtype_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["AddParams", "CompareParams", "MulParams", "SquareParams", "add_params", "compare_params", "int32_range",
           "mul_params", "square_params"]

#: Clamp limits of the fused activations for int32.
_INT32_RANGES = {"NONE": (INT32_MIN, INT32_MAX), "RELU": (0, INT32_MAX), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}
#: Types without a scale.
_PLAIN_TYPES = ("int32", "int64")
_PLAIN: dict[str, Callable[[IntArray, IntArray], IntArray]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply,
    "SQUARED_DIFFERENCE": lambda x, y: wrap_int32(x - y) ** 2}


@dataclass(frozen=True)
class AddParams:
    """Derived integers of ADD and SUB.

    Members
    -------
    left_shift : applied to each input less its zero point; 20, for int16 15
    multiplier_1, shift_1, multiplier_2, shift_2 : to the common scale `2 * max(scale_1, scale_2)`
    output_multiplier, output_shift : from the common scale to the output's; shifts are <= 0
    """

    left_shift: int
    zero_point_1: int
    multiplier_1: int
    shift_1: int
    zero_point_2: int
    multiplier_2: int
    shift_2: int
    output_multiplier: int
    output_shift: int
    output_zero_point: int
    act_min: int
    act_max: int


@dataclass(frozen=True)
class MulParams:
    """Derived integers of MUL: `(a - z1) * (b - z2)`, rescaled once."""

    zero_point_1: int
    zero_point_2: int
    multiplier: int
    shift: int
    output_zero_point: int
    act_min: int
    act_max: int


@dataclass(frozen=True)
class SquareParams:
    """Derived integers of SQUARED_DIFFERENCE: both inputs on a common scale, for int8 with 7 fraction bits."""

    left_shift: int
    zero_point_1: int
    multiplier_1: int
    shift_1: int
    zero_point_2: int
    multiplier_2: int
    shift_2: int
    output_multiplier: int
    output_shift: int
    output_zero_point: int


@dataclass(frozen=True)
class CompareParams:
    """Derived integers of a comparison: each input is rescaled by its own scale.

    The result has 8 fraction bits; values are compared after this rounding.
    """

    left_shift: int
    zero_point_1: int
    multiplier_1: int
    shift_1: int
    zero_point_2: int
    multiplier_2: int
    shift_2: int


def _operands(op: Operator, subgraph: Subgraph) -> tuple[Tensor, Tensor, Tensor]:
    """Both inputs and the output, all int8, or all int16 with zero points 0."""
    first = require_dtype(op, subgraph, "int8", "int16")
    second, output = require_dtype(op, subgraph, first.dtype, position=1), output_tensor(op, subgraph)
    require(output.dtype == first.dtype, f"output must be {first.dtype}, not {output.dtype}")
    points = [tensor.zero_point for tensor in (first, second, output)]
    require(first.dtype == "int8" or not any(points), f"activations of int16 must have zero point 0, found {points}")
    return first, second, output


def add_params(op: Operator, subgraph: Subgraph) -> AddParams:
    """Derive the integers of an ADD or SUB.

    Raises `UnsupportedError` when the output scale is so small that the output multiplier is 1 or more: the engines
    abort, or their result is undefined.
    """
    first, second, output = _operands(op, subgraph)
    left_shift = 15 if first.dtype == "int16" else 20
    scales = [each.scale for each in (first, second, output)]
    if first.dtype == "int16" and subgraph.profile != "tflm" and op.options.get("pot_scale_int16"):
        exponents = {power_of_two(each) for each in scales}
        # LiteRT adds codes then; different exponents are refused before.
        scales = [1.0] * 3 if len(exponents) == 1 and None not in exponents else scales
    twice_max = 2.0 * max(scales[:2])
    multiplier_1, shift_1 = quantize_multiplier(scales[0] / twice_max)
    multiplier_2, shift_2 = quantize_multiplier(scales[1] / twice_max)
    real = twice_max / ((1 << left_shift) * scales[2])
    output_multiplier, output_shift = quantize_multiplier(real)
    require(real < 1.0 and output_shift <= 0,
            f"output scale {output.scale} must be above {twice_max / (1 << left_shift)}, "
            f"2^-{left_shift - 1} of the larger input scale")
    act_min, act_max = activation_range(str_option(op, "fused_activation_function"),
                                        output.scale, output.zero_point, output.dtype)
    return AddParams(left_shift, first.zero_point, multiplier_1, shift_1,
                     second.zero_point, multiplier_2, shift_2,
                     output_multiplier, output_shift, output.zero_point, act_min, act_max)


def mul_params(op: Operator, subgraph: Subgraph) -> MulParams:
    """Derive the integers of a MUL."""
    first, second, output = _operands(op, subgraph)
    multiplier, shift = quantize_multiplier(factor(subgraph, [first.scale, second.scale], output.scale))
    act_min, act_max = activation_range(str_option(op, "fused_activation_function"),
                                        output.scale, output.zero_point, output.dtype)
    return MulParams(first.zero_point, second.zero_point, multiplier, shift, output.zero_point,
                     act_min, act_max)


def square_params(op: Operator, subgraph: Subgraph) -> SquareParams:
    """Derive the integers of a SQUARED_DIFFERENCE.

    Raises `UnsupportedError` when the output multiplier for int8 is 1 or more: the engines abort.
    """
    first, second, output = _operands(op, subgraph)
    left_shift, twice_max = 0 if first.dtype == "int16" else 7, 2.0 * max(first.scale, second.scale)
    real = twice_max * twice_max / float((1 << 2 * left_shift) * np.float32(output.scale))
    multiplier, shift = quantize_multiplier(real)
    require(left_shift == 0 or (real < 1.0 and shift <= 0),
            f"output scale {output.scale} must be above {twice_max**2 / (1 << 14)}, 2^-12 of the larger input scale's "
            "square")
    return SquareParams(left_shift, first.zero_point, *quantize_multiplier(first.scale / twice_max), second.zero_point,
                        *quantize_multiplier(second.scale / twice_max), multiplier, shift, output.zero_point)


def compare_params(op: Operator, subgraph: Subgraph) -> CompareParams:
    """Derive the integers of a comparison.

    Raises `UnsupportedError` for an input scale of 1 or more: the reference kernel shifts by a
    negative count there, which C leaves undefined.
    """
    first = require_dtype(op, subgraph, "int8", "int16")
    second = require_dtype(op, subgraph, first.dtype, position=1)
    pairs = []
    for tensor in (first, second):
        multiplier, shift = quantize_multiplier(tensor.scale)
        require(shift <= 0, f"input scales must be below 1, tensor {tensor.index} has "
                            f"{tensor.scale}")
        pairs.append((multiplier, shift))
    (multiplier_1, shift_1), (multiplier_2, shift_2) = pairs
    return CompareParams(8, first.zero_point, multiplier_1, shift_1, second.zero_point, multiplier_2, shift_2)


def _rescaled(x: Array, zero_point: int, left_shift: int, multiplier: int, shift: int) -> IntArray:
    centred = (x.astype(np.int64) - zero_point) << left_shift
    return multiply_by_quantized_multiplier(centred, multiplier, shift)


def int32_range(op: Operator, subgraph: Subgraph) -> tuple[int, int]:
    """Clamp limits of a fused activation of an int32 ADD, SUB or MUL; TFLite Micro's ADD ignores it."""
    if op.op == "SQUARED_DIFFERENCE":
        return _INT32_RANGES["NONE"]
    ignored = op.op == "ADD" and subgraph.profile == "tflm"
    return _INT32_RANGES["NONE" if ignored else str_option(op, "fused_activation_function")]


def _plain(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """int32 or int64 without quantization: wrapping arithmetic, then the clamp of the fused activation."""
    low, high = int32_range(op, subgraph)
    if value(inputs, 0).dtype == np.int64:
        # numpy's int64 wraps; the int32 limits do not apply here.
        least, most = (None if limit in (INT32_MIN, INT32_MAX) else limit for limit in (low, high))
        return [np.asarray(np.clip(_PLAIN[op.op](value(inputs, 0), value(inputs, 1)), least, most))]
    result = _PLAIN[op.op](value(inputs, 0).astype(np.int64), value(inputs, 1).astype(np.int64))
    return [narrow(wrap_int32(result), low, high, "int32")]


@kernel("ADD", "SUB")
def add(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 or int16 sum or difference on a common scale with a left shift of 20 or 15; int32 and int64 unscaled."""
    if require_dtype(op, subgraph, "int8", "int16", *_PLAIN_TYPES).dtype in _PLAIN_TYPES:
        return _plain(op, subgraph, inputs)
    p = add_params(op, subgraph)
    first = _rescaled(value(inputs, 0), p.zero_point_1, p.left_shift, p.multiplier_1, p.shift_1)
    second = _rescaled(value(inputs, 1), p.zero_point_2, p.left_shift, p.multiplier_2, p.shift_2)
    total = first + second if op.op == "ADD" else first - second
    scaled = multiply_by_quantized_multiplier(total, p.output_multiplier, p.output_shift)
    return [narrow(scaled + p.output_zero_point, p.act_min, p.act_max, value(inputs, 0).dtype.name)]


@kernel("MUL")
def mul(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 or int16 product; int32 and int64 unscaled."""
    if require_dtype(op, subgraph, "int8", "int16", *_PLAIN_TYPES).dtype in _PLAIN_TYPES:
        return _plain(op, subgraph, inputs)
    p = mul_params(op, subgraph)
    product = ((value(inputs, 0).astype(np.int64) - p.zero_point_1)
               * (value(inputs, 1).astype(np.int64) - p.zero_point_2))
    scaled = multiply_by_quantized_multiplier(product, p.multiplier, p.shift)
    return [narrow(scaled + p.output_zero_point, p.act_min, p.act_max, value(inputs, 0).dtype.name)]


@kernel("SQUARED_DIFFERENCE")
def squared_difference(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Square of an int8 or int16 difference on a common scale; int32 unscaled."""
    if require_dtype(op, subgraph, "int8", "int16", "int32").dtype == "int32":
        return _plain(op, subgraph, inputs)
    p = square_params(op, subgraph)
    first = _rescaled(value(inputs, 0), p.zero_point_1, p.left_shift, p.multiplier_1, p.shift_1)
    second = _rescaled(value(inputs, 1), p.zero_point_2, p.left_shift, p.multiplier_2, p.shift_2)
    scaled = multiply_by_quantized_multiplier((first - second) ** 2, p.output_multiplier, p.output_shift)
    dtype = value(inputs, 0).dtype.name
    return [narrow(scaled + p.output_zero_point, *dtype_range(dtype), dtype)]


@kernel("MAXIMUM", "MINIMUM")
def maximum(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Larger or smaller raw value; there is no rescaling, so all tensors must have the same quantization."""
    require_dtype(op, subgraph, "int8", "int16", *_PLAIN_TYPES)
    choose = np.maximum if op.op == "MAXIMUM" else np.minimum
    return [choose(value(inputs, 0), value(inputs, 1))]


_COMPARISONS: dict[str, Callable[[IntArray, IntArray], Array]] = {
    "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal}


@kernel(*_COMPARISONS)
def compare(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Boolean comparison of two tensors, each rescaled by its own scale; other types are compared directly.

    For int16, LiteRT rescales only in EQUAL and NOT_EQUAL; the other comparisons are of raw codes, whatever the scales.
    """
    others = ("bool",) if op.op in ("EQUAL", "NOT_EQUAL") else ()
    dtype = require_dtype(op, subgraph, "int8", "int16", "int32", "int64", "float32", *others).dtype
    if dtype in ("int32", "int64", "float32", "bool") or (dtype == "int16" and op.op not in ("EQUAL", "NOT_EQUAL")):
        return [_COMPARISONS[op.op](value(inputs, 0), value(inputs, 1))]
    p = compare_params(op, subgraph)
    first = _rescaled(value(inputs, 0), p.zero_point_1, p.left_shift, p.multiplier_1, p.shift_1)
    second = _rescaled(value(inputs, 1), p.zero_point_2, p.left_shift, p.multiplier_2, p.shift_2)
    return [_COMPARISONS[op.op](first, second)]
