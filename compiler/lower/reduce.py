"""Reductions over any axes: sums, extremes and their indices, products, truth values.

Adjacent axes are merged: [outer, reduced, inner]. A tensor of another form is first transposed by a move. Sums of
images and of rows run on the array with weights of one, all others in the vector unit (`walks.py`).
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.strided import blank, copy_between, fill_view
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.constraints import KERNEL_LIMIT
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.integer_walks import walk_integers
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.lower.moves import move_view
from tq_hw.compiler.lower.sixteen_elements import lower_extreme_wide, lower_mean_wide, lower_product_wide
from tq_hw.compiler.lower.walks import WALK_LIMIT, walk_extreme, walk_index, walk_product, walk_sum
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import product, reduce
from tq_hw.sim.golden.arith import INT8_CODES, wrap_int32
from tq_hw.sim.golden.registry import normalize_axis, require, require_same_quantization

__all__ = ["grouped_value"]

#: Most elements of a row that is summed as a dot product.
_DOT_LIMIT = 4096
#: More images than this are transposed, so that they are reduced together, unless each has this many lanes.
_IMAGES, _LANES = 4, 256

Shape = tuple[int, int, int, int]


def _raw(state: Legalizer, op: Operator, shape: Shape) -> Value:
    tensor = state.subgraph.tensors[op.outputs[0]]
    return Value(tensor.name, tensor.index, shape, tensor.zero_point if tensor.quantization is not None else 0)


def _grouped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (outer, reduced, inner) if the reduced axes are adjacent, apart from axes of size 1; else None."""
    sizes = [(size, axis in axes) for axis, size in enumerate(shape) if size > 1]
    reduced = [index for index, (_, gone) in enumerate(sizes) if gone]
    if not reduced:
        return 1, 1, int(np.prod(shape, dtype=np.int64))
    first, last = reduced[0], reduced[-1]
    if last - first + 1 != len(reduced):
        return None
    counts = [int(np.prod([size for size, _ in part], dtype=np.int64))
              for part in (sizes[:first], sizes[first:last + 1], sizes[last + 1:])]
    return counts[0], counts[1], counts[2]


def _transposed(state: Legalizer, op: Operator, axes: tuple[int, ...], reduced_first: bool,
                value: Value | None = None) -> tuple[Value, int, int]:
    """Return a copy with the reduced axes first or last, and the counts of kept and of reduced elements.

    `value` has the input's bytes; by default it is the input itself.
    """
    tensor = state.tensor(op, 0)
    value = state.input(op, 0) if value is None else value
    rank = len(tensor.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *kept] if reduced_first else [*kept, *axes]
    value = move_view(state, op, value, tensor, lambda x: x.transpose(*order, rank))
    elements, count = (int(np.prod([tensor.shape[axis] for axis in part], dtype=np.int64)) for part in (kept, axes))
    return value, elements, count


def grouped_value(state: Legalizer, op: Operator, axes: tuple[int, ...], value: Value | None = None,
                  images: int = _IMAGES) -> tuple[Value, tuple[int, int, int]]:
    """Return the input as [outer, reduced, inner], transposed if it has another form or would fill few lanes.

    The latter is the case if `outer` is more than `images` and `inner` is small.
    """
    value = state.input(op, 0) if value is None else value
    grouped = _grouped(state.tensor(op, 0).shape, axes)
    if grouped is not None and (grouped[0] <= images or grouped[2] >= _LANES):
        return value, grouped
    value, kept, count = _transposed(state, op, axes, True, value)
    return value, (1, count, kept)


def _integers(state: Legalizer, op: Operator) -> None:
    axes = reduce.axes(state.constant(op, 1), len(state.tensor(op, 0).shape))
    publish(state, op, walk_integers(state, op, *grouped_value(state, op, axes)))


@lowers("MEAN", "SUM")
def lower_mean(state: Legalizer, op: Operator) -> None:
    """Means of images and rows on the array, with weights of one; others in the vector unit."""
    if state.tensor(op, 0).dtype == "int16":
        lower_mean_wide(state, op)
        return
    if state.tensor(op, 0).dtype == "int32":
        _integers(state, op)
        return
    p, value = reduce.mean_params(op, state.subgraph), state.input(op, 0)
    if p.unsigned:
        # A uint8 code is the int8 byte with bit 7 inverted, plus 128.
        signed = Value(f"{value.name} (uint8)", value.tensor, value.shape)
        table_pass(state, op, value, INT8_CODES ^ -128, signed)
        value = signed
        p = replace(p, input_zero_point=p.input_zero_point - 128, output_zero_point=p.output_zero_point - 128)
    _sum_or_mean(state, op, p, value)
    if p.unsigned:
        table_pass(state, op, state.values[op.outputs[0]], INT8_CODES ^ -128)


