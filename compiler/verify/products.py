"""Checks of other array operations: products with rows that are not an image, and moves of bytes by weights of 1."""

from collections.abc import Mapping

import numpy as np

from tq_hw.compiler.ir.meaning import Terms, Walk
from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.constants import constants
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Bytes, Flags, Index
from tq_hw.compiler.verify.walks import Loops, expected
from tq_hw.isa.layout import ArrayMode
from tq_hw.model.errors import DataflowError

__all__ = ["moved_bytes", "product_terms"]


def product_terms(machine: Machine, terms: Terms) -> None:
    """Check the reads of an operation on rows: slots are rows, input blocks their elements."""
    f = machine.fields
    if f["mode"] != ArrayMode.GEMM or (f["kernel_rows"], f["kernel_cols"]) != (1, 1):
        raise DataflowError("products of rows must have a kernel of one row and one column")
    _rows(machine, terms)
    if isinstance(terms.weights, bytes):
        words = _weight_area(machine, f["out_blocks"])
        data, rows = np.frombuffer(terms.weights, np.uint8), words.counts[0] * words.counts[1]
        if data.size != rows * machine.config.cols:
            raise DataflowError(f"it has {rows} rows of weights, but its matrix has {data.size // machine.config.cols}")
        if machine.exists(words):
            machine.reads(words)
        constants(machine, words, data.reshape(*words.counts, -1), None, "weights")
    else:
        _matrix(machine, terms, terms.weights)


def _weight_area(machine: Machine, blocks: int) -> Area:
    f = machine.fields
    rows = f["kernel_blocks"] * f["slices"] * f["weight_rows"]
    return Area.of(f["weight_base"], (blocks, rows), (f["weight_block_step"], 1))


def _rows(machine: Machine, terms: Terms) -> None:
    f, config = machine.fields, machine.config
    slots, blocks = np.arange(f["slots"]), np.arange(f["kernel_blocks"])
    row, col = np.divmod(slots, f["out_cols"])
    inside = (f["row_first"] + row * f["row_stride"] < f["in_rows"]) & (
        f["col_first"] + col * f["col_stride"] < f["in_cols"])
    if not inside.all() or f["row_first"] or f["col_first"]:
        raise DataflowError("some of its rows are outside the image that its fields describe")
    words = (f["in_base"] + row * f["in_row_step"] + col * f["in_col_step"])[:, None] + blocks * f[
        "kernel_block_step"]
    words = machine.words(words)
    found = machine.there(words, "its rows")[..., :config.block]
    if isinstance(terms.x, int):
        wanted = np.full(found.shape, machine.numbers.fill(terms.x), found.dtype)
        machine.expect(found, wanted, words, "its rows")
        return
    wanted = expected(machine, terms.x, Loops(blocks, slots, f["out_cols"]), 0, config.block)
    machine.expect(found, wanted[0].swapaxes(0, 1), words, "its rows")


def _matrix(machine: Machine, terms: Terms, weights: Walk | int) -> None:
    """Check weights [block of rows, row] from memory, or of one byte; after the last row they are 0."""
    f, config = machine.fields, machine.config
    words = _weight_area(machine, 1).places().reshape(f["kernel_blocks"], -1)
    words = machine.words(words)
    found = machine.there(words, "its matrix")[..., :config.cols]
    lane = np.arange(f["slices"])[:, None] * config.gemm_rows + np.arange(f["weight_rows"])
    lane = lane.reshape(-1)
    depth = np.arange(f["kernel_blocks"])[:, None] * config.block + lane
    there = (lane < config.block) & (depth < terms.depth)
    zero = machine.numbers.fill(0)
    if isinstance(weights, int):
        wanted = np.where(there, machine.numbers.fill(weights), zero)[..., None]
        machine.expect(found, np.broadcast_to(wanted, found.shape).astype(found.dtype), words, "its matrix")
        return
    rows = np.where(there, depth, 0).reshape(-1)
    wanted = expected(machine, weights, Loops(np.zeros(1, np.int64), rows, 1), 0, config.cols).reshape(found.shape)
    machine.expect(found, np.where(there[..., None], wanted, np.asarray(zero, found.dtype)), words, "its matrix")


