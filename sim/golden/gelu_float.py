"""GELU of float32, computed as by Eigen's packets: LiteRT uses Eigen for it, and C's library for int8.

Sources: `reference/gelu.h`; Eigen's `generic_fast_erfc` and `ptanh_float`, polynomials by Horner's rule, and `pexp`.

The arithmetic is that of processors without fused multiply-add, for which LiteRT's x86-64 wheels are built; other
processors give different last bits. It equals LiteRT's for every third float32 between -40 and 40.
"""

import numpy as np

from tq_hw.model.graph import Operator
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import bool_option

__all__ = ["CUBIC", "ERFC_FAR", "ERFC_NEAR", "EXP_EVEN", "EXP_ODD", "LEAST_EXP", "LN2_HIGH", "LN2_LOW", "LOG2_E",
           "MOST_ERFC", "MOST_TANH", "ROOT_HALF", "ROOT_TWO_BY_PI", "SPLIT", "TANH", "gelu"]

_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
#: Magnitudes beyond which a function is constant.
MOST_ERFC, MOST_TANH = np.float32(11), np.float32(7.90738964080810547)
#: Exponentials below e^-104 are 0 in float32.
LEAST_EXP = np.float32(-104)
ROOT_HALF, ROOT_TWO_BY_PI = np.float32(-np.sqrt(0.5)), np.float32(np.sqrt(2 / np.pi))
CUBIC = np.float32(0.044715)
LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.44269504088896341), np.float32(0.693359375), np.float32(2.12194440e-4)
#: Splits a 24-bit mantissa into 12 and 12 bits.
SPLIT = np.float32(2**12 + 1)


def _floats(*numbers: float) -> Float32:
    return np.array(numbers, np.float32)


# Polynomials, highest power first.
ERFC_NEAR = _floats(5.61802298761904239654541015625e-4, -4.9138166941702365875244140625e-3,
                    2.670751512050628662109375e-2, -1.1280010640621185302734375e-1, 3.76122951507568359375e-1,
                    -1.1283791065216064453125)
ERFC_FAR = (_floats(1.0208116471767425537109375e-1, 4.29206669330596923828125e-1, 3.237907886505126953125e-1,
                    5.39719760417938232421875e-2),
            _floats(1.7251677811145782470703125e-2, 3.9137163758277893066406250e-1, 1, 6.2173241376876831054687500e-1,
                    9.5662862062454223632812500e-2))
EXP_EVEN = _floats(1.37449637986719608306884765625e-3, 4.166965186595916748046875e-2, 0.49999988079071044921875)
EXP_ODD = _floats(8.36894474923610687255859375e-3, 0.16666518151760101318359375)
TANH = (_floats(1.394553628e-8, 2.102733560e-5, 3.520756727e-3, 1.340216100e-1),
         _floats(8.015776984e-7, 3.326951409e-4, 2.597254514e-2, 4.673548340e-1, 1))


def _polynomial(x: Float32, factors: Float32) -> Float32:
    total = np.full_like(x, factors[0])
    for factor in factors[1:]:
        total = total * x + factor
    return total


def _exp(x: Float32) -> Float32:
    """e^x for x <= 0."""
    power = np.floor(x * LOG2_E + _HALF)
    rest = (x - power * LN2_HIGH) + power * LN2_LOW
    square: Float32 = rest * rest
    whole = rest * _polynomial(square, EXP_ODD) + _polynomial(square, EXP_EVEN)
    result = np.ldexp(square * whole + (rest + _ONE), power.astype(np.int32))
    return np.where(x < LEAST_EXP, np.float32(0), result).astype(np.float32)


def _lost(x: Float32, square: Float32) -> Float32:
    """Rounding error of x^2, from products of 12-bit halves of x."""
    wide: Float32 = x * SPLIT
    high: Float32 = (x - wide) + wide
    low: Float32 = x - high
    result: Float32 = ((high * high - square) + high * low + low * high) + low * low
    return result


def _erfc(number: Float32) -> Float32:
    x: Float32 = np.clip(number, -MOST_ERFC, MOST_ERFC)
    square: Float32 = x * x
    near = x * _polynomial(square, ERFC_NEAR) + _ONE
    outer: Float32 = np.where(square > _ONE, x, _ONE)
    square = outer * outer
    power = _exp(-square)
    power = power - power * _lost(outer, square)
    inverse: Float32 = np.asarray(_ONE / square, np.float32)
    ratio = _polynomial(inverse, ERFC_FAR[0]) / (outer * _polynomial(inverse, ERFC_FAR[1]))
    far = power * ratio + np.where(x < 0, _TWO, np.float32(0))
    return np.where(x * x > _ONE, far, near).astype(np.float32)


def _tanh(number: Float32) -> Float32:
    x: Float32 = np.clip(number, -MOST_TANH, MOST_TANH)
    square: Float32 = x * x
    top = (square * x) * _polynomial(square, TANH[0]) + x
    result: Float32 = top / _polynomial(square, TANH[1])
    return result


def gelu(op: Operator, x: Float32) -> Float32:
    """The value times the probability that a standard normal variable is less than it."""
    if bool_option(op, "approximate"):
        bent = _tanh(ROOT_TWO_BY_PI * (x + CUBIC * (x * x * x)))
        result: Float32 = (_HALF * x) * (_ONE + bent)
    else:
        result = (_HALF * x) * _erfc(ROOT_HALF * x)
    return result
