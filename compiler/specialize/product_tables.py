"""A table after a product of matrices: the product looks up its results, which are not loaded again for the table.

In attention this table is the scale of the scores; elsewhere it is an activation. A product stores its results in
memory. A small tensor that the next layer needs in the scratchpad is therefore still looked up there.
"""

from collections.abc import Sequence
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer
from tq_hw.compiler.ir.staged import Columns, MatMul, Staged, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.transpose import as_transpose
from tq_hw.compiler.specialize.values import Users, is_whole
from tq_hw.isa.config import Config

__all__ = ["join_product_tables"]

#: Largest share of the scratchpad for a small tensor.
_SMALL_SHARE = 8


def join_product_tables(graph: Graph, config: Config) -> Graph:
    """Return the graph without the tables that products of matrices absorb."""
    layers: list[Layer] = []
    users = Users(graph, graph.layers)
    for layer in graph.layers:
        joined = _joined(users, layers, layer) if isinstance(layer, Elementwise) and not _stays(
            users, layer.output, config) else None
        if joined is None:
            layers.append(layer)
        else:
            at, product = joined
            layers[at] = product
    return replace(graph, layers=tuple(layers))


def _stays(users: Users, value: Value, config: Config) -> bool:
    """Whether a tensor is likely to be in the scratchpad for the layer that reads it."""
    reader = users.reader(value)
    if blocked_words(value, config) > config.scratchpad_words // _SMALL_SHARE:
        return False
    if isinstance(reader, Columns):
        # It works in the scratchpad if its results are needed there.
        reader = users.reader(reader.output)
    return not isinstance(reader, Staged) or isinstance(as_transpose(reader, config), Transpose)


def _joined(users: Users, layers: Sequence[Layer], layer: Elementwise) -> tuple[int, MatMul] | None:
    """Return the product before a layer, with the layer's table, and its number; None if it cannot absorb the table."""
    table = table_alone(layer)
    source, made = layer.inputs[0], layer.output
    product = users.maker(source) if table is not None and len(layer.inputs) == 1 else None
    if (not isinstance(product, MatMul) or product.table is not None or product.wide or product.raw
            or source.shape != made.shape or not is_whole(made) or made.alias_of is not None):
        return None
    output = product.output
    if output is source.root:
        output = made if output.shape == made.shape else replace(output, alias_of=made, zero_point=made.zero_point)
    elif output.alias_of is source.root and source.root.shape == made.shape:
        # It is part of another value.
        output = replace(output, alias_of=made, zero_point=made.zero_point)
    else:
        return None
    at = next((number for number, other in enumerate(layers) if other is product), None)
    return None if at is None else (at, replace(product, output=output, table=table))
