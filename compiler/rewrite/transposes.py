"""TRANSPOSE operators merged with each other, also across a RESHAPE, or into matrix products and weights."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.registry import bool_option

__all__ = ["TRANSPOSED"]

Shape = Sequence[int]
#: Cycles per byte, measured at `n16` and `n8`: single bytes, a transposed matrix, the longest runs.
_ALONE, _TURNED, _RUNS = 1.5, 0.7, 0.4


def _permutation(graph: Subject, op: Operator | None) -> list[int] | None:
    if op is None or op.op != "TRANSPOSE":
        return None
    order, rank = graph.constant(op, 1), len(graph.input(op).shape)
    # An invalid permutation remains, and is refused later.
    if order is None or order.shape != (rank,) or sorted(int(axis) % rank for axis in order) != list(range(rank)):
        return None
    return [int(axis) % rank for axis in order]


@pattern("TRANSPOSE")
def transposes(graph: Subject, op: Operator) -> Rewrite | None:
    """Merge two TRANSPOSE into one; a TRANSPOSE that only moves axes of size 1 becomes a RESHAPE."""
    order = _permutation(graph, op)
    if order is None:
        return None
    shape = graph.input(op).shape
    long = [axis for axis in order if shape[axis] > 1]
    if long == sorted(long):
        target = graph.add_constant(np.array(graph.output(op).shape, np.int32))
        return Rewrite([op], [Operator(op.index, "RESHAPE", (op.inputs[0], target), op.outputs)])
    before = graph.producer(op)
    first = _permutation(graph, before)
    if before is None or first is None:
        return None
    joined = graph.add_constant(np.array([first[axis] for axis in order], np.int32))
    return Rewrite([before, op], [changed(op, inputs=(before.inputs[0], joined))])


def _split(one: Shape, other: Shape) -> list[int] | None:
    """Return axis sizes, without 1, whose products are the axes of both shapes; None if there are none."""
    ends = {math.prod(shape[axis:]) for shape in (one, other) for axis in range(len(shape))}
    sizes = sorted(ends | {1})
    if any(large % small for small, large in itertools.pairwise(sizes)):
        return None
    return [large // small for small, large in itertools.pairwise(sizes)][::-1]


def _members(shape: Shape, sizes: Shape) -> list[list[int]]:
    """Return for each axis of a shape the indices of `sizes` whose product it is."""
    left, found = list(range(len(sizes))), list[list[int]]()
    for size in shape:
        axis: list[int] = []
        while math.prod(sizes[each] for each in axis) < size:
            axis.append(left.pop(0))
        found.append(axis)
    return found


def _joined(order: Shape, sizes: Shape) -> tuple[list[int], list[int]]:
    """Return order and sizes of a permutation, with axes merged that are adjacent both before and after it."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    by_place = sorted(runs)
    return [by_place.index(run) for run in runs], [math.prod(sizes[each] for each in run) for run in by_place]


def _cost(order: Shape, sizes: Shape) -> float:
    """Estimate the cycles per byte of a permutation."""
    order, sizes = _joined(order, sizes)
    if len(order) < 2:
        return 0
    if order[-1] == len(order) - 1:
        return max(_ALONE / sizes[-1], _RUNS)
    return _TURNED if len(order) == 2 else _ALONE


@pattern("TRANSPOSE")
def transposes_of_parts(graph: Subject, op: Operator) -> Rewrite | None:
    """Merge two TRANSPOSE with a RESHAPE between them, such as in pixel shuffles, if that is faster.

    The axes are split until the RESHAPE only groups them.
    """
    order, first = _permutation(graph, op), None
    before, own = graph.maker(op.inputs[0]), graph.producer(op)
    while before is not None and before.op == "RESHAPE":
        own = own and graph.producer(own)
        before = graph.maker(before.inputs[0])
    if order is not None and graph.maker(op.inputs[0]) is not before:
        first = _permutation(graph, before)
    if before is None or order is None or first is None:
        return None
    between, after, source = graph.output(before).shape, graph.input(op).shape, graph.input(before)
    sizes = _split(between, after) if 0 not in source.shape else None
    if sizes is None:
        return None
    parts, groups = _members(between, sizes), _members(after, sizes)
    # Parts by their position in the source.
    inside = [part for axis in np.argsort(first) for part in parts[axis]]
    both = [inside.index(part) for axis in order for part in groups[axis]]
    split = [sizes[part] for part in inside]
    alone = _cost([part for axis in order for part in groups[axis]], sizes)
    if own is before:
        alone += _cost([inside.index(part) for axis in parts for part in axis], split)
    if _cost(both, split) > alone:
        return None
    joined, shape = _joined(both, split)
    output = graph.output(op)
    target = graph.add_constant(np.array(output.shape, np.int32))
    if len(joined) < 2:
        return Rewrite([op], [Operator(op.index, "RESHAPE", (source.index, target), op.outputs)])
    turned = [shape[axis] for axis in joined]
    whole, made = graph.add_tensor(source, shape), graph.add_tensor(output, turned)
    constants = [graph.add_constant(np.array(each, np.int32)) for each in (shape, joined)]
    return Rewrite([op], [
        Operator(op.index, "RESHAPE", (source.index, constants[0]), (whole,)),
        Operator(op.index, op.op, (whole, constants[1]), (made,)),
        Operator(op.index, "RESHAPE", (made, target), op.outputs)])


@pattern("BATCH_MATMUL")
def transposed_operand(graph: Subject, op: Operator) -> Rewrite | None:
    """Turn a TRANSPOSE of the last two axes before BATCH_MATMUL into its `adj_x` or `adj_y`."""
    for position, name in enumerate(("adj_x", "adj_y")):
        before = graph.producer(op, position)
        order = _permutation(graph, before)
        if before is not None and order is not None and len(order) > 1 and order == [
                *range(len(order) - 2), len(order) - 1, len(order) - 2]:
            inputs = [before.inputs[0] if at == position else index for at, index in enumerate(op.inputs)]
            return Rewrite([before, op], [changed(op, inputs=inputs, options={name: not bool_option(op, name)})])
    return None


@pattern("FULLY_CONNECTED")
def transposed_features(graph: Subject, op: Operator) -> Rewrite | None:
    """Reorder the weights of FULLY_CONNECTED instead of a TRANSPOSE and a flattening RESHAPE before it."""
    flat = graph.producer(op)
    transpose = graph.producer(flat) if flat is not None and flat.op == "RESHAPE" else None
    order, weights = _permutation(graph, transpose), graph.constant(op, 1)
    if flat is None or transpose is None or order is None or weights is None:
        return None
    source, between = graph.input(transpose), graph.output(transpose).shape
    if order[0] != 0 or graph.output(flat).shape != (source.shape[0], weights.shape[1]):
        return None
    back = np.argsort(order)
    data = weights.reshape(-1, *between[1:]).transpose(0, *back[1:]).reshape(weights.shape)
    inputs = [flat.outputs[0], graph.add_constant(np.ascontiguousarray(data), graph.input(op, 1).quantization),
              *op.inputs[2:]]
    return Rewrite([transpose, flat, op], [changed(flat, inputs=(source.index, *flat.inputs[1:])),
                                        changed(op, inputs=inputs)])


#: Patterns in the order in which they are tried.
TRANSPOSED = (transposes, transposes_of_parts, transposed_operand, transposed_features)
