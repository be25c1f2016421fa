"""ADD_N and CUMSUM of integers by additions; CUMSUM of float32 between int8 tensors where integers are proved equal.

Sums and extremes of int64 are made of halves, of halves of those, and so on.

A float32 sum of numbers `scale * i` differs from `scale * N`, N the sum of all i, by less than a bound that holds for
any order of additions. If no possible N is that close to a threshold of QUANTIZE, the result is a function of N, which
int32 computes exactly. The compiler checks every possible N.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.sim.golden.arith import INT8_CODES, quantize_multiplier, round_half_away
from tq_hw.sim.golden.pair import settle
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import bool_option

__all__ = ["SUMS"]

_BITS = 30
#: Half a unit in the last place of float32 at 1.
_ROUNDING = 2.0**-24
_MOST_TERMS = 4096
_PLAIN: dict[str, OptionValue] = {"fused_activation_function": "NONE"}
#: Reductions, and what makes one of two halves.
_HALVES = {"SUM": "ADD", "REDUCE_MAX": "MAXIMUM", "REDUCE_MIN": "MINIMUM"}


def _axis(graph: Subject, op: Operator) -> int | None:
    axis, rank = graph.constant(op, 1), len(graph.input(op).shape)
    if axis is None or axis.size != 1 or not -rank <= int(axis.reshape(-1)[0]) < rank:
        return None
    return int(axis.reshape(-1)[0]) % rank


@pattern("CUMSUM")
def cumsum_by_doubling(graph: Subject, op: Operator) -> Rewrite | None:
    """Compute CUMSUM by doubling: a sum of n elements is the sum of n / 2 plus the same sum n / 2 elements before.

    SLICE and PAD shift the tensor, ADD adds it.
    """
    source, axis = graph.input(op), _axis(graph, op)
    if source.dtype not in ("int32", "int64") or axis is None or source.data is not None:
        return None
    shape, reverse = source.shape, bool_option(op, "reverse")
    new: list[Operator] = []

    def moved(index: int, by: int) -> int:
        """Return the tensor shifted by `by` elements, with 0 shifted in."""
        size = np.array(shape, np.int32)
        begin, around = np.zeros(len(shape), np.int32), np.zeros((len(shape), 2), np.int32)
        size[axis] -= by
        begin[axis] = by if reverse else 0
        around[axis, int(reverse)] = by
        part, made = graph.add_tensor(source, size.tolist()), graph.add_tensor(source)
        new.append(Operator(op.index, "SLICE", (index, graph.add_constant(begin), graph.add_constant(size)), (part,)))
        new.append(Operator(op.index, "PAD", (part, graph.add_constant(around)), (made,)))
        return made

    count, current = shape[axis], source.index
    if bool_option(op, "exclusive"):
        if count < 2:
            # An exclusive sum of a single element is 0.
            return Rewrite([op], [Operator(op.index, "SUB", (current, current), op.outputs, _PLAIN)])
        current = moved(current, 1)
    step = 1
    while step < count:
        both = (current, moved(current, step))
        current = graph.add_tensor(source)
        new.append(Operator(op.index, "ADD", both, (current,), _PLAIN))
        step *= 2
    if not new:
        target = graph.add_constant(np.array(shape, np.int32))
        return Rewrite([op], [Operator(op.index, "RESHAPE", (current, target), op.outputs)])
    new[-1] = Operator(op.index, new[-1].op, new[-1].inputs, op.outputs, new[-1].options)
    return Rewrite([op], new)


@pattern(*_HALVES)
def double_words_by_halves(graph: Subject, op: Operator) -> Rewrite | None:
    """Two halves of an axis become one, element by element, until one element is left; a last odd one waits."""
    source, wanted, rank = graph.input(op), graph.constant(op, 1), len(graph.input(op).shape)
    if source.dtype != "int64" or wanted is None or source.data is not None or 0 in source.shape:
        return None
    new: list[Operator] = []
    shape, current = list(source.shape), source.index

    def part(axis: int, begin: int, count: int) -> int:
        begins, sizes = np.zeros(rank, np.int32), np.array(shape, np.int32)
        begins[axis], sizes[axis] = begin, count
        made = graph.add_tensor(source, sizes.tolist())
        new.append(Operator(op.index, "SLICE", (current, graph.add_constant(begins), graph.add_constant(sizes)),
                            (made,)))
        return made

    for axis in axes(wanted, rank):
        while (count := shape[axis]) > 1:
            half = count // 2
            both, rest = (part(axis, 0, half), part(axis, half, half)), part(axis, 2 * half, 1) if count % 2 else None
            shape[axis] = half
            current = graph.add_tensor(source, shape)
            new.append(Operator(op.index, _HALVES[op.op], both, (current,), _PLAIN if op.op == "SUM" else {}))
            if rest is not None:
                shape[axis] += 1
                joined = (current, rest)
                current = graph.add_tensor(source, shape)
                new.append(Operator(op.index, "CONCATENATION", joined, (current,), {"axis": axis, **_PLAIN}))
    target = graph.add_constant(np.array(graph.output(op).shape, np.int32))
    return Rewrite([op], [*new, Operator(op.index, "RESHAPE", (current, target), op.outputs)])


@pattern("QUANTIZE")
def float_cumsum(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace DEQUANTIZE, CUMSUM, QUANTIZE of int8 by an int32 table, CUMSUM and a multiplier, if proved equal."""
    sums = graph.maker(op.inputs[0])
    maker = graph.maker(sums.inputs[0]) if sums is not None and sums.op == "CUMSUM" else None
    if sums is None or maker is None or maker.op != "DEQUANTIZE":
        return None
    source, target, axis = graph.input(maker), graph.output(op), _axis(graph, sums)
    if (source.dtype, target.dtype) != ("int8", "int8") or axis is None or 0 in source.shape:
        return None
    found = _integers(source, target, source.shape[axis])
    if found is None:
        return None
    bits, multiplier, shift = found
    codes = INT8_CODES.astype(np.int64)
    table = ((codes - source.zero_point) << bits).astype(np.int32)
    plain = Tensor(0, source.name, "int32", source.shape)
    terms, made = graph.add_tensor(plain), graph.add_tensor(plain)
    return Rewrite([op], [
        Operator(op.index, "TABLE", (source.index, graph.add_constant(table)), (terms,)),
        Operator(op.index, "CUMSUM", (terms, sums.inputs[1]), (made,), sums.options),
        Operator(op.index, "SCALE", (made,), op.outputs,
                 {"multiplier": multiplier, "shift": shift, "zero_point": target.zero_point})])


