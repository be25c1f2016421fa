"""Fixed-point functions: corner cases, and errors relative to the real functions, in units of the last place.

The errors come from constants and roundings: any change of these changes a sum of errors.
"""

import hashlib
from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pytest

from tq_hw.sim.golden import fixedpoint, libm


def spread(low: int, high: int, count: int) -> list[int]:
    """Integers from `low` to `high`, both included."""
    return [low + (high - low) * number // (count - 1) for number in range(count)]


def misses(found: np.ndarray, real: Iterable[Decimal]) -> tuple[int, int, int]:
    """Differences between results and the integers nearest to the real values: least, greatest, and their sum."""
    differences = [got - round(value) for got, value in zip(found.tolist(), real, strict=True)]
    return min(differences), max(differences), sum(differences)


def test_errors_of_the_exponential_which_is_monotonic() -> None:
    a = spread(-(1 << 31), -1, 5001)
    found = fixedpoint.exp_on_negative_values(np.array(a), 5)
    assert misses(found, ((Decimal(x) / (1 << 26)).exp() * (1 << 31) for x in a)) == (-492, 465, 671)
    assert (np.diff(found) >= 0).all()


def test_exponential_of_zero_is_the_largest_value() -> None:
    assert fixedpoint.exp_on_negative_values(0, 5) == (1 << 31) - 1
    assert fixedpoint.exp_on_negative_values(0, 3, 16) == 32767


def test_exponential_of_wide_inputs_vanishes_below_minus_32() -> None:
    a = np.arange(-(1 << 15), 0)
    found = fixedpoint.exp_on_negative_values(a, 6, 16)
    assert (found[a < -(32 << 9)] == 0).all() and found[-1] > 0


def test_errors_of_the_reciprocal() -> None:
    a = spread(0, (1 << 31) - 1, 5001)
    found = fixedpoint.one_over_one_plus_x(np.array(a))
    assert misses(found, (Decimal(1 << 62) / ((1 << 31) + x) for x in a)) == (-6, 7, 649)


@pytest.mark.parametrize(("integer_bits", "logistic", "tanh"), [
    (0, None, (-11, 11, -876)), (1, (-5, 5, -439), (-12, 11, -666)), (2, (-6, 5, -346), (-11, 10, -1639)),
    (3, (-6, 5, -833), (-11, 10, -1260)), (4, (-5, 5, -1194), (-11, 10, -1866)), (5, (-5, 5, -1844), (-10, 9, -2224)),
    (6, (-5, 4, -2207), (-10, 9, -2354))])
def test_errors_and_symmetry_of_the_gates(integer_bits: int, logistic: tuple[int, ...] | None,
                                          tanh: tuple[int, ...]) -> None:
    """Each 13th value from 0 up. For negative values tanh is odd, and logistic is the largest value less the result."""
    a = range(0, 1 << 15, 13)
    real = [Decimal(x) / (1 << 15 - integer_bits) for x in a]
    both = np.arange(-(1 << 15) + 1, 1 << 15)
    if logistic is not None:
        found = fixedpoint.logistic(np.array(a), integer_bits)
        assert misses(found, ((1 << 15) / (1 + (-x).exp()) for x in real)) == logistic
        found = fixedpoint.logistic(both, integer_bits)
        assert (found + found[::-1] == np.where(both == 0, 1 << 15, (1 << 15) - 1)).all()
    found = fixedpoint.tanh(np.array(a), integer_bits)
    assert misses(found, ((1 << 15) - (1 << 16) / (1 + (2 * x).exp()) for x in real)) == tanh
    found = fixedpoint.tanh(both, integer_bits)
    assert (found == -found[::-1]).all()


def test_errors_of_the_reciprocal_square_root() -> None:
    x = [*range(2, 5000), *spread(5000, (1 << 31) - 1, 5001)]
    multiplier, shift = fixedpoint.inv_sqrt(np.array(x))
    assert misses(multiplier, (Decimal(2) ** (31 - exponent) / Decimal(value).sqrt()
                               for exponent, value in zip(shift.tolist(), x, strict=True))) == (-1878, 31, -138768)


def test_reciprocal_square_root_of_zero_is_that_of_one() -> None:
    multiplier, shift = fixedpoint.inv_sqrt(np.array([0, 1]))
    assert multiplier.tolist() == [(1 << 31) - 1] * 2 and shift.tolist() == [0, 0]


def test_errors_of_the_logarithm() -> None:
    x = spread(1 << 19, (1 << 31) - 1, 5001)
    found = fixedpoint.log_of_sum(np.array(x))
    assert misses(found, ((Decimal(value) / (1 << 19)).ln() * (1 << 26) for value in x)) == (-2, 3, -2469)


def test_leading_zeros() -> None:
    values = [0, 1, 2, 3, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]
    assert fixedpoint.count_leading_zeros(np.array(values)).tolist() == [32 - value.bit_length() for value in values]
    assert fixedpoint.count_leading_zeros(np.array([-1, -2, -(1 << 31)])).tolist() == [0, 0, 0]


def test_float_functions_at_their_corners() -> None:
    x = np.array([0.0, -0.0, 1e-45, 30.0, -30.0, np.inf, -np.inf], np.float32)
    tanh = libm.tanhf(x)
    assert tanh.tolist() == [0.0, 0.0, x[2], 1.0, -1.0, 1.0, -1.0] and np.signbit(tanh[1])
    assert libm.expf(np.array([0.0, -200.0, 200.0], np.float32)).tolist() == [1.0, 0.0, np.inf]


# SHA-256 of float32 results of glibc 2.36's own functions, whose algorithms are those of glibc 2.27 to 2.40. They are
# recorded because other C libraries round differently.
@pytest.mark.parametrize(("name", "low", "high", "digest"), [
    ("tanhf", -25.0, 25.0, "3710c9202ec5c95708ac3a989b99bad384103a93a78b68416439ae6bcdee9f49"),
    ("tanhf", -1.5, 1.5, "74e38bd7d513939be3e68e54f504bf9bebd8ff5936165328c7ecac8f6b7f51a0"),
    ("expf", -30.0, 30.0, "cc277870a7b689db338892c73570a343e6206cf8ce0c591082dc03df5263eb7f"),
    ("expm1f", -50.0, 50.0, "0ec0fe947778bc7ca2af0b9ef16b80c8b3b2c2b68f0f7a6220b949db440e166a")])
def test_float_functions_equal_the_library(name: str, low: float, high: float, digest: str) -> None:
    x = (low + (high - low) * np.arange(100_000) / 99_999).astype(np.float32)
    assert hashlib.sha256(getattr(libm, name)(x).tobytes()).hexdigest() == digest


def test_division_of_16_bits_keeps_the_sign_from_an_exponent_of_16_on() -> None:
    x = np.array([-(1 << 15), -1, 0, 1, (1 << 15) - 1])
    assert fixedpoint.rounding_divide_int16(x, 15).tolist() == [-1, 0, 0, 0, 1]
    for exponent in (16, 17, 31):
        assert fixedpoint.rounding_divide_int16(x, exponent).tolist() == [-1, -1, 1, 1, 1]
