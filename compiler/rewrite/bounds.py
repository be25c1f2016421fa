"""What more is known of float32 numbers than the bounds of what they are made of say.

A number that is divided by the length of its vector is at most 1, though the length may be as small as what is added to
it; squares, their sums and what is more than these are not negative, though int16 has as many codes below 0.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import Array

__all__ = ["LEAST_LENGTH", "least_number", "share_of_length"]

#: Lengths are at least this: the square of a number that is as large does not fall below the smallest float32.
LEAST_LENGTH = 2.0**-60
#: More than squares, sums, roots and quotients are rounded by.
_ROUNDED = 1 + 2.0**-10
_SAME_ORDER = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
_POSITIVE = ("SQUARE", "SQUARED_DIFFERENCE", "ABS", "RELU", "RELU6", "RELU_0_TO_1", "LOGISTIC", "SOFTMAX", "EXP",
             "SQRT", "RSQRT")
#: Operators whose results are not negative if none of their inputs is.
_KEEP = ("QUANTIZE", "SUM", "MEAN", "ADD", "MUL")
#: Scales that a sum of codes is off by at most, of each tensor.
_ROUNDINGS = 2


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
    while (maker := graph.maker(index)) is not None and maker.op in _SAME_ORDER:
        index = maker.inputs[0]
    return index


def _without_more(graph: Subject, index: int) -> int:
    """Return the tensor whose numbers are at most these, in the same order: constants are added, or are the least."""
    while (maker := graph.maker(index := _in_order(graph, index))) is not None and (
            maker.op in ("ADD", "MAXIMUM") and _is_plain(maker)):
        constants = [position for position in (0, 1) if (data := graph.constant(maker, position)) is not None
                     and data.size == 1 and data.min() >= 0]
        if len(constants) != 1:
            break
        index = maker.inputs[1 - constants[0]]
    return index


def _is_plain(op: Operator) -> bool:
    """Whether no activation makes results smaller."""
    return op.options.get("fused_activation_function", "NONE") in ("NONE", "RELU")


def _codes(graph: Subject, index: int) -> int:
    """Return the tensor whose codes a number is of, itself if it is of none."""
    maker = graph.maker(index)
    return maker.inputs[0] if maker is not None and maker.op == "DEQUANTIZE" else index


def _is_square(graph: Subject, index: int, vector: int) -> bool:
    """Whether a tensor is the square of a vector, or of its magnitude."""
    maker = graph.maker(index)
    if maker is None or not _is_plain(maker) or not (
            maker.op == "SQUARE" or (maker.op == "MUL" and maker.inputs[0] == maker.inputs[1])):
        return False
    one = graph.maker(maker.inputs[0])
    base = one.inputs[0] if one is not None and one.op == "ABS" else maker.inputs[0]
    return _codes(graph, base) == _codes(graph, vector)


def least_number(graph: Subject, index: int) -> float:
    """Return what all numbers of a tensor are at least, by what makes it; minus infinity where nothing is known."""
    tensor, maker = graph.tensors[index], graph.maker(index)
    if tensor.data is not None:
        return _least_of(tensor, tensor.data)
    if maker is None:
        return -math.inf
    if maker.op == "TABLE" and (table := graph.constant(maker, 1)) is not None:
        return _least_of(tensor, table)
    if maker.op == "DEQUANTIZE" or maker.op in _SAME_ORDER:
        return least_number(graph, maker.inputs[0])
    if maker.op in _POSITIVE or (maker.op == "MUL" and maker.inputs[0] == maker.inputs[1]):
        return 0.0
    parts = [least_number(graph, each) for each in maker.inputs[:2 if maker.op in ("ADD", "MUL") else 1]]
    if maker.op == "ADD" and min(parts) >= 0 and sum(parts) > 0 and _is_plain(maker):
        return _least_sum(graph, maker, sum(parts))
    return 0.0 if maker.op in _KEEP and min(parts) >= 0 else -math.inf


def _least_sum(graph: Subject, op: Operator, least: float) -> float:
    """Return what sums are at least that would be `least` if nothing was rounded, or beyond the last code."""
    made = graph.output(op)
    if made.dtype == "float32":
        return least * (1 - 2.0**-20)
    # Both are scaled to twice the larger scale before they are added, and rounded after it.
    lost = _ROUNDINGS * (graph.input(op, 0).scale + graph.input(op, 1).scale + made.scale)
    last = np.iinfo(made.dtype).max
    return max(0.0, min(least, (last - made.zero_point) * made.scale) - lost)


def _least_of(tensor: Tensor, data: Array) -> float:
    least = float(data.min())
    return least if tensor.dtype == "float32" else (least - tensor.zero_point) * tensor.scale
