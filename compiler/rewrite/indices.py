"""Computed indices: GATHER_ND by the number of each slice, and ONE_HOT of integers that went through float32.

Int32 additions compute the number of each slice, and GATHER takes the slices.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.model.graph import Operator, OptionValue, Tensor

__all__ = ["INDEXED", "Replacement"]

#: Whole numbers from here on may be rounded in float32, to others that are not below it either.
_ROUNDED = 1 << 24


class Replacement:
    """Operators on int32 that replace `op`."""

    def __init__(self, graph: Subject, op: Operator) -> None:
        self.graph, self.op, self.made = graph, op, list[Operator]()

    def add(self, name: str, inputs: tuple[int, ...], like: Tensor, shape: tuple[int, ...],
            options: dict[str, OptionValue] | None = None) -> int:
        """Add an operator with one output; return the output tensor."""
        output = self.graph.add_tensor(like, shape)
        self.made.append(Operator(self.op.index, name, inputs, (output,), options or {}))
        return output

    def number(self, value: int) -> int:
        """Add an int32 constant; return its tensor."""
        return self.graph.add_constant(np.array(value, np.int32))


def _numbers(ops: Replacement, indices: Tensor, sizes: tuple[int, ...]) -> int:
    """Return the tensor of slice numbers; slices are numbered in memory order."""
    graph, shape, current = ops.graph, indices.shape[:-1], indices.index
    whole = Tensor(0, indices.name, "int32", indices.shape)
    if indices.dtype == "int64":
        current = ops.add("CAST", (current,), whole, indices.shape)
    if len(sizes) == 1:
        return ops.add("RESHAPE", (current, graph.add_constant(np.array(shape, np.int32))), whole, shape)
    parts = tuple(graph.add_tensor(whole, shape) for _ in sizes)
    ops.made.append(Operator(ops.op.index, "UNPACK", (current,), parts, {"axis": len(shape), "num": len(sizes)}))
    plain: dict[str, OptionValue] = {"fused_activation_function": "NONE"}
    total = parts[-1]
    for axis, part in enumerate(parts[:-1]):
        step = ops.number(math.prod(sizes[axis + 1:]))
        total = ops.add("ADD", (total, ops.add("MUL", (part, step), whole, shape, plain)), whole, shape, plain)
    return total


@pattern("GATHER_ND")
def gather_nd_by_number(graph: Subject, op: Operator) -> Rewrite | None:
    """Take slices along the first axes as rows of a table; a row's number is the sum of indices times strides."""
    source, indices = graph.input(op), graph.input(op, 1)
    depth = indices.shape[-1] if indices.shape else 0
    if indices.data is not None or not 0 < depth <= len(source.shape) or 0 in source.shape or 0 in indices.shape:
        return None
    ops, sizes, rest = Replacement(graph, op), source.shape[:depth], source.shape[depth:]
    numbers = _numbers(ops, indices, sizes)
    table = source.index
    if depth > 1 or not rest:
        rows = (math.prod(sizes), *(rest or (1,)))
        table = ops.add("RESHAPE", (table, graph.add_constant(np.array(rows, np.int32))), source, rows)
    shape = (*indices.shape[:-1], *(rest or (1,)))
    options: dict[str, OptionValue] = {"axis": 0, "batch_dims": 0}
    if rest:
        ops.made.append(Operator(op.index, "GATHER", (table, numbers), op.outputs, options))
    else:
        found = ops.add("GATHER", (table, numbers), graph.output(op), shape, options)
        target = graph.add_constant(np.array(graph.output(op).shape, np.int32))
        ops.made.append(Operator(op.index, "RESHAPE", (found, target), op.outputs))
    return Rewrite([op], ops.made)


@pattern("ONE_HOT")
def one_hot_of_integers(graph: Subject, op: Operator) -> Rewrite | None:
    """Take integers as they were before two CAST, to float32 and back (CategoryEncoding of Keras)."""
    back, depth = graph.maker(op.inputs[0]), graph.constant(op, 1)
    there = graph.maker(back.inputs[0]) if back is not None and back.op == "CAST" else None
    if (there is None or there.op != "CAST" or graph.output(there).dtype != "float32" or depth is None
            or graph.input(there).dtype not in ("int32", "int64") or int(depth.reshape(())) > _ROUNDED):
        return None
    return Rewrite([op], [changed(op, inputs=(there.inputs[0], *op.inputs[1:]))])


#: Patterns in the order in which they are tried.
INDEXED = (gather_nd_by_number, one_hot_of_integers)
