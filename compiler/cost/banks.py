"""Bank conflicts in the scratchpad: the extra cycles of an operation because of accesses with higher priority.

Both walk through the banks with constant steps, so conflicts are not random: after one conflict, a walk may never
conflict again, or at every access. A stretch of both walks is therefore simulated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tq_hw.isa.config import BANKS

__all__ = ["BankLog", "Masks", "refused", "walk_banks", "write_masks"]

#: Simulated words, and starting points within the higher-priority accesses.
_WORDS, _STARTS = 48, 4
#: Bit masks of the banks in use, cycle by cycle, repeating.
Masks = bytes


@dataclass(frozen=True)
class _Walk:
    """Words that operation `key` requests from `begin` on, in `cycles` cycles without conflicts."""

    key: int
    begin: int
    cycles: int
    words: int
    banks: tuple[int, ...]


@dataclass
class BankLog:
    """A log of bank accesses.

    Members
    -------
    array, vector_reads, vector_writes : begin, end and banks of accesses with priority over others
    streams, loads, stores : walks that wait for the array; for the vector unit's writes; for the array and the vector
        unit's reads
    """

    array: list[tuple[int, int, Masks]] = field(default_factory=list)
    vector_reads: list[tuple[int, int, Masks]] = field(default_factory=list)
    vector_writes: list[tuple[int, int, Masks]] = field(default_factory=list)
    streams: list[_Walk] = field(default_factory=list)
    loads: list[_Walk] = field(default_factory=list)
    stores: list[_Walk] = field(default_factory=list)

    def walk(self, walks: list[_Walk], key: int, begin: int, cycles: int, words: int, banks: tuple[int, ...]) -> None:
        """Append to `streams`, `loads` or `stores`."""
        if words and cycles > 0:
            walks.append(_Walk(key, begin, cycles, words, banks))

    def waits(self) -> dict[int, int]:
        """Return the delays of operations in cycles, by key."""
        found: dict[int, float] = {}
        for walks, before in ((self.streams, self.array), (self.loads, self.vector_writes),
                              (self.stores, self.array), (self.stores, self.vector_reads)):
            for key, lost in _meet(walks, before):
                found[key] = found.get(key, 0.0) + lost
        return {key: round(lost) for key, lost in found.items() if round(lost)}


def _meet(walks: Sequence[_Walk], before: Sequence[tuple[int, int, Masks]]) -> list[tuple[int, float]]:
    """Return the cycles that each walk loses to higher-priority accesses; both are sorted by begin."""
    found, first = [], 0
    for walk in walks:
        while first < len(before) and before[first][1] <= walk.begin:
            first += 1
        end, lost = walk.begin + walk.cycles, 0.0
        for number in range(first, len(before)):
            low, high, masks = before[number]
            if low >= end:
                break
            met = min(end, high) - max(walk.begin, low)
            lost += met * walk.words / walk.cycles * refused(walk.banks, max(1, walk.cycles // walk.words), masks)
        if lost:
            found.append((walk.key, lost))
    return found


@lru_cache(maxsize=1 << 14)
def refused(banks: tuple[int, ...], pace: int, masks: Masks) -> float:
    """Return the average wait of a word, if one is requested every `pace` cycles."""
    lost, size = 0, len(masks)
    for start in range(_STARTS):
        at = start * size // _STARTS + start
        for number in range(_WORDS):
            bank = 1 << banks[number % len(banks)]
            waited = 0
            while masks[at % size] & bank and waited < size:
                at, waited = at + 1, waited + 1
            lost += waited
            at += pace
    return lost / (_WORDS * _STARTS)


def walk_banks(f: Mapping[str, int], loops: tuple[tuple[str, str], ...], base: int) -> tuple[int, ...]:
    """Return the banks of the first words of loops, innermost first; a loop is its count and step fields."""
    return _walk(tuple((max(1, f.get(count, 1)), f.get(step, 0) % BANKS) for count, step in loops), base % BANKS)


@lru_cache(maxsize=1 << 12)
def _walk(loops: tuple[tuple[int, int], ...], base: int) -> tuple[int, ...]:
    found = []
    for number in range(_WORDS):
        place, rest = base, number
        for count, step in loops:
            rest, here = divmod(rest, count)
            place += here * step
        if rest:
            break
        found.append(place % BANKS)
    return tuple(found)


@lru_cache(maxsize=1 << 12)
def write_masks(banks: tuple[int, ...], pace: int) -> Masks:
    """Return the bank masks of words that are written every `pace` cycles."""
    return bytes(mask for bank in banks for mask in (1 << bank, *(0,) * (pace - 1)))
