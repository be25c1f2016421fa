"""Reductions over any axes: MEAN, SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX, ARG_MIN.

Axes that lie together are one axis: [outer, reduced, inner]. What is not of that form is transposed by a move. Sums run
on the array with weights of one, extremes in the vector unit with lanes along the inner axis.
"""

import numpy as np

from tq_hw.compiler.constraints import KERNEL_LIMIT
from tq_hw.compiler.ir import Flat, Layer, Mac, MaxPool, Move, Value
from tq_hw.compiler.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.programs import OUT, STREAM_A, Uop, immediate, low, reg_a, reg_b, to
from tq_hw.compiler.strided import blank, copy_between, fill_view, move_view
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import reduce
from tq_hw.sim.golden.arith import wrap_int32
from tq_hw.sim.golden.registry import normalize_axis, require_same_quantization

__all__: list[str] = []

#: Reduced pixels above this are brought behind one another and summed as one long dot product.
_WINDOW_LIMIT = 1024
#: ARG_MAX over more images than this, each of which would be a walk of its own, turns the input first.
_WALKS = 8

Shape = tuple[int, int, int, int]


def _raw(state: Legalizer, op: Operator, shape: Shape) -> Value:
    tensor = state.subgraph.tensors[op.outputs[0]]
    return Value(tensor.name, tensor.index, shape, tensor.zero_point if tensor.quantization is not None else 0)


