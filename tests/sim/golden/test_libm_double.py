"""Functions of C's float library that are computed in double: the bits of glibc's, and corner cases."""

import hashlib

import numpy as np
import pytest

from tq_hw.sim.golden import libm_double
from tq_hw.sim.golden.libm_double import cosf, logf, powf, sinf


def spread(low: float, high: float) -> np.ndarray:
    return (low + (high - low) * np.arange(100_000) / 99_999).astype(np.float32)


# SHA-256 of float32 results of glibc 2.36's own functions, on a processor with FMA. They are recorded because other C
# libraries round differently.
@pytest.mark.parametrize(("name", "low", "high", "digest"), [
    ("logf", 1e-06, 5.0, "534878c28b30f1a9baed15d62da2cca95170e60b72a57ab09dc1379c705af2e6"),
    ("logf", 1.0, 1000000000.0, "8e67b1cb7b21b4c55ca31374fee9a8e73d4bf647b0ab935b0d83617198d45176"),
    ("sinf", -4.0, 4.0, "d4506129c319b46abc9a24a4dcc1a3aed7c9e22905357117fad10f621c558306"),
    ("sinf", -130.0, 130.0, "33239b48cac4f0c19e144bab3ae3d4d72703ff6abef02da747221441720f1304"),
    ("sinf", 100.0, 1000000.0, "0bedecd54da4fb3841df1465aa07a4671bc019896d885079a495fd1479f6f75d"),
    ("cosf", -4.0, 4.0, "8c6fff9fb40f1de4d2dca87b3609f83d2e1a5074c0d5a805687daaa91717982d"),
    ("cosf", -130.0, 130.0, "05b3af47c0e4eaeb8a4661542fc620ac55b517f4963a5b1ea8d14d6e19f37a32"),
    ("cosf", -1e+30, 1e+30, "2c5db99d4f1534454f3ba7aa8004301108416616e27970c254644ceb58b713c0")])
def test_equal_to_the_library(name: str, low: float, high: float, digest: str) -> None:
    assert hashlib.sha256(getattr(libm_double, name)(spread(low, high)).tobytes()).hexdigest() == digest


@pytest.mark.parametrize(("power", "digest"), [
    (0.5, "41644cf167f6d25e99b9db25c077590e671bc3e44f6cbaec73dc0aef584794ab"),
    (-1.7, "b773e77b7fa9f6a12672f1a1f863bbc406870b82b309b126e07bb4285c5a7380"),
    (3.0, "e7d0ff2314b2fa85a30fb235235c5fdeaf89e28e7757c29d94c3b85fa23fc6ae"),
    (2.4, "8427703eb84112f932e0a34a38ada787a3d84889ac7dee25ed1472c4e7b9e9de")])
def test_powers_equal_to_the_library(power: float, digest: str) -> None:
    found = powf(spread(1e-3, 50.0), np.array(power, np.float32))
    assert hashlib.sha256(found.tobytes()).hexdigest() == digest


def test_corners() -> None:
    """What C requires for 0, infinity, NaN, and the smallest numbers."""
    inf, nan, least = np.inf, np.nan, 2.0**-149
    assert str(logf(np.array([0, 1, inf, -1, nan, least], np.float32)).tolist()) == str(
        [-inf, 0.0, inf, nan, nan, float(np.float32(-149 * np.log(2)))])
    for function, at_zero in ((sinf, [0.0, -0.0, least]), (cosf, [1.0, 1.0, 1.0])):
        found = function(np.array([0.0, -0.0, least, inf, nan], np.float32)).tolist()
        assert str(found) == str([*at_zero, nan, nan])


@pytest.mark.parametrize(("x", "y", "z"), [
    (0, 0, 1), (0, -1, np.inf), (-0.0, -3, -np.inf), (-0.0, 3, -0.0), (0, 0.5, 0), (-2, 3, -8), (-2, 2, 4),
    (-2, 0.5, np.nan), (-1, np.inf, 1), (0.5, np.inf, 0), (0.5, -np.inf, np.inf), (np.nan, 0, 1), (1, np.nan, 1),
    (2, np.nan, np.nan), (2, 200, np.inf), (-2, 201, -np.inf), (2, -200, 0), (2, -149, 2.0**-149),
    (-np.inf, 3, -np.inf), (-0.0, 0.5, 0), (-np.inf, 0.5, np.inf), (-np.inf, -0.5, 0), (-np.inf, -3, -0.0)])
def test_powers_at_their_corners(x: float, y: float, z: float) -> None:
    found = powf(np.array([x], np.float32), np.array([y], np.float32))
    assert str(found.tolist()) == str([float(z)])
