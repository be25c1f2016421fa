"""Which operations are certainly done when another one begins: tokens, and units that work in order.

A stream is replayed in program order. That is what the hardware does, too, whatever the units' speeds, if every two
operations that touch the same word or byte, one of them writing, stand in that order: this is checked for each of them.
"""

from bisect import bisect_left, bisect_right
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
#: Units that write words, and that read them.
_WRITERS, _READERS = (Unit.LOAD, Unit.VECTOR), (Unit.ARRAY, Unit.VECTOR, Unit.STORE)
#: Beyond all operations.
_NEVER = 1 << 62
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
    numbers : by unit, where in program order each of its operations stands
    unit, run, number : the present operation, and where it stands
    """

    known: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    runs: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    numbers: list[list[int]] = field(default_factory=lambda: [[] for _ in range(_UNITS)])
    unit: Unit = Unit.CONTROL
    run: int = -1
    number: int = -1
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
        self.number += 1
        self.run = self.runs[unit] = self.runs[unit] + 1
        self.numbers[unit].append(self.number)
        for giver, count in operation.wait.items():
            self._taken[giver][unit] += count
            taken, given = self._taken[giver][unit], self._given[giver][unit]
            if taken > len(given):
                raise DataflowError(f"it waits for token {taken} of the {giver.name.lower()} unit, and the operations "
                                    f"before it give {len(given)}")
            if count:
                known = list(map(max, known, self._done[giver][given[taken - 1]]))
        self.known = known
        done = self._last[unit] = known.copy()
        done[unit] = self.run
        self._done[unit].append(done)
        for taker, count in operation.post.items():
            self._given[unit][taker] += [self.run] * count


    def limit(self, unit: Unit) -> int:
        """Return where the first operation of another unit stands that is perhaps not done; after all: none."""
        numbers, at = self.numbers[unit], self.known[unit] + 1
        return numbers[at] if at < len(numbers) and unit is not self.unit else _NEVER


class Touched:
    """Where in program order the last operation of each unit stands that read, and that wrote, each word."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._wrote: dict[Unit, Stamps] = {unit: np.full(size, -1, np.int32) for unit in _WRITERS}
        self._read: dict[Unit, Stamps] = {unit: np.full(size, -1, np.int32) for unit in _READERS}
        #: By unit, whom an operation that reads and one that writes must come after.
        self._reading = [(unit, [stamps]) for unit, stamps in self._wrote.items()]
        self._writing = [(unit, [stamps[unit] for stamps in (self._wrote, self._read) if unit in stamps])
                         for unit in sorted({*_WRITERS, *_READERS})]

    def writers(self, words: Index) -> Stamps:
        """Return who wrote words last, by the place in program order; -1: nobody."""
        found: Stamps = np.maximum(*(stamps[words] for stamps in self._wrote.values()))
        return found

    def newest(self, low: int, high: int) -> int:
        """Return the last operation that wrote one of the words from `low` to `high`."""
        newest = -1
        for stamps in self._wrote.values():
            part = stamps[low:high]
            newest = max(newest, part.item(part.argmax()))
        return newest

    def read(self, order: Order, area: Area) -> Late | None:
        """Note that the present operation reads words, which exist; return one that writes them in no order with it."""
        late = None if _certain(self._reading, order, area.low, area.high) else self._late(order, area, False)
        area.set(self._read[order.unit], order.number)
        return late

    def write(self, order: Order, area: Area) -> Late | None:
        """Note that the present operation writes words, which exist; return one that touches them in no order."""
        late = None if _certain(self._writing, order, area.low, area.high) else self._late(order, area, True)
        area.set(self._wrote[order.unit], order.number)
        return late

    def touch(self, order: Order, words: Index, writes: bool) -> Late | None:
        """Note that the present operation touches words; return one that another unit touches in no order with it."""
        certain = words.size > 0 and _certain(self._writing if writes else self._reading, order, int(words.min()),
                                              int(words.max()) + 1)
        late = None if certain else self._late(order, words, writes)
        (self._wrote if writes else self._read)[order.unit][words] = order.number
        return late

    def _late(self, order: Order, where: Index | Area, writes: bool) -> Late | None:
        """Return the first word that another unit touches in no order with the present operation."""
        first: tuple[int, Unit, int, bool] | None = None
        for unit in sorted({*_WRITERS, *_READERS} if writes else _WRITERS):
            wrote, read = self._wrote.get(unit), self._read.get(unit) if writes else None
            stamps = [_at(stamps, where) for stamps in (wrote, read) if stamps is not None]
            found: Stamps = stamps[0] if len(stamps) == 1 else np.maximum(*stamps)
            late = found.reshape(-1) >= order.limit(unit)
            if late.any() and (first is None or int(late.argmax()) < first[0]):
                at = int(late.argmax())
                number = int(found.reshape(-1)[at])
                first = at, unit, number, wrote is not None and int(_at(wrote, where).reshape(-1)[at]) == number
        if first is None:
            return None
        at, unit, number, wrote_it = first
        places = where.places() if isinstance(where, Area) else where
        return int(places.reshape(-1)[at]), unit, bisect_left(order.numbers[unit], number), wrote_it


def _certain(stamps_by: list[tuple[Unit, list[Stamps]]], order: Order, low: int, high: int) -> bool:
    """Whether all that touched a word from `low` to `high` is done when the present operation begins."""
    known, all_numbers, own = order.known, order.numbers, order.unit
    for unit, stamps_of in stamps_by:
        numbers, at = all_numbers[unit], known[unit] + 1
        if at < len(numbers) and unit is not own:
            limit = numbers[at]
            for stamps in stamps_of:
                part = stamps[low:high]
                if part.item(part.argmax()) >= limit:
                    return False
    return True


def _at(stamps: Stamps, where: Index | Area) -> Stamps:
    found: Stamps = where.view(stamps) if isinstance(where, Area) else stamps[where]
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

    def at(self, offset: int) -> "Runs":
        """Return the same runs, `offset` bytes farther on."""
        return Runs(self.first + offset, self.counts, self.steps, self.size, self.low + offset, self.high + offset)

    def offsets(self) -> Index:
        """Return all offsets."""
        return Area.of(self.first, self.counts, self.steps).places().reshape(-1)


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
        if b"\1" not in near.tobytes():
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
    return memory_runs(f, size).at(f["memory_offset_bytes"])


def memory_runs(f: Mapping[str, int], size: int) -> Runs:
    """Runs of bytes that a load or a store touches, from its `memory_offset_bytes` on."""
    return Runs.of(0, (f["count3"], f["count2"]), (f["stride3_bytes"], f["stride2_bytes"]), size)
