"""What the array unit must do, in numpy: the sums of every buffer, in order."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode

WORDS = 1 << 16


@dataclass
class Operation:
    """Fields, by name, and the folding table: entries of three feeds (address, kernel_row, rotate, lane_end)."""

    fields: dict[str, int]
    folds: list[list[tuple[int, int, int, int]]] = field(default_factory=list)


def make_memory(config: Config, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (WORDS, config.word_bytes), np.int8)


def inputs(config: Config, memory: np.ndarray, op: Operation, block: int) -> list[np.ndarray]:
    """Return x[slot, r] of every step of one output block, by the words of the semantics."""
    f = op.fields
    slots = np.arange(f["slots"])
    oy, ox = slots // f["out_cols"], slots % f["out_cols"]
    start = f["in_base"] + oy * f["in_row_step"]
    zero = np.int8(f["zero_point"])
    steps = []

    def inside(row: np.ndarray, col: np.ndarray) -> np.ndarray:
        return (row >= 0) & (row < f["in_rows"]) & (col >= 0) & (col < f["in_cols"])

    if f["mode"] == ArrayMode.GEMM:
        for ky in range(f["kernel_rows"]):
            for kx in range(f["kernel_cols"]):
                ok = inside(f["row_first"] + oy * f["row_stride"] + ky * f["kernel_row_dilation"],
                            f["col_first"] + ox * f["col_stride"] + kx * f["kernel_col_dilation"])
                for ib in range(f["kernel_blocks"]):
                    word = memory[(start + ox * f["in_col_step"] + ky * f["kernel_row_step"]
                                   + kx * f["kernel_col_step"] + ib * f["kernel_block_step"]) % WORDS]
                    for s in range(f["slices"]):
                        x = np.zeros((len(slots), config.rows), np.int8)
                        lanes = word[:, s * config.gemm_rows:][:, :f["weight_rows"]]
                        x[:, :lanes.shape[1]] = lanes
                        x[:, :f["weight_rows"]][~ok] = zero
                        steps.append(x)
    elif f["mode"] == ArrayMode.FOLDED:
        for entry in op.folds[:f["kernel_blocks"]]:
            x = np.full((len(slots), config.rows), zero)
            covered = 0
            for address, kernel_row, rotate, lane_end in entry:
                row = f["row_first"] + oy * f["row_stride"] + kernel_row
                word = memory[(start + ox * f["in_col_step"] + address) % WORDS]
                for r in range(covered, min(lane_end, config.rows)):
                    lane = word[:, (r - rotate) % config.word_bytes]
                    x[:, r] = np.where((row >= 0) & (row < f["in_rows"]), lane, zero)
                covered = max(covered, lane_end)
            steps.append(x)
    else:
        o = block + f["sub_first"]
        lane = o % config.sub_blocks * config.cols
        for i in range(-(-f["kernel_rows"] // config.groups)):
            for j in range(-(-f["kernel_cols"] // 3)):
                x = np.full((len(slots), config.rows, config.cols), zero)
                for g in range(config.groups):
                    for k in range(3):
                        ky, kx = config.groups * i + g, 3 * j + k
                        ok = inside(f["row_first"] + oy * f["row_stride"] + ky * f["kernel_row_dilation"],
                                    f["col_first"] + ox * f["col_stride"] + kx) & (ky < f["kernel_rows"])
                        at = start + ky * f["kernel_row_step"] + (ox * f["col_stride"] + kx) * f["in_col_step"]
                        word = memory[(at + o // config.sub_blocks * f["in_block_step"]) % WORDS]
                        x[:, 3 * g + k] = np.where(ok[:, None], word[:, lane:lane + config.cols], zero)
                steps.append(x)
    return steps


def reference(config: Config, memory: np.ndarray, operations: Sequence[Operation]) -> list[np.ndarray]:
    """Return the contents of the buffers that are handed over, in order."""
    buffers: list[np.ndarray] = []
    opened: list[np.ndarray] = []
    for op in operations:
        f = op.fields
        before, opened = opened, []
        sums = np.zeros((f["out_blocks"], f["slots"], config.cols), np.int64)
        for o in range(f["out_blocks"]):
            for k, x in enumerate(inputs(config, memory, op, o)):
                at = f["weight_base"] + o * f["weight_block_step"] + k * f["weight_rows"]
                w = np.zeros((config.rows, config.cols), np.int64)
                w[:f["weight_rows"]] = memory[np.arange(at, at + f["weight_rows"]) % WORDS][:, :config.cols]
                x = x.astype(np.int64)
                sums[o] += np.einsum("nrc,rc->nc", x, w) if x.ndim == 3 else x @ w
        tiles = [slice(t, min(t + f["tile_slots"], f["slots"])) for t in range(0, f["slots"], f["tile_slots"])]
        order = [(o, t) for t in tiles for o in range(f["out_blocks"])] if f["blocks_inner"] else [
            (o, t) for o in range(f["out_blocks"]) for t in tiles]
        for o, t in order:
            new = sums[o, t]
            if not f["acc_first"]:
                new = new + before.pop(0)
            (buffers if f["acc_last"] else opened).append(new.astype(np.int32))
    return buffers
