"""Constants with which fixed point gives `round((double)acc * M)` for int16 results, as in LiteRT's FULLY_CONNECTED.

As in `doubles.py`, all steps must be at the right sums, or the operator is refused. There are 65,535 steps, so a
multiplier has 60 bits, in two words. It is chosen from the most restrictive steps, and then checked against all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["LOW_BITS", "Doubles", "wide_doubles"]

#: Bits of the upper and the lower word.
_HIGH_BITS, LOW_BITS = 31, 29
#: Bound of what the program drops from a product, in units of its last bit.
_LOST = 1 << 32
#: Steps of each kind from which the multiplier is chosen.
_NEAREST = 64
_MOST_RIGHT = 31

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Doubles:
    """Multipliers `high + low / 2^29` by channel, of the sum, over `2^(31 + right)`."""

    high: IntArray
    low: IntArray
    right: int


def wide_doubles(real: Floats, least: IntArray, most: IntArray, act_min: int, act_max: int) -> Doubles:
    """Return constants, by channel, for sums of least..most, which fit int32.

    Raises UnsupportedError if a factor is 1/2 or more, or if no multiplier has the right steps.
    """
    exponent = int(np.frexp(real.max())[1])
    if exponent > -1:
        raise UnsupportedError(f"LiteRT rescales sums of int16 in double, by {real.max():g}: factors of 1/2 and more "
                               "are not supported; use a larger output scale", ", or --profile canon")
    right = min(-exponent, _MOST_RIGHT)
    bits = _HIGH_BITS + LOW_BITS + right
    values = np.arange(act_min + 1, act_max + 1)
    found = []
    for channel, factor in enumerate(real.tolist()):
        steps = _steps(factor, values, int(least[channel]), int(most[channel]))
        ends = int(least[channel]), int(most[channel])
        multiplier = _multiplier(values, steps, *ends, bits)
        if multiplier is None or not _holds(multiplier, right, values, steps, *ends):
            raise UnsupportedError(f"no multiplier of {_HIGH_BITS + LOW_BITS} bits gives LiteRT's result for every sum "
                                   f"in {least[channel]}..{most[channel]} at factor {factor:g}",
                                   "; --profile canon helps")
        found.append(multiplier)
    return Doubles(np.array([each >> LOW_BITS for each in found]),
                   np.array([each & (1 << LOW_BITS) - 1 for each in found]), right)


def _steps(factor: float, values: IntArray, least: int, most: int) -> IntArray:
    """Return the least sum that gives each value or more; `most + 1` if there is none."""
    # `round` reaches a value from half a unit below it on; a negative value only from more than half a unit.
    bound, is_positive = values - 0.5, values > 0

    def reached(x: Floats) -> npt.NDArray[np.bool_]:
        product = x * factor
        return np.where(is_positive, product >= bound, product > bound)

    # For sums below 2^32, the rounding of a quotient or product moves a step by less than one.
    with np.errstate(over="ignore"):
        first = np.ceil(np.clip(bound / factor, least - 4.0, most + 4.0))
    at = (first + 1 - reached(first) - reached(first - 1)).astype(np.int64)
    found: IntArray = np.clip(at, least, most + 1)
    return found


def _multiplier(values: IntArray, steps: IntArray, least: int, most: int, bits: int) -> int | None:
    """Return m with `x * m - e + half >= v * 2^bits` at each step, and less before it, for 0 <= e < _LOST; or None.

    There may be none: a sum times M within the double's last bit of a tie rounds like the tie, and three times that sum
    may not.
    """
    low, high, half = 0, (1 << _HIGH_BITS + LOW_BITS) - 1, 1 << bits - 1
    lost = _LOST / 2.0**bits
    for is_up in (True, False):
        x = steps if is_up else steps - 1
        counts = (x <= most) & (x >= least)
        bound = values - 0.5 + (lost if is_up else 0.0)
        for sign in (1, -1):
            which = np.flatnonzero(counts & (x * sign > 0))
            if not which.size:
                continue
            ratio = bound[which] / x[which]
            # The steps that need the largest m, and the smallest sums, where dropped bits matter most; sums ascend.
            order = np.argpartition(-ratio if is_up == (sign > 0) else ratio, min(_NEAREST, len(which)) - 1)[:_NEAREST]
            near = which[:_NEAREST] if sign > 0 else which[-_NEAREST:]
            for at in {*which[order].tolist(), *near.tolist()}:
                number, limit = int(x[at]), (int(values[at]) << bits) - half + (_LOST if is_up else -1)
                if is_up == (sign > 0):
                    low = max(low, ceil_div(limit, number))
                else:
                    high = min(high, limit // number)
    return (low + high) // 2 if low <= high else None


def _result(x: IntArray, multiplier: int, right: int) -> IntArray:
    """Return the program's results for sums."""
    high, low = x * (multiplier >> LOW_BITS), x * (multiplier & (1 << LOW_BITS) - 1) >> 31
    carry = (((high & (1 << 31) - 1) >> 2) + low) >> LOW_BITS
    made: IntArray = ((high >> 31) + carry + (1 << right >> 1)) >> right
    return made


def _holds(multiplier: int, right: int, values: IntArray, steps: IntArray, least: int, most: int) -> bool:
    """Whether the program's results have every step at the right sum."""
    up, down = steps <= most, (steps - 1 >= least) & (steps - 1 <= most)
    return bool((_result(steps, multiplier, right)[up] >= values[up]).all()
                and (_result(steps - 1, multiplier, right)[down] < values[down]).all())
