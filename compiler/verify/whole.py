"""Checks that vector programs read everything that their layer collects: rows, windows, corresponding elements.

Correct bytes alone do not show that no element is missing from a sum or a maximum.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.layers import Elementwise, Mac, MaxPool
from tq_hw.compiler.ir.meaning import Scratch, Streams, Walk, pixels
from tq_hw.compiler.ir.staged import Columns, Flat
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.stream.uses import Uses
from tq_hw.compiler.verify.collected import Collected, Run
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Index
from tq_hw.compiler.verify.walks import Loops, lengths, offsets
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import DataflowError

__all__ = ["check_whole", "reduced"]

_NO_RUN = Run(-1, 0, 0)


def check_whole(machine: Machine, meaning: Streams, found: Uses) -> None:
    """Check the repeats of an operation, and that its results are complete."""
    f, layer = machine.fields, machine.contents.graph.layers[machine.operation.layer]
    if isinstance(layer, Elementwise):
        _facing(machine, layer, meaning, zip(layer.inputs, (meaning.a, meaning.b), strict=False))
    elif isinstance(layer, Mac) and layer.after is not None:
        _facing(machine, layer, meaning, [(layer.inputs[1], meaning.a if layer.after.position else meaning.b)])
    elif isinstance(layer, Chain):
        _facing_all(machine, layer, meaning)
    elif isinstance(layer, MaxPool):
        _pooled(machine, layer, meaning)
    elif isinstance(layer, Flat) and layer.body:
        _rows(machine, layer, meaning, found)
    elif isinstance(layer, Columns) and found.streams.get("a") and f["repeat1"] * f["repeat2"] != layer.elements:
        raise DataflowError(f"it reads {f['repeat1'] * f['repeat2']} of the {layer.elements} elements of a row")
    if not (found.reduces and found.streams):
        _all_collected(machine)


def _collected(machine: Machine) -> Collected:
    return machine.collected.setdefault(machine.operation.layer, Collected())


def _facing(machine: Machine, layer: Elementwise | Mac, meaning: Streams,
            streams: Iterable[tuple[Value, Walk | None]]) -> None:
    """Check that each output element depends on the input elements at its index.

    An input may have one pixel for all of an image, or one word of each pixel for all blocks.
    """
    out = meaning.out
    if out is None or (out.of, out.made) != (layer.output, False):
        raise DataflowError("its results are not those of its layer")
    for value, walk in streams:
        _, h, w, c = layer.output.shape
        wanted = pixels(value, (out.start // (h * w * c), out.at // machine.config.block, 0), machine.config.block,
                        (0, 0))
        if value.shape[1:3] != (1, 1) or (h, w) == (1, 1):
            wanted = Walk(value, out.run, out.start, out.at, out.block, out.row, out.col)
            if value.shape[3] != c:
                wanted = _word_for_all(value, out, c)
        if walk != wanted:
            raise DataflowError(f"it takes other elements of {value.name!r} than its results need")


def _word_for_all(value: Value, out: Walk, channels: int) -> Walk:
    """Return the walk over one word of each pixel that all blocks read; `out` walks over pixels of `channels`."""
    word = value.shape[3]
    row, col = (step // channels * word if step % channels == 0 else 0 for step in (out.row, out.col))
    return Walk(value, word, out.start // channels * word, 0, 0, row, col)


def _facing_all(machine: Machine, layer: Chain, meaning: Streams) -> None:
    """Check that every part reads all elements of its inputs, in the order in which the last part writes the output."""
    _, h, w, c = layer.output.shape
    block, f = machine.config.block, machine.fields
    blocks = ceil_div(c, block)
    if f["slots"] * f["out_blocks"] != h * w * blocks:
        raise DataflowError(f"it takes {f['slots'] * f['out_blocks']} words of {h * w * blocks}")
    for walk in (meaning.a, meaning.b, meaning.out):
        if walk is None:
            continue
        wanted = layer.output if walk is meaning.out else next((v for v in layer.inputs if v is walk.of), None)
        # Consecutive blocks, or consecutive pixels.
        loops = {(w * c, c, block), (block, c, 0), (block, w * c, 0)}
        if (walk.of is not wanted or (walk.run, walk.start, walk.at, walk.made) != (c, 0, 0, False)
                or (walk.row, walk.col, walk.block) not in loops):
            raise DataflowError("it takes other elements than its results need")


def _pooled(machine: Machine, layer: MaxPool, meaning: Streams) -> None:
    """Check that an operation takes the maximum of taps of its windows, and that all taps inside the image occur."""
    f, out, taken = machine.fields, meaning.out, meaning.a
    if out is None or taken is None or taken.of is not layer.inputs[0] or not isinstance(out.of, Scratch | Value) or (
            isinstance(out.of, Value) and out.of is not layer.output):
        raise DataflowError("its streams are not those of its layer")
    _, h, w, c = layer.inputs[0].shape
    _, out_h, out_w, _ = layer.output.shape
    loops = Loops(np.arange(1), np.arange(f["slots"]), f["cols"])
    pixel, channel = np.divmod(out.start + offsets(out, loops)[0, 0], c)
    image, at = np.divmod(pixel, out_h * out_w)
    spans = []
    for place, size, kernel, stride, pad in zip(np.divmod(at, out_w), (h, w), layer.kernel, layer.stride, layer.pad,
                                                strict=True):
        low = place * stride - pad
        spans.append((np.maximum(low, 0), np.minimum(low + kernel, size)))
    (top, bottom), (left, right) = spans
    first = ((image * h + top) * w + left) * c + channel
    if meaning.b is not None:
        rows, cols = np.arange(bottom[0] - top[0]), np.arange(right[0] - left[0])
        if (bottom - top != len(rows)).any() or (right - left != len(cols)).any():
            raise DataflowError("its windows do not have the same taps")
        _pass(machine, meaning, {int(row * w + col) * c for row in rows for col in cols}, lambda walk: (
            walk.start + offsets(walk, loops)[0, 0] - first))
    elif not (out.of is layer.output and np.array_equal(taken.start + offsets(taken, loops)[0, 0], first)
              and (bottom - top == f["repeat2"]).all() and (right - left == f["repeat1"]).all()
              and (taken.block, taken.repeat1, taken.repeat2) == (out.block, c, w * c)):
        raise DataflowError("its repeats are not the taps of its windows")


def _pass(machine: Machine, meaning: Streams, wanted: set[int], apart: Callable[[Walk], Index]) -> None:
    """Check the maximum of two taps, or of a tap and the maximum of others; `apart` is the distance from the first."""
    known, out, found = _collected(machine).taps, meaning.out, set[int]()
    assert out is not None, "only operations with results are checked"
    for walk in (meaning.a, meaning.b):
        assert walk is not None, "a pass has two streams"
        if isinstance(walk.of, Scratch):
            if walk != replace(out, of=walk.of):
                raise DataflowError("it continues other maxima than it writes")
            found |= known[walk.of]
            continue
        taps = set(apart(walk).tolist())
        if len(taps) != 1 or not taps <= wanted or walk.block != out.block:
            raise DataflowError("its slots are not a tap of its windows")
        found |= taps
    if not isinstance(out.of, Scratch):
        if found != wanted:
            raise DataflowError(f"its results are the maxima of {len(found)} of {len(wanted)} taps")
    elif known.setdefault(out.of, frozenset(found)) != found:
        raise DataflowError("other maxima of its layer have other taps")


def _rows(machine: Machine, layer: Flat, meaning: Streams, found: Uses) -> None:
    """Check that rows come in order, and all of them before a result."""
    f, taken, collected = machine.fields, meaning.a, _collected(machine)
    if taken is None or not found.streams.get("a"):
        raise DataflowError("it has no rows")
    row = taken.start // taken.run % layer.rows
    if row != collected.rows or taken.repeat1 != taken.run:
        raise DataflowError(f"it begins with row {row}, but {collected.rows} of {layer.rows} rows are complete")
    collected.rows += f["repeat1"] * f["repeat2"]
    if found.output:
        if collected.rows != layer.rows:
            raise DataflowError(f"its results cover {collected.rows} of {layer.rows} rows")
        collected.rows = 0


def reduced(machine: Machine, walk: Walk, loops: Loops, slot_bytes: int, found: Uses) -> None:
    """Record reduced elements: those of a run must come in order, and all of them before results are written."""
    f = machine.fields
    if len(loops.repeat1) > 1 or len(loops.blocks) > 1:
        raise DataflowError("it reduces several rows to one value")
    at, sizes = offsets(walk, loops)[0, 0], np.minimum(lengths(walk, loops)[0, 0], slot_bytes)
    passes, begins = np.divmod(at, walk.run)
    if found.output:
        chunk = min(f["chunk_slots"], f["tile_slots"])
        first = np.arange(0, len(at), chunk)
        if begins[first].any() or (np.add.reduceat(sizes, first) != walk.run).any():
            raise DataflowError(f"its chunks of {chunk} slots are not the rows that it reduces")
        return
    runs = _collected(machine).runs
    where, begin, end = walk.start + int(passes[0]) * walk.run, int(begins[0]), int(begins[-1] + sizes[-1])
    last = runs.get(found.left, _NO_RUN)
    before = last.end if last.where == where and last.end < last.size else 0
    if int(sizes.sum()) != end - begin or begin != before:
        raise DataflowError(f"it reduces bytes {begin}..{end - 1} of a row, after {before} of {walk.run}")
    runs[found.left] = Run(where, end, walk.run)


def _all_collected(machine: Machine) -> None:
    collected = machine.collected.get(machine.operation.layer)
    if collected is None:
        return
    for run in collected.runs.values():
        if run.end != run.size:
            raise DataflowError(f"only {run.end} of the {run.size} bytes of a row were reduced before it")
    collected.runs.clear()
