"""Array operations: one gather and one matrix product for all tiles, handed out tile by tile.

The product is exact in float32: partial sums of at most 1024 products of int8 stay within 2^24.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.isa.control import Status
from tq_hw.isa.layout import ArrayMode
from tq_hw.sim.executor.machine import Fault, Index, Ints, Machine, require

__all__ = ["ArrayTile", "FoldTable", "array_tiles"]

#: Entries of the patch-folding table, three feeds each.
FoldTable = Sequence[Sequence[Mapping[str, int]]]

#: int8 products that float32 adds exactly: 1024 * 2^14 = 2^24.
_EXACT_PRODUCTS = 1024
#: Loop counts that each mode uses.
_COUNTS = {
    ArrayMode.GEMM: ("kernel_rows", "kernel_cols", "kernel_blocks", "slices"),
    ArrayMode.DEPTHWISE: ("kernel_rows", "kernel_cols"),
    ArrayMode.FOLDED: ("kernel_blocks",),
}
#: Input bytes gathered at once.
_CHUNK_BYTES = 1 << 25


@dataclass(frozen=True)
class ArrayTile:
    """Sums of one (output block, tile): what is written or added to accumulators, and the words read."""

    values: Ints
    first: bool
    last: bool
    words: Index | None


@dataclass(frozen=True)
class _Slots:
    """Output row and column of every slot."""

    oy: Index
    ox: Index


def array_tiles(machine: Machine, fields: Mapping[str, int], folds: FoldTable) -> Iterator[ArrayTile]:
    """Yield the tiles of one operation in the order in which they take accumulator buffers."""
    _check(machine, fields)
    slots, blocks, size = fields["slots"], fields["out_blocks"], fields["tile_slots"]
    oy, ox = np.divmod(np.arange(slots, dtype=np.int64), fields["out_cols"])
    places = _Slots(oy, ox)
    mode = ArrayMode(fields["mode"])
    if mode is ArrayMode.DEPTHWISE:
        gathered = _depthwise(machine, fields, places)
    else:
        gathered = _matrix(machine, fields, places, folds if mode is ArrayMode.FOLDED else None)
    tiles = range(-(-slots // size))
    order = ((o, t) for t in tiles for o in range(blocks)) if fields["blocks_inner"] else (
        (o, t) for o in range(blocks) for t in tiles)
    for o, t in order:
        part = slice(t * size, min(slots, (t + 1) * size))
        words = None if machine.races is None else gathered.words_read(o, part)
        yield ArrayTile(gathered.sums[part, o], bool(fields["acc_first"]), bool(fields["acc_last"]), words)


def _check(machine: Machine, fields: Mapping[str, int]) -> None:
    config = machine.config
    require(fields["mode"] in list(ArrayMode), f"mode {fields['mode']} does not exist")
    for name in ("slots", "out_cols", "out_blocks", *_COUNTS[ArrayMode(fields["mode"])]):
        require(fields[name] >= 1, f"{name} must be at least 1")
    require(1 <= fields["tile_slots"] <= config.acc_words, f"tile_slots must be 1..{config.acc_words}")
    tiles = -(-fields["slots"] // fields["tile_slots"]) * fields["out_blocks"]
    spread = fields["out_blocks"] == config.acc_open == tiles
    require(bool(fields["acc_first"] and fields["acc_last"]) or tiles == 1 or spread,
            "acc_first = 0 or acc_last = 0 require exactly one tile and output block"
            + f", or {config.acc_open} output blocks of one tile each" * bool(config.acc_open))
    require(not machine.open or tiles == len(machine.open),
            f"the operation has {tiles} tiles, the one before left {len(machine.open)} accumulator buffers open")
    rows = config.gemm_rows if fields["mode"] == ArrayMode.GEMM else config.rows
    require(1 <= fields["weight_rows"] <= rows, f"weight_rows must be 1..{rows}")
    if fields["mode"] == ArrayMode.FOLDED:
        require(fields["kernel_blocks"] <= config.fold_steps, f"kernel_blocks must be at most {config.fold_steps}")
    if fields["mode"] == ArrayMode.DEPTHWISE:
        require(fields["tile_slots"] == fields["tile_rows"] * fields["out_cols"],
                "tile_slots must be tile_rows * out_cols")
        require(fields["slots"] % fields["out_cols"] == 0, "slots must be whole rows")


@dataclass(frozen=True)
class _Gathered:
    """`sums[slot, block, col]` of a whole operation, and the addresses after them (-1: none read).

    `inputs[slot, ...]` or, depthwise, `inputs[slot, block, ...]`; `weights[block, ...]`.
    """

    sums: Ints
    inputs: Index
    weights: Index
    per_block: bool

    def words_read(self, block: int, part: slice) -> Index:
        """Return the scratchpad words that a tile reads."""
        read = self.inputs[part, block] if self.per_block else self.inputs[part]
        words = np.concatenate([read.reshape(-1), self.weights[block].reshape(-1)])
        return np.unique(words[words >= 0])


def _weights(machine: Machine, fields: Mapping[str, int], steps: int) -> tuple[Ints, Index]:
    """Return weights[block, step * weight_rows, cols] as int32 and their addresses."""
    words = (fields["weight_base"]
             + np.arange(fields["out_blocks"], dtype=np.int64)[:, None] * fields["weight_block_step"]
             + np.arange(steps * fields["weight_rows"]))
    words = machine.address(words)
    return machine.scratchpad[words][..., :machine.config.cols].view(np.int8).astype(np.int32), words


def _matrix(machine: Machine, fields: Mapping[str, int], places: _Slots, folds: FoldTable | None) -> _Gathered:
    """Run GEMM, or folded when there is a folding table."""
    config = machine.config
    used = fields["weight_rows"]
    if folds is None:
        steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["kernel_blocks"] * fields["slices"]
    else:
        steps = fields["kernel_blocks"]
    weights, weight_words = _weights(machine, fields, steps)
    flat = weights.transpose(1, 0, 2).reshape(steps * used, -1).astype(np.float32)
    sums = np.empty((fields["slots"], flat.shape[1]), np.int32)
    inputs = []
    per_slot = max(1, _CHUNK_BYTES // (steps * max(used, config.word_bytes)))
    for first in range(0, fields["slots"], per_slot):
        part = slice(first, min(fields["slots"], first + per_slot))
        here = _Slots(places.oy[part], places.ox[part])
        x, words = _gemm_input(machine, fields, here) if folds is None else _folded_input(machine, fields, here, folds)
        inputs.append(words)
        x = x.reshape(len(here.oy), steps * used)
        total = np.zeros((len(here.oy), flat.shape[1]), np.int32)
        for k in range(0, steps * used, _EXACT_PRODUCTS):
            some = slice(k, k + _EXACT_PRODUCTS)
            total += (x[:, some].astype(np.float32) @ flat[some]).astype(np.int32)
        sums[part] = total
    return _Gathered(sums.reshape(fields["slots"], fields["out_blocks"], -1), np.concatenate(inputs), weight_words,
                     per_block=False)


def _read_inside(machine: Machine, words: Index, inside: np.ndarray) -> tuple[np.ndarray, Index]:
    """Return int8 lanes of the words that lie inside the image, and the addresses (-1 elsewhere)."""
    words = machine.address(np.where(inside, words, 0))
    return machine.scratchpad[words].view(np.int8), np.where(inside, words, -1)


def _gemm_input(machine: Machine, fields: Mapping[str, int], places: _Slots) -> tuple[np.ndarray, Index]:
    """Return x[slot, step, r] for r < weight_rows, and the words read."""
    config, used, slices = machine.config, fields["weight_rows"], fields["slices"]
    ky, kx, ib = (a.reshape(-1) for a in np.meshgrid(
        np.arange(fields["kernel_rows"]), np.arange(fields["kernel_cols"]), np.arange(fields["kernel_blocks"]),
        indexing="ij"))
    row = fields["row_first"] + places.oy[:, None] * fields["row_stride"] + ky * fields["kernel_row_dilation"]
    col = fields["col_first"] + places.ox[:, None] * fields["col_stride"] + kx * fields["kernel_col_dilation"]
    words = (fields["in_base"] + places.oy[:, None] * fields["in_row_step"] + places.ox[:, None] * fields["in_col_step"]
             + ky * fields["kernel_row_step"] + kx * fields["kernel_col_step"] + ib * fields["kernel_block_step"])
    inside = (row >= 0) & (row < fields["in_rows"]) & (col >= 0) & (col < fields["in_cols"])
    x, read = _read_inside(machine, words, inside)
    lanes = np.arange(slices)[:, None] * config.gemm_rows + np.arange(used)
    if slices * config.gemm_rows != config.word_bytes or used != config.gemm_rows:
        beyond = lanes >= config.word_bytes
        x = x[..., np.where(beyond, 0, lanes)]
        x[..., beyond] = 0
    else:
        x = x.reshape(*x.shape[:-1], slices, used)
    x = np.ascontiguousarray(x)
    x[~inside] = fields["zero_point"]
    return x, read


def _folded_input(machine: Machine, fields: Mapping[str, int], places: _Slots,
                  folds: FoldTable) -> tuple[np.ndarray, Index]:
    """Return x[slot, step, r] for r < weight_rows, and the words read."""
    width, used = machine.config.word_bytes, fields["weight_rows"]
    base = fields["in_base"] + places.oy * fields["in_row_step"] + places.ox * fields["in_col_step"]
    x = np.full((len(base), fields["kernel_blocks"], used), fields["zero_point"], np.int8)
    read = np.full((len(base), fields["kernel_blocks"], 3), -1, np.int64)
    for k in range(fields["kernel_blocks"]):
        covered = 0
        for g, feed in enumerate(folds[k]):
            if feed["lane_end"] <= covered:
                continue
            row = fields["row_first"] + places.oy * fields["row_stride"] + feed["kernel_row"]
            inside = (row >= 0) & (row < fields["in_rows"])
            word, read[:, k, g] = _read_inside(machine, base + feed["address"], inside)
            lanes = np.arange(min(covered, used), min(feed["lane_end"], used))
            x[:, k, lanes] = np.where(inside[:, None], word[:, (lanes - feed["rotate"]) % width], x[:, k, lanes])
            covered = feed["lane_end"]
        _check_banks(read[:, k])
    return x, read


def _check_banks(words: Index) -> None:
    """Fault if two of the words of a row, -1 for none, lie in one bank."""
    for a in range(words.shape[1]):
        for b in range(a):
            clash = (words[:, a] >= 0) & (words[:, b] >= 0) & ((words[:, a] - words[:, b]) % 4 == 0)
            if clash.any():
                at = int(np.flatnonzero(clash)[0])
                raise Fault(Status.BANK_CONFLICT, f"words {words[at, a]} and {words[at, b]} are read in one cycle "
                                                  f"for slot {at} and lie in one bank")


def _depthwise(machine: Machine, fields: Mapping[str, int], places: _Slots) -> _Gathered:
    config = machine.config
    cols, used, groups = config.cols, fields["weight_rows"], config.groups
    row_steps, col_steps = -(-fields["kernel_rows"] // groups), -(-fields["kernel_cols"] // 3)
    weights, weight_words = _weights(machine, fields, row_steps * col_steps)
    weights = weights.reshape(fields["out_blocks"], row_steps * col_steps, used, cols)
    _check_period(fields)
    blocks = fields["sub_first"] + np.arange(fields["out_blocks"])
    lane = (blocks % config.sub_blocks)[:, None] * cols + np.arange(cols)
    block_words = blocks // config.sub_blocks * fields["in_block_step"]
    sums = np.zeros((fields["slots"], fields["out_blocks"], cols), np.int32)
    read: list[Index] = []
    for i in range(row_steps):
        together = []
        for ky in range(groups * i, groups * i + groups):
            row = fields["row_first"] + places.oy * fields["row_stride"] + ky * fields["kernel_row_dilation"]
            row_inside = (row >= 0) & (row < fields["in_rows"]) & (ky < fields["kernel_rows"])
            together.append(np.where(row_inside, ky * fields["kernel_row_step"] + (1 << 20), -1))
            for j in range(col_steps):
                for k in range(3):
                    r, kx, step = 3 * (ky - groups * i) + k, 3 * j + k, i * col_steps + j
                    if r >= used:
                        continue
                    col = fields["col_first"] + places.ox * fields["col_stride"] + kx
                    inside = row_inside & (col >= 0) & (col < fields["in_cols"])
                    w = weights[:, step, r]
                    if kx >= fields["kernel_cols"]:
                        require(not w.any(), f"weights of kernel column {kx}, which does not exist, must be 0")
                        continue
                    words = (fields["in_base"] + places.oy * fields["in_row_step"] + ky * fields["kernel_row_step"]
                             + (places.ox * fields["col_stride"] + kx) * fields["in_col_step"])
                    x, here = _read_inside(machine, words[:, None] + block_words, inside[:, None])
                    read.append(here)
                    x = np.take_along_axis(x, lane[None], axis=2)
                    sums += np.where(inside[:, None, None], x, np.int8(fields["zero_point"])).astype(np.int32) * w
        _check_banks(np.stack(together, axis=1))
    inputs = np.stack(read, axis=2) if read else np.full((fields["slots"], fields["out_blocks"], 1), -1, np.int64)
    return _Gathered(sums, inputs, weight_words, per_block=True)


def _check_period(fields: Mapping[str, int]) -> None:
    """Require that the streaming of an input row past the array fits into `period` slots."""
    reach = (fields["out_cols"] - 1) * fields["col_stride"]
    needed = reach + 1
    for col in range(fields["col_first"], fields["col_first"] + fields["kernel_cols"], 3):
        needed = max(needed, min(fields["in_cols"] - 1, col + reach + 2) - max(0, col) + 1)
    require(fields["period"] >= needed, f"period must be at least {needed}")
