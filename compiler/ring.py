"""The ring: the part of the scratchpad that constants come through."""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.stream import Access

__all__ = ["Constants", "Ring"]

#: Scratchpad words that constants are placed by.
_GRANULE = 8
_HELD = 1 << 62


@dataclass(frozen=True)
class Constants:
    """What has a place in the ring: first word, words, byte offset in the image, bytes of a word."""

    base: int
    words: int
    offset_bytes: int
    row_bytes: int


class Ring:
    """Places constants where nothing was for longest, so that they can be loaded early.

    Pieces of open scopes (`live`) are not overwritten. Words are counted in granules.
    """

    def __init__(self, words: int) -> None:
        self.live: list[tuple[int, int]] = []
        self._touched = np.zeros(words // _GRANULE, np.int64)
        self._clock = 0

    def touch(self, accesses: tuple[Access, ...]) -> None:
        """Note that an operation is the latest one to touch these words."""
        self._clock += 1
        for access in accesses:
            if access.space == "pad":
                self._touched[access.low // _GRANULE:-(-access.high // _GRANULE)] = self._clock

    def take(self, words: int, base: int, *, held: bool) -> int | None:
        """Place `words` words at or above `base`; None if they do not fit.

        What is held with others is placed at an end of what is free, so that this stays in one piece.
        """
        first, count = -(-base // _GRANULE), -(-words // _GRANULE)
        touched = self._touched.copy()
        for low, high in self.live:
            touched[low // _GRANULE:-(-high // _GRANULE)] = _HELD
        if count > len(touched) - first:
            return None
        latest = np.lib.stride_tricks.sliding_window_view(touched[first:], count).max(axis=1)
        free = np.flatnonzero(latest < _HELD)
        if not free.size:
            return None
        if held:
            free = free[[0, -1]]
        start = (first + int(free[latest[free].argmin()])) * _GRANULE
        self.live.append((start, start + words))
        return start
