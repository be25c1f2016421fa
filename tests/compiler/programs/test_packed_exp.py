"""Programs of e^x give the same float32 as the golden model, which computes in double."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.compiler.programs.evaluated import in_steps
from tq_hw.compiler.programs.packed_exp import STEPS, power_tables
from tq_hw.sim.golden.libm import expf
from tq_hw.sim.golden.packed_float import MOST_POWER, packed, unpacked

#: Exponents of x from those where e^x is 1 to those where it is 0, or too large to be packed.
EXPONENTS = range(-27, 7)


def exponential(x: np.ndarray) -> np.ndarray:
    return unpacked(in_steps(STEPS, packed(x), np.concatenate(power_tables())))


def bits(exponent: int, places: np.ndarray) -> np.ndarray:
    """Numbers of an exponent with the given 23 bits, of either sign, up to 72."""
    x = ((exponent + 127 << 23) + places).astype(np.int32).view(np.float32)
    return np.concatenate([-x, x[x <= MOST_POWER]])


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_some_of_every_exponent(exponent: int) -> None:
    x = bits(exponent, np.random.default_rng(exponent + 99).integers(0, 1 << 23, 1 << 13))
    np.testing.assert_array_equal(exponential(x), expf(x))


def test_ends() -> None:
    x = np.array([0, 72, 1e-45, 1e-38, 2.0**-25, 2.0**-24, -1e-45, -1e-38, -2.0**-25, -2.0**-24, -87.3, -88, -103.27,
                  -103.9720, -103.9721, -104, -128, -255, -256, -1e9, -1e30], np.float32)
    np.testing.assert_array_equal(exponential(x), expf(x))
    assert exponential(x)[[0, -1]].tolist() == [1, 0]


def test_the_one_that_is_in_the_middle() -> None:
    """Its neighbours have the right results, too."""
    x = bits(-3, int(float.fromhex("0x1.e75bc4p-3") * 2**26) - (1 << 23) + np.arange(-1000, 1001))
    assert float.fromhex("0x1.e75bc4p-3") in x
    np.testing.assert_array_equal(exponential(x), expf(x))


def sweep(exponent: int, step: int) -> Iterator[np.ndarray]:
    for first in range(0, 1 << 23, 1 << 18):
        yield bits(exponent, np.arange(first + exponent % step, first + (1 << 18), step))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_sweep(exponent: int) -> None:
    """One number in 61; with step 1 it would be all of them."""
    for x in sweep(exponent, 61):
        np.testing.assert_array_equal(exponential(x), expf(x))
