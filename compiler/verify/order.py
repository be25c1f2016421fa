"""The operations that are certain to be done when another one begins, by tokens and the order within units.

A stream is replayed in program order. The hardware gives the same results at any speed of the units if all conflicting
operations (on one word or byte, at least one of them writing) are executed in that order. Every access is checked for
this.
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

#: The units by number; number 0 has no operations.
_UNITS = len(Unit)
#: Units that write words, and that read them.
_WRITERS, _READERS = (Unit.LOAD, Unit.VECTOR), (Unit.ARRAY, Unit.VECTOR, Unit.STORE)
#: A number after all operations.
_NEVER = 1 << 62
Stamps = npt.NDArray[np.int32]
#: An address, and another unit's operation there that no token orders: unit, RUN, whether it writes.
Late = tuple[int, Unit, int, bool]


@dataclass
class Order:
    """Tracks the tokens.

    Members
    -------
    known : by unit, its last operation that is certain to be done when the current one begins
    runs : by unit, its last operation in program order
    numbers : by unit, the program-order number of each of its operations
    unit, run, number : the current operation, and its program-order number
    """

    known: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    runs: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    numbers: list[list[int]] = field(default_factory=lambda: [[] for _ in range(_UNITS)])
    unit: Unit = Unit.CONTROL
    run: int = -1
    number: int = -1
    #: By unit and operation, the operations known to be done when it was done; those known at its begin are in `_last`.
    _done: list[list[list[int]]] = field(default_factory=lambda: [[] for _ in range(_UNITS)])
    _last: list[list[int]] = field(default_factory=lambda: [[-1] * _UNITS for _ in range(_UNITS)])
    #: By posting and taking unit: the operation that posted each token; the number of taken tokens.
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
                raise DataflowError(f"it waits for token {taken} of the {giver.name.lower()} unit, but the operations "
                                    f"before it give only {len(given)}")
            if count:
                known = list(map(max, known, self._done[giver][given[taken - 1]]))
        self.known = known
        done = self._last[unit] = known.copy()
        done[unit] = self.run
        self._done[unit].append(done)
        for taker, count in operation.post.items():
            self._given[unit][taker] += [self.run] * count


    def limit(self, unit: Unit) -> int:
        """Return the number of the first operation of another unit that may not be done; _NEVER if all are done."""
        numbers, at = self.numbers[unit], self.known[unit] + 1
        return numbers[at] if at < len(numbers) and unit is not self.unit else _NEVER


class Touched:
    """For each word and unit, the program-order numbers of the last read and the last write."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._wrote: dict[Unit, Stamps] = {unit: np.full(size, -1, np.int32) for unit in _WRITERS}
        self._read: dict[Unit, Stamps] = {unit: np.full(size, -1, np.int32) for unit in _READERS}
        #: By unit, the accesses that a read and that a write must come after.
        self._reading = [(unit, [stamps]) for unit, stamps in self._wrote.items()]
        self._writing = [(unit, [stamps[unit] for stamps in (self._wrote, self._read) if unit in stamps])
                         for unit in sorted({*_WRITERS, *_READERS})]

    def writers(self, words: Index) -> Stamps:
        """Return the program-order numbers of the last writers of words, -1 for none."""
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
        """Record that the current operation reads existing words; return an unordered writer, if any."""
        late = None if _certain(self._reading, order, area.low, area.high) else self._late(order, area, False)
        area.set(self._read[order.unit], order.number)
        return late

    def write(self, order: Order, area: Area) -> Late | None:
        """Record that the current operation writes existing words; return an unordered access, if any."""
        late = None if _certain(self._writing, order, area.low, area.high) else self._late(order, area, True)
        area.set(self._wrote[order.unit], order.number)
        return late

    def touch(self, order: Order, words: Index, writes: bool) -> Late | None:
        """Record an access of the current operation to words; return an unordered access of another unit, if any."""
        certain = words.size > 0 and _certain(self._writing if writes else self._reading, order, int(words.min()),
                                              int(words.max()) + 1)
        late = None if certain else self._late(order, words, writes)
        (self._wrote if writes else self._read)[order.unit][words] = order.number
        return late

    def _late(self, order: Order, where: Index | Area, writes: bool) -> Late | None:
        """Return the first word with an unordered access of another unit."""
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
    """Whether all accesses to words `low` to `high` are done when the current operation begins."""
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
    low, high : range [low, high) of bytes
    """

    first: int
    counts: tuple[int, int]
    steps: tuple[int, int]
    size: int
    low: int
    high: int

    @classmethod
    def of(cls, first: int, counts: tuple[int, int], steps: tuple[int, int], size: int) -> "Runs":
        """Return the runs of two loops."""
        ends = [(count - 1) * step for count, step in zip(counts, steps, strict=True)]
        return cls(first, counts, steps, size, first + sum(min(end, 0) for end in ends),
                   first + sum(max(end, 0) for end in ends) + size)

    def at(self, offset: int) -> "Runs":
        """Return the same runs, `offset` bytes further."""
        return Runs(self.first + offset, self.counts, self.steps, self.size, self.low + offset, self.high + offset)

    def offsets(self) -> Index:
        """Return all offsets."""
        return Area.of(self.first, self.counts, self.steps).places().reshape(-1)


class Pending:
    """Operations of one unit on a memory region that another does not know to be done; each accesses runs of bytes.

    The knowledge of the other unit only grows, so operations that it knows to be done are forgotten.
    """

    def __init__(self) -> None:
        self._runs: list[int] = []
        self._touched: list[Runs] = []
        #: Range [low, high) of each operation's bytes; those from `_begin` on are pending.
        self._ends = np.zeros((2, 64), np.int64)
        self._begin = 0

    def add(self, run: int, runs: Runs) -> None:
        """Record the accesses of operation `run`."""
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
        """Return a byte of some runs that an operation after `known` accesses, and that operation; else None."""
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
    """Return a byte that both runs have, None if there is none."""
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
    """Return the bytes that a store writes."""
    size = f["count1"] * ((f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"])
    return memory_runs(f, size).at(f["memory_offset_bytes"])


def memory_runs(f: Mapping[str, int], size: int) -> Runs:
    """Return the runs of bytes that a load or store accesses, from its `memory_offset_bytes` on."""
    return Runs.of(0, (f["count3"], f["count2"]), (f["stride3_bytes"], f["stride2_bytes"]), size)
