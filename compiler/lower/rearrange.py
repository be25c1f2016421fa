"""TILE, BROADCAST_TO, REVERSE_V2, MIRROR_PAD, GATHER_ND, SCATTER_ND, DYNAMIC_UPDATE_SLICE: strided copies of bytes."""

import itertools

import numpy as np

from tq_hw.compiler.ir.strided import copy_between, fill_view
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.moves import add_move, input_blank, output_blank
from tq_hw.compiler.lower.positions import update_at
from tq_hw.compiler.lower.segments import affine_segments
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.rearrange import flat_indices, mirror_indices, start_of_update
from tq_hw.sim.golden.registry import normalize_axis, str_option

__all__: list[str] = []


@lowers("TILE")
def lower_tile(state: Legalizer, op: Operator) -> None:
    """All repeats in one copy: each axis is read once for each repeat."""
    base, target = input_blank(state, op), output_blank(state, op)
    counts = [int(count) for count in state.constant(op, 1)]
    pairs = [size for pair in zip(counts, base.shape[:-1], strict=True) for size in pair]
    picked = base.reshape([size for each in base.shape[:-1] for size in (1, each)] + [base.shape[-1]])
    picked = np.broadcast_to(picked, (*pairs, base.shape[-1]))
    add_move(state, op, [state.input(op, 0)], [copy_between(0, picked, base, target.reshape(picked.shape), target)])


@lowers("BROADCAST_TO")
def lower_broadcast_to(state: Legalizer, op: Operator) -> None:
    """Axes of size 1 are read repeatedly."""
    base, target = input_blank(state, op), output_blank(state, op)
    picked = np.broadcast_to(base, target.shape)
    add_move(state, op, [state.input(op, 0)], [copy_between(0, picked, base, target, target)])


@lowers("REVERSE_V2")
def lower_reverse(state: Legalizer, op: Operator) -> None:
    """Axes read from their end."""
    base, target = input_blank(state, op), output_blank(state, op)
    axes = [normalize_axis(int(axis), base.ndim - 1) for axis in state.constant(op, 1)]
    add_move(state, op, [state.input(op, 0)], [copy_between(0, np.flip(base, tuple(axes)), base, target, target)])


@lowers("MIRROR_PAD")
def lower_mirror_pad(state: Legalizer, op: Operator) -> None:
    """A copy for the inside and one for each mirrored part."""
    base, target = input_blank(state, op), output_blank(state, op)
    mode = str_option(op, "mode")
    axes = [affine_segments(mirror_indices(size, int(before), int(after), mode))
            for size, (before, after) in zip(base.shape, state.constant(op, 1), strict=False)]
    copies = []
    for parts in itertools.product(*axes):
        to, picked = target[tuple(out for out, _ in parts)], base[tuple(source for _, source in parts)]
        copies.append(copy_between(0, np.broadcast_to(picked, to.shape), base, to, target))
    add_move(state, op, [state.input(op, 0)], copies)


@lowers("GATHER_ND")
def lower_gather_nd(state: Legalizer, op: Operator) -> None:
    """One copy for each stretch of slices with a constant step."""
    base, target = input_blank(state, op), output_blank(state, op)
    indices = state.constant(op, 1)
    depth = indices.shape[-1]
    rows = base.reshape(-1, *base.shape[depth:])
    flat = target.reshape(-1, *base.shape[depth:])
    copies = [copy_between(0, np.broadcast_to(rows[picked], flat[out].shape), base, flat[out], target)
              for out, picked in affine_segments(flat_indices(indices, base.shape[:-1]).tolist())]
    add_move(state, op, [state.input(op, 0)], copies)


@lowers("SCATTER_ND")
def lower_scatter_nd(state: Legalizer, op: Operator) -> None:
    """Zeros, then one copy for each stretch of slices with a constant step."""
    base, target = input_blank(state, op, 1), output_blank(state, op)
    indices = state.constant(op, 0)
    depth = indices.shape[-1]
    rows = base.reshape(-1, *target.shape[depth:])
    flat = target.reshape(-1, *target.shape[depth:])
    copies = [fill_view(0, target, target)]
    # The same stretches, inverted: here the indices of the output have constant steps.
    copies += [copy_between(0, rows[picked], base, flat[out], target)
               for picked, out in affine_segments(flat_indices(indices, target.shape[:-1]).tolist())]
    add_move(state, op, [state.input(op, 1)], copies)


@lowers("DYNAMIC_UPDATE_SLICE")
def lower_dynamic_update_slice(state: Legalizer, op: Operator) -> None:
    """A copy of the input, then the update over it; a selection if the start is computed."""
    if state.tensor(op, 2).data is None:
        update_at(state, op)
        return
    base, part, target = input_blank(state, op), input_blank(state, op, 1), output_blank(state, op)
    start = start_of_update(state.constant(op, 2), base.shape[:-1], part.shape[:-1])
    inside = target[tuple(slice(at, at + size) for at, size in zip(start, part.shape, strict=False))]
    copies = [copy_between(0, base, base, target, target)]
    if part.size:
        copies.append(copy_between(1, part, part, inside, target))
    add_move(state, op, [state.input(op, 0), state.input(op, 1)], copies)
