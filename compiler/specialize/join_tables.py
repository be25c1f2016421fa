"""A table before a folded convolution: the windows are looked up instead of the tensor.

Otherwise the bytes of a model's input would be loaded, looked up and stored, and loaded again as windows. Instead the
vector unit looks up the words of the windows between load and array.

The table must map the bytes loaded around the image to the convolution's padding, so there must be a byte with that
result. The output of another layer is in the scratchpad, and is looked up there.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.plan.fold import plan_fold
from tq_hw.compiler.specialize.packed_tables import table_alone
from tq_hw.compiler.specialize.values import Users
from tq_hw.isa.config import Config

__all__ = ["join_tables"]

#: Bytes of a table; a small scratchpad must have room for four, because weights are held meanwhile.
_TABLE_BYTES = 4 * 256


def join_tables(graph: Graph, config: Config) -> Graph:
    """Return the graph without the tables that the convolutions after them absorb."""
    users = Users(graph, graph.layers)
    # By root: the phases of a TRANSPOSE_CONV write parts of the table's input.
    made = {id(layer.output.root) for layer in graph.layers}
    layers: list[Layer] = []
    for layer in graph.layers:
        before = layers[-1] if layers else None
        if isinstance(before, Elementwise) and isinstance(layer, Mac) and layer.inputs == (before.output,):
            alone = users.maker(before.output) is before and id(before.inputs[0].root) not in made
            table = table_alone(before)
            joined = _joined(layer, before, table, config) if alone and table is not None else None
            if joined is not None:
                layers[-1] = joined
                continue
        layers.append(layer)
    return replace(graph, layers=tuple(layers))


def _joined(layer: Mac, before: Elementwise, table: IntArray, config: Config) -> Mac | None:
    """Return the convolution with the table, None if it cannot absorb it."""
    source = before.inputs[0]
    padding = np.flatnonzero(table == layer.pad_value)
    # The vector unit writes only the lanes of channels, but windows have bytes in all lanes.
    if (layer.depthwise or config.block < config.word_bytes or source.data is not None or not source.dense
            or not before.output.dense or source.shape != before.output.shape or not padding.size
            or config.scratchpad_bytes < 4 * _TABLE_BYTES or plan_fold(layer, config) is None):
        return None
    return replace(layer, inputs=(source,), input_table=table, outside=int(padding[0]))
