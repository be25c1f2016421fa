"""Output shapes of operators that join elements: of two tensors or more, along axes of one, before each along one."""

from collections.abc import Callable

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes_repeat import broadcast

__all__ = ["JOIN_SHAPES"]

Shapes = list[tuple[int, ...]] | None


def _binary(node: Node) -> Shapes:
    return [broadcast(node, node.shape(0), node.shape(1))]


def _prelu(node: Node) -> Shapes:
    if broadcast(node, node.shape(0), node.shape(1)) != node.shape(0):
        raise node.error(f"alpha has shape {list(node.shape(1))}, more than the input's {list(node.shape(0))}")
    return [node.shape(0)]


def _reduce(node: Node) -> Shapes:
    shape = node.shape(0)
    axes = node.integers(1, "axes", any_rank=True)
    if axes is None:
        return None
    reduced = {node.axis(axis, len(shape)) for axis in axes}
    if node.option("keep_dims"):
        return [tuple(1 if axis in reduced else size for axis, size in enumerate(shape))]
    return [tuple(size for axis, size in enumerate(shape) if axis not in reduced)]


def _cumsum(node: Node) -> Shapes:
    shape, axis = node.shape(0), node.integers(1, "axis", 1)
    if axis is not None:
        node.axis(axis[0], len(shape))
    return [shape]


def _add_n(node: Node) -> Shapes:
    shapes = [tensor.shape for tensor in node.inputs()]
    if len(shapes) < 2 or len(set(shapes)) > 1:
        found = ", ".join(str(list(shape)) for shape in shapes)
        raise node.error(f"inputs have shapes {found}, expected two or more of one shape")
    return [shapes[0]]


def _arg(node: Node) -> Shapes:
    shape = node.shape(0)
    axis = node.integers(1, "axis", 1)
    if axis is None:
        return None
    drop = node.axis(axis[0], len(shape))
    return [shape[:drop] + shape[drop + 1:]]


_GROUPS: dict[Callable[[Node], Shapes], str] = {
    _binary: "ADD SUB MUL DIV POW FLOOR_DIV FLOOR_MOD BITWISE_XOR RIGHT_SHIFT SQUARED_DIFFERENCE MAXIMUM "
             "MINIMUM LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR",
    _prelu: "PRELU", _cumsum: "CUMSUM", _add_n: "ADD_N",
    _reduce: "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL", _arg: "ARG_MAX ARG_MIN"}
#: Rules by operator.
JOIN_SHAPES = {op: rule for rule, ops in _GROUPS.items() for op in ops.split()}
