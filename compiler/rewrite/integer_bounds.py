"""Bounds of integers inside a model: places, counts and sums of few of them have far fewer bits than their types."""

import math

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.model.rules.signatures import RANKINGS
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.signs import SAME_ORDER

__all__ = ["integer_bounds"]

#: Operators whose results are elements of their first input.
_MOVES = ("CAST", *SAME_ORDER, "TRANSPOSE", "SLICE", "STRIDED_SLICE", "TILE", "BROADCAST_TO", "REDUCE_MAX",
          "REDUCE_MIN")
#: Operators whose results are elements of their inputs, and sums of them.
_JOINS = ("CONCATENATION", "PACK", "MAXIMUM", "MINIMUM", "ADD")
_INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "bool")
#: Longest chain of operators that is examined.
_DEEPEST = 64


def integer_bounds(graph: Subject, index: int) -> tuple[int, int]:
    """Return the least and the largest number that a tensor of integers or bool can hold."""
    return _Bounds(graph).of(index, 0)


class _Bounds:
    def __init__(self, graph: Subject) -> None:
        self._graph = graph
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, index: int, depth: int) -> tuple[int, int]:
        """Return the bounds of a tensor."""
        if index not in self._known:
            dtype = self._graph.tensors[index].dtype
            every = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
            # Codes of 8 and 16 bits may have a scale.
            found = self._found(index, depth) if depth < _DEEPEST and dtype in ("int32", "int64") else None
            # Integers wrap.
            self._known[index] = every if found is None or found[0] < every[0] or found[1] > every[1] else found
        return self._known[index]

    def _found(self, index: int, depth: int) -> tuple[int, int] | None:
        graph, op = self._graph, self._graph.maker(index)
        data = graph.tensors[index].data
        if op is not None and op.op == "TABLE":
            data = graph.constant(op, 1)
        if data is not None and data.size:
            return int(data.min()), int(data.max())
        if op is None:
            return None
        if op.op == "TOPK_V2":
            return (0, graph.input(op).shape[-1] - 1) if index == op.outputs[1] else None
        along = graph.constant(op, 1) if op.op in ("SUM", *RANKINGS) else None
        if op.op in RANKINGS and along is not None:
            return 0, graph.input(op).shape[int(along.reshape(-1)[0])] - 1
        return self._of_inputs(op, depth + 1) if op.op in (*_MOVES, *_JOINS) or along is not None else None

    def _of_inputs(self, op: Operator, depth: int) -> tuple[int, int] | None:
        graph = self._graph
        sources = op.inputs if op.op in _JOINS else op.inputs[:1]
        if any(graph.tensors[each].dtype not in _INTEGERS for each in sources) or op.options.get(
                "fused_activation_function", "NONE") != "NONE":
            return None
        parts = [self.of(each, depth) for each in sources]
        if op.op == "ADD":
            return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        count, along = 1, graph.constant(op, 1) if op.op == "SUM" else None
        if along is not None:
            shape = graph.input(op).shape
            count = math.prod(shape[axis] for axis in axes(along, len(shape)))
        return count * min(low for low, _ in parts), count * max(high for _, high in parts)
