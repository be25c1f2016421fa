"""Programs of the natural logarithm give the same float32 as the golden model, which computes in double."""

import numpy as np
import pytest

from tests.compiler.programs.evaluated import in_steps
from tq_hw.compiler.programs.packed_log import STEPS, log_tables
from tq_hw.sim.golden.libm_double import logf
from tq_hw.sim.golden.packed_float import MOST_LOG, packed, unpacked

EXPONENTS = range(23)


def logarithm(x: np.ndarray) -> np.ndarray:
    return unpacked(in_steps(STEPS, packed(x), np.concatenate(log_tables())))


def bits(exponent: int, places: np.ndarray) -> np.ndarray:
    """Numbers of an exponent with the given 23 bits."""
    return ((exponent + 127 << 23) + places).astype(np.int32).view(np.float32)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_some_of_every_exponent(exponent: int) -> None:
    x = bits(exponent, np.random.default_rng(exponent).integers(0, 1 << 23, 1 << 13))
    np.testing.assert_array_equal(logarithm(x), logf(x))


def test_ends_of_parts() -> None:
    """Next to 1, to each power of two, and to the beginnings of table entries."""
    ends = np.array([((exponent + 127 << 23) + place) for exponent in EXPONENTS
                     for place in (0, *(0x3F330000 + (part << 19) & (1 << 23) - 1 for part in range(16)))])
    x = (ends[:, None] + np.arange(-40, 41)).reshape(-1).astype(np.int32).view(np.float32)
    x = x[(x >= 1) & (x < MOST_LOG)]
    assert {1, np.nextafter(np.float32(1), np.float32(2)), np.nextafter(np.float32(MOST_LOG), np.float32(0))} <= {
        *x.tolist(), *bits(22, np.array([(1 << 23) - 1])).tolist()}
    np.testing.assert_array_equal(logarithm(x), logf(x))


@pytest.mark.parametrize("number", ["0x1.d58496p+6", "0x1.8aca9ap+9"])
def test_next_to_the_middle(number: str) -> None:
    """Their doubles are nearest to the middle of two float32 numbers: 2^-50 of it decides which one is the result."""
    x = (int(np.array(float.fromhex(number), np.float32).view(np.int32)) + np.arange(-1000, 1001)).astype(np.int32)
    np.testing.assert_array_equal(logarithm(x.view(np.float32)), logf(x.view(np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_sweep(exponent: int) -> None:
    """One number in 61; with step 1 it would be all of them."""
    for first in range(0, 1 << 23, 1 << 18):
        x = bits(exponent, np.arange(first + exponent, first + (1 << 18), 61))
        np.testing.assert_array_equal(logarithm(x), logf(x))
