"""A region of memory: for each piece of some bytes how far its numbers lie from their places, where they follow.

Tensors lie dense in memory, so this distance is mostly the same for all of a transfer. Pieces in which numbers do not
follow each other have a number for each byte.
"""

import sys
from math import gcd

import numpy as np

from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.numbers import Bytes, Index
from tq_hw.isa.sizes import ceil_div

__all__ = ["MemoryBytes"]

_MOST_BYTES = 8
#: A piece whose bytes have a number each.
_EACH = -(1 << 62)


class MemoryBytes:
    """`size` bytes, of which none was written; words have `width` of them."""

    def __init__(self, size: int, width: int, dtype: "np.dtype[np.generic]") -> None:
        self.size = size
        self._piece = gcd(width, _MOST_BYTES)
        pieces = ceil_div(size, self._piece)
        self._distances: Index = np.full(pieces, _EACH, np.int64)
        self._each: Bytes = np.zeros((pieces, self._piece), dtype)

    def at(self, places: Index) -> Bytes:
        """Return the numbers of bytes."""
        distances = self._distances.take(places // self._piece)
        return np.where(distances == _EACH, self._each.reshape(-1).take(places), distances + places).astype(
            self._each.dtype)

    def distance(self, first: int, counts: tuple[int, int], steps: tuple[int, int], size: int) -> int | None:
        """Return what is added to the places of all bytes of some runs, if numbers follow each other in all of them."""
        if any(count > 1 and step % self._piece for count, step in zip(counts, steps, strict=True)):
            return None
        pieces = (first + size - 1) // self._piece + 1 - first // self._piece
        found = self._pieces(first, counts, steps, pieces).view(self._distances).tobytes()
        if found != found[:8] * (len(found) >> 3):
            return None
        distance = int.from_bytes(found[:8], sys.byteorder, signed=True)
        return None if distance == _EACH else distance

    def _pieces(self, first: int, counts: tuple[int, int], steps: tuple[int, int], pieces: int) -> Area:
        return Area(first // self._piece, (*counts, pieces), (steps[0] // self._piece, steps[1] // self._piece, 1))

    def put(self, places: Index, values: Bytes) -> None:
        """Write numbers of bytes."""
        self.split(int(places.min()), int(places.max()) + 1)
        self._each.reshape(-1)[places] = values

    def split(self, low: int, high: int) -> Bytes:
        """Give each byte from `low` to `high` a number of its own; return the numbers of all, of which those are."""
        begin, end = low // self._piece, (high - 1) // self._piece + 1
        distances = self._distances[begin:end]
        which = np.flatnonzero(distances != _EACH)
        if which.size:
            places = (begin + which)[:, None] * self._piece + np.arange(self._piece)
            self._each[begin + which] = distances[which, None] + places
            distances[which] = _EACH
        return self._each.reshape(-1)

    def put_runs(self, first: int, counts: tuple[int, int], steps: tuple[int, int], size: int, distance: int) -> bool:
        """Write runs whose numbers are `distance` from their places; whether they are whole pieces."""
        if first % self._piece or size % self._piece or any(
                count > 1 and step % self._piece for count, step in zip(counts, steps, strict=True)):
            return False
        self._pieces(first, counts, steps, size // self._piece).set(self._distances, distance)
        return True

    def fill(self, first: int, numbers: Bytes) -> None:
        """Write numbers that follow each other."""
        size = numbers.size
        whole = size // self._piece * self._piece
        if whole and not self.put_runs(first, (1, 1), (0, 0), whole, int(numbers[0]) - first):
            whole = 0
        if whole < size:
            self.put(np.arange(first + whole, first + size), numbers[whole:])

    def slice(self, first: int, size: int) -> Bytes:
        """Return the numbers of bytes that follow each other."""
        return self.at(np.arange(first, first + size))
