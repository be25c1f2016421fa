"""The scratchpad: one code for each word with consecutive bytes, and the numbers of all bytes of other words.

Nearly all words contain a piece of a tensor, so their contents are a first number and a count of bytes.
"""

import numpy as np

from tq_hw.compiler.verify.numbers import LAST_FILL, NOTHING, Bytes, Index

__all__ = ["MIXED", "SIZE_BITS", "Pad", "code"]

#: The code of a word whose bytes are not consecutive.
MIXED = -1
#: Any other code is the first number, above this many bits with the count of bytes.
SIZE_BITS = 8
_SIZES = (1 << SIZE_BITS) - 1


def code(first: int, size: int) -> int:
    """Return the code of a word with `size` bytes from a number on, and no further bytes."""
    return (first << SIZE_BITS) + size


class Pad:
    """Words of `width` bytes; `codes` has a code for each."""

    def __init__(self, words: int, width: int, dtype: "np.dtype[np.generic]") -> None:
        assert 2 * width < _SIZES, "sizes have their bits"
        self.codes: Index = np.zeros(words, np.int64)
        self._mixed: Bytes = np.zeros((words, width), dtype)
        self._lanes = np.arange(width)

    def bytes(self, words: Index) -> Bytes:
        """Return the numbers of the bytes of words, [..., byte]; IndexError if a word does not exist."""
        codes = self.codes[words]
        first, sizes = codes[..., None] >> SIZE_BITS, codes[..., None] & _SIZES
        found: Bytes = np.where(self._lanes < sizes, first + self._lanes * (first > LAST_FILL), NOTHING).astype(
            self._mixed.dtype)
        mixed = codes == MIXED
        if mixed.any():
            found[mixed] = self._mixed[words[mixed]]
        return found

    def follow(self, codes: Index, low: int, size: int) -> Bytes | None:
        """Return `size` bytes from `low` on of words with these codes; None if a word is mixed or has fill."""
        first = codes >> SIZE_BITS
        if int(first.min()) <= LAST_FILL or int((codes & _SIZES).min()) < low + size:
            return None
        found: Bytes = (first + low).astype(self._mixed.dtype)[..., None] + self._lanes[:size].astype(self._mixed.dtype)
        return found

    def begin(self, words: Index, first: Index, sizes: Index) -> bool:
        """Whether existing words have at least `sizes` consecutive bytes from number `first` on, without fill."""
        if words.size and not 0 <= int(words.min()) <= int(words.max()) < len(self.codes):
            return False
        codes = self.codes[words]
        return bool((codes >> SIZE_BITS == first).all() and ((codes & _SIZES) >= sizes).all())

    def put(self, words: Index, low: int, values: Bytes) -> None:
        """Write the bytes of words from `low` on and keep the others; IndexError if a word does not exist."""
        if values.shape[-1] < len(self._lanes):
            whole = self.bytes(words)
            whole[..., low:low + values.shape[-1]] = values
            values = whole
        sizes = np.count_nonzero(values, axis=-1)
        first = values[..., 0].astype(np.int64)
        follow = first[..., None] + self._lanes * (first > LAST_FILL)[..., None]
        good = (np.where(self._lanes < sizes[..., None], follow, NOTHING) == values).all(axis=-1)
        self.codes[words] = np.where(good, (first << SIZE_BITS) + sizes, MIXED)
        if not good.all():
            self._mixed[words[~good]] = values[~good]

    def all(self) -> Bytes:
        """Return the numbers of all bytes, [word, byte]."""
        return self.bytes(np.arange(len(self.codes)))
