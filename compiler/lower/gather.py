"""GATHER and EMBEDDING_LOOKUP."""

import itertools
from typing import Any

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import MatMul, Move, OneHot
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import Value, element_count
from tq_hw.compiler.lower.halves import indices_of
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.lower.moves import add_move, input_blank, move_view, output_blank
from tq_hw.compiler.lower.segments import affine_segments
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.registry import int_option, normalize_axis

__all__ = ["look_up", "look_up_rows"]

#: Multiplier and shift of the identity.
_ONE = (1 << 30, 1)


@lowers("GATHER")
def lower_gather(state: Legalizer, op: Operator) -> None:
    """Constant indices: one copy for each stretch with a constant step; computed indices: a product."""
    x = state.tensor(op, 0)
    if state.tensor(op, 1).data is None:
        gather_by_index(state, op, x)
        return
    indices = state.constant(op, 1)
    axis = normalize_axis(int_option(op, "axis"), len(x.shape))
    batch_dims = int_option(op, "batch_dims")
    batch_dims += indices.ndim if batch_dims < 0 else 0
    base, target = input_blank(state, op), output_blank(state, op)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < x.shape[axis]:
        raise UnsupportedError(f"indices must be in 0..{x.shape[axis] - 1}")
    batch = x.shape[:batch_dims]
    lead = x.shape[batch_dims:axis]
    flat = target.reshape(*batch, *lead, -1, *base.shape[axis + 1:])
    copies = []
    for item in itertools.product(*map(range, batch)):
        for out, picked in affine_segments(indices[item].reshape(-1).tolist()):
            where: tuple[Any, ...] = (*item, *[slice(None)] * len(lead))
            to = flat[(*where, out)]
            copies.append(copy_between(0, np.broadcast_to(base[(*where, picked)], to.shape), base, to, target))
    add_move(state, op, [state.input(op, 0)], copies)


@lowers("EMBEDDING_LOOKUP")
def lower_embedding_lookup(state: Legalizer, op: Operator) -> None:
    """Rows of a table: copies for constant indices, a product for computed ones."""
    table = state.tensor(op, 1)
    if state.tensor(op, 0).data is None:
        embedding_by_index(state, op, table)
        return
    indices = state.constant(op, 0)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < table.shape[0]:
        raise UnsupportedError(f"indices must be in 0..{table.shape[0] - 1}")
    base, target = input_blank(state, op, 1), output_blank(state, op)
    flat = target.reshape(-1, *base.shape[1:])
    copies = [copy_between(0, np.broadcast_to(base[picked], flat[out].shape), base, flat[out], target)
              for out, picked in affine_segments(indices.reshape(-1).tolist())]
    add_move(state, op, [state.input(op, 1)], copies)


def look_up(state: Legalizer, op: Operator, indices: int, table: Value, shape: tuple[int, int, int]) -> Value:
    """Return [1, tables, indices, row bytes] at the run-time indices of an input; `shape`: tables, rows, bytes."""
    count = element_count(state.tensor(op, indices).shape)
    return look_up_rows(state, op, indices_of(state, op, indices), count, table, shape)


def look_up_rows(state: Legalizer, op: Operator, value: Value, count: int, table: Value,
                 shape: tuple[int, int, int]) -> Value:
    """Return the same for a value of `count` int32 indices."""
    tables, rows, row_bytes = shape
    name = state.subgraph.tensors[op.outputs[0]].name
    hot = Value(f"{name} (one-hot)", value.tensor, (1, count, 1, rows))
    state.layers.append(OneHot(op.index, op.op, (value,), hot))
    lhs = reshaped(hot, (1, tables, count // tables, rows))
    out = Value(name, op.outputs[0], (1, tables, count // tables, row_bytes), table.zero_point)
    if table.data is not None and tables == 1:
        weights = np.frombuffer(table.data.tobytes(), np.int8).reshape(rows, row_bytes).T
        state.layers.append(Mac(
            op.index, op.op, (lhs,), out, depthwise=False,
            weights=np.ascontiguousarray(weights).reshape(row_bytes, 1, 1, rows), bias=np.zeros(row_bytes, np.int64),
            multiplier=np.full(row_bytes, _ONE[0]), shift=np.full(row_bytes, _ONE[1]), stride=(1, 1), dilation=(1, 1),
            pad=(0, 0), pad_value=0, zero_point=0, act_min=-128, act_max=127, useful_weights=0))
    else:
        state.layers.append(MatMul(
            op.index, op.op, (lhs, reshaped(table, (1, tables, rows, row_bytes))), out,
            tuple((number, number) for number in range(tables)), (0, 0), *_ONE, 0, is_useful=False))
    return out


def gather_by_index(state: Legalizer, op: Operator, x: Tensor) -> None:
    """GATHER with run-time indices: the axis moves to the front of each batch, is looked up, and moves back."""
    axis = normalize_axis(int_option(op, "axis"), len(x.shape))
    indices = state.tensor(op, 1)
    batch_dims = int_option(op, "batch_dims")
    batch_dims += len(indices.shape) if batch_dims < 0 else 0
    table, rank = state.input(op, 0), len(x.shape)
    if axis > batch_dims:
        order = [*range(batch_dims), axis, *(a for a in range(batch_dims, rank) if a != axis)]
        table = move_view(state, op, table, x, lambda v: v.transpose(*order, rank))
    tables, rows, element = element_count(x.shape[:batch_dims]), x.shape[axis], np.dtype(x.dtype).itemsize
    out = look_up(state, op, 1, table, (tables, rows, element_count(x.shape) // (tables * rows) * element))
    if axis > batch_dims:
        count = element_count(indices.shape) // tables
        before, after = element_count(x.shape[batch_dims:axis]), element_count(x.shape[axis + 1:])
        base, target = blank((tables, count, before, after), x.dtype), blank((tables, before, count, after), x.dtype)
        moved = Value(out.name, out.tensor, (1, 1, 1, out.size_bytes), out.zero_point)
        state.layers.append(Move(op.index, op.op, (out,), moved, (
            copy_between(0, base.transpose(0, 2, 1, 3, 4), base, target, target),)))
        out = moved
    publish(state, op, out)


def embedding_by_index(state: Legalizer, op: Operator, table: Tensor) -> None:
    """EMBEDDING_LOOKUP with run-time indices."""
    rows = table.shape[0]
    row_bytes = element_count(table.shape[1:]) * np.dtype(table.dtype).itemsize
    publish(state, op, look_up(state, op, 0, state.input(op, 1), (1, rows, row_bytes)))
