"""CUMSUM of packed numbers: sequential additions, in the order of Eigen's scan."""

import numpy as np

from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.packed_float import packed
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import bool_option

__all__ = ["CUMSUMS"]

#: Most elements along the axis; each needs an addition.
_MOST_TERMS = 512


def _cumsum(packing: Packing, op: Operator) -> Packed:
    graph, along, output = packing.graph, packing.graph.constant(op, 1), packing.graph.output(op)
    if along is None:
        raise UnsupportedError(f"operator {op.index} (CUMSUM) has a computed axis")
    (axis,) = axes(along, len(output.shape))
    count, reverse, exclusive = output.shape[axis], bool_option(op, "reverse"), bool_option(op, "exclusive")
    if count > _MOST_TERMS:
        raise UnsupportedError(f"operator {op.index} (CUMSUM) has {count} elements along its axis, of float32 at most "
                               f"{_MOST_TERMS}")
    part, size = packing.packed(op.inputs[0]), [*output.shape]
    size[axis] = 1
    like = Tensor(0, f"{output.name} (one term)", "float32", tuple(size))
    sums: list[Packed] = []
    for place in range(count):
        term = _term(packing, op, part, like, (axis, count - 1 - place if reverse else place))
        sums.append(packing.binary(plain(op), "ADD", sums[-1], term, like) if sums else term)
    if exclusive:
        zeros = Packed(graph.add_constant(packed(np.zeros(size, np.float32))), 0.0, 0.0)
        sums = [zeros, *sums[:-1]]
    bounds = min(each.low for each in sums), max(each.high for each in sums)
    made = [each.index for each in (reversed(sums) if reverse else sums)]
    return packing.add(op, "CONCATENATION", made, output, bounds, {"axis": axis, "fused_activation_function": "NONE"})


def _term(packing: Packing, op: Operator, part: Packed, like: Tensor, place: tuple[int, int]) -> Packed:
    """Add the slice at an index along an axis."""
    begin, (axis, at) = np.zeros(len(like.shape), np.int32), place
    begin[axis] = at
    inputs = (part.index, *map(packing.graph.add_constant, (begin, np.array(like.shape, np.int32))))
    return packing.add(op, "SLICE", inputs, like, (part.low, part.high))


CUMSUMS: dict[str, Rows] = {"CUMSUM": _cumsum}
