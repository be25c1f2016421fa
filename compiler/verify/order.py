"""Which operations are certainly done when another one begins: tokens, and units that work in order.

A stream is replayed in program order. That is what the hardware does, too, whatever the units' speeds, if every two
operations that touch the same word or byte, one of them writing, stand in that order: this is checked for each of them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.stream.stream import Operation
from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.numbers import Index
from tq_hw.isa.layout import Unit
from tq_hw.model.errors import DataflowError

__all__ = ["Late", "Order", "Pending", "Runs", "Touched", "memory_runs", "stored_runs"]

#: The units by number; the first one has no operations.
_UNITS = len(Unit)
Stamps = npt.NDArray[np.int32]
#: A place, and the other unit's operation there that no token orders: unit, RUN, whether it writes.
Late = tuple[int, Unit, int, bool]


@dataclass
class Order:
    """Follows the tokens.

    Members
    -------
    known : by unit, its last operation that is certainly done when the present one begins
    runs : by unit, its last operation in program order
    limits : the same, and of its own unit all
    unit, run : the present operation
    """

    known: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    runs: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    limits: Stamps = field(default_factory=lambda: np.full(_UNITS, -1, np.int32))
    unit: Unit = Unit.CONTROL
    run: int = -1
    #: By unit and operation, what was known to be done when it was done; what it began with is in `_last`.
    _done: list[list[list[int]]] = field(default_factory=lambda: [[] for _ in range(_UNITS)])
    _last: list[list[int]] = field(default_factory=lambda: [[-1] * _UNITS for _ in range(_UNITS)])
    #: By giver and taker: the operation that gave each token; how many were taken.
    _given: list[list[list[int]]] = field(default_factory=lambda: [[[] for _ in range(_UNITS)] for _ in range(_UNITS)])
    _taken: list[list[int]] = field(default_factory=lambda: [[0] * _UNITS for _ in range(_UNITS)])

    def begin(self, operation: Operation) -> None:
        """Take the tokens of the next operation in program order."""
        unit = self.unit = operation.unit
        known = self._last[unit]
        self.run = self.runs[unit] = self.runs[unit] + 1
        for giver, count in operation.wait.items():
            self._taken[giver][unit] += count
            taken, given = self._taken[giver][unit], self._given[giver][unit]
            if taken > len(given):
                raise DataflowError(f"it waits for token {taken} of the {giver.name.lower()} unit, and the operations "
                                    f"before it give {len(given)}")
            if count:
                known = list(map(max, known, self._done[giver][given[taken - 1]]))
        self.known = known
        self.limits = np.array(known, np.int32)
        self.limits[unit] = self.run
        done = self._last[unit] = known.copy()
        done[unit] = self.run
        self._done[unit].append(done)
        for taker, count in operation.post.items():
            self._given[unit][taker] += [self.run] * count


class Touched:
    """The last operation of each unit that touched, and that wrote, each word."""

    def __init__(self, size: int) -> None:
        self._any = np.full((size, _UNITS), -1, np.int32)
        self._wrote = self._any.copy()

    def touch(self, order: Order, where: Index | Area, writes: bool) -> Late | None:
        """Note that the present operation touches words; return one that another unit touches in no order with it."""
        stamps = self._any if writes else self._wrote
        found = _at(stamps, where)
        late = found > order.limits
        if late.any():
            at, unit = divmod(int(np.flatnonzero(late)[0]), _UNITS)
            places = where.places() if isinstance(where, Area) else where
            place, run = int(places.reshape(-1)[at]), int(found.reshape(-1)[at * _UNITS + unit])
            return place, Unit(unit), run, int(self._wrote[place, unit]) == run
        for mine in (self._any, self._wrote) if writes else (self._any,):
            if isinstance(where, Area):
                _at(mine, where)[..., order.unit] = order.run
            else:
                mine[where, order.unit] = order.run
        return None


def _at(stamps: Stamps, where: Index | Area) -> Stamps:
    found: Stamps | None = where.of(stamps) if isinstance(where, Area) else stamps.take(where, axis=0)
    assert found is not None, "the words exist"
    return found


class Runs(NamedTuple):
    """`size` bytes from each of some offsets on.

    Members
    -------
    first, counts, steps : offsets, by two loops, the outer one first
    low, high : the first byte, and the one after the last byte
    """

    first: int
    counts: tuple[int, int]
    steps: tuple[int, int]
    size: int
    low: int
    high: int

    @classmethod
    def of(cls, first: int, counts: tuple[int, int], steps: tuple[int, int], size: int) -> "Runs":
        """Runs of two loops."""
        ends = [(count - 1) * step for count, step in zip(counts, steps, strict=True)]
        return cls(first, counts, steps, size, first + sum(min(end, 0) for end in ends),
                   first + sum(max(end, 0) for end in ends) + size)

    def offsets(self) -> Index:
        """Return all offsets."""
        return Area(self.first, self.counts, self.steps).places().reshape(-1)


class Pending:
    """Operations of one unit on a memory region that another one does not know to be done; each touches runs of bytes.

    What the other unit knows only grows, so that what it once knows to be done is forgotten.
    """

    def __init__(self) -> None:
        self._runs: list[int] = []
        self._touched: list[Runs] = []
        #: First byte of each and the byte after the last one; those from `_begin` on are pending.
        self._ends = np.zeros((2, 64), np.int64)
        self._begin = 0

    def add(self, run: int, runs: Runs) -> None:
        """Note what operation `run` touches."""
        if self._begin > 64 and 2 * self._begin > len(self._runs):
            count = len(self._runs) - self._begin
            self._ends[:, :count] = self._ends[:, self._begin:self._begin + count].copy()
            del self._runs[:self._begin], self._touched[:self._begin]
            self._begin = 0
        at = len(self._runs)
        if at == self._ends.shape[1]:
            self._ends = np.concatenate([self._ends, np.zeros_like(self._ends)], axis=1)
        self._ends[:, at] = runs.low, runs.high
        self._runs.append(run)
        self._touched.append(runs)

    def late(self, known: int, runs: Runs) -> tuple[int, int] | None:
        """Return a byte of some runs that an operation after `known` touches, and which one."""
        begin = self._begin = bisect_right(self._runs, known, self._begin)
        if begin == len(self._runs):
            return None
        low, high = self._ends[:, begin:len(self._runs)]
        near = (low < runs.high) & (high > runs.low)
        if not near.any():
            return None
        for at in np.flatnonzero(near)[::-1].tolist():
            where = _shared(runs, self._touched[begin + at])
            if where is not None:
                return where, self._runs[begin + at]
        return None


def _shared(runs: Runs, others: Runs) -> int | None:
    """Return a byte that both have."""
    offsets, size = runs.offsets(), runs.size
    sorted_others = np.sort(others.offsets())
    before = np.searchsorted(sorted_others, offsets, "right")
    inside = (before > 0) & (sorted_others[before - 1] + others.size > offsets)
    if inside.any():
        return int(offsets[inside.argmax()])
    following = sorted_others[np.minimum(before, len(sorted_others) - 1)]
    inside = (before < len(sorted_others)) & (following < offsets + size)
    return int(following[inside.argmax()]) if inside.any() else None


def stored_runs(f: Mapping[str, int]) -> Runs:
    """Bytes that a store writes."""
    size = f["count1"] * ((f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"])
    return memory_runs(f, size)


def memory_runs(f: Mapping[str, int], size: int) -> Runs:
    """Runs of bytes that a load or a store touches."""
    return Runs.of(f["memory_offset_bytes"], (f["count3"], f["count2"]), (f["stride3_bytes"], f["stride2_bytes"]), size)
