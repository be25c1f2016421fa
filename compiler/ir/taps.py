"""Taps of a linear interpolation along one axis, in groups that one operation computes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Group", "Tap", "groups"]

_PERIODS = 8
Tap = tuple[int, int, int]


@dataclass(frozen=True)
class Group:
    """`count` outputs first, first + step, ..., with taps at a constant step and a common fraction."""

    first: int
    step: int
    count: int
    low: int
    low_step: int
    high: int
    high_step: int
    fraction: int


@lru_cache(maxsize=64)
def groups(taps: tuple[Tap, ...]) -> tuple[Group, ...]:
    """Split taps (low, high, fraction) into few groups."""
    best: tuple[Group, ...] = ()
    for period in range(1, min(_PERIODS, len(taps)) + 1):
        found = tuple(group for first in range(period) for group in _runs(taps, first, period))
        if not best or len(found) < len(best):
            best = found
    return best


def _runs(taps: tuple[Tap, ...], first: int, period: int) -> Iterator[Group]:
    places = range(first, len(taps), period)
    at = 0
    while at < len(places):
        low, high, fraction = taps[places[at]]
        steps, count = (0, 0), 1
        while at + count < len(places):
            before, this = taps[places[at + count - 1]], taps[places[at + count]]
            step = this[0] - before[0], this[1] - before[1]
            if this[2] != fraction or (count > 1 and step != steps):
                break
            steps, count = step, count + 1
        yield Group(places[at], period, count, low, steps[0], high, steps[1], fraction)
        at += count
