"""FLOAT_SUM, FLOAT_REDUCE, FLOAT_RESIZE, FLOAT_CODES: float32 numbers in int32 words, added, and quantized.

They are operators of the compiler. A word has a 24-bit fraction and its sign in the upper 25 bits, and a biased
exponent in the low 7. The value is `(word >> 7) * 2^((word & 127) + exponent)`, where `exponent` is an option of the
operators. Zero is the word 0.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.quantize import quantized
from tq_hw.sim.golden.reduce import axes, sum_in_order
from tq_hw.sim.golden.registry import Array, Inputs, bool_option, int_option, kernel, output_tensor, value
from tq_hw.sim.golden.resize import float_taps, interpolated

__all__ = ["BIAS", "EXPONENT_BITS", "FINE_BITS", "FRACTION_BITS", "pack", "unpack"]

EXPONENT_BITS, FRACTION_BITS = 7, 24
#: Parameters of the compiler's search for codes: the offset before scaling, and additional bits for numbers near 0.
BIAS, FINE_BITS = 1 << 9, 2


def pack(values: Float32, exponent: int) -> IntArray:
    """Return the words of finite float32 numbers whose last bits have exponents in exponent + 1..exponent + 127."""
    fraction, power = np.frexp(values.astype(np.float64))
    biased = np.where(values == 0, 0, power - FRACTION_BITS - exponent)
    words: IntArray = (np.ldexp(fraction, FRACTION_BITS).astype(np.int64) << EXPONENT_BITS) + biased
    return words


def unpack(words: IntArray, exponent: int) -> Float32:
    """Return the float32 numbers of words."""
    powers = (words & (1 << EXPONENT_BITS) - 1) + exponent
    numbers: Float32 = np.ldexp((words >> EXPONENT_BITS).astype(np.float64), powers).astype(np.float32)
    return numbers


@kernel("FLOAT_SUM")
def float_sum(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Inputs are two tensors of words or bytes; a tensor of bytes comes with a table of 256 words."""
    exponent, terms = int_option(op, "exponent"), []
    for position in range(2):
        term = value(inputs, position)
        if term.dtype != np.int32:
            term = value(inputs, 2 + position)[term.view(np.uint8)]
        terms.append(unpack(term.astype(np.int64), exponent))
    made = terms[0] + terms[1]
    if bool_option(op, "relu"):
        made = np.maximum(made, np.float32(0))
    return [pack(made, exponent).astype(np.int32)]


@kernel("FLOAT_REDUCE")
def float_reduce(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """SUM of words, or of bytes with a table of words as input 2, over the axes of input 1."""
    x = value(inputs, 0)
    words = x if x.dtype == np.int32 else value(inputs, 2)[x.view(np.uint8)]
    numbers = unpack(words.astype(np.int64), int_option(op, "exponent"))
    made = sum_in_order(numbers, axes(value(inputs, 1), x.ndim), keep_dims=bool_option(op, "keep_dims"))
    return [pack(made, int_option(op, "exponent")).astype(np.int32)]


@kernel("FLOAT_RESIZE")
def float_resize(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """RESIZE_BILINEAR of bytes with a table of float32 as input 1, to words; to int8 with the tables of FLOAT_CODES."""
    x, target = value(inputs, 0), output_tensor(op, subgraph)
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    taps = (float_taps(x.shape[axis], target.shape[axis], *flags) for axis in (1, 2))
    made = interpolated(value(inputs, 1)[x.view(np.uint8)], *taps)
    if bool_option(op, "relu"):
        made = np.maximum(made, np.float32(0))
    if target.dtype == "int8":
        return [quantized(made, target)]
    return [pack(made, int_option(op, "exponent")).astype(np.int32)]


@kernel("FLOAT_CODES")
def float_codes(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """QUANTIZE of words, each divided by `count`, to int8."""
    numbers = unpack(value(inputs, 0).astype(np.int64), int_option(op, "exponent"))
    return [quantized(numbers / np.float32(int_option(op, "count")), output_tensor(op, subgraph))]