def _integers(source: Tensor, target: Tensor, terms: int) -> tuple[int, int, int] | None:
    """Return the left shift of terms, and multiplier and shift of their sums; None if equality is not proved."""
    if terms > _MOST_TERMS:
        return None
    low, high = -128 - source.zero_point, 127 - source.zero_point
    most = max(-low, high) * terms
    numbers = np.arange(min(low * terms, 0), max(high * terms, 0) + 1)
    ratio = source.scale / target.scale
    real = numbers * ratio
    # One rounding for each addition, DEQUANTIZE and QUANTIZE, plus the error of this computation itself.
    bound = 1.01 * (terms + 4) * _ROUNDING * most * ratio
    inside = np.abs(real + target.zero_point) < 130
    distance = np.abs(real - np.floor(real) - 0.5)[inside]
    bits = _BITS - max(most.bit_length(), 1)
    multiplier, shift = quantize_multiplier(math.ldexp(ratio, -bits))
    if bound >= 0.5 or (distance <= bound).any() or not multiplier or not -31 <= shift <= 0 or bits < 0:
        return None
    expected = np.clip(round_half_away(real) + target.zero_point, -128, 127)
    found = np.clip(settle(numbers << bits, multiplier, shift) + target.zero_point, -128, 127)
    return (bits, multiplier, shift) if np.array_equal(found, expected) else None


@pattern("ADD_N")
def add_n(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace ADD_N by sequential additions, of int32 and of float32."""
    inputs = [graph.input(op, position) for position in range(len(op.inputs))]
    if len(inputs) < 2 or inputs[0].dtype not in ("int32", "float32") or any(
            each.dtype != inputs[0].dtype or each.shape != inputs[0].shape for each in inputs):
        return None
    new: list[Operator] = []
    current = op.inputs[0]
    for position, index in enumerate(op.inputs[1:], 1):
        made = op.outputs[0] if position == len(inputs) - 1 else graph.add_tensor(graph.output(op))
        new.append(Operator(op.index, "ADD", (current, index), (made,), _PLAIN))
        current = made
    return Rewrite([op], new)


#: Patterns in the order in which they are tried.
SUMS = (add_n, cumsum_by_doubling, double_words_by_halves, float_cumsum)
