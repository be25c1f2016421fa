"""A table in front of a folded convolution: its windows are looked up, not the tensor.

The bytes of a model's input would come from memory, go back looked up, and come again as windows. Instead the vector
unit looks up the words of the windows between load and array. What is loaded around the image must become
the convolution's padding by the table, so there must be a byte that does. What a layer makes is in the scratchpad
and better looked up there.
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

#: Bytes of a table, of which a small scratchpad must have room for four: weights are held meanwhile.
_TABLE_BYTES = 4 * 256


def join_tables(graph: Graph, config: Config) -> Graph:
    """Return the graph without the tables that convolutions after them take over."""
    users = Users(graph, graph.layers)
    # By root: the phases of a TRANSPOSE_CONV make parts of what is looked up.
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
    """The convolution with the table, None where it cannot take it."""
    source = before.inputs[0]
    padding = np.flatnonzero(table == layer.pad_value)
    # The vector unit writes the lanes of channels alone, windows have bytes in all.
    if (layer.depthwise or config.block < config.word_bytes or source.data is not None or not source.dense
            or not before.output.dense or source.shape != before.output.shape or not padding.size
            or config.scratchpad_bytes < 4 * _TABLE_BYTES or plan_fold(layer, config) is None):
        return None
    return replace(layer, inputs=(source,), input_table=table, outside=int(padding[0]))
