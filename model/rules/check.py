"""Verify the operators of a model: types, quantization, shapes and parameters are what the kernels define.

Only properties of the model are checked, never limits of the accelerator. An operator without a signature (see
`signatures.py`) passes: whether it can run is for the compiler to say.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from tq_hw.model.graph import Model, Tensor
from tq_hw.model.rules.advice import has_codes, whole_type
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.options import constraint_not_empty
from tq_hw.model.rules.shapes import output_shapes
from tq_hw.model.rules.signatures import (
    ACTIVATION_KINDS,
    COMPARISONS,
    FLOAT_MOVES,
    FLOAT_OPERATORS,
    FLOAT_POOLS,
    FLOAT_PRODUCTS,
    FLOAT_REDUCTIONS,
    FLOAT_RESIZES,
    FLOAT_ROWS,
    FLOAT_TOPS,
    KINDS,
    MIXED_KINDS,
    RANKINGS,
    SIGNATURES,
    Signature,
    Slot,
)
from tq_hw.model.rules.table import MODEL_RULES, SUPPORT_RULES
from tq_hw.model.rules.variables import check_variables

__all__ = ["check_model", "check_shapes", "check_signature", "rules_of"]

#: Types of other kinds that need a scale and a zero point.
_QUANTIZED = {*((kind, dtype) for kind in MIXED_KINDS for dtype in ("int8", "int16")),
              *(("real", dtype) for dtype in KINDS["real"] if dtype != "float32")}


def check_model(model: Model, name: str = "") -> None:
    """Raise `ModelError` or `UnsupportedError`, naming the file as `name`, at the first broken rule."""
    name = name or model.name
    for index, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            place = f"{name}: subgraph {index}, operator {operator.index} {operator.op}"
            _check_node(Node(operator, subgraph.tensors, place))
    check_variables(model, name)


def rules_of(op: str) -> list[str]:
    """Return the sentences of the rules that an operator has to keep, for tables and manuals."""
    rules = MODEL_RULES.get(op, []) + SUPPORT_RULES.get(op, [])
    return [(rule.__doc__ or "").strip() for rule in rules]


def _check_node(node: Node) -> None:
    op = node.operator.op
    if _is_float(node):
        _check_float(node)
        check_shapes(node)
        return
    if op not in SIGNATURES:
        return
    check_signature(node)
    if op in (*FLOAT_POOLS, *FLOAT_PRODUCTS, *FLOAT_REDUCTIONS, *FLOAT_ROWS, *COMPARISONS) and _is_float_move(node):
        check_shapes(node)
        return
    if (found := constraint_not_empty(node)) is not None:
        raise node.error(f"{constraint_not_empty.__doc__} Found {found}.")
    for rule in MODEL_RULES.get(op, ()):
        if (found := rule(node)) is not None:
            raise node.error(f"{rule.__doc__} Found {found}.")
    for rule in SUPPORT_RULES.get(op, ()):
        if (found := rule(node)) is not None:
            raise node.unsupported(f"{rule.__doc__} Found {found}.")
    check_shapes(node)


#: Most products of float32 with a constant that are no layer.
_MOST_PRODUCTS = 1 << 16
#: Types that the quantization of a whole model changes nothing about.
_NO_ADVICE = ("int8", "int32", "int64", "bool", "complex64")
#: Remedies for types that no part of the accelerator supports.
_OFFERS = {"complex64": "; leave spectra to LiteRT on the host by `tq-hw compile --partition`"}


def _is_float(node: Node) -> bool:
    """Whether an operator computes single elements in float32."""
    return node.operator.op in FLOAT_OPERATORS and any(tensor.dtype == "float32" for tensor in node.inputs())


def _is_float_move(node: Node) -> bool:
    """Whether an operator moves, adds, multiplies, compares or ranks float32: all that it takes so then is."""
    of_floats = (*FLOAT_MOVES, *FLOAT_POOLS, *FLOAT_REDUCTIONS, *FLOAT_RESIZES, *FLOAT_ROWS, *FLOAT_TOPS, *COMPARISONS,
                 *RANKINGS)
    return (node.operator.op in of_floats and any(tensor.dtype == "float32" for tensor in node.inputs())
            or _is_float_product(node))


def _is_float_product(node: Node) -> bool:
    """Whether an operator multiplies float32 with float32 that the model computes, or with a small constant.

    A product of activations with a constant, such as a graph's edges, has the operator of a layer. A larger constant is
    a layer that was not quantized.
    """
    if node.operator.op not in FLOAT_PRODUCTS or len(node.operator.inputs) < 2 or min(node.operator.inputs[:2]) < 0:
        return False
    sides = [node.tensors[index] for index in node.operator.inputs[:2]]
    if any(each.dtype != "float32" for each in sides) or all(each.data is not None for each in sides):
        return False
    products = math.prod(sides[0].shape) * (sides[1].shape[0] if sides[1].shape else 1)
    return all(each.data is None for each in sides) or (products <= _MOST_PRODUCTS and _has_bytes(node))


def _of_floats(signature: Signature) -> Signature:
    def changed(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        kinds = ("data", *ACTIVATION_KINDS, *MIXED_KINDS, "w8or16", "bias")
        return tuple(replace(slot, kind="f32") if slot.kind in kinds else slot for slot in slots)

    return replace(signature, inputs=changed(signature.inputs), outputs=changed(signature.outputs))


def _is_known(node: Node) -> bool:
    """Whether an operator computes with integers that are all known, as arithmetic on shapes does."""
    return all(tensor.dtype in KINDS["index"] and tensor.data is not None for tensor in node.inputs())


def _of_integers(signature: Signature) -> Signature:
    def changed(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(replace(slot, kind="index") if slot.kind.startswith(("q8", "q32")) else slot for slot in slots)

    return replace(signature, inputs=changed(signature.inputs), outputs=changed(signature.outputs))


def _check_float(node: Node) -> None:
    for side, tensors in (("input", node.inputs()), ("output", node.outputs())):
        for position, tensor in enumerate(tensors):
            if tensor.dtype != "float32":
                raise node.error(f"{side} {position}, tensor {tensor.index} {tensor.name[:60]!r}, has type "
                                 f"{tensor.dtype}, expected float32 like the other inputs")


def check_signature(node: Node) -> None:
    """Raise `ModelError` unless an operator with a signature has its inputs and outputs, and these their types."""
    if _is_float(node):
        _check_float(node)
        return
    if node.operator.op not in SIGNATURES:
        return
    operator, signature = node.operator, SIGNATURES[node.operator.op]
    if _is_float_move(node):
        signature = _of_floats(signature)
    elif _is_known(node):
        signature = _of_integers(signature)
    inputs = [None if index < 0 else node.tensors[index] for index in operator.inputs]
    _check_side(node, "input", inputs, signature.inputs, signature.many_inputs)
    _check_side(node, "output", node.outputs(), signature.outputs, signature.many_outputs)


def _check_side(node: Node, side: str, tensors: Sequence[Tensor | None], slots: Sequence[Slot], many: bool) -> None:
    least = len(slots)
    while least and slots[least - 1].is_optional:
        least -= 1
    if not least <= len(tensors) or (len(tensors) > len(slots) and not many):
        expected = f"{least} or more" if many else f"{least}" if least == len(slots) else f"{least} to {len(slots)}"
        raise node.error(f"has {len(tensors)} {side}s, expected {expected}")
    for position, tensor in enumerate(tensors):
        slot = slots[min(position, len(slots) - 1)]
        if tensor is not None:
            _check_type(node, f"{side} {position}", tensor, slot.kind)
        elif not slot.is_optional:
            raise node.error(f"{side} {position} is missing")


def _has_bytes(node: Node) -> bool:
    return any(each.dtype == "int8" and each.data is None for each in node.tensors)


def _offer(node: Node) -> str:
    """Suggest a remedy for float32 in a quantized model, which an exporter has left unquantized."""
    return ", or leave the operator to LiteRT on the host by `tq-hw compile --partition`" if has_codes(
        node.tensors) else ""


def _advice(node: Node, tensor: Tensor) -> str:
    """Say how a model gets the type that an operator expects."""
    if tensor.dtype in _NO_ADVICE:
        return ""
    integers = [each for each in node.tensors if each.dtype in ("int4", "int8", "int16")]
    if tensor.dtype == "float32" and integers and all(each.data is not None for each in integers):
        return ("; weights are integers and activations are not (dynamic-range quantization): give the converter a "
                "representative dataset, and quantize the whole model to int8")
    # What is int16 where int8 is expected has no other remedy.
    return f"; quantize the whole model to {whole_type(node.tensors) if tensor.dtype == 'float32' else 'int8'}"


def _check_type(node: Node, where: str, tensor: Tensor, kind: str) -> None:
    where = f"{where}, tensor {tensor.index} {tensor.name[:60]!r},"
    if tensor.dtype not in KINDS[kind]:
        offer = _OFFERS.get(tensor.dtype) or (_offer(node) if tensor.dtype == "float32" else "")
        raise node.error(f"{where} has type {tensor.dtype}, expected {' or '.join(KINDS[kind])}{_advice(node, tensor)}",
                         offer)
    quantization = tensor.quantization
    if kind not in ACTIVATION_KINDS and (kind, tensor.dtype) not in _QUANTIZED:
        return
    if quantization is None:
        raise node.error(f"{where} has no quantization, {tensor.dtype} needs a scale and a zero point")
    if len(quantization.scale) != 1:
        if node.operator.op == "DEQUANTIZE" and tensor.data is not None:
            raise node.unsupported(f"{where} is weights of {len(quantization.scale)} scales, read by an operator left "
                                   f"in float32; quantize the whole model to {whole_type(node.tensors)}", _offer(node))
        why = (f"an operand of {node.operator.op} takes one there, constant or not; quantize it per "
               "tensor" if tensor.data is not None else
               "an activation has one: per-axis scales are for constant weights")
        raise node.error(f"{where} has {len(quantization.scale)} scales, {why}")


def check_shapes(node: Node) -> None:
    """Raise `ModelError` unless the outputs have the shapes that the inputs make, as far as these are known."""
    shapes = output_shapes(node)
    if shapes is None:
        return
    if len(shapes) != len(node.operator.outputs):
        raise node.error(f"has {len(node.operator.outputs)} outputs, expected {len(shapes)}")
    for position, shape in enumerate(shapes):
        found = node.output(position).shape
        if found != shape:
            raise node.error(f"output {position} has shape {list(found)}, expected {list(shape)}")
