"""Copies that transpose one matrix of bytes, with both ends in the shape of that matrix.

The heads of an attention are columns of the dense layers' outputs. A copy of the heads' own matrices, transposed, is
one of the whole output: [1, 1, tokens, channels] to [1, 1, channels, tokens]. In this shape the output may stay in the
scratchpad, with the words that the dense layer wrote.
"""

import math
from dataclasses import replace

from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.staged import Columns, MatMul, Move
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.transposes import digit_cycles
from tq_hw.compiler.specialize.in_place import replaced
from tq_hw.compiler.specialize.values import is_whole
from tq_hw.isa.config import Config

__all__ = ["whole_matrices"]


def whole_matrices(graph: Graph, config: Config) -> Graph:
    """Return the graph in which small matrices that are transposed for products, or after them, are whole."""
    kept = {value.root for value in (*graph.inputs, *graph.outputs)}
    #: Results of programs may be in the scratchpad in their own shape.
    results = {layer.output for layer in graph.layers if isinstance(layer, Columns)}
    products = {layer.output.root for layer in graph.layers if isinstance(layer, MatMul)}
    others = {value.root for layer in graph.layers if not isinstance(layer, MatMul) for value in layer.inputs}
    views: dict[Value, Value] = {}
    moves: dict[Move, Move | None] = {}
    for layer in graph.layers:
        size = _matrix(layer)
        if (not isinstance(layer, Move) or size is None or layer.output in kept or layer.inputs[0] in results
                or layer.output in others and layer.inputs[0].root not in products):
            continue
        rows, cols = size
        root, output = layer.inputs[0].root, layer.output
        source = root if root.shape == (1, 1, rows, cols) else replace(
            layer.inputs[0], shape=(1, 1, rows, cols), alias_of=root, pitch=None)
        made = replace(output, shape=(1, 1, cols, rows))
        if not math.isinf(digit_cycles(source, made, config)):
            moves[layer] = replace(layer, inputs=(source,), output=made)
            views[output] = replace(output, alias_of=made)
    return replaced(graph, views, moves)


def _matrix(layer: Layer) -> tuple[int, int] | None:
    """Return rows and columns of the matrix that a copy transposes; None for other layers."""
    if not isinstance(layer, Move) or len(layer.copies) != 1 or len(layer.inputs) != 1:
        return None
    (copy,), (source,), output = layer.copies, layer.inputs, layer.output
    rows, cols = source.size_bytes // source.root.shape[3], source.root.shape[3]
    if (copy.source or copy.source_offset or copy.target_offset or output.root is not output or not is_whole(source)
            or not is_whole(output) or source.root.data is not None or source.size_bytes != output.size_bytes
            or any(value.root.initial is not None for value in (source, output))
            or output.shape == (1, 1, cols, rows) and source.shape == (1, 1, rows, cols)):
        return None
    return (rows, cols) if merged(copy.dims) == merged([(cols, 1, rows), (rows, cols, 1)]) else None
