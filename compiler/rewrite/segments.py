"""Reductions of slices at constant indices: SCATTER_ND with repeated indices, segments, SCATTER_ND of float32.

For each index of the result, GATHER takes its slices in order, padded with rows of the neutral element, or for a
maximum or minimum with the last slice again. A reduction over these rows gives the kernel's result, which also starts
from the neutral element.

SCATTER_ND adds codes directly, without their zero point, and wraps: the int32 sum is cast to the codes' type.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.indices import Replacement
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.rearrange import flat_indices
from tq_hw.sim.golden.registry import Array
from tq_hw.sim.golden.segments import NOTHING

__all__ = ["BY_PLACE"]

#: The reduction that is equal to a kernel, by operator.
_REDUCTIONS = {"SEGMENT_SUM": "SUM", "UNSORTED_SEGMENT_SUM": "SUM", "UNSORTED_SEGMENT_MAX": "REDUCE_MAX",
               "UNSORTED_SEGMENT_MIN": "REDUCE_MIN"}
#: Types whose codes are added in int32.
_NARROW = ("int8", "uint8", "int16")


def _meeting(places: Array, count: int, again: bool) -> Array:
    """Return for each of `count` indices of the result a row of its slices' numbers, in order.

    Shorter rows are padded: with their last slice if `again`, else with the number after the last slice.
    """
    found: list[list[int]] = [[] for _ in range(count)]
    for number, place in enumerate(places.tolist()):
        if place >= 0:
            found[place].append(number)
    most = max([1, *map(len, found)])
    rows = [row + [row[-1] if again and row else len(places)] * (most - len(row)) for row in found]
    return np.array(rows, np.int32).reshape(count, most)


class _Meeting:
    """Slices of an input of `op`, as rows, and those that each index of its output reduces."""

    def __init__(self, graph: Subject, op: Operator, position: int, places: Array, nothing: float,
                 again: bool = False) -> None:
        self.ops, self.source, self.target = Replacement(graph, op), graph.input(op, position), graph.output(op)
        self._count = len(places)
        size = math.prod(self.source.shape) // max(self._count, 1)
        self._size = max(size, 1)
        self._rows = _meeting(places, math.prod(self.target.shape) // self._size, again)
        self._nothing = nothing

    def gathered(self) -> int:
        """Add the operators that gather the slices; return the tensor [index, slice, element]."""
        ops, source, graph = self.ops, self.source, self.ops.graph
        shape = (self._count, self._size)
        table = ops.add("RESHAPE", (source.index, graph.add_constant(np.array(shape, np.int32))), source, shape)
        if (self._rows == self._count).any():
            row = graph.add_constant(np.full((1, self._size), self._nothing, source.dtype), source.quantization)
            table = ops.add("CONCATENATION", (table, row), source, (self._count + 1, self._size),
                              {"axis": 0, "fused_activation_function": "NONE"})
        return ops.add("GATHER", (table, graph.add_constant(self._rows)), source, (*self._rows.shape, self._size),
                         {"axis": 0, "batch_dims": 0})

    def reduced(self, name: str, index: int, like: Tensor) -> int:
        """Add a reduction over the slices of each index."""
        axis = self.ops.graph.add_constant(np.array([1], np.int32))
        return self.ops.add(name, (index, axis), like, (len(self._rows), self._size), {"keep_dims": False})

    @property
    def repeats(self) -> bool:
        """Whether an index has more than one slice."""
        return bool(self._rows.shape[1] > 1)

    def rewrite(self, op: Operator, index: int) -> Rewrite:
        """Return the rewrite that ends in a tensor."""
        ops = self.ops
        shape = ops.graph.add_constant(np.array(self.target.shape, np.int32))
        ops.made.append(Operator(op.index, "RESHAPE", (index, shape), op.outputs))
        return Rewrite([op], ops.made)


@pattern("SCATTER_ND")
def scatter_by_gather(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace SCATTER_ND of float32, or with repeated indices: slices with one index are added, codes in int32."""
    indices, updates, target = graph.constant(op, 0), graph.input(op, 1), graph.output(op)
    if indices is None or graph.constant(op, 2) is None or 0 in (*updates.shape, *target.shape):
        return None
    meeting = _Meeting(graph, op, 1, flat_indices(indices, target.shape), 0)
    if updates.dtype == "float32":
        made = meeting.gathered()
        return meeting.rewrite(op, meeting.reduced("SUM", made, updates) if meeting.repeats else made)
    if not meeting.repeats or updates.dtype == "int64":
        return None
    made = meeting.gathered()
    if updates.dtype == "bool":
        return meeting.rewrite(op, meeting.reduced("REDUCE_ANY", made, updates))
    wide = Tensor(0, updates.name, "int32", graph.tensors[made].shape)
    made = meeting.ops.add("CAST", (made,), wide, wide.shape) if updates.dtype in _NARROW else made
    made = meeting.reduced("SUM", made, wide)
    if updates.dtype in _NARROW:
        made = meeting.ops.add("CAST", (made,), target, graph.tensors[made].shape)
    return meeting.rewrite(op, made)


@pattern(*_REDUCTIONS)
def segments(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace sums, maxima and minima of constant segments; an empty segment gives the neutral element."""
    places, source, target = graph.constant(op, 1), graph.input(op), graph.output(op)
    if places is None or source.dtype not in ("int32", "float32") or 0 in (*source.shape, *target.shape) or (
            len(op.inputs) > 2 and graph.constant(op, 2) is None):
        return None
    reduction = _REDUCTIONS[op.op]
    meeting = _Meeting(graph, op, 0, places.reshape(-1), NOTHING[op.op](np.dtype(source.dtype)), reduction != "SUM")
    return meeting.rewrite(op, meeting.reduced(reduction, meeting.gathered(), source))


#: Patterns in the order in which they are tried.
BY_PLACE = (scatter_by_gather, segments)
