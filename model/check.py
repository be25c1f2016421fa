"""Verify the operators of a model: shapes and parameters agree with what the kernels compute."""

from tq_hw.model.graph import Model
from tq_hw.model.node import Node
from tq_hw.model.shapes import output_shapes

__all__ = ["check_model"]


def check_model(model: Model, name: str = "") -> None:
    """Raise `ModelError`, naming the file as `name`, when an operator breaks one of its rules."""
    for index, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            place = f"{name or model.name}: subgraph {index}, operator {operator.index}"
            node = Node(operator, subgraph.tensors, f"{place} {operator.op}")
            _check_shapes(node)


def _check_shapes(node: Node) -> None:
    shapes = output_shapes(node)
    if shapes is None:
        return
    if len(shapes) != len(node.operator.outputs):
        raise node.error(f"has {len(node.operator.outputs)} outputs, expected {len(shapes)}")
    for position, shape in enumerate(shapes):
        found = node.output(position).shape
        if found != shape:
            raise node.error(f"output {position} has shape {list(found)}, expected {list(shape)}")