def moved_bytes(machine: Machine) -> Bytes:
    """Return the bytes [block, slot, column] of sums with one weight of 1 and all others 0."""
    f, config = machine.fields, machine.config
    if f["mode"] == ArrayMode.DEPTHWISE:
        raise DataflowError("it has no meaning, and a depthwise operation is no move of bytes")
    x = _folded(machine, f) if f["mode"] == ArrayMode.FOLDED else _words_in(machine, f)
    steps, used = x.shape[1:]
    words = f["weight_base"] + np.arange(f["out_blocks"])[:, None] * f["weight_block_step"] + np.arange(
        steps * used)
    found = machine.read(words, "weights")[..., :config.cols]
    weights = machine.numbers.values(found)
    if weights is None or int(weights.max()) > 1 or int(weights.sum(axis=1).max()) > 1:
        raise DataflowError("it has no meaning, and its weights are not those of a move of bytes")
    flat = x.reshape(len(x), -1)
    picked = flat[:, weights.argmax(axis=1)].swapaxes(0, 1)
    some: Flags = weights.sum(axis=1)[:, None] > 0
    return np.where(some, picked, np.asarray(machine.numbers.fill(0), flat.dtype))


def _words_in(machine: Machine, f: Mapping[str, int]) -> Bytes:
    """Return the bytes [slot, step, row] of plain steps."""
    config, used = machine.config, f["weight_rows"]
    oy, ox = np.divmod(np.arange(f["slots"]), f["out_cols"])
    ky, kx, ib = (axis.reshape(-1) for axis in np.meshgrid(
        np.arange(f["kernel_rows"]), np.arange(f["kernel_cols"]), np.arange(f["kernel_blocks"]), indexing="ij"))
    row = f["row_first"] + oy[:, None] * f["row_stride"] + ky * f["kernel_row_dilation"]
    col = f["col_first"] + ox[:, None] * f["col_stride"] + kx * f["kernel_col_dilation"]
    words = (f["in_base"] + oy[:, None] * f["in_row_step"] + ox[:, None] * f["in_col_step"]
             + ky * f["kernel_row_step"] + kx * f["kernel_col_step"]
             + ib * f["kernel_block_step"])
    inside = (row >= 0) & (row < f["in_rows"]) & (col >= 0) & (col < f["in_cols"])
    lanes = np.arange(f["slices"])[:, None] * config.gemm_rows + np.arange(used)
    x = _inside(machine, words, inside)[..., np.minimum(lanes, config.word_bytes - 1)]
    x = np.where(lanes < config.word_bytes, x, np.asarray(machine.numbers.fill(0), x.dtype))
    return x.reshape(len(oy), -1, used)


def _inside(machine: Machine, words: Index, inside: Flags) -> Bytes:
    machine.words(words[inside])
    fill = machine.numbers.fill(machine.fields["zero_point"])
    found = machine.there(np.where(inside, words & 0xFFFF, 0), "input 0")
    return np.where(inside[..., None], found, np.asarray(fill, found.dtype))


def _folded(machine: Machine, f: Mapping[str, int]) -> Bytes:
    """Return the bytes [slot, step, row] of folded steps, by the folding table."""
    width, used = machine.config.word_bytes, f["weight_rows"]
    oy, ox = np.divmod(np.arange(f["slots"]), f["out_cols"])
    base = f["in_base"] + oy * f["in_row_step"] + ox * f["in_col_step"]
    fill = machine.numbers.fill(f["zero_point"])
    x = np.full((len(base), f["kernel_blocks"], used), fill, machine.numbers.dtype)
    for step in range(f["kernel_blocks"]):
        covered = 0
        for feed in machine.folds.get(step, ()):
            end = feed.get("lane_end", 0)
            if end <= covered:
                continue
            row = f["row_first"] + oy * f["row_stride"] + feed.get("kernel_row", 0)
            word = _inside(machine, base + feed.get("address", 0), (row >= 0) & (row < f["in_rows"]))
            lanes = np.arange(min(covered, used), min(end, used))
            x[:, step, lanes] = word[:, (lanes - feed.get("rotate", 0)) % width]
            covered = end
    return x
