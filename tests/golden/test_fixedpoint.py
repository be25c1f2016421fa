"""Fixed-point functions: their corners, and how near to the real functions they stay."""

import ctypes
import ctypes.util
import platform

import numpy as np
import pytest

from tq_hw.sim.golden import fixedpoint, libm


def test_exponential_is_near_and_monotonic() -> None:
    a = np.linspace(-(1 << 31), -1, 20001).astype(np.int64)
    found = fixedpoint.exp_on_negative_values(a, 5) / 2.0 ** 31
    assert np.abs(found - np.exp(a / 2.0 ** 26)).max() < 3e-7
    assert (np.diff(found) >= 0).all()


def test_exponential_of_zero_is_the_largest_value() -> None:
    assert fixedpoint.exp_on_negative_values(0, 5) == (1 << 31) - 1
    assert fixedpoint.exp_on_negative_values(0, 3, 16) == 32767


def test_exponential_of_wide_inputs_vanishes_below_minus_32() -> None:
    a = np.arange(-(1 << 15), 0)
    found = fixedpoint.exp_on_negative_values(a, 6, 16)
    assert (found[a < -(32 << 9)] == 0).all() and found[-1] > 0


def test_reciprocal_is_near() -> None:
    a = np.linspace(0, (1 << 31) - 1, 20001).astype(np.int64)
    found = fixedpoint.one_over_one_plus_x(a) / 2.0 ** 31
    assert np.abs(found - 1 / (1 + a / 2.0 ** 31)).max() < 2e-8


@pytest.mark.parametrize("integer_bits", range(7))
def test_gates_are_near_over_all_inputs(integer_bits: int) -> None:
    a = np.arange(-(1 << 15), 1 << 15)
    real = a / 2.0 ** (15 - integer_bits)
    if integer_bits:
        logistic = fixedpoint.logistic(a, integer_bits) / 2.0 ** 15
        assert np.abs(logistic - 1 / (1 + np.exp(-real))).max() < 4e-4
    tanh = fixedpoint.tanh(a, integer_bits)
    assert np.abs(tanh / 2.0 ** 15 - np.tanh(real)).max() < 6e-4
    assert (tanh[1:] == -tanh[1:][::-1]).all()


def test_reciprocal_square_root_is_near() -> None:
    x = np.concatenate([np.arange(2, 5000), np.linspace(5000, (1 << 31) - 1, 5000).astype(np.int64)])
    multiplier, shift = fixedpoint.inv_sqrt(x)
    found = multiplier * 2.0 ** (shift - 31.0)
    assert np.abs(found * np.sqrt(x) - 1).max() < 2e-6


def test_reciprocal_square_root_of_zero_is_that_of_one() -> None:
    multiplier, shift = fixedpoint.inv_sqrt([0, 1])
    assert multiplier.tolist() == [(1 << 31) - 1] * 2 and shift.tolist() == [0, 0]


def test_logarithm_is_near() -> None:
    x = np.linspace(1 << 19, (1 << 31) - 1, 20001).astype(np.int64)
    found = fixedpoint.log_of_sum(x) / 2.0 ** 26
    assert np.abs(found - np.log(x / 2.0 ** 19)).max() < 1e-6


def test_leading_zeros() -> None:
    values = [0, 1, 2, 3, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]
    assert fixedpoint.count_leading_zeros(values).tolist() == [32 - value.bit_length() for value in values]


def test_float_functions_at_their_corners() -> None:
    x = np.array([0.0, -0.0, 1e-45, 30.0, -30.0, np.inf, -np.inf], np.float32)
    tanh = libm.tanhf(x)
    assert tanh.tolist() == [0.0, 0.0, x[2], 1.0, -1.0, 1.0, -1.0] and np.signbit(tanh[1])
    assert libm.expf(np.array([0.0, -200.0, 200.0], np.float32)).tolist() == [1.0, 0.0, np.inf]


def glibc() -> tuple[int, ...]:
    name, version = platform.libc_ver()
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else (0,)


# Other C libraries round these functions otherwise: they are no reference.
@pytest.mark.skipif(not (2, 27) <= glibc() <= (2, 40), reason="the algorithms are those of glibc 2.27 to 2.40")
@pytest.mark.parametrize(("name", "low", "high"), [("tanhf", -25.0, 25.0), ("tanhf", -1.5, 1.5), ("expf", -30.0, 30.0),
                                                   ("expm1f", -50.0, 50.0)])
def test_float_functions_equal_the_library(name: str, low: float, high: float) -> None:
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    x = np.random.default_rng(2).uniform(low, high, 50000).astype(np.float32)
    expected = np.array([function(value) for value in x.tolist()], np.float32)
    assert (getattr(libm, name)(x) == expected).all()
