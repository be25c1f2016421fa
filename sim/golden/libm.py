"""Functions of C's float library, reproduced so that tables do not depend on the machine.

C does not specify the last bit, and LiteRT calls the system's library. `expf`, `expm1f`, `tanhf` and `erfcf` follow
glibc's algorithms step by step: `expf` that of 2.27 (a 32-entry table and a cubic in double), the others those up to
2.40 (fdlibm; later versions round correctly). Where these differ from the nearest float32, a table entry can change by
one.

Over 300,000 arguments and more, all equal glibc 2.36, with one exception: below -60 its `expf`, contracted with FMA,
once differed by one float. `logf`, `sinf`, `cosf` and `powf` are in `libm_double.py`.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["EXPM1", "INV_LN2", "LN2_HI", "LN2_LO", "Float32", "erfcf", "expf", "expm1f", "tanhf"]

Float32 = npt.NDArray[np.float32]

_EXP_TABLE_SIZE = 32
# 0.5 ln 2, 1.5 ln 2, 27 ln 2, 2^-25: bounds of expm1f's methods.
_HALF_LN2, _THREE_HALVES_LN2, _TWENTY_SEVEN_LN2, _TINY = (
    np.array([0x3EB17218, 0x3F851592, 0x4195B844, 0x33000000], np.uint32).view(np.float32))
#: ln 2 in two parts, its inverse, and the factors of expm1f's polynomial, the lowest power first.
LN2_HI, LN2_LO, INV_LN2 = np.array([0x3F317180, 0x3717F7D1, 0x3FB8AA3B], np.uint32).view(np.float32)
EXPM1 = np.array([0xBD088889, 0x3AD00D01, 0xB8A670CD, 0x36867E54, 0xB457EDBB], np.uint32).view(np.float32)


def _floats(*numbers: float) -> Float32:
    return np.array(numbers, np.float32)


# fdlibm's rational approximations of erfc, lowest power first: near 0, around 1, up to 1 / 0.35, beyond.
_ERF_1 = np.float32(0.845062911510)
_ERF_NEAR = (_floats(0.12837916613, -0.32504209876, -2.8481749818e-2, -5.7702702470e-3, -2.3763017452e-5),
             _floats(1, 0.39791721106, 6.5022252500e-2, 5.0813062117e-3, 1.3249473704e-4, -3.9602282413e-6))
_ERF_ONE = (_floats(-2.3621185683e-3, 0.41485610604, -0.37220788002, 0.31834661961, -0.11089469492, 3.5478305072e-2,
                    -2.1663755178e-3),
            _floats(1, 0.10642088205, 0.54039794207, 7.1828655899e-2, 0.12617121637, 1.3637083583e-2,
                    1.1984500103e-2))
_ERF_FAR = (_floats(-9.8649440333e-3, -0.69385856390, -10.558626175, -62.375331879, -162.39666748, -184.60508728,
                    -81.287437439, -9.8143291473),
            _floats(1, 19.651271820, 137.65776062, 434.56588745, 645.38726807, 429.00814819, 108.63500214,
                    6.5702495575, -6.0424413532e-2))
_ERF_END = (_floats(-9.8649431020e-3, -0.79928326607, -17.757955551, -160.63638306, -637.56646729, -1025.0950928,
                    -483.51919556),
            _floats(1, 30.338060379, 325.79251099, 1536.7296143, 3199.8581543, 2553.0502930, 474.52853394,
                    -22.440952301))


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
    k = np.where(near, sign, np.trunc(INV_LN2 * x + half * sign))
    k = np.where(magnitude > _HALF_LN2, k, np.float32(0))
    high, low = x - k * LN2_HI, k * LN2_LO
    reduced = high - low
    c = (high - reduced) - low
    # Rational approximation on the reduced interval.
    half_x = half * reduced
    square = reduced * half_x
    r1 = one + square * (EXPM1[0] + square * (EXPM1[1] + square * (EXPM1[2] + square * (EXPM1[3] + square * EXPM1[4]))))
    t = np.float32(3) - r1 * half_x
    e = square * ((r1 - t) / (np.float32(6) - reduced * t))
    unreduced = reduced - (reduced * e - square)
    e = (reduced * (e - c) - c) - square
    # Undo the reduction; keep the leading 1 separate as long as it affects rounding.
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


def _ratio(x: Float32, pair: tuple[Float32, Float32]) -> Float32:
    """Quotient of two polynomials, each by Horner's rule in float32."""
    values = []
    for factors in pair:
        total = np.full_like(x, factors[-1])
        for factor in factors[-2::-1]:
            total = factor + x * total
        values.append(total)
    result: Float32 = values[0] / values[1]
    return result


def erfcf(x: Float32) -> Float32:
    """1 - erf(x) of float32 arrays; fdlibm's `s_erff.c`, every step in float32."""
    one, half, two, quarter = np.float32(1), np.float32(0.5), np.float32(2), np.float32(0.25)
    magnitude = np.abs(x)
    bounded = np.minimum(magnitude, np.float32(28))
    inner: Float32 = np.clip(x, -one, one)
    near = _ratio(inner * inner, _ERF_NEAR)
    near = np.where(x < quarter, one - (inner + inner * near), half - (inner * near + (inner - half)))
    around = _ratio(bounded - one, _ERF_ONE)
    around = np.where(x >= 0, (one - _ERF_1) - around, one + (_ERF_1 + around))
    # e^-x^2 / x, with x split so that the square of its 11-bit head is exact.
    outer = np.maximum(bounded, one)
    inverse: Float32 = np.asarray(one / (outer * outer), np.float32)
    ratio = np.where(outer < np.float32(1 / 0.35), _ratio(inverse, _ERF_FAR), _ratio(inverse, _ERF_END))
    head = (outer.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    tail = expf(-head * head - np.float32(0.5625)) * expf((head - outer) * (head + outer) + ratio) / outer
    tail = np.where(magnitude >= 28, np.float32(0), tail)
    beyond = np.where(x > 0, tail, np.where(x < -6, two, two - tail))
    result = np.where(magnitude < np.float32(0.84375), near, np.where(magnitude < np.float32(1.25), around, beyond))
    return result.astype(np.float32)
