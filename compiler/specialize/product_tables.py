"""A table after a product of matrices: what the product makes is looked up on its way, not brought from memory for it.

Attention has the scale of its scores there, and others an activation.
"""

from collections.abc import Sequence
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.values import Users, is_whole

__all__ = ["join_product_tables"]


def join_product_tables(graph: Graph) -> Graph:
    """Return the graph without the tables that products of matrices take over."""
    layers: list[Layer] = []
    users = Users(graph, graph.layers)
    for layer in graph.layers:
        joined = _joined(users, layers, layer) if isinstance(layer, Elementwise) else None
        if joined is None:
            layers.append(layer)
        else:
            at, product = joined
            layers[at] = product
    return replace(graph, layers=tuple(layers))


def _joined(users: Users, layers: Sequence[Layer], layer: Elementwise) -> tuple[int, MatMul] | None:
    """The product before a layer with the layer's table, and where it stands; None where it cannot take it."""
    table = table_alone(layer)
    source, made = layer.inputs[0], layer.output
    product = users.maker(source) if table is not None and len(layer.inputs) == 1 else None
    if (not isinstance(product, MatMul) or product.table is not None or product.wide or product.raw
            or source.shape != made.shape or not is_whole(made) or made.alias_of is not None):
        return None
    output = product.output
    if output is source.root:
        output = made if output.shape == made.shape else replace(output, alias_of=made)
    else:
        # It lies in the bytes of another one.
        if output.alias_of is not source.root or source.root.shape != made.shape:
            return None
        output = replace(output, alias_of=made)
    at = next((number for number, other in enumerate(layers) if other is product), None)
    return None if at is None else (at, replace(product, output=_with_zero(output, made), table=table))


def _with_zero(value: Value, made: Value) -> Value:
    """Return a value with the zero point of another one."""
    return value if value is made else replace(value, zero_point=made.zero_point)
