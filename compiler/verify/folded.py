"""Folded windows: neighbouring output columns whose kernel rows are read as one stretch of bytes."""

import numpy as np

from tq_hw.compiler.ir.meaning import Part
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Index
from tq_hw.model.errors import DataflowError

__all__ = ["UNKNOWN", "folded"]

#: Where a row or column lies that nothing has read.
UNKNOWN = -1 << 40


def folded(machine: Machine, part: Part) -> None:
    """Check windows [row, window, piece]: kernel columns and channels of neighbouring output columns."""
    f, tile, layer, fold = machine.fields, part.tile, part.tile.layer, part.fold
    assert fold is not None
    if f["kernel_blocks"] != len(fold.steps):
        raise DataflowError(f"it takes {f['kernel_blocks']} steps, its windows {len(fold.steps)}")
    config, value = machine.config, layer.inputs[0]
    _, h, w, c = value.shape
    table = _fold_table(machine, part)
    places = (tile.rows[0] + np.arange(tile.rows[1]))[:, None] * layer.stride[0] - layer.pad[0] + np.arange(len(table))
    seen = f["row_first"] + np.arange(tile.rows[1])[:, None] * f["row_stride"] + np.arange(len(table))
    inside = (places >= 0) & (places < h)
    if not np.array_equal(inside, (seen >= 0) & (seen < f["in_rows"])):
        raise DataflowError("its rows lie elsewhere in the image than those of the layer's windows")
    if not inside.all() and f["zero_point"] != layer.pad_value:
        raise DataflowError(f"its padding is {f['zero_point']}, the layer's {layer.pad_value}")
    offsets = np.arange(tile.rows[1])[:, None, None] * f["in_row_step"] + table
    at = np.full((h, table.shape[1]), UNKNOWN)
    at[places[inside]] = offsets[inside]
    if (at[places[inside]] != offsets[inside]).any():
        raise DataflowError("windows that share rows read them at different words")
    rows = np.flatnonzero(at[:, 0] != UNKNOWN)
    columns = np.arange(tile.cols[1])
    words = machine.words(f["in_base"] + at[rows][:, None] + columns[:, None] * f["in_col_step"])
    # Byte of the row that each byte of a window is.
    lanes = np.arange(fold.pieces)[:, None] * config.word_bytes + np.arange(config.word_bytes)
    first = ((tile.cols[0] - part.window + columns * tile.col_step) * layer.stride[1] - layer.pad[1]) * c
    source = first[:, None, None] + lanes
    there = (source >= 0) & (source < w * c)
    wanted = machine.found(value, False).of_rows(tile.image * h + rows, np.where(there, source, 0))
    if layer.input_table is not None:
        wanted = wanted | machine.numbers.looked_up
    fill = machine.numbers.fill(layer.pad_value)
    wanted = np.where(there, wanted, np.asarray(fill, wanted.dtype))
    found = machine.there(words, "input 0")
    size = (layer.kernel[1] + (fold.phases - 1) * layer.stride[1]) * c
    beyond = lanes >= size
    machine.expect(np.where(beyond, 0, found), np.where(beyond, 0, wanted), words, "input 0")


def _fold_table(machine: Machine, part: Part) -> Index:
    """Address of each [kernel row, piece] by the folding table, after a check of its other fields."""
    fold = part.fold
    assert fold is not None
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
                raise DataflowError(f"entry {number} of the folding table is not that of its windows: {dict(feed)}")
        if len(feeds) < len(step):
            raise DataflowError(f"entry {number} of the folding table was never written")
    rows, pieces = part.tile.layer.kernel[0], fold.pieces
    return np.array([[found[row, piece] for piece in range(pieces)] for row in range(rows)])
