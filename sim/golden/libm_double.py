"""Logarithm, power, sine and cosine of C's float math library in double arithmetic: glibc 2.28 and later.

Sources: `e_logf.c`, `e_powf.c`, `s_sinf.c`, `s_cosf.c` and `sincosf.h`: tables of 16 entries, and polynomials.

On processors with fused multiply-add, glibc uses it. This affects one of 42 million powers, but no square root, and
sines of arguments above pi / 4; the latter are reproduced here. `logf`, and `powf` with the exponent 0.5, equal glibc
2.36 for all positive numbers, `sinf` and `cosf` for every fifth of all numbers.
"""

import numpy as np
import numpy.typing as npt

from tq_hw.sim.golden.libm import Float32

__all__ = ["LN2", "LOG2_PARTS", "LOG_PARTS", "LOG_POLYNOMIAL", "cosf", "logf", "powf", "sinf"]

Float64 = npt.NDArray[np.float64]


def _doubles(*numbers: str) -> Float64:
    return np.array([float.fromhex(number) for number in numbers])


#: Approximations of 1 / c, for the centres c of 16 parts of an octave from 0x3f330000, and log(c).
_INVERSE = _doubles(
    "0x1.661ec79f8f3bep+0", "0x1.571ed4aaf883dp+0", "0x1.49539f0f010bp+0", "0x1.3c995b0b80385p+0",
    "0x1.30d190c8864a5p+0", "0x1.25e227b0b8eap+0", "0x1.1bb4a4a1a343fp+0", "0x1.12358f08ae5bap+0",
    "0x1.0953f419900a7p+0", "0x1p+0", "0x1.e608cfd9a47acp-1", "0x1.ca4b31f026aap-1",
    "0x1.b2036576afce6p-1", "0x1.9c2d163a1aa2dp-1", "0x1.886e6037841edp-1", "0x1.767dcf5534862p-1")
_LOG = _doubles(
    "-0x1.57bf7808caadep-2", "-0x1.2bef0a7c06ddbp-2", "-0x1.01eae7f513a67p-2", "-0x1.b31d8a68224e9p-3",
    "-0x1.6574f0ac07758p-3", "-0x1.1aa2bc79c81p-3", "-0x1.a4e76ce8c0e5ep-4", "-0x1.1973c5a611cccp-4",
    "-0x1.252f438e10c1ep-5", "0x0p+0", "0x1.aa5aa5df25984p-5", "0x1.c5e53aa362eb4p-4",
    "0x1.526e57720db08p-3", "0x1.bc2860d22477p-3", "0x1.1058bc8a07ee1p-2", "0x1.4043057b6ee09p-2")
_LOG2 = _doubles(
    "-0x1.efec65b963019p-2", "-0x1.b0b6832d4fca4p-2", "-0x1.7418b0a1fb77bp-2", "-0x1.39de91a6dcf7bp-2",
    "-0x1.01d9bf3f2b631p-2", "-0x1.97c1d1b3b7afp-3", "-0x1.2f9e393af3c9fp-3", "-0x1.960cbbf788d5cp-4",
    "-0x1.a6f9db6475fcep-5", "0x0p+0", "0x1.338ca9f24f53dp-4", "0x1.476a9543891bap-3",
    "0x1.e840b4ac4e4d2p-3", "0x1.40645f0c6651cp-2", "0x1.88e9c2c1b9ff8p-2", "0x1.ce0a44eb17bccp-2")
#: 1 / c, and log(c) or log2(c).
LOG_PARTS, LOG2_PARTS = (_INVERSE, _LOG), (_INVERSE, _LOG2)
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
#: Polynomials: of the logarithms and 2^x, highest power first; of sine and cosine, lowest odd or even power first.
LOG_POLYNOMIAL = _doubles("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")
_OF_LOG2 = _doubles("0x1.27616c9496e0bp-2", "-0x1.71969a075c67ap-2", "0x1.ec70a6ca7baddp-2", "-0x1.7154748bef6c8p-1",
                    "0x1.71547652ab82bp+0")
_OF_POWER = _doubles("0x1.c6af84b912394p-5", "0x1.ebfce50fac4f3p-3", "0x1.62e42ff0c52d6p-1")
_OF_SINE = _doubles("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")
_OF_COSINE = _doubles("0x1p+0", "-0x1.ffffffd0c621cp-2", "0x1.55553e1068f19p-5", "-0x1.6c087e89a359dp-10",
                      "0x1.99343027bf8c3p-16")
#: 2^24 * 2 / pi; pi / 2, and its upper bits, whose small multiples are exact; pi / 2^63.
_QUARTERS = float.fromhex("0x1.45f306dc9c883p+23")
_HALF_PI = float.fromhex("0x1.921fb54442d18p+0")
_HALF_PI_UPPER = float.fromhex("0x1.921fb54p+0")
_PI_63 = float.fromhex("0x1.921fb54442d18p-62")
#: Bits of 4 / pi: 32 bits from each byte on.
_FOUR_OVER_PI = np.array([
    0xA2, 0xA2F9, 0xA2F983, 0xA2F9836E, 0xF9836E4E, 0x836E4E44, 0x6E4E4415, 0x4E441529, 0x441529FC, 0x1529FC27,
    0x29FC2757, 0xFC2757D1, 0x2757D1F5, 0x57D1F534, 0xD1F534DD, 0xF534DDC0, 0x34DDC0DB, 0xDDC0DB62, 0xC0DB6295,
    0xDB629599, 0x6295993C, 0x95993C43, 0x993C4390, 0x3C439041], np.uint64)
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
#: Upper bits of the bounds of sine's and cosine's methods: 2^-12, pi / 4, 120.
_SMALL, _NEAR, _FAR = (int(np.float32(number).view(np.int32)) >> 20 for number in (2.0**-12, np.pi / 4, 120.0))


