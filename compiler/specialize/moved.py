"""Moves that transpose matrices, and the merging of two successive moves."""

import math
from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.specialize.values import Users

__all__ = ["joined_moves", "transposed"]

#: Most bytes of a tensor whose bytes are traced one by one.
_MOST_BYTES = 1 << 22


def transposed(value: Value, layer: Layer, output: Value | None = None) -> Move:
    """Return the move, for `layer`, that exchanges rows and columns of matrices [1, matrices, rows, columns]."""
    _, count, rows, cols = value.shape
    if output is None:
        output = Value(f"{value.name} (transposed)", value.tensor, (1, count, cols, rows), value.zero_point)
    upright, across = blank((count, rows, cols), "int8"), blank((count, cols, rows), "int8")
    return Move(layer.index, layer.op, (value,), output,
                (copy_between(0, upright.transpose(0, 2, 1, 3), upright, across, across),))


def _sources(layer: Layer | None) -> IntArray | None:
    """Return the input byte of each output byte of a move; None if it does more than reorder bytes."""
    if not isinstance(layer, Move) or len(layer.copies) != 1 or len(layer.inputs) != 1:
        return None
    (copy,), (source,), target = layer.copies, layer.inputs, layer.output
    size = target.size_bytes
    if (copy.source or size != source.size_bytes or math.prod(dim[0] for dim in copy.dims) != size
            or size > _MOST_BYTES or any(not value.dense or value.flip for value in (source, target))):
        return None
    taken, given = (np.full(1, offset, np.int64) for offset in (copy.source_offset, copy.target_offset))
    for count, take, give in copy.dims:
        taken = np.add.outer(taken, np.arange(count) * take).reshape(-1)
        given = np.add.outer(given, np.arange(count) * give).reshape(-1)
    found = np.full(size, -1, np.int64)
    found[given] = taken
    return found if np.array_equal(np.sort(found), np.arange(size)) else None


def _run(order: IntArray) -> int:
    """Return the length of runs with one stride that all of `order` consists of."""
    if len(order) == 1:
        return 1
    step = order[1] - order[0]
    other = np.flatnonzero(np.diff(order) != step)
    run = int(other[0]) + 1 if len(other) else len(order)
    while run > 1:
        if len(order) % run == 0:
            rows = order.reshape(-1, run)
            if (rows - rows[:, :1] == np.arange(run) * step).all():
                break
        run -= 1
    return run


def _copy(order: IntArray) -> Copy | None:
    """Return the copy of bytes in an order; None if loops of constant strides cannot do it."""
    dims, give, left = list[tuple[int, int, int]](), 1, order
    while len(left) > 1:
        run = _run(left)
        if run == 1:
            return None
        dims.append((run, int(left[1] - left[0]), give))
        give *= run
        left = left.reshape(-1, run)[:, 0]
    return Copy(0, int(left[0]), 0, tuple(dims[::-1]) or ((1, 1, 1),))


def joined_moves(graph: Graph) -> list[Layer]:
    """Return the layers of a graph with successive moves merged, and identity moves removed."""
    layers, at = list(graph.layers), 0
    while at < len(layers):
        joined = _joined(graph, layers, layers[at]) if isinstance(layers[at], Move) else layers
        # The earlier move was removed from the layers that were already visited.
        at = at + 1 if joined is layers else max(at - 1, 0)
        layers = joined
    return layers


def _joined(graph: Graph, layers: list[Layer], layer: Layer) -> list[Layer]:
    """Return the layers with `layer` merged into the move before it; the same list if it cannot be."""
    users = Users(graph, layers)
    first = users.maker(layer.inputs[0]) if len(layer.inputs) == 1 else None
    before = _sources(first)
    after = None if before is None else _sources(layer)
    # A state may be written between the two moves.
    if first is None or before is None or after is None or first.inputs[0].root.initial is not None:
        return layers
    order = before[after]
    copy = _copy(order)
    if copy is None:
        return layers
    rest = [other for other in layers if other is not first]
    value, output = first.inputs[0], layer.output
    seen = [taken for other in layers for taken in other.inputs if taken.root is output.root]
    if (np.array_equal(order, np.arange(len(order))) and not users.is_kept(output) and output.root is output
            and all(taken is output for taken in seen)):
        same = replace(output, alias_of=value)
        return [replace(other, inputs=tuple(same if taken is output else taken for taken in other.inputs))
                for other in rest if other is not layer]
    return [replace(other, inputs=(value,), copies=(copy,)) if other is layer and isinstance(other, Move) else other
            for other in rest]
