"""The ring: the part of the scratchpad for constants."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.plan.layout import GRANULE_WORDS
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.sizes import ceil_div

__all__ = ["Constants", "Ring"]
_HELD = 1 << 62


@dataclass(frozen=True)
class Constants:
    """An allocation in the ring: first word, words, bytes, bytes a word."""

    base: int
    words: int
    data: bytes
    row_bytes: int


class Ring:
    """Allocates constants in the words that have been unused for longest, so that they can be loaded early.

    Pieces of open scopes (`live`) are not overwritten. Words are counted in granules.
    """

    def __init__(self, words: int) -> None:
        self.live: list[tuple[int, int]] = []
        self._touched = np.zeros(words // GRANULE_WORDS, np.int64)
        self._clock = 0

    def touch(self, accesses: tuple[Access, ...]) -> None:
        """Record an operation as the latest access to these words."""
        self._clock += 1
        for access in accesses:
            if access.space == "pad":
                self._touched[access.low // GRANULE_WORDS:ceil_div(access.high, GRANULE_WORDS)] = self._clock

    def holds(self, pieces: Sequence[int], base: int) -> bool:
        """Whether pieces of these sizes fit at or above `base`, if nothing else is held."""
        if len(pieces) == 1:
            return pieces[0] <= len(self._touched) * GRANULE_WORDS - base
        free = len(self._touched) - ceil_div(base, GRANULE_WORDS)
        return sum(ceil_div(words, GRANULE_WORDS) for words in pieces) <= free

    def room(self, base: int) -> int:
        """Words of the longest free piece at or above `base`, in whole granules."""
        first = ceil_div(base, GRANULE_WORDS)
        held = sorted((max(low // GRANULE_WORDS, first), ceil_div(high, GRANULE_WORDS)) for low, high in self.live)
        longest, end = 0, first
        for low, high in [*held, (len(self._touched), len(self._touched))]:
            longest, end = max(longest, low - end), max(end, high)
        return longest * GRANULE_WORDS

    def take(self, words: int, base: int, *, held: bool) -> int | None:
        """Allocate `words` words at or above `base`; None if they do not fit.

        With `held`, the allocation is at an end of the free words, so that these stay in one piece.
        """
        first, count = ceil_div(base, GRANULE_WORDS), ceil_div(words, GRANULE_WORDS)
        touched = self._touched.copy()
        for low, high in self.live:
            touched[low // GRANULE_WORDS:ceil_div(high, GRANULE_WORDS)] = _HELD
        if count > len(touched) - first:
            # It fits only from the base itself on, before the first whole granule.
            if base + words > len(touched) * GRANULE_WORDS or any(high > base for _, high in self.live):
                return None
            self.live.append((base, base + words))
            return base
        latest = np.lib.stride_tricks.sliding_window_view(touched[first:], count).max(axis=1)
        free = np.flatnonzero(latest < _HELD)
        if not free.size:
            return None
        if held:
            free = free[[0, -1]]
        start = (first + int(free[latest[free].argmin()])) * GRANULE_WORDS
        self.live.append((start, start + words))
        return start
