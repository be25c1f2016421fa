"""Operators that repeat, mirror or pick parts of a tensor; values are copied unchanged, whatever their scale.

Sources: `tile.cc`, `broadcast_to.cc`, `reverse.cc`, `mirror_pad.cc`, `gather_nd.cc`, `scatter_nd.cc`,
`dynamic_update_slice.cc`. None of the kernels uses scales or zero points.
"""

import numpy as np

from tq_hw.model.errors import InputError, ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import Array, Inputs, kernel, normalize_axis, str_option, value

__all__ = ["flat_indices", "mirror_indices", "start_of_update"]


@kernel("TILE")
def tile(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Repeat each axis as often as input 1 says."""
    return [np.tile(value(inputs, 0), [int(count) for count in value(inputs, 1)])]


@kernel("BROADCAST_TO")
def broadcast_to(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Repeat axes of size 1 to the shape in input 1."""
    return [np.broadcast_to(value(inputs, 0), [int(size) for size in value(inputs, 1)])]


@kernel("REVERSE_V2")
def reverse(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Reverse the axes in input 1."""
    x = value(inputs, 0)
    return [np.flip(x, tuple(normalize_axis(int(axis), x.ndim) for axis in value(inputs, 1)))]


def mirror_indices(size: int, before: int, after: int, mode: str) -> list[int]:
    """Input index at each position of an axis that MIRROR_PAD pads; REFLECT omits the border element."""
    padded = np.pad(np.arange(size), (before, after), "reflect" if mode == "REFLECT" else "symmetric")
    return [int(index) for index in padded]


@kernel("MIRROR_PAD")
def mirror_pad(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Surround with the mirrored contents."""
    x = value(inputs, 0)
    for axis, (before, after) in enumerate(value(inputs, 1)):
        x = np.take(x, mirror_indices(x.shape[axis], int(before), int(after), str_option(op, "mode")), axis)
    return [x]


def flat_indices(indices: Array, shape: tuple[int, ...]) -> Array:
    """Flat index of the slice at each index in the last axis of `indices`, for a tensor of `shape`.

    Raises `OptionError` for an index outside the tensor.
    """
    depth = indices.shape[-1]
    sizes = np.array(shape[:depth], np.int64)
    wide = indices.reshape(-1, depth).astype(np.int64)
    if wide.size and not ((wide >= 0) & (wide < sizes)).all():
        worst = wide[~((wide >= 0) & (wide < sizes)).all(axis=1)][0].tolist()
        raise InputError(f"indices must lie in {sizes.tolist()}, found {worst}")
    steps = np.array([int(np.prod(sizes[axis + 1:])) for axis in range(depth)], np.int64)
    return wide @ steps


@kernel("GATHER_ND")
def gather_nd(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Slices of input 0 at the indices in the last axis of input 1."""
    x, indices = value(inputs, 0), value(inputs, 1)
    depth = indices.shape[-1]
    if depth > x.ndim:
        raise ModelError(f"indices have {depth} numbers each, the input {x.ndim} axes")
    rows = x.reshape(-1, *x.shape[depth:]) if depth else x[None]
    return [rows[flat_indices(indices, x.shape)].reshape((*indices.shape[:-1], *x.shape[depth:]))]


@kernel("SCATTER_ND")
def scatter_nd(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Zeros, with the slices of input 1 at the indices in input 0; slices at the same index are added, and wrap."""
    indices, updates, shape = value(inputs, 0), value(inputs, 1), tuple(int(size) for size in value(inputs, 2))
    depth = indices.shape[-1]
    places = flat_indices(indices, shape)
    result = np.zeros(shape, updates.dtype).reshape(-1, *shape[depth:])
    np.add.at(result, places, updates.reshape(-1, *shape[depth:]))
    return [result.reshape(shape)]


def start_of_update(start: Array, shape: tuple[int, ...], update: tuple[int, ...]) -> list[int]:
    """Start of an update, clamped so that the whole update is inside."""
    return [min(max(int(at), 0), size - part) for at, size, part in zip(start, shape, update, strict=True)]


@kernel("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Input 0 with input 1 written from the start in input 2 on."""
    x, update = value(inputs, 0).copy(), value(inputs, 1)
    start = start_of_update(value(inputs, 2), x.shape, update.shape)
    x[tuple(slice(at, at + size) for at, size in zip(start, update.shape, strict=True))] = update
    return [x]
