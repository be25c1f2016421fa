"""Operators that select parts of a tensor; values are copied unchanged.

Sources: `slice.cc`, `strided_slice.cc` with `internal/strided_slice_logic.h`, `split.cc`,
`split_v.cc`, `reference/gather.h`, `embedding_lookup.cc`.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.model.errors import InputError, ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.model.rules.shapes_slice import strided_cuts
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    int_option,
    kernel,
    normalize_axis,
    require,
    value,
)

__all__ = ["strided_slice_ranges"]


@kernel("SLICE")
def slice_(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Contiguous part from `begin` (input 1) of `size` (input 2); size -1 reaches the end."""
    x = value(inputs, 0)
    window = []
    for extent, begin, size in zip(x.shape, value(inputs, 1), value(inputs, 2), strict=True):
        first = int(begin)
        last = extent if int(size) == -1 else first + int(size)
        if not 0 <= first <= last <= extent:
            raise ModelError(f"slice {first}..{last} must lie within 0..{extent}")
        window.append(slice(first, last))
    part: Array = x[tuple(window)]
    return [part]


def strided_slice_ranges(op: Operator, shape: Sequence[int], begin: Sequence[int], end: Sequence[int],
                         strides: Sequence[int]) -> list[tuple[range, bool]]:
    """List, for each axis including new ones of size 1, the selected indices and whether the axis is dropped.

    A shrunk axis selects one index: `begin`, or index 0 (the last one for a negative stride) when `begin_mask` is also
    set, as all engines do.
    """
    cuts = strided_cuts(shape, len(begin), op.options)
    if cuts is None or not len(begin) == len(end) == len(strides):
        raise ModelError(f"begin, end and strides must have equal lengths of at most {len(shape)} besides new axes")
    require(not bool_option(op, "offset"), "offset must be false, engines interpret it differently")
    masks = [int_option(op, name) for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
    ranges = []
    for cut in cuts:
        if cut.entry < 0:
            ranges.append((range(cut.size), False))
            continue
        from_first, to_last, shrink = (bool(mask >> cut.entry & 1) for mask in masks)
        first, last, stride = int(begin[cut.entry]), int(end[cut.entry]), int(strides[cut.entry])
        if stride == 0:
            raise ModelError(f"stride {cut.entry} must not be 0")
        low, high = (0, cut.size) if stride > 0 else (-1, cut.size - 1)
        first = min(max(first + cut.size if first < 0 else first, low), high)
        if from_first:
            first = 0 if stride > 0 else cut.size - 1
        if shrink:
            if not 0 <= first < cut.size:
                raise ModelError(f"index {first} must be in 0..{cut.size - 1}")
            ranges.append((range(first, first + 1), True))
            continue
        last = min(max(last + cut.size if last < 0 else last, low), high)
        if to_last:
            last = cut.size if stride > 0 else -1
        ranges.append((range(first, last, stride), False))
    return ranges


@kernel("STRIDED_SLICE")
def strided_slice(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Python-like slice with a stride per axis."""
    x = value(inputs, 0)
    begin, end, strides = (value(inputs, position).reshape(-1).tolist() for position in (1, 2, 3))
    ranges = strided_slice_ranges(op, x.shape, begin, end, strides)
    cuts = strided_cuts(x.shape, value(inputs, 1).size, op.options) or ()
    part = x.reshape([cut.size for cut in cuts])[np.ix_(*(indices for indices, _ in ranges))] if ranges else x
    return [part.reshape([len(indices) for indices, dropped in ranges if not dropped])]


@kernel("SPLIT")
def split(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Equal parts along the axis in input 0 of the tensor in input 1."""
    x, parts = value(inputs, 1), int_option(op, "num_splits")
    axis = normalize_axis(int(value(inputs, 0).reshape(-1)[0]), x.ndim)
    if parts < 1 or x.shape[axis] % parts:
        raise ModelError(f"{parts} parts must divide axis {axis} of size {x.shape[axis]}")
    return np.split(x, parts, axis=axis)


@kernel("SPLIT_V")
def split_v(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Parts of the sizes in input 1 (one may be -1) along the axis in input 2."""
    x = value(inputs, 0)
    axis = normalize_axis(int(value(inputs, 2).reshape(-1)[0]), x.ndim)
    sizes = [int(size) for size in value(inputs, 1)]
    if sizes.count(-1) == 1:
        rest = x.shape[axis] - sum(size for size in sizes if size != -1)
        sizes = [rest if size == -1 else size for size in sizes]
    if min(sizes) < 0 or sum(sizes) != x.shape[axis]:
        raise ModelError(f"sizes {sizes} must add up to {x.shape[axis]}, axis {axis}")
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis)


def _checked(indices: Array, extent: int) -> Array:
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < extent:
        raise InputError(f"indices must be in 0..{extent - 1}, found {int(indices.min())}.."
                          f"{int(indices.max())}")
    return indices.astype(np.int64)


@kernel("GATHER")
def gather(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Slices along `axis` picked by the indices in input 1, per batch of `batch_dims` axes."""
    x, indices = value(inputs, 0), value(inputs, 1)
    axis = normalize_axis(int_option(op, "axis"), x.ndim)
    batch_dims = int_option(op, "batch_dims")
    batch_dims += indices.ndim if batch_dims < 0 else 0
    if not 0 <= batch_dims <= min(axis, indices.ndim):
        raise ModelError(f"batch_dims must be in 0..{min(axis, indices.ndim)}, not {batch_dims}")
    if x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ModelError(f"the first {batch_dims} axes of {list(x.shape)} and "
                         f"{list(indices.shape)} must agree")
    picked = _checked(indices, x.shape[axis])
    batch = x.shape[:batch_dims]
    count = int(np.prod(batch, dtype=np.int64))
    rows = x.reshape(count, *x.shape[batch_dims:])
    each = picked.reshape(count, *picked.shape[batch_dims:])
    parts = [np.take(rows[item], each[item], axis=axis - batch_dims) for item in range(count)]
    return [np.stack(parts).reshape((*batch, *parts[0].shape))]


@kernel("EMBEDDING_LOOKUP")
def embedding_lookup(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Rows of the table in input 1 picked by the int32 indices in input 0."""
    ids, table = value(inputs, 0), value(inputs, 1)
    rows: Array = table[_checked(ids, table.shape[0])]
    return [rows]
