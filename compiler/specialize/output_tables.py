"""A table beside a convolution or a maximum pool: its results are looked up before they are written.

A layer that is only a table reads every word and writes it again. After a convolution the vector unit needs as many
beats to look up the results in a second micro-operation, but it has them while the array computes. A pool already has
such a micro-operation, which clamps. A table that never falls gives the same results after a pool as before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import ByteTable, Graph, Layer, Mac, MaxPool
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.values import Users
from tq_hw.sim.golden.arith import INT8_CODES

__all__ = ["look_up_results"]

#: Codes of int8 from the least to the greatest, as indices of a table.
_RISING = np.arange(-128, 128)


def look_up_results(graph: Graph, layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers of a graph without the tables that convolutions and pools absorb."""
    return _absorbed(graph, _absorbed(graph, layers, _table_before), _table_after)


def _absorbed(graph: Graph, layers: Sequence[Layer],
              join: Callable[[Users, Layer], tuple[Layer, Layer, Layer] | None]) -> list[Layer]:
    """Return the layers without those that `join` absorbs: it returns a table's layer, another one, and both in one."""
    users, gone, joined = Users(graph, layers), set[Layer](), dict[Layer, Layer]()
    for layer in layers:
        found = join(users, layer)
        if found is not None:
            gone.add(found[0])
            joined[found[1]] = found[2]
    return [joined.get(layer, layer) for layer in layers if layer not in gone]


def _table_before(users: Users, layer: Layer) -> tuple[Layer, Layer, Layer] | None:
    """Join a pool and a table before it that never falls."""
    before = users.maker(layer.inputs[0]) if isinstance(layer, MaxPool) else None
    table = None if before is None else table_alone(before)
    if (not isinstance(layer, MaxPool) or before is None or table is None or not _faces(before, layer)
            or (np.diff(table[_RISING]) < 0).any()):
        return None
    limited = ByteTable(np.clip(table, layer.act_min, layer.act_max))
    return before, layer, replace(layer, inputs=before.inputs, output_table=limited)


def _table_after(users: Users, after: Layer) -> tuple[Layer, Layer, Layer] | None:
    """Join a table and the convolution or pool before it, if that has no table yet and writes one whole tensor."""
    table = table_alone(after)
    layer = None if table is None else users.maker(after.inputs[0])
    if table is None or layer is None or not _faces(after, layer):
        return None
    if isinstance(layer, MaxPool) and layer.output_table is None:
        table = table[np.clip(INT8_CODES, layer.act_min, layer.act_max)]
    elif not isinstance(layer, Mac) or layer.wide is not None or layer.region is not None or any(
            each is not None for each in layer.tables):
        return None
    return after, layer, replace(layer, output=after.output, output_table=ByteTable(table))


def _faces(table: Layer, other: Layer) -> bool:
    """Whether a table reads and writes the same pixels, and can be looked up when the other layer runs.

    A state's bytes change between two layers.
    """
    value = table.output if other.inputs[:1] == (table.output,) else other.output
    return (table.inputs[0].shape == table.output.shape and value in (table.output, table.inputs[0])
            and all(each.root.initial is None for each in (*table.inputs, table.output)))
