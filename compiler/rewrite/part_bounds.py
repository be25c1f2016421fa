"""Bounds of some channels of a float32 tensor that are tighter than those of the whole tensor.

They are needed for the divisor of linear attention, which appends a channel of ones to its values: the products of that
channel are sums of weights, which are not negative.
"""

from collections.abc import Callable

from tq_hw.compiler.rewrite.bounds import widened
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.registry import bool_option, int_option
from tq_hw.sim.golden.signs import SAME_ORDER

__all__ = ["part_bounds"]

Bounds = tuple[float, float]


def part_bounds(graph: Subject, op: Operator, known: Callable[[int], Bounds]) -> Bounds | None:
    """Return the bounds of a SLICE of channels; None for other slices, or if only the whole tensor's are known.

    `known` gives the bounds of whole tensors.
    """
    begin, size = graph.constant(op, 1), graph.constant(op, 2)
    if op.op != "SLICE" or begin is None or size is None or not begin.size:
        return None
    return _of_channels(graph, op.inputs[0], int(begin[-1]), graph.output(op).shape[-1], known)


def _of_channels(graph: Subject, index: int, first: int, count: int, known: Callable[[int], Bounds]) -> Bounds | None:
    maker, tensor = graph.maker(index), graph.tensors[index]
    if maker is None:
        return None
    source = graph.input(maker)
    if maker.op in SAME_ORDER and source.shape and source.shape[-1:] == tensor.shape[-1:]:
        return _of_channels(graph, source.index, first, count, known)
    if maker.op == "BATCH_MATMUL" and not bool_option(maker, "adj_y"):
        columns = _of_channels(graph, maker.inputs[1], first, count, known)
        if columns is None:
            return None
        ends = [one * other for one in known(maker.inputs[0]) for other in columns]
        depth = graph.input(maker, 1).shape[-2]
        return widened(depth * min(ends), depth * max(ends), depth + 1)
    of_codes = maker.op == "DEQUANTIZE"
    added = _added(graph, source.index if of_codes else index, first, count)
    if added is None or not of_codes:
        return added
    low, high = (source.scale * (code - source.zero_point) for code in added)
    return widened(low, high)


def _added(graph: Subject, index: int, first: int, count: int) -> Bounds | None:
    """Return the least and the largest element of constant channels added by a PADV2 or CONCATENATION."""
    maker, tensor = graph.maker(index), graph.tensors[index]
    if maker is None:
        return None
    source = graph.input(maker)
    if maker.op in SAME_ORDER and source.shape and source.shape[-1:] == tensor.shape[-1:]:
        return _added(graph, source.index, first, count)
    if maker.op == "CONCATENATION" and int_option(maker, "axis") in (-1, len(tensor.shape) - 1):
        for each in (graph.tensors[one] for one in maker.inputs):
            size = each.shape[-1]
            if each.data is not None and 0 <= first <= first + count <= size:
                part = each.data[..., first:first + count]
                return float(part.min()), float(part.max())
            first -= size
        return None
    around, fill = graph.constant(maker, 1), graph.constant(maker, 2)
    if maker.op != "PADV2" or around is None or fill is None or around[:-1].any():
        return None
    before, number = int(around[-1][0]), float(fill.reshape(-1)[0])
    is_added = first + count <= before or first >= before + source.shape[-1]
    return (number, number) if is_added else None
