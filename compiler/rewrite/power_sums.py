"""Bounds of a softmax that is written out: differences to the largest element of a row, and sums of their exponentials.

LOG_SOFTMAX over channels and logsumexp of PyTorch's exports are written like this. A difference to the largest element
is at most 0, and exactly 0 for that element, so that one of the exponentials is exactly 1. No exponential is negative.
A rounded sum of numbers that are not negative is at least each of the two numbers, because they are float32 numbers and
rounding keeps order. In whatever order a row is added up, its sum is therefore at least 1.

Which row an element belongs to follows from the moves between the elements, their maxima and the differences: they are
repeated with the elements' numbers.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.signs import SAME_ORDER

__all__ = ["adds_up_to_one", "is_below_largest"]


@dataclass(frozen=True)
class _Differences:
    """What a SUB subtracts.

    Members
    -------
    elements, tops : for each difference the number of the element and of the maximum
    row : for each element the number of its maximum
    """

    elements: IntArray
    tops: IntArray
    row: IntArray


def is_below_largest(graph: Subject, op: Operator) -> bool:
    """Whether `op` subtracts from each element the largest one of its row."""
    found = _differences(graph, op)
    return found is not None and bool((found.row[found.elements] == found.tops).all())


def adds_up_to_one(graph: Subject, op: Operator) -> bool:
    """Whether `op` is a SUM of e^(x - m) over all elements x of one row at least, where m is the row's largest one."""
    power, along = graph.maker(op.inputs[0]), graph.constant(op, 1)
    apart = None if power is None or power.op != "EXP" else graph.maker(power.inputs[0])
    found = None if apart is None else _differences(graph, apart)
    if op.op != "SUM" or along is None or found is None:
        return False
    summed = sorted(axes(along, found.tops.ndim))
    order = [*(axis for axis in range(found.tops.ndim) if axis not in summed), *summed]
    count = math.prod(found.tops.shape[axis] for axis in summed)
    elements, tops = (each.transpose(order).reshape(-1, count) for each in (found.elements, found.tops))
    inside = np.sort(np.where(found.row[elements] == tops, elements, -1), axis=1)
    distinct = (np.diff(inside, axis=1, prepend=-1) > 0).sum(axis=1)
    sizes = np.bincount(found.row)
    return bool((tops == tops[:, :1]).all() and (distinct == sizes[tops[:, 0]]).all())


def _differences(graph: Subject, op: Operator) -> _Differences | None:
    if op.op != "SUB" or op.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    moves, tops = _moves(graph, op.inputs[0]), _moves(graph, op.inputs[1])
    top = graph.maker(_source(graph, tops, op.inputs[1]))
    along = None if top is None or top.op != "REDUCE_MAX" else graph.constant(top, 1)
    if top is None or along is None:
        return None
    before = _moves(graph, top.inputs[0])
    base, given = _source(graph, moves, op.inputs[0]), graph.input(top)
    compared = [graph.tensors[_codes(graph, each)] for each in op.inputs]
    if (_source(graph, before, given.index) != base or 0 in graph.tensors[base].shape
            or compared[0].quantization != compared[1].quantization):
        return None
    count = math.prod(graph.tensors[base].shape)
    numbers = np.arange(count).reshape(graph.tensors[base].shape)
    kept = [1 if axis in axes(along, len(given.shape)) else size for axis, size in enumerate(given.shape)]
    rows = np.arange(math.prod(kept))
    row = np.zeros(count, np.int64)
    row[_moved(graph, before, numbers)] = np.broadcast_to(rows.reshape(kept), given.shape)
    elements = _moved(graph, moves, numbers)
    largest = _moved(graph, tops, rows.reshape(graph.output(top).shape))
    elements, largest = np.broadcast_arrays(elements, largest)
    return _Differences(elements, largest, row)


def _codes(graph: Subject, index: int) -> int:
    maker = graph.maker(index)
    return maker.inputs[0] if maker is not None and maker.op == "DEQUANTIZE" else index


def _source(graph: Subject, moves: list[Operator], index: int) -> int:
    """Return the tensor that moves begin with."""
    index = moves[0].inputs[0] if moves else index
    while (maker := graph.maker(index)) is not None and (passed := _passed(graph, maker)) is not None:
        index = passed
    return index


def _moves(graph: Subject, index: int) -> list[Operator]:
    """Return the moves that lead to a tensor, first to last; they change neither numbers nor quantization."""
    found: list[Operator] = []
    while (maker := graph.maker(index)) is not None:
        if (passed := _passed(graph, maker)) is not None:
            index = passed
            continue
        source, made = graph.input(maker), graph.output(maker)
        is_move = maker.op in (*SAME_ORDER, "BROADCAST_TO") or (
            maker.op == "TRANSPOSE" and graph.constant(maker, 1) is not None)
        if maker.op != "DEQUANTIZE" and not (is_move and source.quantization == made.quantization):
            break
        found.insert(0, maker)
        index = source.index
    return found


def _passed(graph: Subject, op: Operator) -> int | None:
    """Return the input that an operator passes because it is finite: a maximum with -inf, or what is not infinite."""
    passed, limit = None, None
    if op.op == "MAXIMUM":
        limit = graph.constant(op, 1)
        passed = op.inputs[0]
        if limit is None:
            limit, passed = graph.constant(op, 0), op.inputs[1]
    elif op.op in ("SELECT", "SELECT_V2") and (compared := graph.maker(op.inputs[0])) is not None and (
            compared.op == "EQUAL"):
        limit, passed = graph.constant(compared, 1), op.inputs[2]
        size = graph.maker(compared.inputs[0])
        if size is None or size.op != "ABS" or size.inputs[0] != passed:
            return None
    if passed is None or limit is None or limit.dtype != np.float32 or (
            graph.tensors[passed].shape != graph.output(op).shape):
        return None
    return passed if (np.isneginf(limit) if op.op == "MAXIMUM" else np.isinf(limit)).all() else None


def _moved(graph: Subject, moves: list[Operator], numbers: IntArray) -> IntArray:
    for op in moves:
        shape = graph.output(op).shape
        if op.op in SAME_ORDER:
            numbers = numbers.reshape(shape)
        elif op.op == "BROADCAST_TO":
            numbers = np.broadcast_to(numbers, shape)
        elif op.op == "TRANSPOSE" and (order := graph.constant(op, 1)) is not None:
            numbers = numbers.transpose([int(axis) for axis in order])
    return numbers
