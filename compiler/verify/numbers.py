"""A number for every byte that a program handles: it identifies the tensor, the element and the writer.

Two bytes are the same if they have the same number. A tensor gets new numbers whenever it is written, so numbers also
distinguish versions.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LAST_FILL", "NOTHING", "Bytes", "Flags", "Index", "Numbers"]

#: Numbers of bytes, of an integer type that holds them all.
Bytes = npt.NDArray[Any]
#: Addresses, and differences of addresses.
Index = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

#: The number of an unwritten byte.
NOTHING = 0
_FILL, _IMAGE = 1, 257
#: The last number of a fill byte; a word of fill has one number in all bytes.
LAST_FILL = 256


@dataclass
class _Owner:
    name: str
    maker: str
    shape: tuple[int, ...]


@dataclass
class Numbers:
    """Allocates numbers.

    Members
    -------
    image : bytes of region 0; each has a number, as has each value of fill bytes
    coded : decoded bytes of the image's coded runs, which have the numbers after those
    total : how many further numbers are needed
    dtype : type of arrays of numbers
    flipped, looked_up : bits of a number: the byte's bit 7 is inverted; the byte was looked up in a layer's table
    """

    image: bytes
    total: int
    coded: bytes = b""
    dtype: np.dtype[Any] = field(init=False)
    flipped: int = field(init=False)
    looked_up: int = field(init=False)
    _bases: list[int] = field(default_factory=list)
    _owners: list[_Owner] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose a type with two bits to spare."""
        self._bytes = self.image + self.coded
        self._constants = np.concatenate([np.zeros(1, np.uint8), np.arange(256, dtype=np.uint8),
                                          np.frombuffer(self._bytes, np.uint8)])
        self._next = len(self._constants)
        #: The byte of each number; none for NOTHING and for the first number that is not a constant.
        self._values = np.append(self._constants.astype(np.int16), np.int16(-1))
        self._values[NOTHING] = -1
        bits = 31 if self._next + self.total < 1 << 29 else 63
        self.dtype = np.dtype(np.int32 if bits == 31 else np.int64)
        self.flipped, self.looked_up = 1 << bits - 1, 1 << bits - 2

    def allocate(self, size: int, name: str, maker: str, shape: Sequence[int] = ()) -> int:
        """Return the first of `size` numbers for a value that `maker` writes."""
        self._bases.append(self._next)
        self._owners.append(_Owner(name, maker, tuple(shape)))
        self._next += size
        assert self._next < self.looked_up, "more numbers than were asked for"
        return self._bases[-1]

    def consecutive(self, first: int, size: int) -> Bytes:
        """Return `size` numbers from `first` on."""
        return np.arange(first, first + size, dtype=self.dtype)

    @staticmethod
    def fill(value: int) -> int:
        """Return the number of a fill byte."""
        return _FILL + (value & 0xFF)

    @staticmethod
    def constant(offset: int) -> int:
        """Return the number of byte `offset` of the image."""
        return _IMAGE + offset

    def values(self, numbers: Bytes) -> npt.NDArray[np.uint8] | None:
        """Return the bytes of constants and fill; None if one of the numbers is of neither."""
        values = self._values.take(numbers, mode="clip")
        return None if values.min(initial=0) < 0 else values.astype(np.uint8)

    def are(self, numbers: Bytes, values: npt.NDArray[np.uint8]) -> bool:
        """Whether numbers are of constants or fill bytes with these values."""
        return bool((self._values.take(numbers, mode="clip") == values).all())

    def is_constant(self, first: int, size: int, data: bytes) -> bool:
        """Whether `size` numbers from `first` on are of these bytes of the image, or of its decoded runs."""
        at = first - _IMAGE
        return at >= 0 and at + size <= len(self._bytes) and self._bytes[at:at + size] == data

    def stale(self, numbers: Bytes) -> Flags:
        """Whether numbers are of bytes that the next inference writes again."""
        return numbers >= len(self._constants)

    def describe(self, number: int) -> str:
        """Describe a byte."""
        if number <= NOTHING:
            return "nothing"
        extra = ""
        if number & self.flipped:
            number, extra = number ^ self.flipped, ", bit 7 inverted"
        if number & self.looked_up:
            number, extra = number ^ self.looked_up, ", looked up" + extra
        if number < _IMAGE:
            return f"a fill byte of {number - _FILL}{extra}"
        if number < len(self._constants):
            at = number - _IMAGE - len(self.image)
            return f"byte {at} of coded rows{extra}" if at >= 0 else f"byte {number - _IMAGE} of the image{extra}"
        at = bisect_right(self._bases, number) - 1
        owner, byte = self._owners[at], number - self._bases[at]
        place = f"byte {byte}"
        if owner.shape:
            place = f"element {[int(axis) for axis in np.unravel_index(byte, owner.shape)]}"
        return f"{place} of {owner.name!r}, made by {owner.maker}{extra}"
