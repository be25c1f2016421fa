"""Which earlier operation of a unit touched what: the search behind every token.

Layers of many rectangles have tens of thousands of operations, but touch few different ranges: strips, the ring, rows
of a tensor. Of each range only the last operation is kept, and within its newest buffer the last one for each box.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Access", "History"]


@dataclass(frozen=True)
class Access:
    """A range touched: `space` is "pad" (words) or a memory region's name (bytes).

    Two accesses of one `buffer` conflict when their boxes (rows, blocks) overlap; others when their ranges do.
    """

    space: str
    low: int
    high: int
    buffer: int = -1
    rows: tuple[int, int] = (0, 0)
    blocks: tuple[int, int] = (0, 0)


class _Ranges:
    """The last accesses to each range of one space."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int], int] = {}
        self._table: npt.NDArray[np.int64] = np.empty((3, 64), np.int64)
        #: Per range: its newest buffer, the last operation in any other one, the last one for each box.
        self._newest: list[int] = []
        self._before: list[int] = []
        self._boxes: list[dict[tuple[int, int, int, int], int]] = []

    def add(self, index: int, access: Access) -> None:
        """Note an access of operation `index`; indices grow."""
        slot = self._slots.setdefault((access.low, access.high), len(self._slots))
        if slot == len(self._newest):
            if slot == self._table.shape[1]:
                self._table = np.concatenate([self._table, np.empty_like(self._table)], axis=1)
            self._table[:, slot] = access.low, access.high, -1
            self._newest.append(access.buffer)
            self._before.append(-1)
            self._boxes.append({})
        if access.buffer != self._newest[slot]:
            self._newest[slot], self._before[slot], self._boxes[slot] = access.buffer, int(self._table[2, slot]), {}
        self._table[2, slot] = index
        if access.buffer >= 0:
            self._boxes[slot][*access.rows, *access.blocks] = index

    def latest(self, access: Access, after: int) -> int:
        """Return the last operation above `after` that conflicts with `access`, else `after`."""
        lows, highs, lasts = self._table[:, :len(self._newest)]
        slots = np.flatnonzero((lows < access.high) & (highs > access.low) & (lasts > after))
        for slot in slots[np.argsort(-lasts[slots])].tolist():
            last = int(lasts[slot])
            if last <= after:
                break
            if access.buffer < 0 or access.buffer != self._newest[slot]:
                return last
            after = max(after, self._before[slot], *(
                index for (row0, row1, block0, block1), index in self._boxes[slot].items()
                if row0 < access.rows[1] and row1 > access.rows[0]
                and block0 < access.blocks[1] and block1 > access.blocks[0]), -1)
        return after


@dataclass
class History:
    """Reads and writes of one unit's operations."""

    _reads: dict[str, _Ranges] = field(default_factory=dict)
    _writes: dict[str, _Ranges] = field(default_factory=dict)

    def add(self, index: int, reads: tuple[Access, ...], writes: tuple[Access, ...]) -> None:
        """Append operation `index`; indices grow."""
        for kind, accesses in ((self._reads, reads), (self._writes, writes)):
            for access in accesses:
                if access.low < access.high:
                    kind.setdefault(access.space, _Ranges()).add(index, access)

    def latest(self, reads: tuple[Access, ...], writes: tuple[Access, ...], after: int) -> int:
        """Return the last operation above `after` that must be done before one with these accesses, else `after`."""
        for accesses, kinds in ((reads, (self._writes,)), (writes, (self._writes, self._reads))):
            for access in accesses:
                for kind in kinds:
                    if access.space in kind and access.low < access.high:
                        after = kind[access.space].latest(access, after)
        return after
