"""Contents of a layer's input or output: the numbers of its dense bytes, at its place in the root."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tq_hw.compiler.ir.value import Pitch
from tq_hw.compiler.verify.numbers import Bytes, Index, Numbers
from tq_hw.model.errors import DataflowError

__all__ = ["Found", "grid_of"]

_FEW = 4096


def _check_place(size: int, place: Pitch, shape: tuple[int, int, int, int]) -> None:
    n, h, w, c = shape
    last = place.offset_bytes + (n * h - 1) * place.row_bytes + (w - 1) * place.pixel_bytes + c
    if min(place.offset_bytes, place.row_bytes, place.pixel_bytes) < 0 or last > size:
        raise DataflowError(f"a tensor of shape {shape} at {place} does not fit one of {size} bytes")


def grid_of(array: Bytes, place: Pitch, shape: tuple[int, int, int, int]) -> Bytes:
    """Return a view of a tensor in the bytes of its root, [rows of all images, columns, channels]; DataflowError."""
    _check_place(array.size, place, shape)
    n, h, w, c = shape
    steps = (place.row_bytes, place.pixel_bytes, 1)
    return as_strided(array[place.offset_bytes:], (n * h, w, c), [step * array.itemsize for step in steps])


def _grid(rows: int, cols: int, channels: int, row_step: int, col_step: int, dtype: np.dtype[Any]) -> Bytes:
    grid: Bytes = (np.arange(rows, dtype=dtype)[:, None, None] * row_step
                   + np.arange(cols, dtype=dtype)[:, None] * col_step + np.arange(channels, dtype=dtype))
    return grid


_small_grid = lru_cache(maxsize=1024)(_grid)


@dataclass(frozen=True, eq=False)
class Found:
    """Numbers of a value's dense bytes, which are in `there` at `place`.

    Members
    -------
    there, size : numbers of all bytes of the value's root, or only the first if they are consecutive; their count
    """

    there: Bytes | int
    size: int
    place: Pitch
    shape: tuple[int, int, int, int]
    numbers: Numbers

    def __post_init__(self) -> None:
        """Check that the value is inside its root."""
        _check_place(self.size, self.place, self.shape)

    @cached_property
    def begin(self) -> int | None:
        """Number of the first dense byte, if those of all dense bytes are consecutive; else None."""
        _, _, w, c = self.shape
        if not isinstance(self.there, int) or (self.place.row_bytes, self.place.pixel_bytes) != (w * c, c):
            return None
        return self.there + self.place.offset_bytes

    def array(self) -> Bytes:
        """Return the numbers of all bytes of the root."""
        return self.numbers.consecutive(self.there, self.size) if isinstance(self.there, int) else self.there

    def grid(self) -> Bytes:
        """Return the numbers [rows of all images, columns, channels]."""
        n, h, w, _ = self.shape
        return self.pixels(slice(0, n * h), slice(0, w))

    def pixels(self, rows: "slice | Index", cols: "slice | Index") -> Bytes:
        """Return the numbers [row, column, channel] of some rows, which count over all images, and columns."""
        place, (_, _, _, c) = self.place, self.shape
        if not isinstance(self.there, int):
            found: Bytes = grid_of(self.there, place, self.shape)[rows][:, cols]
            return found
        first, dtype = self.there + place.offset_bytes, self.numbers.dtype
        if isinstance(rows, slice) and isinstance(cols, slice):
            sizes = rows.stop - rows.start, cols.stop - cols.start, c
            make = _small_grid if sizes[0] * sizes[1] * c <= _FEW else _grid
            grid: Bytes = make(*sizes, place.row_bytes, place.pixel_bytes, dtype) + (
                first + rows.start * place.row_bytes + cols.start * place.pixel_bytes)
            return grid
        row, col = (np.arange(axis.start, axis.stop) if isinstance(axis, slice) else axis for axis in (rows, cols))
        places: Bytes = (first + row[:, None] * place.row_bytes + col * place.pixel_bytes).astype(dtype)
        numbers: Bytes = places[..., None] + np.arange(c, dtype=dtype)
        return numbers

    def of_rows(self, rows: Index, at: Index) -> Bytes:
        """Return the numbers [row, ...] of bytes `at` of some rows, which count over all images."""
        _, _, w, c = self.shape
        place = self.place
        if isinstance(self.there, int) and place.pixel_bytes == c:
            numbers: Bytes = ((self.there + place.offset_bytes + rows * place.row_bytes).reshape(-1, *[1] * at.ndim)
                              + at).astype(self.numbers.dtype)
            return numbers
        return self.pixels(rows, slice(0, w)).reshape(len(rows), w * c)[:, at]

    def equals(self, other: "Found") -> bool:
        """Whether all bytes are the same, for any rows and columns."""
        if isinstance(self.there, int) and (self.there, self.place, self.shape) == (
                other.there if isinstance(other.there, int) else None, other.place, other.shape):
            return True
        return np.array_equal(self.grid().reshape(-1), other.grid().reshape(-1))

    def at(self, offsets: Index) -> Index:
        """Return the offsets of dense bytes in the root."""
        _, _, w, c = self.shape
        place = self.place
        if place.pixel_bytes == c and place.row_bytes == w * c:
            return offsets + place.offset_bytes
        pixel, channel = np.divmod(offsets, c)
        row, col = np.divmod(pixel, w)
        places: Index = place.offset_bytes + row * place.row_bytes + col * place.pixel_bytes + channel
        return places

    def runs(self, offsets: Index, lanes: Index) -> Bytes:
        """Return the numbers [..., lane] of root bytes from dense bytes on; they have no meaning beyond its end."""
        places = self.at(offsets)[..., None] + lanes
        if isinstance(self.there, int):
            found: Bytes = (places + self.there).astype(self.numbers.dtype)
            return found
        return self.there.take(places, mode="clip")
