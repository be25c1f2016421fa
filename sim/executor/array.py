"""Array operations: one gather and one matrix product for all tiles, delivered tile by tile.

The product is exact in float32: partial sums of at most 1024 products of int8 are at most 2^24.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.executor.array_reads import Gathered, Slots, check_banks, in_image, read_inside, weights_of
from tq_hw.sim.executor.depthwise import depthwise
from tq_hw.sim.executor.machine import Index, Ints, Machine
from tq_hw.sim.executor.unknown import Flags, sums_unknown

__all__ = ["ArrayTile", "FoldTable", "array_tiles"]

#: Entries of the patch-folding table, for three feeds each.
FoldTable = Sequence[Sequence[Mapping[str, int]]]

#: Number of int8 products that float32 adds exactly: 1024 * 2^14 = 2^24.
_EXACT_PRODUCTS = 1024
#: Input bytes gathered at a time.
_CHUNK_BYTES = 1 << 25


@dataclass(frozen=True)
class ArrayTile:
    """Sums of one (output block, tile), how they enter the accumulators, their unknown flags, and the words read."""

    values: Ints
    unknown: Flags
    first: bool
    last: bool
    words: Index | None


def array_tiles(machine: Machine, fields: Mapping[str, int], folds: FoldTable) -> Iterator[ArrayTile]:
    """Yield the tiles of one operation in the order in which they take accumulator buffers."""
    machine.require_legal(Unit.ARRAY, fields)
    slots, blocks, size = fields["slots"], fields["out_blocks"], fields["tile_slots"]
    oy, ox = np.divmod(np.arange(slots, dtype=np.int64), fields["out_cols"])
    places = Slots(oy, ox)
    mode = ArrayMode(fields["mode"])
    if mode is ArrayMode.DEPTHWISE:
        gathered = depthwise(machine, fields, places)
    else:
        gathered = _matrix(machine, fields, places, folds if mode is ArrayMode.FOLDED else None)
    tiles = range(ceil_div(slots, size))
    order = ((o, t) for t in tiles for o in range(blocks)) if fields["blocks_inner"] else (
        (o, t) for o in range(blocks) for t in tiles)
    for o, t in order:
        part = slice(t * size, min(slots, (t + 1) * size))
        words = None if machine.races is None else gathered.words_read(o, part)
        yield ArrayTile(gathered.sums[part, o], gathered.unknown[part, o], bool(fields["acc_first"]),
                        bool(fields["acc_last"]), words)


def _matrix(machine: Machine, fields: Mapping[str, int], places: Slots, folds: FoldTable | None) -> Gathered:
    """Run GEMM mode, or folded mode if there is a folding table."""
    config = machine.config
    used = fields["weight_rows"]
    if folds is None:
        steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["kernel_blocks"] * fields["slices"]
    else:
        steps = fields["kernel_blocks"]
    weights, weights_unknown, weight_words = weights_of(machine, fields, steps)
    flat = weights.transpose(1, 0, 2).reshape(steps * used, -1).astype(np.float32)
    flat_unknown = weights_unknown.transpose(1, 0, 2).reshape(steps * used, -1)
    sums = np.empty((fields["slots"], flat.shape[1]), np.int32)
    unknown = np.zeros(sums.shape, bool)
    inputs = []
    per_slot = max(1, _CHUNK_BYTES // (steps * max(used, config.word_bytes)))
    for first in range(0, fields["slots"], per_slot):
        part = slice(first, min(fields["slots"], first + per_slot))
        here = Slots(places.oy[part], places.ox[part])
        x, x_unknown, words = _gemm_input(machine, fields, here) if folds is None else _folded_input(
            machine, fields, here, folds)
        inputs.append(words)
        x = x.reshape(len(here.oy), steps * used)
        if x_unknown is not None:
            unknown[part] = sums_unknown(x_unknown.reshape(x.shape), flat, flat_unknown)
        total = np.zeros((len(here.oy), flat.shape[1]), np.int32)
        for k in range(0, steps * used, _EXACT_PRODUCTS):
            some = slice(k, k + _EXACT_PRODUCTS)
            total += (x[:, some].astype(np.float32) @ flat[some]).astype(np.int32)
        sums[part] = total
    shape = (fields["slots"], fields["out_blocks"], -1)
    return Gathered(sums.reshape(shape), unknown.reshape(shape), np.concatenate(inputs), weight_words, per_block=False)


def _gemm_input(machine: Machine, fields: Mapping[str, int], places: Slots) -> tuple[np.ndarray, Flags | None, Index]:
    """Return x[slot, step, r] for r < weight_rows, its unknown flags, and the words read."""
    config, used, slices = machine.config, fields["weight_rows"], fields["slices"]
    ky, kx, ib = (a.reshape(-1) for a in np.meshgrid(
        np.arange(fields["kernel_rows"]), np.arange(fields["kernel_cols"]), np.arange(fields["kernel_blocks"]),
        indexing="ij"))
    row = fields["row_first"] + places.oy[:, None] * fields["row_stride"] + ky * fields["kernel_row_dilation"]
    col = fields["col_first"] + places.ox[:, None] * fields["col_stride"] + kx * fields["kernel_col_dilation"]
    words = (fields["in_base"] + places.oy[:, None] * fields["in_row_step"] + places.ox[:, None] * fields["in_col_step"]
             + ky * fields["kernel_row_step"] + kx * fields["kernel_col_step"] + ib * fields["kernel_block_step"])
    inside = in_image(machine, row, fields["in_rows"]) & in_image(machine, col, fields["in_cols"])
    x, unknown, read = read_inside(machine, words, inside)
    lanes = (np.arange(slices)[:, None] * config.gemm_rows + np.arange(used)) % config.word_bytes
    x = np.ascontiguousarray(x[..., lanes])
    x[~inside] = fields["zero_point"]
    return x, None if unknown is None else unknown[..., lanes], read


def _folded_input(machine: Machine, fields: Mapping[str, int], places: Slots,
                  folds: FoldTable) -> tuple[np.ndarray, Flags | None, Index]:
    """Return x[slot, step, r] for r < weight_rows, its unknown flags, and the words read."""
    width, used = machine.config.word_bytes, fields["weight_rows"]
    unknown = None if machine.unknown is None else np.zeros((len(places.oy), fields["kernel_blocks"], used), bool)
    base = fields["in_base"] + places.oy * fields["in_row_step"] + places.ox * fields["in_col_step"]
    x = np.full((len(base), fields["kernel_blocks"], used), fields["zero_point"], np.int8)
    read = np.full((len(base), fields["kernel_blocks"], 3), -1, np.int64)
    for k in range(fields["kernel_blocks"]):
        covered = 0
        for g, feed in enumerate(folds[k]):
            lane_end = min(feed["lane_end"], machine.config.rows)
            if lane_end <= covered:
                continue
            row = fields["row_first"] + places.oy * fields["row_stride"] + feed["kernel_row"]
            inside = in_image(machine, row, fields["in_rows"])
            word, word_unknown, read[:, k, g] = read_inside(machine, base + feed["address"], inside)
            lanes = np.arange(min(covered, used), min(lane_end, used))
            rotated = (lanes - feed["rotate"]) % width
            x[:, k, lanes] = np.where(inside[:, None], word[:, rotated], x[:, k, lanes])
            if unknown is not None and word_unknown is not None:
                unknown[:, k, lanes] = word_unknown[:, rotated]
            covered = lane_end
        check_banks(machine, read[:, k])
    return x, unknown, read
