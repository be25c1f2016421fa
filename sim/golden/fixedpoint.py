"""gemmlowp's fixed-point functions, vectorised: exponential, reciprocal, logistic, tanh, logarithm.

Sources: gemmlowp `fixedpoint/fixedpoint.h`; `internal/common.h` of LiteRT for the logarithm and the reciprocal square
root. A raw value of `bits` bits with m = `integer_bits` represents `raw / 2^(bits - 1 - m)`. All arrays are int64 with
`bits`-bit values. Only the widths 32 (softmax) and 16 (LSTM gates) occur.
"""

import numpy as np

from tq_hw.sim.golden.arith import (
    INT32_MAX,
    INT32_MIN,
    IntArray,
    IntLike,
    rounding_divide_by_pot,
    saturate,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)

__all__ = ["EXP_EIGHTH", "EXP_STEPS", "RECIPROCAL_SLOPE", "RECIPROCAL_START", "THIRD", "count_leading_zeros",
           "exp_on_negative_values", "high_mul", "inv_sqrt", "log_of_sum", "logistic", "narrowed",
           "one_over_one_plus_x", "rescale", "rounding_divide_int16", "rounding_half_sum", "tanh"]

#: e^-(2^k) in Q0.31 for k = -2..4; e^(-1/8) and 1/3 in Q0.31, for the Taylor expansion on [-1/4, 0).
EXP_STEPS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535),
              (3, 720401), (4, 242))
EXP_EIGHTH, THIRD = 1895147668, 715827883
#: 48/17 and -32/17 in Q2.29. The reciprocal's first estimate is 48/17 - 32/17 * d for half the denominator, d.
RECIPROCAL_START, RECIPROCAL_SLOPE = 1515870810, -1010580540


def high_mul(a: IntLike, b: IntLike, bits: int = 32) -> IntArray:
    """SaturatingRoundingDoublingHighMul for `bits`-bit operands; ties round up."""
    if bits == 32:
        return saturating_rounding_doubling_high_mul(a, b)
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: IntArray = np.minimum((product + (1 << (bits - 2))) >> (bits - 1), (1 << (bits - 1)) - 1)
    return high


def rounding_divide_int16(x: IntLike, exponent: int) -> IntArray:
    """RoundingDivideByPOT of int16 values, `exponent` in 0..31.

    From 16 on, the source's 16-bit remainder mask is -1: every x >= 0 gives 1, every x < 0 gives -1.
    """
    x = np.asarray(x, np.int64)
    return rounding_divide_by_pot(x, exponent) if exponent < 16 else np.where(x >= 0, 1, -1)


def rescale(x: IntLike, exponent: int, bits: int = 32) -> IntArray:
    """`x * 2^exponent`: a left shift saturates, a right shift rounds half away from zero."""
    if exponent > 0:
        return saturate(np.asarray(x, np.int64) << exponent, bits)
    return rounding_divide_by_pot(x, -exponent)


def rounding_half_sum(a: IntLike, b: IntLike) -> IntArray:
    """Mean of two values, halves away from zero."""
    return rounding_divide_by_pot(np.asarray(a, np.int64) + b, 1)


def count_leading_zeros(x: IntLike) -> IntArray:
    """Leading zeros of an int32; 32 for 0."""
    # frexp is exact for these doubles, and its exponent is the bit length.
    _, bit_length = np.frexp(np.asarray(x, np.float64))
    return np.where(np.asarray(x) < 0, 0, 32 - bit_length.astype(np.int64))


def narrowed(raw: int, bits: int) -> int:
    """32-bit constant reduced to `bits` bits with the same number of integer bits, rounded."""
    return int(rounding_divide_by_pot(raw, 32 - bits))


def _exp_on_last_quarter(a: IntArray, bits: int) -> IntArray:
    """e^a in Q0 for a in [-1/4, 0): Taylor expansion around -1/8."""
    constant = narrowed(EXP_EIGHTH, bits)
    third = narrowed(THIRD, bits)
    x = a + (1 << (bits - 4))
    x2 = high_mul(x, x, bits)
    x3 = high_mul(x2, x, bits)
    x4 = high_mul(x2, x2, bits)
    tail = high_mul(rounding_divide_by_pot(x4, 2) + x3, third, bits) + x2
    total = constant + high_mul(constant, x + rounding_divide_by_pot(tail, 1), bits)
    return saturate(total, bits)


def exp_on_negative_values(a: IntLike, integer_bits: int, bits: int = 32) -> IntArray:
    """e^a in Q0 for a <= 0 with `integer_bits` integer bits; e^0 is the largest Q0 value."""
    a = np.asarray(a, np.int64)
    fractional_bits = bits - 1 - integer_bits
    quarter = 1 << (fractional_bits - 2)
    last = (a & (quarter - 1)) - quarter
    result = _exp_on_last_quarter(rescale(last, integer_bits, bits), bits)
    remainder = last - a
    for exponent, multiplier in EXP_STEPS:
        if integer_bits > exponent:
            taken = (remainder >> (fractional_bits + exponent)) & 1
            factor = narrowed(multiplier, bits)
            result = np.where(taken != 0, high_mul(result, factor, bits), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fractional_bits), 0, result)
    return np.where(a == 0, (1 << (bits - 1)) - 1, result)


