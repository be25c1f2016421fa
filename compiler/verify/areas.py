"""Words, or bytes, that nested loops walk over: seen in an array without an index for each of them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.verify.numbers import Bytes, Index

__all__ = ["ADDRESSES", "Area"]

#: Addresses of words are modulo this.
ADDRESSES = 1 << 16


class Area(NamedTuple):
    """Places `base` + sum of turn * step of all loops, the outermost one first."""

    base: int
    counts: tuple[int, ...]
    steps: tuple[int, ...]

    def of(self, array: Bytes) -> Bytes | None:
        """Return a view [*counts, ...] of rows of an array; None if a place lies outside of it."""
        row, *inner = array.strides
        try:
            return np.ndarray((*self.counts, *array.shape[1:]), array.dtype, array, self.base * row,
                              (*(step * row for step in self.steps), *inner))
        except ValueError:
            return None

    def apart(self) -> bool:
        """Whether all places are certainly different ones."""
        return _apart(self.counts, self.steps)

    def places(self) -> Index:
        """Return all places, [*counts]."""
        found: Index = np.full(self.counts, self.base)
        for axis, (count, step) in enumerate(zip(self.counts, self.steps, strict=True)):
            found += (np.arange(count) * step).reshape(-1, *[1] * (len(self.counts) - axis - 1))
        return found


@lru_cache(maxsize=4096)
def _apart(counts: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    reach = 1
    for step, count in sorted((abs(step), count) for step, count in zip(steps, counts, strict=True) if count > 1):
        if step < reach:
            return False
        reach += (count - 1) * step
    return True
