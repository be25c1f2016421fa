"""What is asked of the scratchpad's banks in each cycle, by those whom others must wait for."""

from dataclasses import dataclass, field

from tq_hw.compiler.cost.array_cycles import ArrayTile
from tq_hw.isa.latency import BANK_KNOWN_CYCLES

__all__ = ["BankLog", "Lane"]


class Lane:
    """Banks that are taken, a bit for each, cycle by cycle.

    Members
    -------
    banks : from cycle 0 on; nothing is taken after its end
    """

    def __init__(self) -> None:
        self.banks = bytearray()

    def put(self, at: int, banks: bytes | bytearray) -> None:
        """Take banks from a cycle on; what was taken there before remains so."""
        mine = self.banks
        if at > len(mine):
            mine.extend(bytes(at - len(mine)))
        for place in range(at, min(len(mine), at + len(banks))):
            mine[place] |= banks[place - at]
        mine += banks[len(mine) - at:]

    def quiet(self, begin: int, end: int) -> bool:
        """Whether nothing is taken from one cycle to before another."""
        return not any(self.banks[begin:end])

    def free(self, at: int, bank: int) -> int:
        """Return the first cycle from `at` on in which a bank, one bit, is not taken."""
        banks, end = self.banks, len(self.banks)
        while at < end and banks[at] & bank:
            at += 1
        return at


@dataclass(frozen=True)
class BankLog:
    """The clients in their order: an array's request is met by others, and the vector unit's reads by stores.

    Members
    -------
    array : what feeds and weights ask for, in the cycle in which the others know of it
    reads, writes : of the vector unit
    """

    array: Lane = field(default_factory=Lane)
    reads: Lane = field(default_factory=Lane)
    writes: Lane = field(default_factory=Lane)

    def put_tile(self, tile: ArrayTile, start: int) -> None:
        """Note what a tile of the array reads, from its first slot on."""
        at = start + BANK_KNOWN_CYCLES
        for asked in tile.banks:
            self.array.put(at, asked)
            at += len(asked)
