"""Operators that only move bytes: each becomes strided copies between dense tensors in system memory."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_hw.compiler.ir.staged import Copy
from tq_hw.compiler.ir.strided import ByteView, copy_between, fill_view
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.moves import add_move, add_view, input_blank, output_blank
from tq_hw.compiler.lower.segments import affine_segments
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.graph import Operator
from tq_hw.model.rules.shapes_slice import strided_cuts
from tq_hw.sim.golden import resize, slicing
from tq_hw.sim.golden.movement import pad_value
from tq_hw.sim.golden.registry import (
    bool_option,
    int_option,
    normalize_axis,
    require,
    require_same_quantization,
    str_option,
)

__all__ = ["lower_pad_move", "pad_copies"]

Slices = tuple[slice, ...]


def _axis_slice(axis: int, part: slice) -> Slices:
    return (*[slice(None)] * axis, part)


def _axis_index(axis: int, index: int) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, index)


@lowers("CONCATENATION")
def lower_concatenation(state: Legalizer, op: Operator) -> None:
    """Each input is copied to its part of the output."""
    activation = str_option(op, "fused_activation_function")
    require(activation == "NONE", f"fused activation must be NONE, not {activation}")
    require_same_quantization(op, state.subgraph)
    target = output_blank(state, op)
    axis = normalize_axis(int_option(op, "axis"), target.ndim - 1)
    inputs: list[Value] = []
    copies: list[Copy] = []
    at = 0
    for position in range(len(op.inputs)):
        if 0 in state.tensor(op, position).shape:
            continue
        base = input_blank(state, op, position)
        end = at + base.shape[axis]
        copies.append(copy_between(len(inputs), base, base, target[_axis_slice(axis, slice(at, end))], target))
        inputs.append(state.input(op, position))
        at = end
    add_move(state, op, inputs, copies)


@lowers("PACK")
def lower_pack(state: Legalizer, op: Operator) -> None:
    """Each input becomes one index of the new axis."""
    target = output_blank(state, op)
    axis = normalize_axis(int_option(op, "axis"), target.ndim - 1)
    copies = []
    for position in range(len(op.inputs)):
        base = input_blank(state, op, position)
        part = target[_axis_index(axis, position)]
        copies.append(copy_between(position, base, base, part, target))
    add_move(state, op, [state.input(op, position) for position in range(len(op.inputs))], copies)


@lowers("UNPACK")
def lower_unpack(state: Legalizer, op: Operator) -> None:
    """One move per output."""
    axis = normalize_axis(int_option(op, "axis"), len(state.tensor(op, 0).shape))
    for position in range(len(op.outputs)):
        add_view(state, op, lambda x, at=position: x[_axis_index(axis, at)], 0, position)  # type: ignore[misc]


def _split(state: Legalizer, op: Operator, source: int, axis: int) -> None:
    at = 0
    for position, index in enumerate(op.outputs):
        end = at + state.subgraph.tensors[index].shape[axis]
        if end > at:
            add_view(state, op, lambda x, part=slice(at, end): x[_axis_slice(axis, part)],  # type: ignore[misc]
                      source, position)
        at = end


@lowers("SPLIT")
def lower_split(state: Legalizer, op: Operator) -> None:
    """Equal parts along an axis."""
    axis = int(state.constant(op, 0).reshape(-1)[0])
    _split(state, op, 1, normalize_axis(axis, len(state.tensor(op, 1).shape)))


@lowers("SPLIT_V")
def lower_split_v(state: Legalizer, op: Operator) -> None:
    """Parts of given sizes along an axis; the output shapes give the sizes."""
    axis = int(state.constant(op, 2).reshape(-1)[0])
    _split(state, op, 0, normalize_axis(axis, len(state.tensor(op, 0).shape)))


@lowers("STRIDED_SLICE")
def lower_strided_slice(state: Legalizer, op: Operator) -> None:
    """A rectangle with steps; a shrunk axis takes one index and is removed, a new axis has size 1."""
    shape = state.tensor(op, 0).shape
    begin, end, strides = (state.constant(op, position).reshape(-1).tolist() for position in (1, 2, 3))
    ranges = slicing.strided_slice_ranges(op, shape, begin, end, strides)
    cuts = strided_cuts(shape, len(begin), op.options) or ()

    def view(x: ByteView) -> ByteView:
        parts = [slice(r.start, r.stop if r.stop >= 0 else None, r.step) for r, _ in ranges]
        picked = x.reshape(*(cut.size for cut in cuts), x.shape[-1])[tuple(parts)]
        return picked.reshape(*state.subgraph.tensors[op.outputs[0]].shape, x.shape[-1])
    add_view(state, op, view)


@lowers("TRANSPOSE")
def lower_transpose(state: Legalizer, op: Operator) -> None:
    """Permuted axes."""
    rank = len(state.tensor(op, 0).shape)
    order = [normalize_axis(int(axis), rank) for axis in state.constant(op, 1)]
    add_view(state, op, lambda x: x.transpose(*order, rank))


@lowers("SPACE_TO_DEPTH")
def lower_space_to_depth(state: Legalizer, op: Operator) -> None:
    """Pixels of a block become channels of one pixel."""
    b = int_option(op, "block_size")
    n, h, w, c = state.tensor(op, 0).shape
    add_view(state, op, lambda x: x.reshape(n, h // b, b, w // b, b, c, -1).transpose(0, 1, 3, 2, 4, 5, 6))


@lowers("DEPTH_TO_SPACE")
def lower_depth_to_space(state: Legalizer, op: Operator) -> None:
    """Channels of one pixel become a block of pixels."""
    b = int_option(op, "block_size")
    n, h, w, c = state.tensor(op, 0).shape
    add_view(state, op, lambda x: x.reshape(n, h, w, b, b, c // (b * b), -1).transpose(0, 1, 3, 2, 4, 5, 6))


def pad_copies(target: ByteView, counts: Sequence[tuple[int, int]], fill: Sequence[int]) -> tuple[ByteView, list[Copy]]:
    """Return the inside of a padded tensor, and the fills around it; `fill` has the bytes of one element."""
    copies, inner = [], target
    for axis, (before, after) in enumerate(counts):
        extent = inner.shape[axis]
        for part in (slice(0, before), slice(extent - after, extent)):
            slab = inner[_axis_slice(axis, part)]
            if slab.size:
                copies += [fill_view(value, slab[..., byte], target) for byte, value in enumerate(fill)]
        inner = inner[_axis_slice(axis, slice(before, extent - after))]
    return inner, copies


def _element(state: Legalizer, op: Operator) -> list[int]:
    """Bytes of the element that an operator pads with."""
    inputs = [None if index < 0 else state.subgraph.tensors[index].data for index in op.inputs]
    dtype = state.subgraph.tensors[op.outputs[0]].dtype
    return list(np.array(pad_value(op, state.subgraph, inputs)).astype(dtype).tobytes())


def lower_pad_move(state: Legalizer, op: Operator) -> None:
    """Padding of any axis by any value."""
    counts = [(int(before), int(after)) for before, after in state.constant(op, 1)]
    base, target = input_blank(state, op), output_blank(state, op)
    inner, copies = pad_copies(target, counts, _element(state, op))
    add_move(state, op, [state.input(op, 0)], [*copies, copy_between(0, base, base, inner, target)])


@lowers("PADV2")
def lower_padv2(state: Legalizer, op: Operator) -> None:
    """Padding by a constant."""
    state.constant(op, 2)
    lower_pad_move(state, op)


def _places(size: int, out_size: int, block: int, offset: int, before: int) -> tuple[slice, slice]:
    """Return slices of t < size and of out for which `out = t * block + offset - before` is in 0..out_size - 1."""
    first = max(0, ceil_div(before - offset, block))
    last = min(size, ceil_div(out_size + before - offset, block))
    start = first * block + offset - before
    return slice(first, max(first, last)), slice(start, start + max(0, last - first) * block, block)


def _block_moves(state: Legalizer, op: Operator, to_batch: bool) -> None:
    """Both *_ND operators: one copy for each position in a block."""
    blocks = [int(size) for size in state.constant(op, 1)]
    before = [int(pair[0]) for pair in state.constant(op, 2)]
    source, target = input_blank(state, op), output_blank(state, op)
    image, batched = (source, target) if to_batch else (target, source)
    places = batched.reshape(*blocks, -1, *batched.shape[1:])
    copies = []
    if to_batch and state.constant(op, 2).any():
        copies += [fill_view(value, target[..., byte], target) for byte, value in enumerate(_element(state, op))]
    for place in itertools.product(*map(range, blocks)):
        small, large = zip(*(
            _places(batched.shape[1 + axis], image.shape[1 + axis], blocks[axis], place[axis], before[axis])
            for axis in range(len(blocks))), strict=True)
        inside, outside = places[place][(slice(None), *small)], image[(slice(None), *large)]
        if inside.size == 0:
            continue
        views = (outside, source, inside, target) if to_batch else (inside, source, outside, target)
        copies.append(copy_between(0, *views))
    add_move(state, op, [state.input(op, 0)], copies)


@lowers("SPACE_TO_BATCH_ND")
def lower_space_to_batch(state: Legalizer, op: Operator) -> None:
    """Positions in a block become batches; the padding is the zero point."""
    _block_moves(state, op, True)


@lowers("BATCH_TO_SPACE_ND")
def lower_batch_to_space(state: Legalizer, op: Operator) -> None:
    """Batches become positions in a block, which is then cropped."""
    _block_moves(state, op, False)


@lowers("RESIZE_NEAREST_NEIGHBOR")
def lower_resize_nearest(state: Legalizer, op: Operator) -> None:
    """Each output pixel is a copy of an input pixel."""
    flags = bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")
    base, target = input_blank(state, op), output_blank(state, op)
    rows = affine_segments(resize.nearest_indices(base.shape[1], target.shape[1], *flags).tolist())
    cols = affine_segments(resize.nearest_indices(base.shape[2], target.shape[2], *flags).tolist())
    copies = []
    for (out_row, row), (out_col, col) in itertools.product(rows, cols):
        to = target[:, out_row, out_col]
        copies.append(copy_between(0, np.broadcast_to(base[:, row, col], to.shape), base, to, target))
    add_move(state, op, [state.input(op, 0)], copies)
