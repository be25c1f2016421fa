"""Float32 islands of two tensors of bytes that are not a pair (`pairs.py`): a table of all 65,536 pairs of codes.

Each entry is computed with LiteRT's arithmetic, so no proof is needed. Constants of up to 256 distinct elements count
as a tensor of bytes, which numbers these elements; they are the second tensor. The table costs one pass over the output
for each four codes of the second tensor that give a result other than 0.
"""

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label, varying
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.kernels import KERNELS

__all__ = ["table_of_two"]


def _is_constant(source: Tensor) -> bool:
    return source.data is not None


def table_of_two(graph: Subject, op: Operator) -> Operator:
    """Return the operator that computes the output of the QUANTIZE `op`; raise `TqError` if there is none.

    Codes that never occur may give NaN.
    """
    try:
        return _found(graph, op, possible=False)
    except InputError:
        return _found(graph, op, possible=True)


def _found(graph: Subject, op: Operator, *, possible: bool) -> Operator:
    target = graph.output(op)
    constants = varying(graph, op.inputs[0])
    island = Island(graph, target.shape, most=2, numbered=constants, possible=possible)
    made = KERNELS["QUANTIZE"](op, graph.subgraph, [island.values(op.inputs[0])])[0]
    sources = island.sources
    if len(sources) != 2 or target.dtype not in ("int8", "int16") or all(map(_is_constant, sources)):
        raise UnsupportedError(f"{label(target)} is not an int8 or int16 function of two tensors of bytes")
    if np.broadcast_shapes(sources[0].shape, sources[1].shape) != target.shape:
        raise UnsupportedError(f"{label(target)} has a different shape from its two tensors together")
    if not _is_constant(sources[0]):
        sources, made = sources[::-1], made.T
    if len(made) > 256:
        names = " and ".join(map(label, constants))
        raise UnsupportedError(f"{names} {'holds' if len(constants) == 1 else 'together hold'} {len(made)} different "
                               "values, more than a byte can distinguish")
    table = np.zeros((256, 256), made.dtype)
    table[:len(made) if _is_constant(sources[0]) else 256] = made
    inputs = [_index(graph, source) for source in reversed(sources)]
    return Operator(op.index, "TABLE_OF_TWO", (*inputs, graph.add_constant(table.reshape(-1))), op.outputs)


def _index(graph: Subject, source: Tensor) -> int:
    return source.index if source.data is None else graph.add_constant(source.data.astype(np.uint8))
