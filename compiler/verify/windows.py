"""Operations of the array over images: every tap of every window reads the pixel that the layer says, or padding.

A pixel is the same word for all windows that see it, so what the operation reads is worked out along rows and along
columns: which of them there are, and how far from its first word they lie.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.compiler.ir.meaning import Part
from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.constants import channels_of, constants
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Bytes, Index
from tq_hw.isa.layout import ArrayMode
from tq_hw.model.errors import DataflowError

__all__ = ["window_part"]

_UNKNOWN = -1 << 40


@dataclass(frozen=True, eq=False)
class _Axis:
    """Rows or columns of the input that are read, how far from the first word they lie; whether taps lie outside."""

    places: Index
    offsets: Index
    outside: bool

    def of(self, base: int = 0) -> "slice | Index":
        """The places, as a slice where they follow each other."""
        low, count = int(self.places[0]), len(self.places)
        if int(self.places[-1]) - low == count - 1:
            return slice(base + low, base + low + count)
        return self.places + base


@lru_cache(maxsize=4096)
def _axis(name: str, first: int, count: int, apart: int, pad: int, stride: int, dilation: int, taps: tuple[int, int],
          size: int, said: tuple[int, int, int, int], steps: tuple[int, int]) -> _Axis:
    """Follow the windows of `count` outputs from `first` on, `apart` from each other, along one axis.

    `said` is what the operation says: first input, stride, dilation, size; `steps` go from output to output, from tap
    to tap.
    """
    outs, kernel = np.arange(count)[:, None], np.arange(taps[1] - taps[0])
    places = (first + outs * apart) * stride - pad + (kernel + taps[0]) * dilation
    inside = (places >= 0) & (places < size)
    seen = said[0] + outs * said[1] + kernel * said[2]
    if not np.array_equal(inside, (seen >= 0) & (seen < said[3])):
        raise DataflowError(f"its {name} (first, step, step of taps, size) {said} lie elsewhere in the image than "
                            "those of the layer's windows")
    found = places[inside]
    offsets = (outs * steps[0] + kernel * steps[1])[inside]
    at = np.full(size, _UNKNOWN)
    at[found] = offsets
    if (at[found] != offsets).any():
        raise DataflowError(f"windows that share {name} read them at different words")
    there = np.flatnonzero(at != _UNKNOWN)
    return _Axis(there, at[there], not inside.all())


def _axes(part: Part, f: Mapping[str, int], column: int) -> tuple[_Axis, _Axis]:
    """Rows and columns that an operation reads, columns `column` after those of the tile."""
    tile, layer = part.tile, part.tile.layer
    _, h, w, _ = layer.inputs[0].shape
    deep = f["mode"] == ArrayMode.DEPTHWISE
    (top, left), (sy, sx), (dy, dx) = layer.pad, layer.stride, layer.dilation
    rows = _axis("rows", *tile.rows, 1, top, sy, dy, part.rows, h,
                 (f["row_first"], f["row_stride"], f["kernel_row_dilation"], f["in_rows"]),
                 (f["in_row_step"], f["kernel_row_step"]))
    step = f["in_col_step"]
    cols = _axis("columns", tile.cols[0] + column, tile.cols[1], tile.col_step, left, sx, dx, part.cols, w,
                 (f["col_first"], f["col_stride"], 1 if deep else f["kernel_col_dilation"], f["in_cols"]),
                 (step * f["col_stride"], step) if deep else (step, f["kernel_col_step"]))
    return rows, cols


def window_part(machine: Machine, part: Part) -> None:
    """Check what an operation on a tile reads."""
    f, tile = machine.fields, part.tile
    count = tile.phases if tile.phases > 1 else tile.blocks[1] - tile.blocks[0]
    shape = f["slots"], f["out_cols"], f["out_blocks"]
    wanted = tile.rows[1] * tile.cols[1], tile.cols[1], count
    if shape != wanted:
        raise DataflowError(f"it has (slots, columns, output blocks) {shape}, its tile {wanted}")
    if f["mode"] == ArrayMode.FOLDED:
        _folded(machine, part)
    elif f["mode"] == ArrayMode.DEPTHWISE:
        _kernel(f, (part.rows[1] - part.rows[0], part.cols[1] - part.cols[0]), ("kernel_rows", "kernel_cols"))
        _depthwise(machine, part)
    else:
        _kernel(f, tuple(high - low for low, high in (part.rows, part.cols, part.blocks)),
                ("kernel_rows", "kernel_cols", "kernel_blocks"))
        rows, cols = _axes(part, f, 0)
        first = tile.blocks[0] // machine.config.sub_blocks if part.diagonal else part.blocks[0]
        blocks = np.arange(part.blocks[1] - part.blocks[0])
        block = machine.config.block
        _pixels(machine, part, rows, cols, blocks * f["kernel_block_step"],
                (first * block, (first + len(blocks)) * block))
    _weights(machine, part)


def _kernel(f: Mapping[str, int], wanted: tuple[int, ...], names: tuple[str, ...]) -> None:
    found = tuple(f[name] for name in names)
    if found != wanted:
        raise DataflowError(f"it has ({', '.join(names)}) {found}, its part of the kernel {wanted}")


def _depthwise(machine: Machine, part: Part) -> None:
    """Every output block reads its own channels; or phases of columns read those of one."""
    f, tile, config = machine.fields, part.tile, machine.config
    step = f["in_block_step"]
    first = tile.blocks[0] // config.sub_blocks
    channels = tile.blocks[0] * config.cols, tile.blocks[1] * config.cols
    if tile.phases > 1:
        for phase in range(tile.phases):
            rows, cols = _axes(part, f, phase)
            _pixels(machine, part, rows, cols, np.array([phase * step]), channels)
        return
    rows, cols = _axes(part, f, 0)
    words = np.arange(-(-tile.blocks[1] // config.sub_blocks) - first)
    _pixels(machine, part, rows, cols, words * step, channels)


def _pixels(machine: Machine, part: Part, rows: _Axis, cols: _Axis, blocks: Index, channels: tuple[int, int]) -> None:
    """Check words [row, column, block], whose channels are those from `channels[0]` on, as far as there are any."""
    f, layer, block = machine.fields, part.tile.layer, machine.config.block
    if (rows.outside or cols.outside) and f["zero_point"] != layer.pad_value:
        raise DataflowError(f"its padding is {f['zero_point']}, the layer's {layer.pad_value}")
    value = layer.inputs[0]
    _, h, _, c = value.shape
    if not len(rows.places) or not len(cols.places):
        return
    words = machine.words(f["in_base"] + rows.offsets[:, None, None] + cols.offsets[:, None] + blocks)
    # Operations on other output blocks read the same again.
    key = layer, part.tile.image, rows, cols, channels, f["in_base"], len(blocks), int(blocks[-1])
    if machine.seen(key, words):
        return
    found = machine.there(words, "input 0")
    first, last = channels[0] // block, -(-min(channels[1], c) // block)
    wanted = machine.found(value, False).pixels(rows.of(part.tile.image * h), cols.of())
    full = min(last, c // block)
    if channels[0] % block or (channels[1] % block and channels[1] < c):
        _lanes(machine, found, wanted, words, (channels[0], min(channels[1], c)), first)
        return
    if full > first:
        machine.expect(found[:, :, :full - first, :block],
                       wanted[..., first * block:full * block].reshape(*wanted.shape[:2], full - first, block),
                       words[:, :, :full - first], "input 0")
    if last > full:
        machine.expect(found[:, :, full - first, :c - full * block], wanted[..., full * block:c],
                       words[:, :, full - first], "input 0")


def _lanes(machine: Machine, found: Bytes, wanted: Bytes, words: Index, channels: tuple[int, int], first: int) -> None:
    """The same for words of which some bytes are not read."""
    block = machine.config.block
    for number in range(channels[0] // block, -(-channels[1] // block)):
        low, high = max(channels[0], number * block), min(channels[1], (number + 1) * block)
        machine.expect(found[:, :, number - first, low - number * block:high - number * block], wanted[..., low:high],
                       words[:, :, number - first], "input 0")


def _weights(machine: Machine, part: Part) -> None:
    """Check the weights of all blocks."""
    f, config = machine.fields, machine.config
    wanted = part.weights.reshape(part.weights.shape[0], -1, config.cols)
    steps = {ArrayMode.FOLDED: f["kernel_blocks"], ArrayMode.DEPTHWISE: -(-f["kernel_rows"] // config.groups)
             * -(-f["kernel_cols"] // 3)}.get(ArrayMode(f["mode"]), f["kernel_rows"] * f["kernel_cols"]
                                              * f["kernel_blocks"] * f["slices"])
    if steps * f["weight_rows"] != wanted.shape[1]:
        raise DataflowError(f"it has {steps} steps of {f['weight_rows']} rows of weights, its part of the kernel "
                            f"{wanted.shape[1]} rows")
    tile = part.tile
    words = Area(f["weight_base"], (f["out_blocks"], wanted.shape[1]), (f["weight_block_step"], 1))
    key = "weights", id(part.weights), words, tile.layer, tile.blocks, tile.phases
    if machine.right(key, words):
        machine.area(words)
        return
    constants(machine, words, wanted.view(np.uint8), channels_of(tile, config), "weights")
    machine.note_right(key)


def _folded(machine: Machine, part: Part) -> None:
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
    at = np.full((h, table.shape[1]), _UNKNOWN)
    at[places[inside]] = offsets[inside]
    if (at[places[inside]] != offsets[inside]).any():
        raise DataflowError("windows that share rows read them at different words")
    rows = np.flatnonzero(at[:, 0] != _UNKNOWN)
    columns = np.arange(tile.cols[1])
    words = machine.words(f["in_base"] + at[rows][:, None] + columns[:, None] * f["in_col_step"])
    # Byte of the row that each byte of a window is.
    lanes = np.arange(fold.pieces)[:, None] * config.word_bytes + np.arange(config.word_bytes)
    first = ((tile.cols[0] - part.window + columns * tile.col_step) * layer.stride[1] - layer.pad[1]) * c
    source = first[:, None, None] + lanes
    there = (source >= 0) & (source < w * c)
    flat = machine.found(value, False).rows(tile.image * h + rows)
    wanted = flat[:, np.where(there, source, 0)]
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
