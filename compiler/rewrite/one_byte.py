"""Elementwise operators that all depend on the same byte: one table, also where a tensor is read more than once.

EfficientNet and YOLO have many: `x * sigmoid(x)` is LOGISTIC and MUL. A hard swish may be ADD and two MUL.
"""

from collections.abc import Callable

from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import UINT8_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["table_of_one_byte"]

#: Most operators of a table, which bounds the search.
_MOST = 16


def table_of_one_byte(graph: Subject, op: Operator, is_function: Callable[[Subject, Operator], bool]) -> Rewrite | None:
    """Return a table in place of `op` and all operators between it and the one tensor that they depend on.

    `is_function` says whether an operator is elementwise, with constants of one value. Operators whose results others
    need are not replaced. None if there is no such tensor of bytes, or if a chain of single inputs is all there is.
    """
    target = graph.output(op)
    if target.dtype not in ("int8", "uint8") or not is_function(graph, op):
        return None
    found = [op]
    while True:
        inputs = {index for each in found for index in _computed(graph, each)} - {each.outputs[0] for each in found}
        if len(inputs) == 1:
            break
        more = [maker for index in inputs if (maker := graph.maker(index)) is not None]
        if not more or len(found) == _MOST:
            return None
        # The last of them in the model: the others may depend on the same tensor as it does.
        nearest = max(more, key=lambda each: each.index)
        if not is_function(graph, nearest) or graph.output(nearest).shape != target.shape or not _alone(
                graph, nearest, found):
            return None
        found.append(nearest)
    source = graph.tensors[inputs.pop()]
    if source.dtype not in ("int8", "uint8") or source.shape != target.shape or all(
            len(_computed(graph, each)) == 1 for each in found):
        return None
    try:
        values = _evaluated(graph, found, source.index, UINT8_CODES.view(source.dtype))
    except TqError:
        return None
    return Rewrite(found[::-1], [Operator(op.index, "TABLE", (source.index, graph.add_constant(values)), op.outputs)])


def _computed(graph: Subject, op: Operator) -> list[int]:
    """Return the inputs that are no constants, each as often as it is read."""
    return [index for index in op.inputs if index >= 0 and graph.tensors[index].data is None]


def _alone(graph: Subject, op: Operator, users: list[Operator]) -> bool:
    """Whether nothing but `users` reads an operator's result."""
    return graph.uses(op.outputs[0]) == sum(each.inputs.count(op.outputs[0]) for each in users)


def _evaluated(graph: Subject, found: list[Operator], source: int, codes: Array) -> Array:
    """Return the result of the first of the operators for each code of the source; they are in reverse order."""
    values = {source: codes}
    for op in reversed(found):
        inputs: list[Array | None] = []
        for index in op.inputs:
            data = None if index < 0 else values.get(index, graph.tensors[index].data)
            inputs.append(data if data is None or index in values or op.op == "TABLE" else data.reshape(-1)[:1])
        values[op.outputs[0]] = KERNELS[op.op](op, graph.subgraph, inputs)[0]
    return values[found[0].outputs[0]]
