"""Slices without elements, as loops make them that are unrolled: `tf.map_fn` and `tf.scan` replace one row at a time.

A row is replaced by a CONCATENATION of the rows before, the new one and the rows after. The first time there are none
before, the last time none after.
"""

from dataclasses import replace

from tq_hw.model.graph import Model, Operator, Subgraph

__all__ = ["without_empty_slices"]

#: Operators that the kernels run on nothing, and that do nothing then.
_SLICES = ("SLICE", "STRIDED_SLICE", "QUANTIZE", "DEQUANTIZE")


def without_empty_slices(model: Model) -> Model:
    """Return the model without slices that have no elements, and with no such part in a CONCATENATION.

    The shapes of the first subgraph, the only one that changes, must be known.
    """
    return replace(model, subgraphs=(_without(model.main), *model.subgraphs[1:]))


def _without(subgraph: Subgraph) -> Subgraph:
    empty = {tensor.index for tensor in subgraph.tensors if 0 in tensor.shape}
    if not empty:
        return subgraph
    joined = [_joined(op, empty) if op.op == "CONCATENATION" else op for op in subgraph.operators]
    read = set(subgraph.outputs).union(*(op.inputs for op in joined if op.op not in _SLICES))
    kept = [op for op in joined if op.op not in _SLICES or not set(op.outputs) <= empty - read]
    return replace(subgraph, operators=tuple(kept))


def _joined(op: Operator, empty: set[int]) -> Operator:
    left = tuple(index for index in op.inputs if index not in empty)
    return replace(op, inputs=left) if left else op
