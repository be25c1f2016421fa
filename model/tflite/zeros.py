"""Scales of 0, or too small for a normal float32, of tensors that hold nothing but real zeros.

TFLite's converter gives them in 16x8 models to the first state of an RNN, to what a FILL makes of it, and to the
products with it. Every integer there is the zero point, whatever the scale, and so is each product with one. Such a
tensor gets the least normal scale: kernels that take the larger of two scales take the other one, as before.
"""

from dataclasses import replace

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor

__all__ = ["MIN_SCALE", "with_normal_scales"]

#: The least normal float32.
MIN_SCALE = 2.0**-126
#: Whose result is the zero point if one input is nothing but zeros; of the first three a bias must be zeros, too.
_PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "MUL")
#: Whose outputs have bytes of one input alone, and which it is.
_MOVES = {"RESHAPE": 0, "EXPAND_DIMS": 0, "SQUEEZE": 0, "TILE": 0, "BROADCAST_TO": 0, "STRIDED_SLICE": 0, "SLICE": 0,
          "SPLIT": 1, "SPLIT_V": 0, "UNPACK": 0, "FILL": 1}


def with_normal_scales(model: Model, name: str) -> Model:
    """Return the model with normal scales; raise `ModelError`, naming the file as `name`, where another one matters."""
    return replace(model, subgraphs=tuple(_normal(subgraph, f"{name}: subgraph {index}")
                                          for index, subgraph in enumerate(model.subgraphs)))


def _normal(subgraph: Subgraph, place: str) -> Subgraph:
    tiny = {tensor.index for tensor in subgraph.tensors if _is_tiny(tensor)}
    if not tiny:
        return subgraph
    zeros = {tensor.index for tensor in subgraph.tensors if tensor.data is not None and tensor.quantization is not None
             and len(tensor.quantization.zero_point) == 1 and bool((tensor.data == tensor.zero_point).all())}
    for operator in subgraph.operators:
        zeros.update(index for index in operator.outputs if _makes_zeros(operator, subgraph, index, zeros))
    wrong = (tiny - zeros) | {index for operator in subgraph.operators for index in operator.inputs
                              if index in tiny and not _takes_zeros(operator, index, tiny)}
    for index in sorted(wrong):
        tensor = subgraph.tensors[index]
        raise ModelError(f"{place}, tensor {index} {tensor.name[:60]!r}, quantization: scale is {tensor.scale:g}, "
                         "expected a finite normal float32 above 0")
    return replace(subgraph, tensors=tuple(_with_least(tensor) if tensor.index in tiny else tensor
                                           for tensor in subgraph.tensors))


def _is_tiny(tensor: Tensor) -> bool:
    return tensor.quantization is not None and min(tensor.quantization.scale) < MIN_SCALE


def _with_least(tensor: Tensor) -> Tensor:
    assert tensor.quantization is not None, "has a scale"
    return replace(tensor, quantization=replace(tensor.quantization, scale=(MIN_SCALE,)))


def _makes_zeros(operator: Operator, subgraph: Subgraph, output: int, zeros: set[int]) -> bool:
    """Whether all that an operator makes of one output is its zero point."""
    inputs, made = operator.inputs, subgraph.tensors[output].quantization
    if operator.op in _MOVES:
        position = _MOVES[operator.op]
        return (position < len(inputs) and inputs[position] in zeros and made is not None
                and made.zero_point == (subgraph.tensors[inputs[position]].zero_point,))
    if operator.op not in _PRODUCTS or operator.options.get("fused_activation_function", "NONE") != "NONE":
        return False
    if operator.op == "MUL":
        return bool(zeros & set(inputs))
    return bool(inputs) and inputs[0] in zeros and all(index < 0 or _is_constant_zero(subgraph.tensors[index])
                                                       for index in inputs[2:])


def _is_constant_zero(tensor: Tensor) -> bool:
    return tensor.data is not None and not tensor.data.any()


def _takes_zeros(operator: Operator, index: int, tiny: set[int]) -> bool:
    """Whether an operator computes the same from zeros of any scale, as long as another input has a normal one."""
    if operator.op in ("ADD", "SUB"):
        return not tiny >= set(operator.inputs)
    return operator.op in (*_PRODUCTS, *_MOVES)
