"""Programs of x^0.5: the same float32 as the golden model's, where it is the square root and where it is not."""

import functools

import numpy as np
import pytest

from tests.compiler.programs.evaluated import evaluated
from tq_hw.compiler.programs.packed_power import error_program, error_tables, power_program, power_tables
from tq_hw.sim.golden.libm_double import powf
from tq_hw.sim.golden.packed_float import packed

HALF = np.array(0.5, np.float32)
#: The two fractions whose result depends on the exponent.
SPECIAL = (0x47C1F5, 0x7FFFFF)
#: More than the largest error of powf, as a difference of a root's remainder.
MOST = 60_000


def hold(x: np.ndarray) -> None:
    words = packed(x)
    error = evaluated(error_program(), words, tables=np.concatenate(error_tables()))
    made = evaluated(power_program(), words, error, tables=np.concatenate(power_tables()))
    np.testing.assert_array_equal(made, packed(powf(x, HALF)))


def numbers(exponent: int, places: np.ndarray) -> np.ndarray:
    """Numbers of an exponent (0 to 230) with the given 23 bits."""
    return ((exponent << 23) + places).astype(np.int32).view(np.float32)


def test_some_of_every_exponent() -> None:
    """Subnormal numbers and 0, too, and the special cases."""
    rng, around = np.random.default_rng(0), np.concatenate([each + np.arange(-2, 3) for each in (*SPECIAL, 1 << 22)])
    hold(np.concatenate([numbers(exponent, np.concatenate([rng.integers(0, 1 << 23, 1 << 10),
                                                           around & (1 << 23) - 1])) for exponent in range(231)]))


@functools.cache
def near_ties(odd: int) -> np.ndarray:
    """Return the fractions, with 23 bits, of all numbers whose root is so near to a tie that an error can change it."""
    bits = 24 - odd
    first, last = (1 << 23, 11863284) if odd else (11863283, 1 << 24)
    roots = np.arange(first - 1, last + 1, dtype=np.int64)
    # Squares of all root + 0.5, less a quarter.
    ties = roots * roots + roots
    fractions = (ties >> bits)[:, None] + np.array([0, 1])
    found = np.unique(fractions[np.abs((fractions << bits) - ties[:, None]) < MOST])
    return found[(found >= 1 << 23) & (found < 1 << 24)] - (1 << 23)


@pytest.mark.parametrize(("odd", "count"), [(0, 6303), (1, 4370)])
def test_every_number_near_a_tie(odd: int, count: int) -> None:
    """All numbers whose result is not the square root are among these; their count was found over all numbers."""
    places = near_ties(odd)
    for exponent in (126, 2, 80, 228):
        x = numbers(exponent + odd, places)
        hold(x)
        assert (powf(x, HALF) != np.sqrt(x)).sum() == count


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [126, 127])
def test_every_number(exponent: int) -> None:
    for first in range(0, 1 << 23, 1 << 19):
        hold(numbers(exponent, np.arange(first, first + (1 << 19))))