def _sum_or_mean(state: Legalizer, op: Operator, p: reduce.MeanParams, value: Value) -> None:
    tensor = state.tensor(op, 0)
    grouped = _grouped(tensor.shape, p.axes)
    n, h, w, c = value.shape
    if len(tensor.shape) == 4 and p.axes == (1, 2) and p.count <= state.window_limit and max(h, w) <= KERNEL_LIMIT:
        _sum(state, op, p, value, _raw(state, op, (n, 1, 1, c)), np.ones((h, w, c), np.int8), depthwise=True)
    elif p.count > _DOT_LIMIT or (grouped is not None and (grouped[0] == 1 or grouped[2] > 1)) or (
            grouped is None and len(tensor.shape) - 1 not in p.axes):
        value, shape = grouped_value(state, op, p.axes, value)
        publish(state, op, walk_sum(state, op, value, shape, p))
    else:
        if grouped is not None:
            rows, count = grouped[:2]
        else:
            value, rows, count = _transposed(state, op, p.axes, False, value)
        _sum(state, op, p, reshaped(value, (1, rows, 1, count)), _raw(state, op, (1, rows, 1, 1)),
             np.ones((1, 1, 1, count), np.int8), depthwise=False)


def _sum(state: Legalizer, op: Operator, p: reduce.MeanParams, value: Value, raw: Value, weights: np.ndarray, *,
         depthwise: bool) -> None:
    c = raw.shape[3]
    state.layers.append(Mac(
        op.index, op.op, (value,), raw, depthwise=depthwise, weights=weights,
        bias=np.full(c, wrap_int32(-p.input_zero_point * p.count)), multiplier=np.full(c, p.multiplier),
        shift=np.full(c, p.shift), stride=(1, 1), dilation=(1, 1), pad=(0, 0), pad_value=0,
        zero_point=p.output_zero_point, act_min=-128, act_max=127))
    publish(state, op, raw)


@lowers("REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
def lower_extreme(state: Legalizer, op: Operator) -> None:
    """A running extreme over rows; for truth values the largest is any, the smallest all."""
    require_same_quantization(op, state.subgraph)
    if state.tensor(op, 0).dtype == "int32":
        _integers(state, op)
        return
    axes = reduce.axes(state.constant(op, 1), len(state.tensor(op, 0).shape))
    if state.tensor(op, 0).dtype == "int16":
        lower_extreme_wide(state, op, axes)
        return
    value, shape = grouped_value(state, op, axes)
    publish(state, op, walk_extreme(state, op, value, shape, op.op in ("REDUCE_MIN", "REDUCE_ALL")))


@lowers("REDUCE_PROD")
def lower_product(state: Legalizer, op: Operator) -> None:
    """A product of one factor after another, in all lanes at once."""
    if state.tensor(op, 0).dtype == "int32":
        _integers(state, op)
        return
    p = product.product_params(op, state.subgraph, state.constant(op, 1))
    if state.tensor(op, 0).dtype == "int16":
        lower_product_wide(state, op, p)
        return
    value, kept, count = _transposed(state, op, p.axes, True)
    publish(state, op, walk_product(state, op, value, (1, count, kept), p))


@lowers("ARG_MAX", "ARG_MIN")
def lower_arg_extreme(state: Legalizer, op: Operator) -> None:
    """Index of the first extreme as int32; for int64, zeros follow."""
    tensor, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    axis = normalize_axis(int(state.constant(op, 1).reshape(-1)[0]), len(tensor.shape))
    value, shape = grouped_value(state, op, (axis,))
    require(shape[1] < WALK_LIMIT, f"axis {axis} must have less than {WALK_LIMIT} elements, found {shape[1]}")
    raw = (walk_integers if tensor.dtype == "int32" else walk_index)(state, op, value, shape)
    if output.dtype == "int64":
        base, target = blank((raw.size_bytes // 4,), "int32"), blank((raw.size_bytes // 4,), "int64")
        wide = _raw(state, op, (1, 1, 1, 2 * raw.size_bytes))
        state.layers.append(Move(op.index, op.op, (raw,), wide, (
            copy_between(0, base, base, target[:, :4], target), fill_view(0, target[:, 4:], target))))
        raw = wide
    publish(state, op, raw)
