"""Comparisons at scales so small that EQUAL cannot tell any two codes apart.

TensorFlow tests whether a number is finite by its difference from itself; `tf.reduce_logsumexp` does so with its
maximum. That difference has the converter's least scale, for which no engine has a defined result (`options.py`). But
EQUAL compares in steps of 1 / 256, and all codes of such a scale lie within one step. So their values do not matter.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Model, Operator, Subgraph, Tensor

__all__ = ["without_fine_codes"]

#: Result of EQUAL for equal codes.
_RESULTS = {"EQUAL": True, "NOT_EQUAL": False}
#: Scales of int8 below which a code less its zero point, shifted by 8 bits, is rounded to 0.
_FINE = 2.0**-18


def without_fine_codes(model: Model) -> Model:
    """Return the model with constants for such comparisons, without differences that nothing else reads."""
    return replace(model, subgraphs=tuple(map(_without, model.subgraphs)))


def _without(subgraph: Subgraph) -> Subgraph:
    found = [op for op in subgraph.operators if _is_known(op, subgraph)]
    if not found:
        return subgraph
    tensors = list(subgraph.tensors)
    for op in found:
        tensor = tensors[op.outputs[0]]
        # Of an open shape it broadcasts.
        shape = (1,) * len(tensor.shape) if -1 in tensor.shape_signature else tensor.shape
        tensors[tensor.index] = replace(tensor, shape=shape, shape_signature=(),
                                        data=np.full(shape, _RESULTS[op.op]))
    left = [op for op in subgraph.operators if op not in found]
    compared = {index for op in found for index in op.inputs} - {index for op in left for index in op.inputs}
    compared -= set(subgraph.outputs)
    return replace(subgraph, tensors=tuple(tensors), operators=tuple(
        op for op in left if op.op != "SUB" or not compared & set(op.outputs)))


def _is_known(op: Operator, subgraph: Subgraph) -> bool:
    if op.op not in _RESULTS or len(op.inputs) != 2 or len(op.outputs) != 1 or op.outputs[0] in subgraph.outputs:
        return False
    made = subgraph.tensors[op.outputs[0]]
    readers = [each for each in subgraph.operators if op.outputs[0] in each.inputs]
    return (all(_is_fine(subgraph.tensors, index) for index in op.inputs)
            and (-1 not in made.shape_signature or all(each.op == "SELECT_V2" for each in readers)))


def _is_fine(tensors: Sequence[Tensor], index: int) -> bool:
    quantization = tensors[index].quantization if index >= 0 and tensors[index].dtype == "int8" else None
    return quantization is not None and len(quantization.scale) == 1 and 0 < quantization.scale[0] < _FINE
