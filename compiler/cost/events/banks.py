"""Requests to the scratchpad's banks in each cycle, from units with priority over others."""

from dataclasses import dataclass, field

from tq_hw.compiler.cost.array_cycles import ArrayTile
from tq_hw.isa.latency import BANK_KNOWN_CYCLES

__all__ = ["BankLog", "Lane"]


class Lane:
    """Bit masks of occupied banks, cycle by cycle.

    Members
    -------
    banks : masks from cycle 0 on; no bank is occupied after their end
    """

    def __init__(self) -> None:
        self.banks = bytearray()

    def put(self, at: int, banks: bytes | bytearray) -> None:
        """Occupy banks from a cycle on, in addition to those occupied before."""
        mine = self.banks
        if at > len(mine):
            mine.extend(bytes(at - len(mine)))
        for place in range(at, min(len(mine), at + len(banks))):
            mine[place] |= banks[place - at]
        mine += banks[len(mine) - at:]

    def quiet(self, begin: int, end: int) -> bool:
        """Whether no bank is occupied in cycles [begin, end)."""
        return not any(self.banks[begin:end])

    def free(self, at: int, bank: int) -> int:
        """Return the first cycle from `at` on in which a bank, given as a bit, is free."""
        banks, end = self.banks, len(self.banks)
        while at < end and banks[at] & bank:
            at += 1
        return at


@dataclass(frozen=True)
class BankLog:
    """Clients by priority: all others wait for the array, and stores also for the vector unit's reads.

    Members
    -------
    array : requests of feeds and weights, in the cycle in which they block the others
    reads, writes : requests of the vector unit
    """

    array: Lane = field(default_factory=Lane)
    reads: Lane = field(default_factory=Lane)
    writes: Lane = field(default_factory=Lane)

    def put_tile(self, tile: ArrayTile, start: int) -> None:
        """Record the reads of an array tile, from its first slot on."""
        at = start + BANK_KNOWN_CYCLES
        for asked in tile.banks:
            self.array.put(at, asked)
            at += len(asked)
