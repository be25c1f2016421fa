"""`expf` and `tanhf` step by step, so that the tables made from them do not depend on the machine.

C leaves the last bit of both to the library, and LiteRT calls the system's. These are glibc's algorithms:
`expf` as of 2.27 (a 32-entry table and a cubic in double), `tanhf` up to 2.40 (fdlibm, through `expm1f`;
later versions round correctly). Where they differ from the nearest float32 a table entry can change by
one. Over 400,000 arguments in -25..25 both equal glibc 2.36; below -60 its `expf`, contracted with FMA, was
once one float away.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["Float32", "expf", "expm1f", "tanhf"]

Float32 = npt.NDArray[np.float32]

_EXP_TABLE_SIZE = 32
# 0.5 ln 2, 1.5 ln 2, 27 ln 2, 2^-25: where expm1f changes its method.
_HALF_LN2, _THREE_HALVES_LN2, _TWENTY_SEVEN_LN2, _TINY = (
    np.array([0x3EB17218, 0x3F851592, 0x4195B844, 0x33000000], np.uint32).view(np.float32))
_LN2_HI, _LN2_LO, _INV_LN2 = np.array([0x3F317180, 0x3717F7D1, 0x3FB8AA3B], np.uint32).view(np.float32)
_Q = np.array([0xBD088889, 0x3AD00D01, 0xB8A670CD, 0x36867E54, 0xB457EDBB], np.uint32).view(np.float32)


def expf(x: Float32) -> Float32:
    """e^x of float32 arrays; overflows to infinity, underflows to 0."""
    size = _EXP_TABLE_SIZE
    wide = np.clip(x.astype(np.float64), -160.0, 100.0)
    scaled = wide * (float.fromhex("0x1.71547652b82fep+0") * size)
    whole = np.rint(scaled)
    r = scaled - whole
    index = whole.astype(np.int64)
    power = np.ldexp(np.exp2((index % size) / size), index // size)
    cubic = (float.fromhex("0x1.c6af84b912394p-5") / size**3 * r
             + float.fromhex("0x1.ebfce50fac4f3p-3") / size**2)
    linear = float.fromhex("0x1.62e42ff0c52d6p-1") / size * r + 1
    with np.errstate(over="ignore", under="ignore"):
        return ((cubic * (r * r) + linear) * power).astype(np.float32)


def expm1f(x: Float32) -> Float32:
    """e^x - 1 of float32 arrays with x below 88; fdlibm's `s_expm1f.c`, every step in float32."""
    one, half, two = np.float32(1), np.float32(0.5), np.float32(2)
    magnitude = np.abs(x)
    sign = np.where(x < 0, np.float32(-1), one)
    # Reduce to x - k ln 2 with the correction c for the rounding of the difference.
    near = magnitude < _THREE_HALVES_LN2
    k = np.where(near, sign, np.trunc(_INV_LN2 * x + half * sign))
    k = np.where(magnitude > _HALF_LN2, k, np.float32(0))
    high, low = x - k * _LN2_HI, k * _LN2_LO
    reduced = high - low
    c = (high - reduced) - low
    # Rational approximation on the reduced interval.
    half_x = half * reduced
    square = reduced * half_x
    r1 = one + square * (_Q[0] + square * (_Q[1] + square * (_Q[2] + square * (_Q[3] + square * _Q[4]))))
    t = np.float32(3) - r1 * half_x
    e = square * ((r1 - t) / (np.float32(6) - reduced * t))
    unreduced = reduced - (reduced * e - square)
    e = (reduced * (e - c) - c) - square
    # Undo the reduction, keeping the leading 1 apart for as long as it matters.
    exponent = k.astype(np.int64)
    inverse = np.ldexp(one, -exponent).astype(np.float32)
    results = [
        (exponent == 0, np.where(magnitude < _TINY, x, unreduced)),
        (exponent == -1, half * (reduced - e) - half),
        (exponent == 1, np.where(reduced < np.float32(-0.25), -two * (e - (reduced + half)),
                                 one + two * (reduced - e))),
        ((exponent <= -2) | (exponent > 56), np.ldexp(one - (e - reduced), exponent) - one),
        (exponent < 23, np.ldexp((one - inverse) - (e - reduced), exponent)),
        (np.ones_like(exponent, bool), np.ldexp((reduced - (e + inverse)) + one, exponent)),
    ]
    result = np.select([condition for condition, _ in results], [each for _, each in results])
    return np.where((magnitude >= _TWENTY_SEVEN_LN2) & (x < 0), -one, result).astype(np.float32)


def tanhf(x: Float32) -> Float32:
    """Hyperbolic tangent of float32 arrays; fdlibm's `s_tanhf.c`, every step in float32."""
    one, two = np.float32(1), np.float32(2)
    magnitude = np.abs(x)
    bounded = np.minimum(magnitude, np.float32(22))
    grown = expm1f(np.maximum(two * bounded, one))
    shrunk = expm1f(-two * bounded)
    result = np.where(magnitude >= one, one - two / (grown + two), -shrunk / (shrunk + two))
    result = np.where(magnitude >= np.float32(22), one, result)
    return np.copysign(result, x).astype(np.float32)
