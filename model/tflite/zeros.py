"""Scales of tensors and weight channels that are all zeros, where they are 0, subnormal or not finite.

In 16x8 models TFLite's converter gives them to the first state of an RNN, to the result of a FILL from it (also of
float32 before a QUANTIZE), and to the products with it, which QUANTIZE may rescale. Every integer there is the zero
point, whatever the scale, and so is each product with one. Such a tensor gets the least normal scale. Kernels that take
the larger of two scales still take the other one. All-zero filters of a pruned network also have a scale of 0 there, if
nothing is added to their sums.

Where the converter fits weights to a bias by the scale 0 of a first state (GRU of Keras), the weights become zeros with
infinite scales, and the scales of their bias are NaN.

ai-edge-quantizer gives a constant that is multiplied by BATCH_MATMUL a scale for each channel, for which LiteRT has
none. Of a first state of zeros all products are 0, whatever the scale.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Operator, Quantization, Subgraph, Tensor

__all__ = ["MIN_SCALE", "NOT_FINITE", "with_normal_scales"]

Array = npt.NDArray[np.bool_]

#: The least normal float32.
MIN_SCALE = 2.0**-126
#: Scale of a channel of zeros in place of one that is not finite, for which LiteRT computes NaN.
NOT_FINITE = 2 * MIN_SCALE
#: Operators whose result is the zero point if one input is all zeros; the first three need a bias of zeros, too.
_PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "MUL")
#: Operators with per-channel weights, and the position of their bias.
_BIASES = {"FULLY_CONNECTED": 2, "CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "TRANSPOSE_CONV": 3}
#: Operators whose outputs have the bytes of one input, and its position.
_MOVES = {"RESHAPE": 0, "EXPAND_DIMS": 0, "SQUEEZE": 0, "TRANSPOSE": 0, "TILE": 0, "BROADCAST_TO": 0,
          "STRIDED_SLICE": 0, "SLICE": 0, "SPLIT": 1, "SPLIT_V": 0, "UNPACK": 0, "FILL": 1}


def with_normal_scales(model: Model, name: str) -> Model:
    """Return the model with normal scales; raise `ModelError`, naming the file as `name`, where another one matters."""
    return replace(model, subgraphs=tuple(_normal(_with_one_scale(subgraph), f"{name}: subgraph {index}")
                                          for index, subgraph in enumerate(model.subgraphs)))


def _normal(subgraph: Subgraph, place: str) -> Subgraph:
    tiny = {tensor.index for tensor in subgraph.tensors if _is_odd(tensor)}
    if not tiny:
        return subgraph
    dead = {index for index in tiny if _is_dead(subgraph, index)}
    tiny -= dead
    zeros = {tensor.index for tensor in subgraph.tensors if tensor.data is not None and _has_one_point(tensor)
             and bool((tensor.data == _point(tensor)).all())}
    for operator in subgraph.operators:
        zeros.update(index for index in operator.outputs if _makes_zeros(operator, subgraph, index, zeros))
    infinite = {index for index in tiny if _scales(subgraph.tensors[index]) == (math.inf,)}
    wrong = (tiny - zeros) | infinite | {index for operator in subgraph.operators for index in operator.inputs
                              if index in tiny and not _takes_zeros(operator, index, tiny)}
    for index in sorted(wrong):
        tensor = subgraph.tensors[index]
        raise ModelError(f"{place}, tensor {index} {tensor.name[:60]!r}, quantization: scale is "
                         f"{_first_odd(tensor):g}, expected a finite normal float32 above 0")
    return replace(subgraph, tensors=tuple(_with_normal(tensor) if tensor.index in tiny | dead else tensor
                                           for tensor in subgraph.tensors))


def _with_one_scale(subgraph: Subgraph) -> Subgraph:
    """Return the subgraph with one scale for zeros that only BATCH_MATMUL reads."""
    readers: dict[int, set[str]] = {}
    for operator in subgraph.operators:
        for index in operator.inputs:
            readers.setdefault(index, set()).add(operator.op)
    found = {tensor.index for tensor in subgraph.tensors
             if readers.get(tensor.index) == {"BATCH_MATMUL"} and tensor.index not in subgraph.outputs
             and len(_scales(tensor)) > 1 and tensor.data is not None and not tensor.data.any()
             and tensor.quantization is not None and not any(tensor.quantization.zero_point)}
    if not found:
        return subgraph
    return replace(subgraph, tensors=tuple(
        replace(tensor, quantization=Quantization((_scales(tensor)[0],), (0,))) if tensor.index in found else tensor
        for tensor in subgraph.tensors))


def _is_normal(scale: float) -> bool:
    return math.isfinite(scale) and scale >= MIN_SCALE


def _is_odd(tensor: Tensor) -> bool:
    return tensor.quantization is not None and not all(map(_is_normal, tensor.quantization.scale))


def _scales(tensor: Tensor) -> tuple[float, ...]:
    return () if tensor.quantization is None else tensor.quantization.scale


def _first_odd(tensor: Tensor) -> float:
    assert tensor.quantization is not None, "has a scale"
    return next(each for each in tensor.quantization.scale if not _is_normal(each))


def _with_normal(tensor: Tensor) -> Tensor:
    assert tensor.quantization is not None, "has a scale"
    scale = tuple(each if _is_normal(each) else MIN_SCALE if math.isfinite(each) else NOT_FINITE
                  for each in tensor.quantization.scale)
    return replace(tensor, quantization=replace(tensor.quantization, scale=scale))


def _is_dead(subgraph: Subgraph, index: int) -> bool:
    """Whether weights or biases are zeros in all channels whose scale is not normal, and no bias is added there.

    Sums of such a channel are 0, and rescaled to 0 by whatever scale: the output is its zero point.
    """
    quantization = subgraph.tensors[index].quantization
    if quantization is None or len(quantization.scale) < 2 or any(quantization.zero_point):
        return False
    channels = np.array([not _is_normal(each) for each in quantization.scale])
    if not _are_zeros(subgraph.tensors[index], channels):
        return False
    for operator in subgraph.operators:
        if index not in operator.inputs:
            continue
        place = _BIASES.get(operator.op, 0)
        if not place or operator.inputs.index(index) not in (1, place):
            return False
        if not all(each < 0 or _are_zeros(subgraph.tensors[each], channels) for each in operator.inputs[place:]):
            return False
    return True


def _are_zeros(tensor: Tensor, channels: Array) -> bool:
    """Whether a constant is zeros in some of its channels, which are along the axis of its scales."""
    axis = 0 if tensor.quantization is None else tensor.quantization.dimension
    if tensor.data is None or axis >= tensor.data.ndim or tensor.data.shape[axis] != len(channels):
        return False
    return not np.moveaxis(tensor.data, axis, 0)[channels].any()


def _makes_zeros(operator: Operator, subgraph: Subgraph, output: int, zeros: set[int]) -> bool:
    """Whether all that an operator makes of one output is its zero point."""
    inputs = operator.inputs
    if operator.op in _MOVES:
        position = _MOVES[operator.op]
        return (position < len(inputs) and inputs[position] in zeros and _has_one_point(subgraph.tensors[output])
                and _point(subgraph.tensors[output]) == _point(subgraph.tensors[inputs[position]]))
    if operator.op == "QUANTIZE":
        return inputs[0] in zeros
    if operator.op == "ZEROS_LIKE":
        return subgraph.tensors[output].dtype == "float32"
    if operator.op not in _PRODUCTS or operator.options.get("fused_activation_function", "NONE") != "NONE":
        return False
    if operator.op == "MUL":
        return bool(zeros & set(inputs))
    return bool(inputs) and inputs[0] in zeros and all(index < 0 or _is_constant_zero(subgraph.tensors[index])
                                                       for index in inputs[2:])


def _has_one_point(tensor: Tensor) -> bool:
    """Whether one code of a tensor is 0, or it is float32."""
    return tensor.dtype == "float32" or (tensor.quantization is not None and len(tensor.quantization.zero_point) == 1)


def _point(tensor: Tensor) -> int:
    return 0 if tensor.dtype == "float32" else tensor.zero_point


def _is_constant_zero(tensor: Tensor) -> bool:
    return tensor.data is not None and not tensor.data.any()


def _takes_zeros(operator: Operator, index: int, tiny: set[int]) -> bool:
    """Whether an operator computes the same from zeros of any scale, as long as another input has a normal one."""
    if operator.op in ("ADD", "SUB"):
        return not tiny >= set(operator.inputs)
    return operator.op in (*_PRODUCTS, *_MOVES, "QUANTIZE")
