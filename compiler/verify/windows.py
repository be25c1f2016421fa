"""Checks of array operations over images: every tap of every window must read the layer's pixel, or padding.

A pixel has the same word for all its windows. The reads of an operation are therefore determined separately along rows
and along columns: their indices, and their offsets from the first word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.meaning import Part
from tq_hw.compiler.verify.areas import ADDRESSES, Area, Form, form_of
from tq_hw.compiler.verify.constants import channels_of, constants
from tq_hw.compiler.verify.folded import UNKNOWN, folded
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Bytes, Index
from tq_hw.compiler.verify.pad import SIZE_BITS, code
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import DataflowError

__all__ = ["window_part"]


@dataclass(frozen=True, eq=False)
class _Axis:
    """Rows or columns of the input that are read, their offsets from the first word, whether taps are outside.

    `place_step` and `step` are the distances of indices and of offsets, None if not constant.
    """

    places: Index
    offsets: Index
    outside: bool
    place_step: int | None
    step: int | None

    def of(self, base: int = 0) -> "slice | Index":
        """Return the indices, as a slice if they are consecutive."""
        low, count = int(self.places[0]), len(self.places)
        if int(self.places[-1]) - low == count - 1:
            return slice(base + low, base + low + count)
        return self.places + base


@lru_cache(maxsize=4096)
def _axis(name: str, first: int, count: int, apart: int, pad: int, stride: int, dilation: int, taps: tuple[int, int],
          size: int, said: tuple[int, int, int, int], steps: tuple[int, int]) -> _Axis:
    """Return the reads of the windows of `count` outputs from `first` on, `apart` from each other, along one axis.

    `said` has the operation's fields: first input, stride, dilation, size. `steps` go from output to output, and from
    tap to tap.
    """
    outs, kernel = np.arange(count)[:, None], np.arange(taps[1] - taps[0])
    places = (first + outs * apart) * stride - pad + (kernel + taps[0]) * dilation
    inside = (places >= 0) & (places < size)
    seen = said[0] + outs * said[1] + kernel * said[2]
    if not np.array_equal(inside, (seen >= 0) & (seen < said[3])):
        raise DataflowError(f"its {name} (first, step, step of taps, size) {said} are not those of the "
                            "layer's windows")
    found = places[inside]
    offsets = (outs * steps[0] + kernel * steps[1])[inside]
    at = np.full(size, UNKNOWN)
    at[found] = offsets
    if (at[found] != offsets).any():
        raise DataflowError(f"windows that share {name} read them at different words")
    there = np.flatnonzero(at != UNKNOWN)
    return _Axis(there, at[there], not inside.all(), _even(there), _even(at[there]))


def _even(values: Index) -> int | None:
    """Return the step from value to value, None if there are several."""
    steps = np.diff(values)
    if not steps.size:
        return 0
    return int(steps[0]) if (steps == steps[0]).all() else None


class _Blocks(NamedTuple):
    """Words of a pixel that are read: offset of the first from the pixel's first word, their count, their step."""

    first: int
    words: int
    step: int

    def offsets(self) -> Index:
        """Return the offset of each from the pixel's first word."""
        found: Index = self.first + np.arange(self.words) * self.step
        return found


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows and columns that an operation reads.

    Members
    -------
    outside : whether taps are outside the image
    form : words [row, column, block] if all steps are constant and there are any words; else None
    first : offset of its first word from the operation's
    row, col : first row and column
    """

    rows: _Axis
    cols: _Axis
    outside: bool
    form: Form | None
    first: int
    row: int
    col: int


_SEEN = itemgetter("row_first", "row_stride", "kernel_row_dilation", "in_rows", "in_row_step", "kernel_row_step",
                   "col_first", "col_stride", "kernel_col_dilation", "in_cols", "in_col_step", "kernel_col_step")


@lru_cache(maxsize=4096)
def _seen(layer: Mac, tile_rows: tuple[int, int], tile_cols: tuple[int, int, int], rows: tuple[int, int],
          cols: tuple[int, int], deep: bool, blocks: _Blocks, fields: tuple[int, ...]) -> _Seen:
    """Return the reads for rows `tile_rows` and columns `tile_cols` (first, count, distance) of the output."""
    (row_first, row_stride, row_dilation, in_rows, row_step, tap_row, col_first, col_stride, col_dilation, in_cols,
     col_step, tap_col) = fields
    _, h, w, _ = layer.inputs[0].shape
    down = _axis("rows", *tile_rows, 1, layer.pad[0], layer.stride[0], layer.dilation[0], rows, h,
                 (row_first, row_stride, row_dilation, in_rows), (row_step, tap_row))
    across = _axis("columns", *tile_cols, layer.pad[1], layer.stride[1], layer.dilation[1], cols, w,
                   (col_first, col_stride, 1 if deep else col_dilation, in_cols),
                   (col_step * col_stride, col_step) if deep else (col_step, tap_col))
    outside = down.outside or across.outside
    if not len(down.places) or not len(across.places) or down.step is None or across.step is None:
        return _Seen(down, across, outside, None, 0, 0, 0)
    form = form_of((len(down.places), len(across.places), blocks.words), (down.step, across.step, blocks.step))
    return _Seen(down, across, outside, form, int(down.offsets[0]) + int(across.offsets[0]) + blocks.first,
                 int(down.places[0]), int(across.places[0]))


def _axes(part: Part, f: Mapping[str, int], column: int, blocks: _Blocks) -> _Seen:
    """Return the rows and columns that an operation reads, with columns `column` after those of the tile."""
    tile = part.tile
    return _seen(tile.layer, tile.rows, (tile.cols[0] + column, tile.cols[1], tile.col_step), part.rows, part.cols,
                 f["mode"] == ArrayMode.DEPTHWISE, blocks, _SEEN(f))


def window_part(machine: Machine, part: Part) -> None:
    """Check the reads of an operation on a tile."""
    f, tile = machine.fields, part.tile
    count = tile.phases if tile.phases > 1 else tile.blocks[1] - tile.blocks[0]
    shape = f["slots"], f["out_cols"], f["out_blocks"]
    wanted = tile.rows[1] * tile.cols[1], tile.cols[1], count
    if shape != wanted:
        raise DataflowError(f"it has (slots, columns, output blocks) {shape}, but its tile has {wanted}")
    if f["mode"] == ArrayMode.FOLDED:
        folded(machine, part)
    elif f["mode"] == ArrayMode.DEPTHWISE:
        _kernel(f, (part.rows[1] - part.rows[0], part.cols[1] - part.cols[0]), ("kernel_rows", "kernel_cols"))
        _depthwise(machine, part)
    else:
        _kernel(f, tuple(high - low for low, high in (part.rows, part.cols, part.blocks)),
                ("kernel_rows", "kernel_cols", "kernel_blocks"))
        first = tile.blocks[0] // machine.config.sub_blocks if part.diagonal else part.blocks[0]
        count, block = part.blocks[1] - part.blocks[0], machine.config.block
        _pixels(machine, part, 0, _Blocks(0, count, f["kernel_block_step"]), (first * block, (first + count) * block))
    _weights(machine, part)


def _kernel(f: Mapping[str, int], wanted: tuple[int, ...], names: tuple[str, ...]) -> None:
    found = tuple(f[name] for name in names)
    if found != wanted:
        raise DataflowError(f"it has ({', '.join(names)}) {found}, but its part of the kernel has {wanted}")


def _depthwise(machine: Machine, part: Part) -> None:
    """Check a depthwise operation: every output block reads its own channels, or column phases those of one block."""
    f, tile, config = machine.fields, part.tile, machine.config
    step = f["in_block_step"]
    first = tile.blocks[0] // config.sub_blocks
    channels = tile.blocks[0] * config.cols, tile.blocks[1] * config.cols
    if tile.phases > 1:
        for phase in range(tile.phases):
            _pixels(machine, part, phase, _Blocks(phase * step, 1, 0), channels)
        return
    _pixels(machine, part, 0, _Blocks(0, ceil_div(tile.blocks[1], config.sub_blocks) - first, step), channels)


def _pixels(machine: Machine, part: Part, column: int, blocks: _Blocks, channels: tuple[int, int]) -> None:
    """Check words [row, column, block] with the channels `channels[0]` to `channels[1]`, as far as these exist.

    Columns are `column` after those of the tile.
    """
    f, layer, block = machine.fields, part.tile.layer, machine.config.block
    seen = _axes(part, f, column, blocks)
    rows, cols = seen.rows, seen.cols
    if seen.outside and f["zero_point"] != layer.pad_value:
        raise DataflowError(f"its padding is {f['zero_point']}, but the layer's is {layer.pad_value}")
    value = layer.inputs[0]
    _, h, _, c = value.shape
    if not len(rows.places) or not len(cols.places):
        return
    first, last = channels[0] // block, ceil_div(min(channels[1], c), block)
    split = bool(channels[0] % block or (channels[1] % block and channels[1] < c))
    image, found = part.tile.image * h, machine.found(value, False)
    if seen.form is not None:
        area = Area(f["in_base"] + seen.first, seen.form)
        if area.low >= ADDRESSES:
            area = Area(area.base - ADDRESSES, seen.form)
        if machine.exists(area):
            machine.reads(area)
            if not split and blocks.words == last - first and isinstance(found.there, int):
                place = found.place
                number = (found.there + place.offset_bytes + (image + seen.row) * place.row_bytes
                          + seen.col * place.pixel_bytes + first * block)
                codes = _pixel_codes(rows, cols, place.row_bytes, place.pixel_bytes, (last - first, block),
                                     min(block, c - (last - 1) * block))
                if machine.holds(area, codes + code(number, 0)):
                    return
            # Operations on other output blocks repeat the same reads.
            if machine.seen((layer, image, rows, cols, channels, f["in_base"], blocks), area):
                return
            words = area.places()
        else:
            words = machine.words(area.places())
    else:
        words = machine.words(f["in_base"] + rows.offsets[:, None, None] + cols.offsets[:, None] + blocks.offsets())
    there = machine.there(words, "input 0")
    wanted = found.pixels(rows.of(image), cols.of())
    full = min(last, c // block)
    if split:
        _lanes(machine, there, wanted, words, (channels[0], min(channels[1], c)), first)
        return
    if full > first:
        machine.expect(there[:, :, :full - first, :block],
                       wanted[..., first * block:full * block].reshape(*wanted.shape[:2], full - first, block),
                       words[:, :, :full - first], "input 0")
    if last > full:
        machine.expect(there[:, :, full - first, :c - full * block], wanted[..., full * block:c],
                       words[:, :, full - first], "input 0")


@lru_cache(maxsize=1024)
def _pixel_codes(rows: _Axis, cols: _Axis, row_bytes: int, pixel_bytes: int, blocks: tuple[int, int],
                 last: int) -> Index:
    """Return codes of words [row, column, block], if the first byte is number 0; the last block has `last` bytes."""
    count, size = blocks
    sizes = np.full(count, size)
    sizes[-1] = last
    first = ((rows.places - rows.places[0])[:, None, None] * row_bytes
             + (cols.places - cols.places[0])[:, None] * pixel_bytes + np.arange(count) * size)
    codes: Index = (first << SIZE_BITS) + sizes
    return codes


def _lanes(machine: Machine, found: Bytes, wanted: Bytes, words: Index, channels: tuple[int, int], first: int) -> None:
    """Check words of which some bytes are not read."""
    block = machine.config.block
    for number in range(channels[0] // block, ceil_div(channels[1], block)):
        low, high = max(channels[0], number * block), min(channels[1], (number + 1) * block)
        machine.expect(found[:, :, number - first, low - number * block:high - number * block], wanted[..., low:high],
                       words[:, :, number - first], "input 0")


def _weights(machine: Machine, part: Part) -> None:
    """Check the weights of all blocks."""
    f, config = machine.fields, machine.config
    wanted = part.weights.reshape(part.weights.shape[0], -1, config.cols)
    if f["mode"] == ArrayMode.FOLDED:
        steps = f["kernel_blocks"]
    elif f["mode"] == ArrayMode.DEPTHWISE:
        steps = ceil_div(f["kernel_rows"], config.groups) * ceil_div(f["kernel_cols"], 3)
    else:
        steps = f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * f["slices"]
    if steps * f["weight_rows"] != wanted.shape[1]:
        raise DataflowError(f"it has {steps} steps of {f['weight_rows']} rows of weights, but its part of the kernel "
                            f"has {wanted.shape[1]} rows")
    tile = part.tile
    words = Area.of(f["weight_base"], (f["out_blocks"], wanted.shape[1]), (f["weight_block_step"], 1))
    # Parts of one packed kernel are views of it; the kernel exists as long as the stream.
    key = ("weights", part.weights.__array_interface__["data"], part.weights.shape, part.weights.strides, words.counts,
           tile.layer, tile.blocks, tile.phases)
    exists = machine.exists(words)
    if exists:
        machine.reads(words)
        if machine.right(key, words):
            return
    constants(machine, words, wanted.view(np.uint8), channels_of(tile, config), "weights")
    if exists:
        machine.note_right(key, words)
