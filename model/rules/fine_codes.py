"""Comparisons at scales so small that EQUAL cannot tell any two codes apart.

TensorFlow tests whether a number is finite by its difference from itself; `tf.reduce_logsumexp` does so with its
maximum. That difference has the converter's least scale, for which no engine has a defined result (`options.py`). But
EQUAL compares in steps of 1 / 256, and all codes of such a scale lie within one step. So their values do not matter.

PyTorch's `logsumexp` compares the magnitude of a maximum with infinity, and takes 0 where it is. ai-edge-quantizer
gives infinity a code with an infinite scale. The kernels compute its multiplier by an undefined conversion, which gives
0 on x86: then a maximum of 0 is the only one that may be replaced, by 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Model, Operator, Quantization, Subgraph, Tensor

__all__ = ["without_fine_codes", "without_infinite_codes"]

#: Result of EQUAL for equal codes.
_RESULTS = {"EQUAL": True, "NOT_EQUAL": False}
#: Bound of the errors of quotients of scales, and of a product that is rounded twice.
_ROUNDING = 2.0**-7
#: Scales below which a code less its zero point, shifted by 8 bits, is rounded to 0, by type.
_FINE = {"int8": 2.0**-18, "int16": 2.0**-26}
#: Operators whose results only comparisons and shapes read. ai-edge-quantizer writes all of them for a comparison.
_COPIES = ("SUB", "BROADCAST_TO", "QUANTIZE", "DEQUANTIZE", "SHAPE", "BROADCAST_ARGS")


def without_fine_codes(model: Model) -> Model:
    """Return the model with constants for comparisons of fine codes, without differences that nothing else reads.

    The shapes of the first subgraph, the only one that changes, must be known.
    """
    found = [op for op in model.main.operators if _is_known(op, model.main)]
    return replace(model, subgraphs=(_without(model.main, found), *model.subgraphs[1:]))


def without_infinite_codes(model: Model) -> Model:
    """Return the model with constants for comparisons with a code of infinity; it has scale 1 then."""
    return replace(model, subgraphs=tuple(map(_finite, model.subgraphs)))


def _finite(subgraph: Subgraph) -> Subgraph:
    found = [op for op in subgraph.operators if _is_infinite(op, subgraph)]
    tensors = list(subgraph.tensors)
    for op in found:
        tensors[op.inputs[1]] = replace(tensors[op.inputs[1]], quantization=Quantization((1.0,), (0,)))
    return _without(replace(subgraph, tensors=tuple(tensors)), found, is_same=False)


def _without(subgraph: Subgraph, found: Sequence[Operator], *, is_same: bool = True) -> Subgraph:
    """Return the subgraph with constants for comparisons of codes that are the same, or never are."""
    if not found:
        return subgraph
    tensors = list(subgraph.tensors)
    for op in found:
        tensor = tensors[op.outputs[0]]
        # Of an open shape it broadcasts.
        shape = (1,) * len(tensor.shape) if -1 in tensor.shape_signature else tensor.shape
        tensors[tensor.index] = replace(tensor, shape=shape, shape_signature=(),
                                        data=np.full(shape, is_same and _RESULTS[op.op]))
    return replace(subgraph, tensors=tuple(tensors), operators=tuple(_without_differences(subgraph, found)))


def _without_differences(subgraph: Subgraph, found: Sequence[Operator]) -> list[Operator]:
    """Return the operators without the comparisons, and without differences and copies that nothing else reads."""
    left, dropped = list(subgraph.operators), list(found)
    while dropped:
        left = [op for op in left if op not in dropped]
        read = {*subgraph.outputs, *(index for op in left for index in op.inputs)}
        dropped = [op for op in left if op.op in _COPIES and not read & set(op.outputs)]
    return left


def _is_infinite(op: Operator, subgraph: Subgraph) -> bool:
    """Whether EQUAL asks if a number is infinite, and it does not matter if it holds for 0."""
    tensors, makers = subgraph.tensors, {index: each for each in subgraph.operators for index in each.outputs}
    if op.op != "EQUAL" or op.outputs[0] in subgraph.outputs:
        return False
    limit, size = (tensors[index] for index in op.inputs[::-1])
    readers = [each for each in subgraph.operators if op.outputs[0] in each.inputs]
    sole = all(limit.index not in each.inputs for each in subgraph.operators if each is not op)
    if limit.data is None or limit.quantization is None or limit.quantization.scale != (math.inf,) or not sole:
        return False
    found = _magnitude(size.index, makers)
    if found is None:
        return False
    number, same = tensors[found[0]], found[1]
    if {number.dtype, size.dtype} != {"int8"} or number.quantization is None or size.quantization is None:
        return False
    # The code of the least magnitude but 0, less that of 0; in the steps in which EQUAL compares it is not 0.
    least = min(math.floor(number.scale / size.scale + 0.5 - _ROUNDING), 127 - size.zero_point)
    return least * size.scale * 256 > 0.5 + _ROUNDING and all(
        _takes_zero(each, op.outputs[0], same, subgraph, makers) for each in readers)


def _magnitude(index: int, makers: Mapping[int, Operator]) -> tuple[int, set[int]] | None:
    """Return the codes whose magnitude a tensor of codes is, or that of their maximum, and the tensors that hold them.

    A maximum of codes is one of them. None is for other tensors.
    """
    absolute = makers.get(makers[index].inputs[0]) if index in makers and makers[index].op == "QUANTIZE" else None
    if absolute is None or absolute.op != "ABS":
        return None
    same, maker = set(absolute.inputs), makers.get(absolute.inputs[0])
    is_largest = maker is not None and maker.op == "REDUCE_MAX"
    if maker is not None and is_largest:
        maker = makers.get(maker.inputs[0])
    if maker is None or maker.op != "DEQUANTIZE":
        return None
    return maker.inputs[0], same if is_largest else same | {maker.inputs[0]}


def _takes_zero(op: Operator, condition: int, same: set[int], subgraph: Subgraph,
                makers: Mapping[int, Operator]) -> bool:
    """Whether an operator takes 0 where a condition holds, and elsewhere the number, which the tensors `same` hold."""
    if op.op not in ("SELECT", "SELECT_V2") or op.inputs[0] != condition:
        return False
    zero, other = (subgraph.tensors[index] for index in op.inputs[1:3])
    copy = makers.get(other.index)
    is_same = other.index in same or (
        copy is not None and copy.op in ("QUANTIZE", "RESHAPE") and copy.inputs[0] in same)
    return (is_same and zero.data is not None and other.quantization is not None
            and bool((zero.data == other.zero_point).all()) and zero.quantization == other.quantization)


def _is_known(op: Operator, subgraph: Subgraph) -> bool:
    if op.op not in _RESULTS or len(op.inputs) != 2 or len(op.outputs) != 1 or op.outputs[0] in subgraph.outputs:
        return False
    return all(_is_fine(subgraph.tensors, index) for index in op.inputs)


def _is_fine(tensors: Sequence[Tensor], index: int) -> bool:
    if index < 0 or tensors[index].dtype not in _FINE:
        return False
    quantization, fine = tensors[index].quantization, _FINE[tensors[index].dtype]
    return quantization is not None and len(quantization.scale) == 1 and 0 < quantization.scale[0] < fine
