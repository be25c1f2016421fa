"""Angles of C's float library: the bits of glibc's, and corner cases."""

import hashlib

import numpy as np
import pytest

from tq_hw.sim.golden.libm_angle import atan2f, atanf


def spread(low: float, high: float) -> np.ndarray:
    return (low + (high - low) * np.arange(100_000) / 99_999).astype(np.float32)


# SHA-256 of float32 results of glibc 2.36's own functions, recorded because other C libraries round differently.
@pytest.mark.parametrize(("low", "high", "digest"), [
    (-3.0, 3.0, "1651a16e87a744e74d5d0fbe68f77acbe9492d983f37b7c6ec004370d10d0a2c"),
    (-1e8, 1e8, "afc31044c451847f10269cb3a1c14b7104c505e8d9d16a0011146dba31b7ddd1")])
def test_slopes_equal_to_the_library(low: float, high: float, digest: str) -> None:
    assert hashlib.sha256(atanf(spread(low, high)).tobytes()).hexdigest() == digest


@pytest.mark.parametrize(("low", "high", "digest"), [
    (-3.0, 3.0, "2230dfe964bee07ae373b05c05f0268cd779d26d59d2aa472059ab4272ded164"),
    (-1e12, 1e10, "82748d6513960ac0cd65a4675963c022723c62ec10f5f39660a596f93f65b8ab")])
def test_points_equal_to_the_library(low: float, high: float, digest: str) -> None:
    y = spread(low, high)
    x = np.roll(y, 31_415)[::-1]
    assert hashlib.sha256(atan2f(y, x).tobytes()).hexdigest() == digest


@pytest.mark.parametrize(("y", "x", "eighths"), [
    (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, 4), (-0.0, -1.0, -4), (0.0, 0.0, 0.0), (0.0, -0.0, 4),
    (-0.0, -0.0, -4), (1.0, 0.0, 2), (-1.0, -0.0, -2), (1.0, 1.0, 1), (np.inf, np.inf, 1), (-np.inf, -np.inf, -3),
    (1.0, np.inf, 0.0), (-1.0, -np.inf, -4), (np.inf, 1.0, 2), (1e-30, -1e30, 4), (np.nan, 1.0, np.nan)])
def test_corners(y: float, x: float, eighths: float) -> None:
    """Zeros have signs: the angle of -0 in the left half is -pi."""
    found = atan2f(np.array([y], np.float32), np.array([x], np.float32))
    expected = np.float32(eighths * np.pi / 4)
    assert str(found[0]) == str(expected)
