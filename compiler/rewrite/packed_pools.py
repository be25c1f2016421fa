"""AVERAGE_POOL_2D and MAX_POOL_2D of packed numbers: the elements of a window, in order, become an axis to reduce."""

import itertools

import numpy as np

from tq_hw.compiler.rewrite.packed_elements import fused
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.sim.golden.arith import INT32_MIN
from tq_hw.sim.golden.packed_float import packed
from tq_hw.sim.golden.pooling import PoolParams, params

__all__ = ["POOLS"]

#: Most elements of a window; each is a whole image in memory.
_MOST_TAPS = 256
_MASKS: dict[str, OptionValue] = {**dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0), "offset": False}


def _taps(packing: Packing, op: Operator, p: PoolParams, part: Packed, fill: int) -> int:
    """Return the windows' elements, [element, image, row, column, channel]; elements outside the image are `fill`."""
    graph, output = packing.graph, packing.graph.output(op)
    count = p.filter_height * p.filter_width
    if count > _MOST_TAPS:
        raise UnsupportedError(f"operator {op.index} ({op.op}) has windows of {count} elements, of float32 at most "
                               f"{_MOST_TAPS}")
    bounds, index = (part.low, part.high), part.index
    n, h, w, c = graph.input(op).shape
    around = [[0, 0], [p.pad_top, p.pad_bottom], [p.pad_left, p.pad_right], [0, 0]]
    if any(map(any, around)):
        like = Tensor(0, f"{output.name} (padded)", "int32", (n, h + sum(around[1]), w + sum(around[2]), c))
        inputs = (index, *map(graph.add_constant, (np.array(around, np.int32), np.array(fill, np.int32))))
        index = packing.add(op, "PADV2", inputs, like, bounds).index
    taps = []
    for row, col in itertools.product(range(p.filter_height), range(p.filter_width)):
        begin = [0, row, col, 0]
        end = [n, row + (p.out_height - 1) * p.stride_h + 1, col + (p.out_width - 1) * p.stride_w + 1, c]
        places = (np.array(each, np.int32) for each in (begin, end, [1, p.stride_h, p.stride_w, 1]))
        taps.append(packing.add(op, "STRIDED_SLICE", (index, *map(graph.add_constant, places)), output, bounds,
                                _MASKS).index)
    like = Tensor(0, f"{output.name} (windows)", "int32", (count, *output.shape))
    return packing.add(op, "PACK", taps, like, bounds, {"axis": 0, "values_count": count}).index


def _average(packing: Packing, op: Operator) -> Packed:
    """Add sums from 0 on, divided by the number of elements inside the image."""
    graph, part, output = packing.graph, packing.packed(op.inputs[0]), packing.graph.output(op)
    p, source = params(op, graph.subgraph), graph.input(op)
    if (p.filter_height, p.filter_width) == source.shape[1:3] and (p.out_height, p.out_width) == (1, 1):
        taps, along, keep = part, np.array([1, 2], np.int32), True
    else:
        index = _taps(packing, op, p, part, 0)
        taps, along, keep = Packed(index, min(part.low, 0.0), max(part.high, 0.0)), np.array([0], np.int32), False
    total = packing.summed(op, taps, p.filter_height * p.filter_width, along, output, keep_dims=keep)
    inside = np.pad(np.ones(source.shape[1:3], np.float32), ((p.pad_top, p.pad_bottom), (p.pad_left, p.pad_right)))
    windows = np.lib.stride_tricks.sliding_window_view(inside, (p.filter_height, p.filter_width))
    counts = windows[::p.stride_h, ::p.stride_w][:p.out_height, :p.out_width].sum(axis=(2, 3))[..., None]
    divisor = packing.number(float(counts.max())) if (counts == counts.max()).all() else Packed(
        graph.add_constant(packed(counts)), float(counts.min()), float(counts.max()))
    return fused(packing, op, packing.binary(plain(op), "DIV", total, divisor, output))


def _largest(packing: Packing, op: Operator) -> Packed:
    graph, part, output = packing.graph, packing.packed(op.inputs[0]), packing.graph.output(op)
    keys = packing.add(op, "PACKED_KEY", (part.index,), graph.input(op), (part.low, part.high))
    taps = _taps(packing, op, params(op, graph.subgraph), keys, INT32_MIN)
    along = graph.add_constant(np.array([0], np.int32))
    most = packing.add(op, "REDUCE_MAX", (taps, along), output, (part.low, part.high), {"keep_dims": False})
    return fused(packing, op, packing.add(op, "PACKED_OF_KEY", (most.index,), output, (part.low, part.high)))


POOLS: dict[str, Rows] = {"AVERAGE_POOL_2D": _average, "MAX_POOL_2D": _largest}
