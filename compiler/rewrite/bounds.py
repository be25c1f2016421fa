"""Bounds of normalized vectors: a vector divided by its own length is bounded, however small the length is.

An element is at most the vector's length, and, if none is negative, at most their sum. Its distance from the mean of n
elements is at most sqrt(n) times their standard deviation, which bounds LayerNorm and GroupNorm.

Numbers that are computed from int32, such as masks and counts, have bounds that only the user knows.
"""

import math

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import Array
from tq_hw.sim.golden.signs import SAME_ORDER, is_plain

__all__ = ["LEAST_LENGTH", "ROUNDED", "deviations", "exponent", "is_of_integers", "share_of_length", "widened"]

#: Least length: the square of a number of this size does not underflow in float32.
LEAST_LENGTH = 2.0**-60
#: Exceeds a normalized vector's elements: 1, and the relative rounding of squares, sums, roots and quotients.
ROUNDED = 1 + 2.0**-10
#: Relative error bound of one operation.
_ROUNDING = 2.0**-23
_SMALL = 2.0**-120


def widened(low: float, high: float, operations: int = 1) -> tuple[float, float]:
    """Return bounds after `operations` roundings; a rounding does not change a sign."""
    more = (1 + _ROUNDING) ** (operations + 1)
    low, high = (low * more if low < 0 else low / more), (high * more if high > 0 else high / more)
    # Subnormal numbers have fewer bits, or round to 0.
    return (0.0 if 0 < low < _SMALL else low), (0.0 if -_SMALL < high < 0 else high)


def exponent(graph: Subject, op: Operator) -> float | None:
    """Return the constant exponent of all elements of a POW; None if there is none."""
    data = graph.constant(op, 1)
    if graph.input(op).shape != graph.output(op).shape or data is None or not data.size or (data != data.flat[0]).any():
        return None
    return float(data.flat[0])


def share_of_length(graph: Subject, op: Operator, *, positive: bool = False) -> float | None:
    """Return a bound on the magnitude of the quotients or products of `op`, None if none is known.

    `op` divides a vector by the square root of the sum or mean of its squares (SQRT or POW), or multiplies it by RSQRT
    of that sum or mean. A constant may be added to the root or the sum, or be its minimum. Lengths must be at least
    `LEAST_LENGTH`. With `positive`, which says that no element is negative, `op` may also divide by their sum or mean.
    """
    if op.op == "DIV":
        share = _share(graph, op.inputs[0], op.inputs[1], "SQRT")
        return _share_of_sum(graph, *op.inputs) if share is None and positive else share
    if op.op == "MUL":
        return _share(graph, op.inputs[0], op.inputs[1], "RSQRT") or _share(graph, op.inputs[1], op.inputs[0], "RSQRT")
    return None


def _share(graph: Subject, vector: int, length: int, root: str) -> float | None:
    length = _unspread(graph, length)
    made = graph.maker(_without_more(graph, length) if root == "SQRT" else _in_order(graph, length))
    if made is None or (made.op != root and not (root == "SQRT" and made.op == "POW" and exponent(graph, made) == 0.5)):
        return None
    total = graph.maker(_without_more(graph, made.inputs[0]))
    if total is None or total.op not in ("SUM", "MEAN"):
        return None
    along, shape = graph.constant(total, 1), list(graph.tensors[vector].shape)
    if along is None or not _is_square(graph, total.inputs[0], vector):
        return None
    kept, count = _kept(shape, along)
    if not _spreads(graph, length, kept):
        return None
    return ROUNDED * (math.sqrt(count) if total.op == "MEAN" else 1)


def _unspread(graph: Subject, index: int) -> int:
    maker = graph.maker(index)
    return maker.inputs[0] if maker is not None and maker.op == "BROADCAST_TO" else index


def _kept(shape: list[int], along: Array) -> tuple[list[int], int]:
    """Return the shape of a reduction that keeps its axes, and the number of elements that become one."""
    kept, count = list(shape), 1
    for axis in axes(along, len(shape)):
        count, kept[axis] = count * shape[axis], 1
    return kept, count


def _spreads(graph: Subject, index: int, shape: list[int]) -> bool:
    """Whether a tensor has a shape, without or with the first axes of 1."""
    found = list(graph.tensors[index].shape)
    return [1] * (len(shape) - len(found)) + found == shape


def _share_of_sum(graph: Subject, vector: int, total: int) -> float | None:
    """Return a bound on the quotients of numbers from 0 on and their sum or mean; rounding keeps order."""
    total = _unspread(graph, total)
    made = graph.maker(_without_more(graph, total))
    if made is None or made.op not in ("SUM", "MEAN"):
        return None
    along, shape = graph.constant(made, 1), list(graph.tensors[vector].shape)
    if along is None or list(graph.input(made).shape) != shape or (
            _in_order(graph, vector) != _in_order(graph, made.inputs[0])):
        return None
    kept, count = _kept(shape, along)
    return ROUNDED * (count if made.op == "MEAN" else 1) if _spreads(graph, total, kept) else None


