"""Checks of folded windows: neighbouring output columns whose kernel rows are one stretch of bytes."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.meaning import Part
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Bytes, Index
from tq_hw.model.errors import DataflowError

__all__ = ["UNKNOWN", "folded"]

#: Offset of a row or column that was not read yet.
UNKNOWN = -1 << 40


def folded(machine: Machine, part: Part) -> None:
    """Check windows [row, window, piece]: kernel columns and channels of neighbouring output columns."""
    f, tile, layer, fold = machine.fields, part.tile, part.tile.layer, part.fold
    assert fold is not None
    if f["kernel_blocks"] != len(fold.steps):
        raise DataflowError(f"it has {f['kernel_blocks']} steps, but its windows need {len(fold.steps)}")
    _, h, w, c = layer.inputs[0].shape
    table = _fold_table(machine, part)
    rows = _rows(table, tile.rows, layer.stride[0], layer.pad[0], h, (f["row_first"], f["row_stride"], f["in_rows"]),
                 f["in_row_step"])
    if rows.elsewhere:
        raise DataflowError("its rows are not those of the layer's windows")
    if rows.outside and f["zero_point"] != layer.pad_value:
        raise DataflowError(f"its padding is {f['zero_point']}, but the layer's is {layer.pad_value}")
    if rows.uneven:
        raise DataflowError("windows that share rows read them at different words")
    columns = np.arange(tile.cols[1])
    words = machine.words(f["in_base"] + rows.offsets[:, None] + columns[:, None] * f["in_col_step"])
    first = ((tile.cols[0] - part.window + columns * tile.col_step) * layer.stride[1] - layer.pad[1]) * c
    windows = _Windows(machine, part, tile.image * h + rows.places, words, first)
    edge = np.flatnonzero((first < 0) | (first + windows.size > w * c))
    if not windows.follow() or not windows.right(edge):
        windows.expect()


class _Rows(NamedTuple):
    """Rows of the image, the offsets of their words [row, piece] from the first word; the error, if any."""

    places: Index
    offsets: Index
    outside: bool
    elsewhere: bool
    uneven: bool


@lru_cache(maxsize=1024)
def _rows(table: tuple[tuple[int, ...], ...], rows: tuple[int, int], stride: int, pad: int, h: int,
          said: tuple[int, int, int], row_step: int) -> _Rows:
    """Return the rows of windows; `said` has the operation's fields: first row, stride, rows."""
    pieces, outs = np.asarray(table), np.arange(rows[1])[:, None]
    places = (rows[0] + outs) * stride - pad + np.arange(len(pieces))
    seen = said[0] + outs * said[1] + np.arange(len(pieces))
    inside = (places >= 0) & (places < h)
    elsewhere = not np.array_equal(inside, (seen >= 0) & (seen < said[2]))
    offsets = outs[:, :, None] * row_step + pieces
    at = np.full((h, pieces.shape[1]), UNKNOWN)
    at[places[inside]] = offsets[inside]
    there = np.flatnonzero(at[:, 0] != UNKNOWN)
    return _Rows(there, at[there], not inside.all(), elsewhere, bool((at[places[inside]] != offsets[inside]).any()))


class _Windows:
    """The expected words [row, window, piece]: bytes of image rows, from each window's first byte on."""

    def __init__(self, machine: Machine, part: Part, rows: Index, words: Index, first: Index) -> None:
        self.machine, self.layer, self.rows, self.words, self.first = machine, part.tile.layer, rows, words, first
        fold, width = part.fold, machine.config.word_bytes
        assert fold is not None
        self._pieces = np.arange(fold.pieces) * width
        self.lanes = self._pieces[:, None] + np.arange(width)
        #: Bytes of a window; later bytes may have any value.
        self.size = (self.layer.kernel[1] + (fold.columns - 1) * self.layer.stride[1]) * self.layer.inputs[0].shape[3]
        self.found = machine.found(self.layer.inputs[0], False)
        self.flags = machine.numbers.looked_up if self.layer.input_table is not None else 0

    def follow(self) -> bool:
        """Whether all words of windows inside the image have the expected consecutive bytes."""
        _, _, w, c = self.layer.inputs[0].shape
        inner = (self.first >= 0) & (self.first + self.size <= w * c)
        begin, place = self.found.there, self.found.place
        if not isinstance(begin, int) or place.pixel_bytes != c:
            return False
        starts = begin + place.offset_bytes + self.rows * place.row_bytes
        wanted = (starts[:, None, None] + self.first[inner][:, None] + self._pieces) | self.flags
        sizes = np.minimum(self.size - self._pieces, self.lanes.shape[1])
        return self.machine.pad.begin(self.words[:, inner], wanted, sizes)

    def right(self, windows: Index) -> bool:
        """Whether some windows have the expected bytes."""
        if not windows.size:
            return True
        found = self.machine.there(self.words[:, windows], "input 0")
        return bool((self._of(found) == self._of(self._wanted(self.first[windows]))).all())

    def expect(self) -> None:
        """Refuse the first unexpected byte."""
        found = self.machine.there(self.words, "input 0")
        self.machine.expect(self._of(found), self._of(self._wanted(self.first)), self.words, "input 0")

    def _wanted(self, first: Index) -> Bytes:
        _, _, w, c = self.layer.inputs[0].shape
        source = first[:, None, None] + self.lanes
        there = (source >= 0) & (source < w * c)
        wanted = self.found.of_rows(self.rows, np.where(there, source, 0)) | self.flags
        return np.where(there, wanted, np.asarray(self.machine.numbers.fill(self.layer.pad_value), wanted.dtype))

    def _of(self, numbers: Bytes) -> Bytes:
        """Drop the bytes after the windows."""
        return np.where(self.lanes >= self.size, 0, numbers)


def _fold_table(machine: Machine, part: Part) -> tuple[tuple[int, ...], ...]:
    """Return the folding table's address of each [kernel row, piece], after a check of the other fields."""
    fold = part.fold
    assert fold is not None
    key = id(fold), part.tile.layer.kernel[0], machine.versions["folds"]
    if key not in machine.fold_tables:
        machine.fold_tables[key] = _read_table(machine, fold, part.tile.layer.kernel[0])
    return machine.fold_tables[key]


def _read_table(machine: Machine, fold: FoldPlan, rows: int) -> tuple[tuple[int, ...], ...]:
    width = machine.config.word_bytes
    found: dict[tuple[int, int], int] = {}
    for number, step in enumerate(fold.steps):
        feeds = machine.folds.get(number, ())
        end = 0
        for position, feed in enumerate(feeds):
            said = tuple(feed.get(name, 0) for name in ("kernel_row", "rotate", "lane_end"))
            if position >= len(step):
                good = feed.get("lane_end", 0) <= end
            else:
                s = step[position]
                end = s.first_row + s.count
                good = said == (s.kernel_row, (s.first_row - s.first_byte) % width, end) and feed.get(
                    "address", 0) == found.setdefault((s.kernel_row, s.piece), feed.get("address", 0))
            if not good:
                raise DataflowError(f"entry {number} of the folding table does not fit its windows: {dict(feed)}")
        if len(feeds) < len(step):
            raise DataflowError(f"entry {number} of the folding table was never written")
    return tuple(tuple(found[row, piece] for piece in range(fold.pieces)) for row in range(rows))
