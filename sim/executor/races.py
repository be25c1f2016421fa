"""Race detection: tokens or accumulators must order every two conflicting accesses of different units to a word.

Each unit has a vector clock over the four units. Its own entry ticks with each operation, or with each tile if tiles
hand over accumulators. A token carries the giver's clock to the taker.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit

__all__ = ["UNITS_IN_ORDER", "Race", "RaceChecker"]

UNITS_IN_ORDER = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
Stamps = npt.NDArray[np.int32]


class Race(Exception):
    """Two RUNs access the same word in no order: `(unit, run)` of each, the kinds of access, and the place."""

    def __init__(self, first: tuple[Unit, int], did: str, second: tuple[Unit, int], does: str, where: str) -> None:
        super().__init__(where)
        self.first, self.did, self.second, self.does, self.where = first, did, second, does, where


class RaceChecker:
    """The units' clocks, and the last access of each unit to each place.

    Addresses are scratchpad words and single bytes of the regions (keys "scratchpad", 0, 1, 2, 3).
    """

    def __init__(self, sizes: dict[object, int]) -> None:
        self.clocks: dict[Unit, list[int]] = {unit: [0, 0, 0, 0] for unit in UNITS_IN_ORDER}
        self._runs: dict[Unit, list[int]] = {unit: [-1] for unit in UNITS_IN_ORDER}
        self._sizes = sizes
        self._reads: dict[tuple[object, Unit], Stamps] = {}
        self._writes: dict[tuple[object, Unit], Stamps] = {}

    def tick(self, unit: Unit, run: int) -> None:
        """Begin the unit's next event."""
        self.clocks[unit][unit - 1] += 1
        self._runs[unit].append(run)

    def snapshot(self, unit: Unit) -> tuple[int, ...]:
        """Return the unit's clock, to be passed on with a token or a buffer."""
        return tuple(self.clocks[unit])

    def join(self, unit: Unit, clock: tuple[int, ...]) -> None:
        """Order everything that happened before `clock` before the unit's next event."""
        self.clocks[unit] = [max(a, b) for a, b in zip(self.clocks[unit], clock, strict=True)]

    def read(self, unit: Unit, run: int, where: npt.NDArray[Any], place: object = "scratchpad") -> None:
        """Record a read; Race if a write of another unit is not ordered before it."""
        self._check(self._writes, unit, run, where, place, "writes", "reads")
        self._stamps(self._reads, place, unit)[where] = self.clocks[unit][unit - 1]

    def write(self, unit: Unit, run: int, where: npt.NDArray[Any], place: object = "scratchpad") -> None:
        """Record a write; Race if any access of another unit is not ordered before it."""
        self._check(self._writes, unit, run, where, place, "writes", "writes")
        self._check(self._reads, unit, run, where, place, "reads", "writes")
        self._stamps(self._writes, place, unit)[where] = self.clocks[unit][unit - 1]

    def _stamps(self, table: dict[tuple[object, Unit], Stamps], place: object, unit: Unit) -> Stamps:
        if (place, unit) not in table:
            table[place, unit] = np.zeros(self._sizes[place], np.int32)
        return table[place, unit]

    def _check(self, table: dict[tuple[object, Unit], Stamps], unit: Unit, run: int, where: npt.NDArray[Any],
               place: object, did: str, does: str) -> None:
        for other in UNITS_IN_ORDER:
            stamps = table.get((place, other))
            if other is unit or stamps is None:
                continue
            late = stamps[where] > self.clocks[unit][other - 1]
            if late.any():
                at = int(np.asarray(where)[late].flat[0])
                what = f"scratchpad word {at}" if place == "scratchpad" else f"byte {at} of region {place}"
                raise Race((other, self._runs[other][int(stamps[at])]), did, (unit, run), does, what)
