"""The vectorized primitives give the results of Python integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.sim.golden import arith

INT32 = st.integers(arith.INT32_MIN, arith.INT32_MAX)
CORNERS = [arith.INT32_MIN, arith.INT32_MIN + 1, -(1 << 30) - 1, -(1 << 30), -3, -2, -1, 0, 1, 2, 3,
           (1 << 30) - 1, 1 << 30, arith.INT32_MAX - 1, arith.INT32_MAX]


def c_divide(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def ref_high_mul(a: int, b: int) -> int:
    if a == b == arith.INT32_MIN:
        return arith.INT32_MAX
    product = a * b
    return c_divide(product + ((1 << 30) if product >= 0 else 1 - (1 << 30)), 1 << 31)


def ref_divide_by_pot(x: int, exponent: int) -> int:
    quotient = Fraction(abs(x), 1 << exponent)
    return int(math.copysign(1, x)) * math.floor(quotient + Fraction(1, 2))


def ref_multiply(x: int, multiplier: int, shift: int) -> int:
    shifted = x * (1 << max(shift, 0))
    wrapped = (shifted + (1 << 31)) % (1 << 32) - (1 << 31)
    return ref_divide_by_pot(ref_high_mul(wrapped, multiplier), max(-shift, 0))


def test_corners_of_the_high_multiplication() -> None:
    for a in CORNERS:
        for b in CORNERS:
            assert arith.saturating_rounding_doubling_high_mul(a, b) == ref_high_mul(a, b)


def test_high_multiplication_rounds_halves_up() -> None:
    assert arith.saturating_rounding_doubling_high_mul(np.array([1, -1, 3, -3]), 1 << 30).tolist() == [1, 0, 2, -1]


def test_division_rounds_halves_away_from_zero() -> None:
    assert arith.rounding_divide_by_pot(np.array([1, -1, 3, -3, 5, -5]), 1).tolist() == [1, -1, 2, -2, 3, -3]


@given(INT32, INT32)
def test_high_multiplication(a: int, b: int) -> None:
    assert arith.saturating_rounding_doubling_high_mul(a, b) == ref_high_mul(a, b)


@given(INT32, st.integers(0, 31))
def test_division_by_a_power_of_two(x: int, exponent: int) -> None:
    assert arith.rounding_divide_by_pot(x, exponent) == ref_divide_by_pot(x, exponent)


@given(INT32, INT32, st.integers(-31, 31))
def test_multiplication_by_a_quantized_multiplier(x: int, multiplier: int, shift: int) -> None:
    assert arith.multiply_by_quantized_multiplier(x, multiplier, shift) == ref_multiply(x, multiplier, shift)


def test_multiplication_broadcasts_one_factor_per_channel() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(arith.INT32_MIN, arith.INT32_MAX, (50, 7))
    multiplier, shift = rng.integers(1 << 30, 1 << 31, 7), rng.integers(-31, 4, 7)
    found = arith.multiply_by_quantized_multiplier(x, multiplier, shift)
    for row, col in np.ndindex(x.shape):
        assert found[row, col] == ref_multiply(int(x[row, col]), int(multiplier[col]), int(shift[col]))


@given(st.floats(2.0 ** -32, 2.0 ** 30))
def test_quantized_multiplier_is_the_nearest(real: float) -> None:
    multiplier, shift = arith.quantize_multiplier(real)
    assert 1 << 30 <= multiplier < 1 << 31 and -31 <= shift <= 31
    assert abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(real)) <= Fraction(2) ** (shift - 32)


@pytest.mark.parametrize(("real", "expected"), [
    (0.0, (0, 0)), (1.0, (1 << 30, 1)), (0.5, (1 << 30, 0)), (-0.5, (-(1 << 30), 0)),
    (1.0 - 2.0 ** -40, (1 << 30, 1)), (2.0 ** -32, (1 << 30, -31)), (2.0 ** -33, (0, 0))])
def test_quantized_multiplier_at_the_edges(real: float, expected: tuple[int, int]) -> None:
    assert arith.quantize_multiplier(real) == expected


@pytest.mark.parametrize("real", [math.inf, math.nan])
def test_quantized_multiplier_must_be_finite(real: float) -> None:
    with pytest.raises(ModelError, match="a rescaling factor must be finite, found (inf|nan)"):
        arith.quantize_multiplier(real)


def test_quantized_multiplier_must_be_below_2_to_31() -> None:
    with pytest.raises(ModelError, match=r"a rescaling factor must be below 2\^31, found 4294967296.0"):
        arith.quantize_multiplier(2.0 ** 32)


def test_rounding_of_floats_is_half_away_from_zero() -> None:
    just_below = np.nextafter(np.float32(0.5), np.float32(0))
    values = np.array([0.5, -0.5, 1.5, 2.5, -2.5, just_below, 8388607.5, -0.4])
    assert arith.round_half_away(values).tolist() == [1, -1, 2, 3, -3, 0, 8388608, 0]


@pytest.mark.parametrize(("activation", "expected"), [
    ("NONE", (-128, 127)), ("RELU", (-3, 127)), ("RELU6", (-3, 57)), ("RELU_N1_TO_1", (-13, 7))])
def test_activation_range(activation: str, expected: tuple[int, int]) -> None:
    assert arith.activation_range(activation, 0.1, -3) == expected


def test_activation_range_stays_within_the_dtype() -> None:
    assert arith.activation_range("RELU6", 0.01, 5) == (5, 127)
    assert arith.activation_range("RELU6", 0.01, 5, "uint8") == (5, 255)
    assert arith.activation_range("RELU_N1_TO_1", 0.0001, 0, "int16") == (-10000, 10000)


def test_activation_must_be_known() -> None:
    with pytest.raises(UnsupportedError, match="fused activation must be one of NONE, RELU, RELU6, RELU_N1_TO_1, "
                                               "not TANH"):
        arith.activation_range("TANH", 0.1, 0)


def test_activation_limit_must_fit_int32() -> None:
    with pytest.raises(ModelError, match="^activation RELU6: 6.0 is beyond int32 at scale 1e-10, where the engines "
                       "refuse it or are undefined$"):
        arith.activation_range("RELU6", 1e-10, 0)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_same_padding_covers_the_input(size: int, kernel: int, stride: int, dilation: int) -> None:
    out_size, before, after = arith.compute_padding("SAME", size, kernel, stride, dilation)
    effective = (kernel - 1) * dilation + 1
    assert out_size == math.ceil(size / stride) and after - before in (0, 1)
    needed = (out_size - 1) * stride + effective
    assert before + after == max(needed - size, 0)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_valid_padding_counts_whole_windows(size: int, kernel: int, stride: int, dilation: int) -> None:
    effective = (kernel - 1) * dilation + 1
    windows = len(range(0, size - effective + 1, stride))
    out_size, before, after = arith.compute_padding("VALID", size, kernel, stride, dilation)
    assert max(out_size, 0) == windows and before == after == 0


def test_padding_must_be_known() -> None:
    with pytest.raises(UnsupportedError, match="padding must be SAME or VALID, not EXPLICIT"):
        arith.compute_padding("EXPLICIT", 3, 1, 1)