def deviations(graph: Subject, op: Operator) -> float | None:
    """Return a bound on the magnitude of the results of `op`, before its rounding; None if none is known.

    `op` computes `x * r - m * r`, as a difference or a sum: m is the mean of x, and r is RSQRT of the mean of the
    squares of `x - m`, to which a constant may be added.
    """
    if op.op not in ("ADD", "SUB") or not is_plain(op):
        return None
    for scaled, shift in (op.inputs, op.inputs[::-1])[:1 + (op.op == "ADD")]:
        product, mean = graph.maker(scaled), _shift(graph, shift, negative=op.op == "ADD")
        if product is None or product.op != "MUL" or not _is_bare(product) or mean is None:
            continue
        for vector, root in (product.inputs, product.inputs[::-1]):
            count = _deviating(graph, vector, root, mean, shift)
            if count is not None:
                return ROUNDED * math.sqrt(count)
    return None


def _shift(graph: Subject, index: int, *, negative: bool) -> tuple[int, int] | None:
    """Return the mean and the root whose product a tensor is, or with `negative` whose negated product."""
    made = graph.maker(_single(graph, index))
    if made is None or not _is_bare(made):
        return None
    if negative and made.op == "SUB":
        zero = graph.constant(made, 0)
        return None if zero is None or zero.any() else _shift(graph, made.inputs[1], negative=False)
    if made.op != "MUL":
        return None
    for one, other in (made.inputs, made.inputs[::-1]):
        mean, root = _single(graph, one), _single(graph, other)
        if negative:
            opposite = graph.maker(mean)
            sign = None if opposite is None or opposite.op != "MUL" else graph.constant(opposite, 1)
            if opposite is None or sign is None or (sign != -1).any() or not _is_bare(opposite):
                continue
            mean = _single(graph, opposite.inputs[0])
        if _is(graph, mean, "MEAN") and _is(graph, root, "RSQRT"):
            return mean, root
    return None


def _deviating(graph: Subject, vector: int, root: int, shift: tuple[int, int], shifted: int) -> int | None:
    """Return the number of elements of the mean, if mean and root belong to this vector; else None."""
    mean, single = shift
    rooted, made = graph.maker(single), graph.maker(mean)
    variance = None if rooted is None else graph.maker(_without_more(graph, rooted.inputs[0]))
    if _single(graph, root) != single or variance is None or made is None or variance.op != "MEAN":
        return None
    along, around = (graph.constant(each, 1) for each in (made, variance))
    base, square = made.inputs[0], graph.maker(variance.inputs[0])
    apart = None if square is None else _difference(graph, square)
    if (along is None or around is None or along.tolist() != around.tolist() or apart is None
            or (apart[0], _single(graph, apart[1])) != (base, mean)
            or _in_order(graph, base) != _in_order(graph, vector)):
        return None
    count = math.prod(graph.tensors[base].shape) // max(1, math.prod(graph.tensors[mean].shape))
    if count == math.prod(graph.tensors[base].shape):
        return count
    kept = _kept(list(graph.tensors[vector].shape), along)[0]
    same = graph.tensors[base].shape == graph.tensors[vector].shape
    spread = (root, shifted, apart[1])
    return count if same and all(list(graph.tensors[each].shape) == kept for each in spread) else None


def _difference(graph: Subject, square: Operator) -> tuple[int, int] | None:
    """Return the two tensors whose squared difference an operator computes; else None."""
    made: Operator | None = square
    if square.op == "SQUARE" or (square.op == "MUL" and square.inputs[0] == square.inputs[1]):
        made = graph.maker(square.inputs[0])
    elif square.op != "SQUARED_DIFFERENCE":
        return None
    if made is None or made.op not in ("SUB", "SQUARED_DIFFERENCE") or not (_is_bare(made) and _is_bare(square)):
        return None
    return made.inputs[0], made.inputs[1]


def _is_bare(op: Operator) -> bool:
    return op.options.get("fused_activation_function", "NONE") == "NONE"


def _is(graph: Subject, index: int, name: str) -> bool:
    maker = graph.maker(index)
    return maker is not None and maker.op == name


def _single(graph: Subject, index: int) -> int:
    """Return the source of a tensor through broadcasts and moves that keep the order of elements."""
    while (maker := graph.maker(index := _in_order(graph, index))) is not None and maker.op == "BROADCAST_TO":
        index = maker.inputs[0]
    return index


def _in_order(graph: Subject, index: int) -> int:
    """Return the source of a tensor through moves that keep the order of elements."""
    while (maker := graph.maker(index)) is not None and maker.op in SAME_ORDER:
        index = maker.inputs[0]
    return index


def _without_more(graph: Subject, index: int) -> int:
    """Return the source of a tensor through moves in order, and ADD or MAXIMUM with a constant that is not negative."""
    while (maker := graph.maker(index := _in_order(graph, index))) is not None and (
            maker.op in ("ADD", "MAXIMUM") and is_plain(maker)):
        constants = [position for position in (0, 1) if (data := graph.constant(maker, position)) is not None
                     and data.size == 1 and data.min() >= 0]
        if len(constants) != 1:
            break
        index = maker.inputs[1 - constants[0]]
    return index


def is_of_integers(graph: Subject, index: int) -> bool:
    """Whether a float32 tensor is computed from int32."""
    todo, seen = [index], set[int]()
    while todo:
        maker = graph.maker(todo.pop())
        if maker is None or maker.outputs[0] in seen or graph.output(maker).dtype != "float32":
            continue
        if maker.op == "CAST" and graph.input(maker).dtype == "int32":
            return True
        seen.add(maker.outputs[0])
        todo += maker.inputs
    return False


def _codes(graph: Subject, index: int) -> int:
    """Return the tensor of codes that a tensor dequantizes, or the tensor itself."""
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
