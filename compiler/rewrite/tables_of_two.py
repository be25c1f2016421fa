"""Float32 islands of two tensors of bytes that are no pair (`pairs.py`): a table of all 65,536 pairs of codes.

Constants of up to 256 different numbers are a tensor of bytes, too: which of the numbers it is. What the island gives
for each pair is computed as LiteRT does, so nothing has to be proved. It costs a pass over the output for each four
codes of the second tensor that give anything but 0: constants are the second one.
"""

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["table_of_two"]


def _is_constant(source: Tensor) -> bool:
    return source.data is not None


def table_of_two(graph: Subject, op: Operator) -> Operator:
    """Return what gives the output of the QUANTIZE `op`; raise `UnsupportedError` with the reason if nothing does."""
    target = graph.output(op)
    island = Island(graph, target.shape, most=2, numbered=True)
    made = KERNELS["QUANTIZE"](op, graph.subgraph, [island.values(op.inputs[0])])[0]
    sources = island.sources
    if len(sources) != 2 or target.dtype not in ("int8", "int16") or all(map(_is_constant, sources)):
        raise UnsupportedError(f"{label(target)} is no int8 or int16 of two tensors of bytes")
    if np.broadcast_shapes(sources[0].shape, sources[1].shape) != target.shape:
        raise UnsupportedError(f"{label(target)} has another shape than its two tensors together")
    table = np.broadcast_to(made, (256, 256))
    if not _is_constant(sources[0]):
        sources, table = sources[::-1], table.T
    inputs = [_index(graph, source) for source in reversed(sources)]
    return Operator(op.index, "TABLE_OF_TWO", (*inputs, graph.add_constant(_used(sources[0], table))), op.outputs)


def _index(graph: Subject, source: Tensor) -> int:
    return source.index if source.data is None else graph.add_constant(source.data)


def _used(second: Tensor, table: Array) -> Array:
    """Return the table, [codes of the second tensor, those of the first], as one row; 0 for what a constant has not."""
    rows = table.copy()
    if second.data is not None:
        rows[int(second.data.max()) + 1:] = 0
    return rows.reshape(-1)
