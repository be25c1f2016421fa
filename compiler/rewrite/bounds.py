"""A number that is divided by the length of its vector is at most 1, though the length may be next to nothing."""

import math

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.signs import SAME_ORDER, is_plain

__all__ = ["LEAST_LENGTH", "share_of_length"]

#: Lengths are at least this: the square of a number that is as large does not fall below the smallest float32.
LEAST_LENGTH = 2.0**-60
#: More than squares, sums, roots and quotients are rounded by.
_ROUNDED = 1 + 2.0**-10


def share_of_length(graph: Subject, op: Operator) -> float | None:
    """Return what the quotients or products of `op` are at most in magnitude, None where nothing is known.

    It divides a vector by the root of the sum or mean of its squares, or multiplies it with RSQRT of that; numbers may
    be added to either, or be the least. Lengths must be `LEAST_LENGTH` or more.
    """
    if op.op == "DIV":
        return _share(graph, op.inputs[0], op.inputs[1], "SQRT")
    if op.op == "MUL":
        return _share(graph, op.inputs[0], op.inputs[1], "RSQRT") or _share(graph, op.inputs[1], op.inputs[0], "RSQRT")
    return None


def _share(graph: Subject, vector: int, length: int, root: str) -> float | None:
    spread = graph.maker(length)
    if spread is not None and spread.op == "BROADCAST_TO":
        length = spread.inputs[0]
    made = graph.maker(_without_more(graph, length) if root == "SQRT" else _in_order(graph, length))
    if made is None or made.op != root:
        return None
    total = graph.maker(_without_more(graph, made.inputs[0]))
    if total is None or total.op not in ("SUM", "MEAN"):
        return None
    along, shape = graph.constant(total, 1), list(graph.tensors[vector].shape)
    if along is None or not _is_square(graph, total.inputs[0], vector):
        return None
    kept, count = list(shape), 1
    for axis in axes(along, len(shape)):
        count, kept[axis] = count * shape[axis], 1
    if list(graph.tensors[length].shape) != kept:
        return None
    return _ROUNDED * (math.sqrt(count) if total.op == "MEAN" else 1)


def _in_order(graph: Subject, index: int) -> int:
    """Return the tensor whose numbers these are, in the same order."""
    while (maker := graph.maker(index)) is not None and maker.op in SAME_ORDER:
        index = maker.inputs[0]
    return index


def _without_more(graph: Subject, index: int) -> int:
    """Return the tensor whose numbers are at most these, in the same order: constants are added, or are the least."""
    while (maker := graph.maker(index := _in_order(graph, index))) is not None and (
            maker.op in ("ADD", "MAXIMUM") and is_plain(maker)):
        constants = [position for position in (0, 1) if (data := graph.constant(maker, position)) is not None
                     and data.size == 1 and data.min() >= 0]
        if len(constants) != 1:
            break
        index = maker.inputs[1 - constants[0]]
    return index


def _codes(graph: Subject, index: int) -> int:
    """Return the tensor whose codes a number is of, itself if it is of none."""
    maker = graph.maker(index)
    return maker.inputs[0] if maker is not None and maker.op == "DEQUANTIZE" else index


def _is_square(graph: Subject, index: int, vector: int) -> bool:
    """Whether a tensor is the square of a vector, or of its magnitude."""
    maker = graph.maker(index)
    if maker is None or not is_plain(maker) or not (
            maker.op == "SQUARE" or (maker.op == "MUL" and maker.inputs[0] == maker.inputs[1])):
        return False
    one = graph.maker(maker.inputs[0])
    base = one.inputs[0] if one is not None and one.op == "ABS" else maker.inputs[0]
    return _codes(graph, base) == _codes(graph, vector)
