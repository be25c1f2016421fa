"""Multipliers of 60 bits give `round((double)acc * M)` for every possible sum."""

import numpy as np
import pytest

from tq_hw.compiler.lower.sixteen_doubles import LOW_BITS, wide_doubles
from tq_hw.sim.golden.arith import round_half_away


@pytest.mark.parametrize("seed", range(24))
def test_results_step_where_doubles_do(seed: int) -> None:
    """Checked around each step, at the extremes, and at random points; some products are exact halves."""
    rng = np.random.default_rng(seed)
    exact = float(rng.integers(1, 8)) * 2.0**-float(rng.integers(5, 16))
    factor = exact if seed % 2 else float(2.0**rng.uniform(-20, -1.1))
    least, most = -int(2**rng.uniform(0, 31)), int(2**rng.uniform(0, 31)) - 1
    made = wide_doubles(np.array([factor]), np.array([least]), np.array([most]), -32767, 32767)
    steps = np.floor((np.arange(-32766, 32768) - 0.5) / factor)
    near = np.clip(steps[:, None] + np.arange(-2, 4), least, most).astype(np.int64).reshape(-1)
    x = np.concatenate([near, [least, most], rng.integers(least, most, 10000, endpoint=True)])
    # One word of the product after the other, as in the program.
    high, low = x * int(made.high[0]), x * int(made.low[0]) >> 31
    carry = (((high & (1 << 31) - 1) >> 2) + low) >> LOW_BITS
    found = ((high >> 31) + carry + (1 << made.right >> 1)) >> made.right
    expected = np.clip(round_half_away(x * factor), -32767, 32767)
    np.testing.assert_array_equal(np.clip(found, -32767, 32767), expected)
