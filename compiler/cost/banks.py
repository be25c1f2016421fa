"""Who waits at the banks of the scratchpad: how much longer an operation takes because of those that go before it.

Both walk through the banks by fixed steps, so whether they meet is no chance: a walk that is refused once may never
meet the other again, or each time. A stretch of both is therefore played through.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tq_hw.isa.config import BANKS

__all__ = ["BankLog", "Masks", "refused", "walk_banks", "write_masks"]

#: Words that are played through, from this many places of what goes before them.
_WORDS, _STARTS = 48, 4
#: Banks that are used, a bit for each, cycle by cycle, again and again.
Masks = bytes


@dataclass(frozen=True)
class _Walk:
    """Words that operation `key` wants from `begin` on, in this many cycles if it is never refused."""

    key: int
    begin: int
    cycles: int
    words: int
    banks: tuple[int, ...]


@dataclass
class BankLog:
    """What was at the banks when.

    Members
    -------
    array, vector_reads, vector_writes : begin, end and banks of what goes before others
    streams, loads, stores : what waits for array; for the vector unit's writes; for array and the vector unit's reads
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
        """Return the cycles by which operations are late, by their keys."""
        found: dict[int, float] = {}
        for walks, before in ((self.streams, self.array), (self.loads, self.vector_writes),
                              (self.stores, self.array), (self.stores, self.vector_reads)):
            for key, lost in _meet(walks, before):
                found[key] = found.get(key, 0.0) + lost
        return {key: round(lost) for key, lost in found.items() if round(lost)}


def _meet(walks: Sequence[_Walk], before: Sequence[tuple[int, int, Masks]]) -> list[tuple[int, float]]:
    """Return what each walk loses to what goes before it; both are in the order of their begin."""
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
    """Return the cycles that a word waits on average, if one is wanted every `pace` cycles."""
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
    """Banks of the first words of loops, innermost first: fields with each one's count and step."""
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
    """Masks of words that are written every `pace` cycles."""
    return bytes(mask for bank in banks for mask in (1 << bank, *(0,) * (pace - 1)))
