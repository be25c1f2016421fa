"""Converts weights to the form of all later stages: int8, dense, without an operator before them.

Packed int4 weights become int8 with the same values. DENSIFY of a constant becomes that constant, which the reader has
made dense already.
"""

from dataclasses import replace

from tq_hw.model.graph import Model, Subgraph

__all__ = ["DENSE", "INT4_WEIGHTS", "plain_weights"]

#: The operator that makes sparse weights dense.
DENSE = "DENSIFY"
#: Operators whose kernels unpack int4 weights, which are input 1.
INT4_WEIGHTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def plain_weights(model: Model) -> Model:
    """Return the model with int8 weights in place of int4 ones, and without DENSIFY of constants.

    An int4 constant with any other reader stays one, which the rules of that operator refuse.
    """
    return replace(model, subgraphs=tuple(_plain(subgraph) for subgraph in model.subgraphs))


def _plain(subgraph: Subgraph) -> Subgraph:
    tensors = list(subgraph.tensors)
    kept = []
    for op in subgraph.operators:
        source = tensors[op.inputs[0]] if op.op == DENSE and op.inputs and op.inputs[0] >= 0 else None
        if source is None or source.data is None or len(op.outputs) != 1:
            kept.append(op)
            continue
        target = tensors[op.outputs[0]]
        if (target.dtype, target.shape) == (source.dtype, source.shape):
            tensors[target.index] = replace(target, data=source.data)
        else:
            kept.append(op)
    other = {index for op in kept for position, index in enumerate(op.inputs)
             if not (position == 1 and op.op in INT4_WEIGHTS)} | set(subgraph.outputs)
    for tensor in tensors:
        if tensor.dtype == "int4" and tensor.data is not None and tensor.index not in other:
            tensors[tensor.index] = replace(tensor, dtype="int8")
    return replace(subgraph, tensors=tuple(tensors), operators=tuple(kept))
