"""PACKED_*: float32 numbers packed into int32, with addition, multiplication, division, and quantization.

They are operators of the compiler, for float32 operators between DEQUANTIZE and QUANTIZE that cannot become a table.

A packed number has a signed 24-bit field above a biased exponent of 8 bits, 1..255. The full fraction is a 25-bit two's
complement number, normalized to 2^23..2^24 - 1 or -2^24..-2^23 - 1. Its second bit is always the inverse of the sign
and is omitted. The value is `fraction * 2^(exponent + EXPONENT)`; zero is 0. The format represents all float32 numbers
below 2^104 in magnitude, including subnormal numbers.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import INT32_MIN, IntArray, round_half_away
from tq_hw.sim.golden.libm import Float32, expf
from tq_hw.sim.golden.libm_double import logf, powf
from tq_hw.sim.golden.quantize import quantized
from tq_hw.sim.golden.reduce import axes, product_in_order, sum_in_order
from tq_hw.sim.golden.registry import Array, Inputs, bool_option, kernel, output_tensor, require, value

__all__ = ["EXPONENT", "EXPONENT_BITS", "FRACTION_BITS", "LIMIT", "MOST_LOG", "MOST_POWER",
           "keys_of", "packed", "unpacked"]

EXPONENT_BITS, FRACTION_BITS = 8, 24
#: 2 less than the exponent of the last fraction bit of the smallest positive float32 number.
EXPONENT = -174
#: Limit of the magnitude of numbers.
LIMIT = 2.0**104
#: Largest argument of e^x; the result is less than `LIMIT`.
MOST_POWER = 72
#: Limit of the arguments of logarithms, which are at least 1.
MOST_LOG = 2.0**23


def packed(values: Float32) -> IntArray:
    """Return the packed numbers, int32, of float32 numbers of magnitude less than `LIMIT`."""
    fraction, power = np.frexp(values.astype(np.float64))
    # A negative power of two has the significand -2^24.
    is_power = fraction == -0.5
    whole = np.ldexp(np.where(is_power, -1.0, fraction), FRACTION_BITS).astype(np.int64)
    exponent = power - is_power - FRACTION_BITS - EXPONENT
    words = (whole - np.where(whole < 0, -1, 1) * (1 << FRACTION_BITS - 1) << EXPONENT_BITS) + exponent
    return np.where(values == 0, 0, words).astype(np.int32)


def unpacked(words: IntArray) -> Float32:
    """Return the float32 numbers of packed numbers."""
    wide = words.astype(np.int64)
    fraction = (wide >> EXPONENT_BITS) + np.sign(wide) * (1 << FRACTION_BITS - 1)
    powers = (wide & (1 << EXPONENT_BITS) - 1) + EXPONENT
    numbers: Float32 = np.ldexp(fraction.astype(np.float64), powers).astype(np.float32)
    return numbers


def keys_of(words: IntArray) -> IntArray:
    """Return int32 keys in the order of packed numbers."""
    wide = words.astype(np.int64)
    exponent = (wide & (1 << EXPONENT_BITS) - 1) << FRACTION_BITS - 1
    return ((wide >> EXPONENT_BITS) + np.where(wide < 0, -exponent, exponent)).astype(np.int32)


def _numbers(inputs: Inputs, position: int) -> Float32:
    return unpacked(value(inputs, position))


def _positive(values: Float32, *, or_zero: bool = False) -> Float32:
    require(bool((values >= 0 if or_zero else values > 0).all()), "its numbers must be positive")
    return values


_BINARY = {"PACKED_ADD": np.add, "PACKED_SUB": np.subtract, "PACKED_MUL": np.multiply, "PACKED_DIV": np.divide}
_EXTREMES = {"PACKED_MAX": np.maximum, "PACKED_MIN": np.minimum}


@kernel(*_BINARY)
def packed_binary(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Elementwise arithmetic with broadcasting and optional RELU.

    Raises `UnsupportedError` for a divisor that is not positive.
    """
    x, y = _numbers(inputs, 0), _numbers(inputs, 1)
    made = np.asarray(_BINARY[op.op](x, _positive(y) if op.op == "PACKED_DIV" else y), np.float32)
    return [packed(np.maximum(made, np.float32(0)) if bool_option(op, "relu") else made)]


