"""Which operations are certainly done when another one begins: tokens, and units that work in order.

A stream is replayed in program order. That is what the hardware does, too, whatever the units' speeds, if every two
operations that touch the same word or byte, one of them writing, stand in that order: this is checked for each of them.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.stream.stream import Operation
from tq_hw.compiler.verify.numbers import Index
from tq_hw.isa.layout import Unit
from tq_hw.model.errors import DataflowError

__all__ = ["Late", "Order", "Touched"]

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
    unit, run : the present operation
    """

    known: list[int] = field(default_factory=lambda: [-1] * _UNITS)
    runs: list[int] = field(default_factory=lambda: [-1] * _UNITS)
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
        done = self._last[unit] = known.copy()
        done[unit] = self.run
        self._done[unit].append(done)
        for taker, count in operation.post.items():
            self._given[unit][taker] += [self.run] * count


class Touched:
    """The last operation of each unit that read, and that wrote, each place of one memory."""

    def __init__(self, size: int, readers: tuple[Unit, ...], writers: tuple[Unit, ...]) -> None:
        self._stamps = [(unit, False, np.full(size, -1, np.int32)) for unit in readers]
        self._stamps += [(unit, True, np.full(size, -1, np.int32)) for unit in writers]
        self._mine: dict[tuple[Unit, bool], Stamps] = {(unit, wrote): stamps for unit, wrote, stamps in self._stamps}

    def touch(self, order: Order, where: Index, writes: bool) -> Late | None:
        """Note that the present operation touches places; return one that another unit touches in no order with it."""
        for unit, wrote, stamps in self._stamps:
            known = order.known[unit]
            if unit is order.unit or not (writes or wrote) or known == order.runs[unit]:
                continue
            found = stamps[where]
            if found.max(initial=-1) > known:
                late = np.flatnonzero(found > known)[0]
                return int(where.reshape(-1)[late]), unit, int(found.reshape(-1)[late]), wrote
        self._mine[order.unit, writes][where] = order.run
        return None
