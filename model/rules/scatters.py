"""STABLEHLO_SCATTER that assigns at known indices, as moves: each element of the result comes from one known place.

PyTorch's exports have it for assignments to parts of a tensor. The body has no operator then. What is written twice
keeps the last update, as in LiteRT, which also ignores updates beyond a dimension's end.
"""

import math
from collections.abc import Sequence

import numpy as np

from tq_hw.model.graph import Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.rules.new_operators import Add, constant, gathered, like

__all__ = ["SCATTER", "of_scatter"]

SCATTER = "STABLEHLO_SCATTER"
#: More elements are not searched for rows.
_MOST = 1 << 22


def of_scatter(op: Operator, body: Subgraph, indices: Tensor, tensors: Sequence[Tensor],
               add: Add) -> list[Operator] | None:
    """Return the operators that compute `op`, None if its indices are not known or it does not assign.

    `indices` has what is known of them. The last operator gives a new one.
    """
    source, updates, target = tensors[op.inputs[0]], tensors[op.inputs[2]], tensors[op.outputs[0]]
    if (body.operators or indices.data is None or source.shape != target.shape
            or any((each.dtype, each.quantization) != (source.dtype, source.quantization)
                   for each in (updates, target))):
        return None
    count, more = math.prod(source.shape), math.prod(updates.shape)
    if not count or not more or count + more > _MOST:
        return None
    written = _written(op, indices.data, source.shape, updates.shape)
    if written is None:
        return None
    places = np.arange(count)
    is_inside = written >= 0
    # Of repeated indices numpy assigns the last one.
    places[written[is_inside]] = count + np.flatnonzero(is_inside)
    return _moves(op, places, source, updates, add)


def _written(op: Operator, indices: np.ndarray, shape: tuple[int, ...],
             updates: tuple[int, ...]) -> np.ndarray | None:
    """Return the place in the result of each update, in order, -1 beyond an end; None if an option is wrong."""
    window, inserted, to = (_numbers(op, name) for name in (
        "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"))
    along, rank = op.options.get("index_vector_dim"), len(shape)
    kept = [axis for axis in range(rank) if axis not in inserted]
    scattered = [axis for axis in range(len(updates)) if axis not in window]
    if (not isinstance(along, int) or not 0 <= along < indices.ndim or len(set(to)) != len(to)
            or not set(to) <= set(range(rank)) or not set(window) <= set(range(len(updates)))
            or len(kept) != len(window) or sorted(window) != window):
        return None
    vectors = np.moveaxis(indices, along, -1)
    if vectors.shape != (*(updates[axis] for axis in scattered), len(to)) or vectors.min(initial=0) < 0:
        return None
    grid = np.indices(updates, sparse=True)
    places, is_inside = np.zeros(updates, np.int64), np.ones(updates, np.bool_)
    wide = [updates[axis] if axis in scattered else 1 for axis in range(len(updates))]
    for axis, size in enumerate(shape):
        at = grid[window[kept.index(axis)]] if axis in kept else np.zeros((), np.int64)
        if axis in to:
            at = at + vectors[..., to.index(axis)].astype(np.int64).reshape(wide)
        places, is_inside = places * size + at, is_inside & (at < size)
    return np.where(is_inside, places, -1).reshape(-1)


def _numbers(op: Operator, name: str) -> list[int]:
    option = op.options.get(name)
    return [int(each) for each in option] if isinstance(option, tuple) else []


def _row(places: np.ndarray, source: Tensor, more: int) -> int:
    """Return the length of the longest rows that move as a whole: a product of the last dimensions."""
    best = length = 1
    for size in reversed(source.shape):
        length *= size
        rows = places.reshape(-1, length)
        if more % length or (rows[:, 0] % length).any() or (rows != rows[:, :1] + np.arange(length)).any():
            break
        best = length
    return best


def _moves(op: Operator, places: np.ndarray, source: Tensor, updates: Tensor,
           add: Add) -> list[Operator]:
    """Return a GATHER of rows from the source and the updates, one after the other."""
    new, count = list[Operator](), places.size
    length = _row(places, source, math.prod(updates.shape))

    def made(name: str, inputs: Sequence[int], shape: tuple[int, ...], options: dict[str, OptionValue]) -> Tensor:
        tensor = like(add, source, shape)
        new.append(Operator(op.index, name, tuple(inputs), (tensor.index,), options))
        return tensor

    def rows(tensor: Tensor) -> int:
        shape = (math.prod(tensor.shape) // length, length)
        return made("RESHAPE", (tensor.index, constant(add, shape)), shape, {}).index

    total = (count + math.prod(updates.shape)) // length
    both = made("CONCATENATION", (rows(source), rows(updates)), (total, length),
                {"axis": 0, "fused_activation_function": "NONE"})
    gather, taken = gathered(add, op, both, 0, places.reshape(-1, length)[:, 0] // length)
    new.append(gather)
    made("RESHAPE", (taken.index, constant(add, source.shape)), source.shape, {})
    return new