@kernel(*_EXTREMES)
def packed_extreme(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Elementwise maximum or minimum with broadcasting."""
    return [packed(_EXTREMES[op.op](_numbers(inputs, 0), _numbers(inputs, 1)))]


@kernel("PACKED_KEY")
def packed_key(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """int32 keys in the order of packed numbers."""
    return [keys_of(value(inputs, 0))]


@kernel("PACKED_OF_KEY")
def packed_of_key(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Packed numbers of keys."""
    wide, bits = value(inputs, 0).astype(np.int64), FRACTION_BITS - 1
    exponent = np.where(wide < 0, -1 - (wide >> bits), wide >> bits)
    part = (wide & (1 << bits) - 1) - ((wide < 0).astype(np.int64) << bits)
    return [((part << EXPONENT_BITS) + exponent).astype(np.int32)]


@kernel("PACKED_EXP")
def packed_exp(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """e^x of packed numbers up to 72. Raises `UnsupportedError` for others."""
    x = _numbers(inputs, 0)
    require(bool((x <= MOST_POWER).all()), f"its numbers must be at most {MOST_POWER}")
    return [packed(expf(x))]


@kernel("PACKED_LOG")
def packed_log(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Natural logarithm of packed numbers from 1 to 2^23. Raises `UnsupportedError` for others."""
    x = _numbers(inputs, 0)
    require(bool(((x >= 1) & (x < MOST_LOG)).all()), "its numbers must be from 1 to 2^23")
    return [packed(logf(x))]


@kernel("PACKED_SQRT", "PACKED_RSQRT")
def packed_root(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Square root or its reciprocal. Raises `UnsupportedError` for negative numbers, and for 0 unless it is SQRT."""
    roots = np.sqrt(_positive(_numbers(inputs, 0), or_zero=op.op == "PACKED_SQRT"))
    return [packed(np.asarray(roots if op.op == "PACKED_SQRT" else np.float32(1) / roots, np.float32))]


@kernel("PACKED_POW")
def packed_pow(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """x^0.5, with the error of the library. Raises `UnsupportedError` for negative numbers."""
    return [packed(powf(_positive(_numbers(inputs, 0), or_zero=True), np.array(0.5, np.float32)))]


@kernel("PACKED_SUM")
def packed_sum(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """SUM of packed numbers over the axes of input 1."""
    x = _numbers(inputs, 0)
    return [packed(sum_in_order(x, axes(value(inputs, 1), x.ndim), keep_dims=bool_option(op, "keep_dims")))]


@kernel("PACKED_PROD")
def packed_product(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """REDUCE_PROD of packed numbers over the axes of input 1."""
    x = _numbers(inputs, 0)
    return [packed(product_in_order(x, axes(value(inputs, 1), x.ndim), keep_dims=bool_option(op, "keep_dims")))]


@kernel("PACKED_INTEGER")
def packed_integer(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Packed numbers of int16 codes, without zero point and scale, or of int32, rounded."""
    return [packed(value(inputs, 0).astype(np.float32))]


@kernel("PACKED_ROUND")
def packed_round(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Packed numbers rounded to int16, halves away from zero, with saturation."""
    rounded = round_half_away(_numbers(inputs, 0).astype(np.float64))
    return [np.clip(rounded, -(1 << 15), (1 << 15) - 1).astype(np.int16)]


@kernel("PACKED_FLOAT")
def packed_float(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """float32 of packed numbers; 0 is positive or has the sign of input 1, which nonzero numbers have as well."""
    made = _numbers(inputs, 0)
    if len(inputs) == 1:
        return [made]
    return [np.copysign(made, np.where(value(inputs, 1) < 0, np.float32(-1), np.float32(1)))]


@kernel("PACKED_SIGN")
def packed_sign(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """The least int32 if exactly one of two packed numbers, with broadcasting, is negative, else 0."""
    return [np.where((value(inputs, 0) < 0) != (value(inputs, 1) < 0), INT32_MIN, 0).astype(np.int32)]


@kernel("PACKED_CODES")
def packed_codes(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """QUANTIZE of packed numbers to int8."""
    return [quantized(_numbers(inputs, 0), output_tensor(op, subgraph))]