def _reciprocal_of_half(half_denominator: IntArray, bits: int) -> IntArray:
    """`1 / half_denominator` in Q2 by three Newton-Raphson steps; the input is Q0 in [1/2, 1)."""
    x = (narrowed(RECIPROCAL_START, bits)
         + high_mul(half_denominator, narrowed(RECIPROCAL_SLOPE, bits), bits))
    one = 1 << (bits - 3)
    for _ in range(3):
        error = one - high_mul(half_denominator, x, bits)
        x = x + rescale(high_mul(x, error, bits), 2, bits)
    return x


def one_over_one_plus_x(a: IntLike, bits: int = 32) -> IntArray:
    """`1 / (1 + a)` in Q0 for a in [0, 1), Q0."""
    half = rounding_half_sum(a, (1 << (bits - 1)) - 1)
    return rescale(_reciprocal_of_half(half, bits), 1, bits)


def logistic(a: IntLike, integer_bits: int, bits: int = 16) -> IntArray:
    """`1 / (1 + e^-a)` in Q0 for any a with `integer_bits` integer bits."""
    a = np.asarray(a, np.int64)
    positive = one_over_one_plus_x(exp_on_negative_values(-np.abs(a), integer_bits, bits), bits)
    one = (1 << (bits - 1)) - 1
    return np.where(a == 0, 1 << (bits - 2), np.where(a > 0, positive, one - positive))


def tanh(a: IntLike, integer_bits: int, bits: int = 16) -> IntArray:
    """Hyperbolic tangent in Q0 of a with `integer_bits` integer bits."""
    a = np.asarray(a, np.int64)
    # -2 |a|: the binary point moves, the bits stay.
    exponential = exp_on_negative_values(-np.abs(a), integer_bits + 1, bits)
    half = rounding_half_sum(exponential, (1 << (bits - 1)) - 1)
    magnitude = rescale(_reciprocal_of_half(half, bits) - (1 << (bits - 3)), 2, bits)
    return np.where(a == 0, 0, np.where(a < 0, -magnitude, magnitude))


def inv_sqrt(x: IntLike) -> tuple[IntArray, IntArray]:
    """`(multiplier, shift)` of `1 / sqrt(x)`; `GetInvSqrtQuantizedMultiplierExp`, reverse shift -1.

    `x` is a non-negative int32; 0 is treated as 1. The multiplier is Q0.31, the shift TFLite's
    signed exponent.
    """
    x = np.asarray(x, np.int64)
    small = x <= 1
    scaled = np.where(small, 2, x)
    right_shift = np.full(scaled.shape, 11, np.int64)
    while np.any(large := scaled >= 1 << 29):
        scaled = np.where(large, scaled >> 2, scaled)
        right_shift = right_shift + large
    pairs = (count_leading_zeros(scaled) - 1) // 2 - 1
    right_shift = right_shift - pairs
    scaled = scaled << (2 * pairs)
    # Newton-Raphson on Q3.28 from x = 1, five times.
    half_input = rounding_divide_by_pot(scaled >> 1, 1)
    three_halves = (1 << 28) + (1 << 27)
    root = np.full(scaled.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = rescale(high_mul(high_mul(root, root), root), 6)
        root = rescale(high_mul(three_halves, root) - high_mul(half_input, cube), 3)
    root = high_mul(root, 1518500250)  # sqrt(2) / 2
    root = root << np.maximum(-right_shift, 0)
    right_shift = np.maximum(right_shift, 0)
    return np.where(small, INT32_MAX, root), np.where(small, 0, -right_shift)


def _shifted(x: IntLike, left: IntArray) -> IntArray:
    """Left shift with saturation; a shift that would be to the right saturates too, by the sign."""
    x = np.asarray(x, np.int64)
    end = np.where(x < 0, INT32_MIN, INT32_MAX)
    return np.where(left < 0, end, saturate(x << np.maximum(left, 0), 32))


def log_of_sum(x: IntLike) -> IntArray:
    """Natural logarithm in Q5.26 of x >= 1 in Q12.19; `log_x_for_x_greater_than_or_equal_to_1`.

    A sum of 4096 or more wraps and is negative; the result is then that of the kernel's int32 arithmetic.
    """
    x = np.asarray(x, np.int64)
    accum_bits, input_bits = 6, 12
    sqrt_half, sqrt_sqrt_half = 1518500250, 1805811301
    quarter = rescale(1 << 29, -accum_bits)

    zeros_a = count_leading_zeros(x)
    r_a = rescale(high_mul(_shifted(x, zeros_a - 1), sqrt_half), 1)
    pow_a = saturate(rescale(input_bits - zeros_a, 31 - accum_bits) + quarter, 32)
    headroom_b = count_leading_zeros(high_mul(x, sqrt_half)) - 1
    r_b = _shifted(x, headroom_b)
    pow_b = saturate(rescale(input_bits - headroom_b, 31 - accum_bits) - quarter, 32)
    r, power = np.minimum(r_a, r_b), np.maximum(pow_a, pow_b)

    p = rounding_half_sum(r, sqrt_sqrt_half)
    q = wrap_int32(2 * (r - sqrt_sqrt_half))
    square = high_mul(q, q)
    numerator = high_mul(q, r) + high_mul(high_mul(q, square), 117049297)
    denominator = (high_mul(p, 1057819769 + q + high_mul(127690142, square))
                   + high_mul(638450708, q))
    reciprocal = one_over_one_plus_x(denominator)
    total = high_mul(power, 1488522236) + high_mul(rescale(numerator, -accum_bits), reciprocal)
    return rescale(total, 1)