def _grouped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (outer, reduced, inner) if the reduced axes lie together, but for axes of one index."""
    sizes = [(size, axis in axes) for axis, size in enumerate(shape) if size > 1]
    reduced = [index for index, (_, gone) in enumerate(sizes) if gone]
    if not reduced:
        return int(np.prod(shape, dtype=np.int64)), 1, 1
    first, last = reduced[0], reduced[-1]
    if last - first + 1 != len(reduced):
        return None
    counts = [int(np.prod([size for size, _ in part], dtype=np.int64))
              for part in (sizes[:first], sizes[first:last + 1], sizes[last + 1:])]
    return counts[0], counts[1], counts[2]


def _transposed(state: Legalizer, op: Operator, axes: tuple[int, ...], reduced_first: bool) -> tuple[Value, int, int]:
    """Return a copy with the reduced axes in front or behind, the count of kept and of reduced elements."""
    tensor = state.tensor(op, 0)
    rank = len(tensor.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *kept] if reduced_first else [*kept, *axes]
    value = move_view(state, op, state.input(op, 0), tensor, lambda x: x.transpose(*order, rank))
    count = int(np.prod([tensor.shape[axis] for axis in axes], dtype=np.int64))
    return value, value.size_bytes // count, count


def _factors(count: int, limit: int) -> tuple[int, int] | None:
    """Return (a, b) with a * b = count, both at most `limit`."""
    for a in range(1, limit + 1):
        if count % a == 0 and count // a <= limit:
            return count // a, a
    return None


@lowers("MEAN", "SUM")
def lower_mean(state: Legalizer, op: Operator) -> None:
    """A sum of all reduced elements on the array, requantized."""
    p = reduce.mean_params(op, state.subgraph)
    tensor, source = state.tensor(op, 0), state.input(op, 0)
    grouped = _grouped(tensor.shape, p.axes)
    if grouped is not None and grouped[2] > 1 and grouped[1] <= _WINDOW_LIMIT:
        outer, count, inner = grouped
        _, h, w, c = source.shape
        in_place = len(tensor.shape) == 4 and p.axes == (1, 2) and max(h, w) <= KERNEL_LIMIT
        window = (h, w) if in_place else _factors(count, KERNEL_LIMIT)
        if window is not None:
            value = reshaped(source, (outer, *window, inner))
            raw = _raw(state, op, (outer, 1, 1, inner))
            _sum(state, op, p, value, raw, np.ones((*window, inner), np.int8), depthwise=True)
            return
    if grouped is not None and grouped[2] == 1:
        value, rows, count = source, grouped[0], grouped[1]
    else:
        value, rows, count = _transposed(state, op, p.axes, False)
    raw = _raw(state, op, (1, rows, 1, 1))
    _sum(state, op, p, reshaped(value, (1, rows, 1, count)), raw, np.ones((1, 1, 1, count), np.int8), depthwise=False)


def _sum(state: Legalizer, op: Operator, p: reduce.MeanParams, value: Value, raw: Value, weights: np.ndarray, *,
         depthwise: bool) -> None:
    c = raw.shape[3]
    state.layers.append(Mac(
        op.index, op.op, (value,), raw, depthwise=depthwise, weights=weights,
        bias=np.full(c, wrap_int32(-p.input_zero_point * p.count)), multiplier=np.full(c, p.multiplier),
        shift=np.full(c, p.shift), stride=(1, 1), dilation=(1, 1), pad=(0, 0), pad_value=p.input_zero_point,
        zero_point=p.output_zero_point, act_min=-128, act_max=127))
    publish(state, op, raw)


def _lanes_inner(state: Legalizer, op: Operator, axes: tuple[int, ...]) -> tuple[Value, tuple[int, int, int]]:
    """Return the input as [outer, reduced, inner], transposed if the reduced axes are the last."""
    grouped = _grouped(state.tensor(op, 0).shape, axes)
    value = state.input(op, 0)
    if grouped is None or (grouped[2] == 1 and grouped[0] > 1):
        value, kept, count = _transposed(state, op, axes, True)
        grouped = (1, count, kept)
    return value, grouped


@lowers("REDUCE_MAX", "REDUCE_MIN")
def lower_extreme(state: Legalizer, op: Operator) -> None:
    """Running extreme over rows; many rows in two steps."""
    require_same_quantization(op, state.subgraph)
    axes = reduce.axes(state.constant(op, 1), len(state.tensor(op, 0).shape))
    value, (outer, count, inner) = _lanes_inner(state, op, axes)

    def pool(source: Value, output: Value, kernel: tuple[int, int]) -> Layer:
        return MaxPool(op.index, op.op, (source,), output, kernel, (1, 1), (0, 0), -128, 127, op.op == "REDUCE_MIN")
    rows, cols = _factors(count, KERNEL_LIMIT) or (count, 1)
    middle = reshaped(value, (outer, rows, cols, inner))
    if rows > 1 and cols > 1:
        middle = _raw(state, op, (outer, rows, 1, inner))
        state.layers.append(pool(reshaped(value, (outer, rows, cols, inner)), middle, (1, cols)))
        cols = 1
    raw = _raw(state, op, (outer, 1, 1, inner))
    state.layers.append(pool(middle, raw, (rows, cols)))
    publish(state, op, raw)


_Uops = tuple[Uop, ...]
_BEST, _INDEX, _KEEP, _TURN, _X = range(5)


def _arg_program(minimum: bool) -> tuple[_Uops, _Uops, _Uops]:
    """Micro-operations before the rows, for each row, behind them: the best value so far and its index."""
    worst = 127 if minimum else -128
    keep = (reg_a(_BEST) | reg_b(_X)) if minimum else (reg_a(_X) | reg_b(_BEST))
    before = tuple(to(register, {"a_source": Source.IMMEDIATE, "immediate": value})
                   for register, value in ((_BEST, worst), (_INDEX, 0), (_TURN, 0)))
    body = (
        to(_X, STREAM_A),
        # The old index stays if the new value is no better: index = (index - turn) * keep + turn.
        to(_KEEP, keep, alu=Alu.LESS_EQUAL),
        to(_INDEX, reg_a(_INDEX), reg_b(_TURN), alu=Alu.SUB),
        to(_INDEX, reg_a(_INDEX), reg_b(_KEEP), low()),
        to(_INDEX, reg_a(_INDEX), reg_b(_TURN), alu=Alu.ADD),
        to(_BEST, reg_a(_BEST), reg_b(_X), alu=Alu.MIN if minimum else Alu.MAX),
        to(_TURN, reg_a(_TURN), immediate(1), alu=Alu.ADD))
    return before, body, ({**reg_a(_INDEX), **OUT},)


def _image(state: Legalizer, op: Operator, value: Value, image: int, shape: tuple[int, int]) -> Value:
    """Copy one image of a batch."""
    count, inner = shape
    whole = blank((value.size_bytes // (count * inner), count, inner), "int8")
    part = blank(shape, "int8")
    out = _raw(state, op, (1, count, 1, inner))
    state.layers.append(Move(op.index, op.op, (value,), out, (copy_between(0, whole[image], whole, part, part),)))
    return out


@lowers("ARG_MAX", "ARG_MIN")
def lower_arg_extreme(state: Legalizer, op: Operator) -> None:
    """Index of the first extreme as int32; int64 has zeros behind."""
    tensor, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    axis = normalize_axis(int(state.constant(op, 1).reshape(-1)[0]), len(tensor.shape))
    value, (outer, count, inner) = _lanes_inner(state, op, (axis,))
    if outer > _WALKS and count > 1:
        value, inner, count = _transposed(state, op, (axis,), True)
        outer = 1
    if count == 1:
        # No axis is left to compare along: every element is its own extreme.
        outer, inner = 1, value.size_bytes
    raw = _raw(state, op, (outer, 1, 1, 4 * inner))
    parts: list[Value] = []
    before, body, after = _arg_program(op.op == "ARG_MIN")
    for image in range(outer):
        # Each image of a batch is a walk of its own.
        source, part = (value, raw) if outer == 1 else (_image(state, op, value, image, (count, inner)),
                                                        _raw(state, op, (1, 1, 1, 4 * inner)))
        state.layers.append(Flat(op.index, op.op, (source,), part, inner, (0,), 2, before, body, after, count))
        parts.append(part)
    if outer > 1:
        target = blank((outer, inner), "int32")
        state.layers.append(Move(op.index, op.op, tuple(parts), raw, tuple(
            copy_between(image, target[0], target[0], target[image], target) for image in range(outer))))
    if output.dtype == "int64":
        base, target = blank((outer * inner,), "int32"), blank((outer * inner,), "int64")
        wide = _raw(state, op, (1, 1, 1, 8 * outer * inner))
        state.layers.append(Move(op.index, op.op, (raw,), wide, (
            copy_between(0, base, base, target[:, :4], target), fill_view(0, target[:, 4:], target))))
        raw = wide
    publish(state, op, raw)
