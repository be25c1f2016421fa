"""The accesses of a unit's earlier operations, and the search that finds every token.

Layers of many rectangles have tens of thousands of operations, but access few distinct ranges: strips, the ring, rows
of a tensor. For each range only the last operation is kept, and within its newest buffer the last one for each box.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Access", "History"]

#: Ranges that are searched one by one before the whole table.
_LATEST = 16


class Access(NamedTuple):
    """An accessed range: `space` is "pad" (words) or a memory region's name (bytes).

    Two accesses to one `buffer` conflict if their boxes (rows, blocks) overlap; other accesses if their ranges do.
    """

    space: str
    low: int
    high: int
    buffer: int = -1
    rows: tuple[int, int] = (0, 0)
    blocks: tuple[int, int] = (0, 0)


Box = tuple[int, int, int, int]


@dataclass(slots=True)
class _Range:
    """One accessed range.

    Members
    -------
    low, high, last : the range and its last operation
    column : their column of the table
    buffer : its newest buffer
    before : the last operation in any other buffer
    boxes : in the newest buffer, the last operation for each box (rows, blocks), the latest at the end
    """

    low: int
    high: int
    last: int
    column: int
    buffer: int
    before: int = -1
    boxes: dict[Box, int] = field(default_factory=dict)

    def latest(self, access: Access, after: int) -> int:
        """Return the last operation above `after` that conflicts with an access that overlaps, else `after`."""
        if access.buffer < 0 or access.buffer != self.buffer:
            return max(self.last, after)
        after = max(after, self.before)
        (row0, row1), (block0, block1) = access.rows, access.blocks
        for box, index in reversed(self.boxes.items()):
            if index <= after:
                break
            if box[0] < row1 and box[1] > row0 and box[2] < block1 and box[3] > block0:
                return index
        return after


class _Ranges:
    """The last accesses to each range of one space."""

    def __init__(self) -> None:
        #: In order of access, the latest at the end.
        self._ranges: dict[tuple[int, int], _Range] = {}
        self._columns: list[_Range] = []
        #: low, high, last of each range
        self._table: npt.NDArray[np.int64] = np.empty((3, 64), np.int64)

    def add(self, index: int, access: Access) -> None:
        """Record an access of operation `index`; indices ascend."""
        key = access.low, access.high
        found = self._ranges.pop(key, None)
        if found is None:
            column = len(self._columns)
            if column == self._table.shape[1]:
                self._table = np.concatenate([self._table, np.empty_like(self._table)], axis=1)
            found = _Range(*key, index, column, access.buffer)
            self._table[:2, column] = key
            self._columns.append(found)
        elif access.buffer != found.buffer:
            found.buffer, found.before, found.boxes = access.buffer, found.last, {}
        self._ranges[key] = found
        found.last = self._table[2, found.column] = index
        if access.buffer >= 0:
            box = *access.rows, *access.blocks
            found.boxes.pop(box, None)
            found.boxes[box] = index

    def latest(self, access: Access, after: int) -> int:
        """Return the last operation above `after` that conflicts with `access`, else `after`."""
        # The operation is usually among the latest.
        for found in islice(reversed(self._ranges.values()), _LATEST):
            if found.last <= after:
                return after
            if found.low < access.high and found.high > access.low:
                after = found.latest(access, after)
        if len(self._columns) <= _LATEST:
            return after
        lows, highs, lasts = self._table[:, :len(self._columns)]
        columns = ((lows < access.high) & (highs > access.low) & (lasts > after)).nonzero()[0]
        for column in columns[np.argsort(-lasts[columns])].tolist():
            if self._columns[column].last <= after:
                break
            after = self._columns[column].latest(access, after)
        return after


@dataclass
class History:
    """Reads and writes of one unit's operations."""

    _reads: dict[str, _Ranges] = field(default_factory=dict)
    _writes: dict[str, _Ranges] = field(default_factory=dict)

    def add(self, index: int, reads: tuple[Access, ...], writes: tuple[Access, ...]) -> None:
        """Append operation `index`; indices ascend."""
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