def _parted(x: Float32) -> tuple[Float64, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split positive numbers into 2^k * z, with c the centre of z's part; return z / c - 1, the part's index, and k."""
    with np.errstate(over="ignore"):
        # Subnormal numbers are scaled up first.
        bits = np.where(x < np.float32(2.0**-126), (x * np.float32(2.0**23)).view(np.int32) - (23 << 23),
                        x.view(np.int32)).astype(np.int64)
    above = bits - 0x3F330000
    part = (above >> 19) % 16
    rest = (bits - (above >> 23 << 23)).astype(np.int32).view(np.float32).astype(np.float64)
    return rest * _INVERSE[part] - 1, part, above >> 23


def logf(x: Float32) -> Float32:
    """Natural logarithm of float32 arrays: -infinity at 0, NaN for negative numbers."""
    usual = np.isfinite(x) & (x > 0)
    r, part, k = _parted(np.where(usual, x, np.float32(1)))
    a, b, c = LOG_POLYNOMIAL
    made = (a * (r * r) + (b * r + c)) * (r * r) + (_LOG[part] + k * LN2 + r)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(usual, made, np.log(np.where(usual, np.float32(1), x))).astype(np.float32)


def powf(x: Float32, y: Float32) -> Float32:
    """x^y of float32 arrays that broadcast."""
    x, y = np.broadcast_arrays(x, y)
    is_whole = np.rint(y) == y
    usual = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0) & ((x > 0) | is_whole)
    r, part, k = _parted(np.where(usual, np.abs(x), np.float32(1)))
    a, b, c, d, e = _OF_LOG2
    squared = r * r
    log2 = (a * r + b) * (squared * squared) + ((c * r + d) * squared + (e * r + (_LOG2[part] + k)))
    # Beyond these powers of two the result is infinity or 0.
    power = np.clip(np.where(usual, y, np.float32(1)).astype(np.float64) * log2, -400.0, 400.0)
    whole = np.rint(power * 32)
    r, index = power - whole / 32, whole.astype(np.int64)
    a, b, c = _OF_POWER
    made = ((a * r + b) * (r * r) + (c * r + 1)) * np.ldexp(np.exp2(index % 32 / 32), index // 32)
    is_odd = (x < 0) & (np.fmod(np.where(usual, y, np.float32(0)), np.float32(2)) != 0)
    # NumPy takes the square root for 0.5, which differs for -0 and minus infinity.
    unsigned = np.where(~is_whole & ((x == 0) | np.isinf(x)), np.abs(x), x).astype(np.float64)
    with np.errstate(all="ignore"):
        return np.where(usual, np.where(is_odd, -made, made), np.power(unsigned, y)).astype(np.float32)


def _far(bits: npt.NDArray[np.int64]) -> tuple[Float64, npt.NDArray[np.int64]]:
    """Reduce large numbers with 96 bits of 4 / pi; return the remainder, and the number of quarter turns."""
    place, low = bits >> 26 & 15, np.uint64(0xFFFFFFFF)
    fraction = (bits & 0xFFFFFF | 0x800000).astype(np.uint64) << (bits >> 23 & 7).astype(np.uint64) & low
    upper, middle, lower = (fraction * _FOUR_OVER_PI[place + at] for at in (0, 4, 8))
    total = (lower >> np.uint64(32) | upper << np.uint64(32)) + middle
    quarters = total + np.uint64(1 << 61) >> np.uint64(62)
    return (total - (quarters << np.uint64(62))).view(np.int64) * _PI_63, quarters.astype(np.int64)


def _turned(x: Float32, *, cosine: bool) -> Float32:
    bits = x.view(np.int32).astype(np.int64)
    size, wide = bits >> 20 & 0x7FF, x.astype(np.float64)
    near, far = size < _NEAR, size >= _FAR
    quarters = np.where(near | far, 0.0, wide * _QUARTERS).astype(np.int64) + 0x800000 >> 24
    left = wide - quarters * _HALF_PI_UPPER - quarters * (_HALF_PI - _HALF_PI_UPPER)
    beyond, more = _far(bits)
    r, quarters = np.where(near, wide, np.where(far, beyond, left)), np.where(far, more, quarters)
    turns = quarters + np.where(far & (not cosine), bits >> 31 & 1, 0)
    signed, squared = r * _SIGNS[turns & 3], r * r
    a, b, c = _OF_SINE
    sine = signed + signed * squared * a + signed * squared * squared * (b + squared * c)
    a, b, c, d, e = _OF_COSINE
    fourth = squared * squared
    upright = a + squared * b + fourth * c + fourth * squared * (d + squared * e)
    made = np.where((quarters & 1 != 0) ^ cosine, np.where(turns & 2 != 0, -upright, upright), sine)
    tiny = np.float32(1) if cosine else x
    return np.where(np.isfinite(x), np.where(size < _SMALL, tiny, made), np.nan).astype(np.float32)


def sinf(x: Float32) -> Float32:
    """Sine of float32 arrays."""
    return _turned(x, cosine=False)


def cosf(x: Float32) -> Float32:
    """Cosine of float32 arrays."""
    return _turned(x, cosine=True)
