"""Angles of C's float library: `atanf` and `atan2f` of glibc up to 2.40 (fdlibm), every step in float32.

Later versions round correctly. Results equal those of glibc 2.36 for over a million pairs and for the corner cases.
"""

import numpy as np

from tq_hw.sim.golden.libm import Float32

__all__ = ["atan2f", "atanf"]

#: Ranges reduced around 0, 1/2, 1, 3/2 and infinity: their lower ends, their angles, and the angles' rounding errors.
_ENDS = np.array([0.4375, 0.6875, 1.1875, 2.4375], np.float32)
_ANGLES = np.array([0, 0x3EED6338, 0x3F490FDA, 0x3F7B985E, 0x3FC90FDA], np.uint32).view(np.float32)
_REST = np.array([0, 0x31AC3769, 0x33222168, 0x33140FB4, 0x33A22168], np.uint32).view(np.float32)
_ODD = np.array([0x3EAAAAAB, 0x3E124925, 0x3DBA2E6E, 0x3D886B35, 0x3D4BDA59, 0x3C8569D7], np.uint32).view(np.float32)
_EVEN = np.array([0xBE4CCCCD, 0xBDE38E38, 0xBD9D8795, 0xBD6EF16B, 0xBD15A221], np.uint32).view(np.float32)
_PI, _PI_REST = np.array([0x40490FDB, 0xB3BBBD2E], np.uint32).view(np.float32)
_ONE, _TWO, _HALF = np.float32(1), np.float32(2), np.float32(0.5)


def _polynomial(powers: Float32, x: Float32) -> Float32:
    made = np.zeros_like(x)
    for power in powers[::-1]:
        made = power + x * made
    return made


def atanf(x: Float32) -> Float32:
    """Arc tangent of float32 arrays."""
    size, part = np.abs(x), np.searchsorted(_ENDS, np.abs(x), side="right")
    sloping = np.float32(1.5)
    with np.errstate(all="ignore"):
        reduced = np.select(
            [part == 0, part == 1, part == 2, part == 3],
            [x, (_TWO * size - _ONE) / (_TWO + size), (size - _ONE) / (size + _ONE),
             (size - sloping) / (_ONE + sloping * size)], -_ONE / size).astype(np.float32)
        square = reduced * reduced
        fourth = square * square
        below = reduced * (square * _polynomial(_ODD, fourth) + fourth * _polynomial(_EVEN, fourth))
        made = np.where(part == 0, reduced - below, _ANGLES[part] - ((below - _REST[part]) - reduced))
        made = np.where((part > 0) & (x < 0), -made, made)
        made = np.where(size >= np.float32(2.0**25), np.copysign(_ANGLES[4] + _REST[4], x), made)
        return np.where(size < np.float32(2.0**-29), x, made).astype(np.float32)


def atan2f(y: Float32, x: Float32) -> Float32:
    """Angle of the point (x, y) in float32, -pi to pi; signed zeros and infinities are distinguished."""
    y, x = np.broadcast_arrays(np.asarray(y, np.float32), np.asarray(x, np.float32))
    bits_y, bits_x = (np.abs(each).view(np.int32) for each in (y, x))
    apart = bits_y - bits_x >> 23
    right = _PI / _TWO + _HALF * _PI_REST
    with np.errstate(all="ignore"):
        steep = atanf(np.abs(y / x))
        angle = np.where(apart > 60, right, np.where((x < 0) & (apart < -60), np.float32(0), steep))
        left = _PI - (angle - _PI_REST)
        made = np.where(np.signbit(x), left, angle)
        made = np.where((bits_x == 0) & (bits_y != 0) | np.isinf(y), _PI / _TWO, made)
        both = np.where(np.signbit(x), np.float32(3) * (_PI / np.float32(4)), _PI / np.float32(4))
        made = np.where(np.isinf(x), np.where(np.isinf(y), both, np.where(np.signbit(x), _PI, np.float32(0))), made)
        made = np.where(bits_y == 0, np.where(np.signbit(x), _PI, np.float32(0)), made)
        made = np.where((x == 1) & (bits_y != 0), atanf(np.abs(y)), made)
        made = np.copysign(made, y)
        return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), made).astype(np.float32)
