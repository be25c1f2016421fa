"""A memory region: for each piece of bytes with consecutive numbers, the difference between number and offset.

Tensors are dense in memory, so the difference is usually the same for a whole transfer. Pieces without consecutive
numbers have a number for each byte.
"""

import sys
from math import gcd
from typing import Any

import numpy as np

from tq_hw.compiler.verify.areas import Area, form_of
from tq_hw.compiler.verify.numbers import Bytes, Index
from tq_hw.compiler.verify.order import Runs
from tq_hw.isa.sizes import ceil_div

__all__ = ["MemoryBytes"]

_MOST_BYTES = 8
#: Runs that are not whole pieces are read with the bytes around them, up to this multiple of their size.
_AROUND = 4
#: Bytes that are compared at a time.
_AT_ONCE = 1 << 16


class MemoryBytes:
    """`size` bytes, initially unwritten; words have `width` bytes."""

    def __init__(self, size: int, width: int, dtype: "np.dtype[np.signedinteger[Any]]") -> None:
        self.size = size
        self._piece = gcd(width, _MOST_BYTES)
        pieces = ceil_div(size, self._piece)
        #: The distance that marks a piece with a number for each byte.
        self._own = int(np.iinfo(dtype).min)
        self._distances: Index = np.full(pieces, self._own, dtype)
        self._each: Bytes = np.zeros((pieces, self._piece), dtype)

    def at(self, places: Index) -> Bytes:
        """Return the numbers of bytes."""
        distances = self._distances.take(places // self._piece)
        return np.where(distances == self._own, self._each.reshape(-1).take(places), distances + places).astype(
            self._each.dtype)

    def distance(self, runs: Runs) -> int | None:
        """Return the common difference between number and offset of all bytes of some runs; None if there is none."""
        piece = self._piece
        if any(step % piece for count, step in zip(runs.counts, runs.steps, strict=True) if count > 1):
            # The whole range around the runs, if it is not much larger.
            if runs.high - runs.low > _AROUND * runs.size * runs.counts[0] * runs.counts[1]:
                return None
            pieces = self._distances[runs.low // piece:(runs.high - 1) // piece + 1]
        else:
            pieces = self._pieces(runs, (runs.first + runs.size - 1) // piece + 1 - runs.first // piece).view(
                self._distances)
        found = pieces.tobytes()
        size = pieces.itemsize
        if found != found[:size] * (len(found) // size):
            return None
        distance = int.from_bytes(found[:size], sys.byteorder, signed=True)
        return None if distance == self._own else distance

    def _pieces(self, runs: Runs, pieces: int) -> Area:
        (outer, inner), piece = runs.steps, self._piece
        return Area(runs.first // piece, form_of((*runs.counts, pieces), (outer // piece, inner // piece, 1)))

    def put(self, places: Index, values: Bytes) -> None:
        """Write numbers of bytes."""
        self.split(int(places.min()), int(places.max()) + 1)
        self._each.reshape(-1)[places] = values

    def split(self, low: int, high: int) -> Bytes:
        """Store a number for each byte from `low` to `high`; return the array of all such numbers."""
        begin, end = low // self._piece, (high - 1) // self._piece + 1
        distances = self._distances[begin:end]
        which = np.flatnonzero(distances != self._own)
        if which.size:
            places = (begin + which)[:, None] * self._piece + np.arange(self._piece)
            self._each[begin + which] = distances[which, None] + places
            distances[which] = self._own
        return self._each.reshape(-1)

    def put_runs(self, runs: Runs, distance: int) -> bool:
        """Write runs whose numbers are their offsets plus `distance`; return False if they are not whole pieces."""
        piece = self._piece
        if runs.first % piece or runs.size % piece or any(
                step % piece for count, step in zip(runs.counts, runs.steps, strict=True) if count > 1):
            return False
        self._pieces(runs, runs.size // piece).set(self._distances, distance)
        return True

    def fill(self, first: int, numbers: Bytes) -> None:
        """Write consecutive numbers."""
        size = numbers.size
        whole = size // self._piece * self._piece
        if whole and not self.put_runs(Runs.of(first, (1, 1), (0, 0), whole), int(numbers[0]) - first):
            whole = 0
        if whole < size:
            self.put(np.arange(first + whole, first + size), numbers[whole:])

    def slice(self, first: int, size: int) -> Bytes:
        """Return the numbers of consecutive bytes."""
        return self.at(np.arange(first, first + size))

    def differs(self, first: int, wanted: Bytes) -> int | None:
        """Return the index of the first of consecutive bytes whose number differs from `wanted`; None if none does."""
        for low in range(0, wanted.size, _AT_ONCE):
            part = wanted[low:low + _AT_ONCE]
            wrong = self.slice(first + low, part.size) != part
            if wrong.any():
                return low + int(wrong.argmax())
        return None
