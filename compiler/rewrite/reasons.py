"""Reasons why an operator is not supported: it remains in float32 after all patterns, or has no implementation."""

from collections.abc import Container

from tq_hw.compiler.rewrite.chains import add_chain
from tq_hw.compiler.rewrite.comparisons import check_comparison
from tq_hw.compiler.rewrite.float_islands import find_table, is_inner
from tq_hw.compiler.rewrite.float_moves import MOVES, moved
from tq_hw.compiler.rewrite.forms import FORMS
from tq_hw.compiler.rewrite.island import TABLES_ALONE, Island, label, varying
from tq_hw.compiler.rewrite.packed_floats import check_given, check_packed
from tq_hw.compiler.rewrite.rankings import check_ranking
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.compiler.rewrite.tables_of_two import table_of_two
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.advice import has_codes
from tq_hw.model.rules.shape_values import ONLY_KNOWN
from tq_hw.model.rules.signatures import (
    COMPARISONS,
    FLOAT_COMPUTED,
    FLOAT_OPERATORS,
    FLOAT_RESIZES,
    FLOAT_TOPS,
    RANKINGS,
)

__all__ = ["PART_OF_FLOAT", "alone", "check_floats", "refuse_unknown", "why_in_float"]

#: Reason for an operator that is taken in float32, but not here; what hinders the rest of it follows.
PART_OF_FLOAT = "it is part of float32 that is not computed"
#: Operators that compute in float32, other than those that only move or choose.
_COMPUTING = {*FLOAT_OPERATORS, *FLOAT_COMPUTED} - {*MOVES}

#: Reasons for operators that are supported in few cases or not at all.
_WHY_LEFT = {**{name: f"{name} is supported {form}" for name, form in FORMS.items() if name not in FLOAT_OPERATORS
                or name in ONLY_KNOWN},
        "WHERE": "WHERE has one result per true element, so its shape is not known: choose by a mask with "
                 "SELECT_V2, or keep a fixed number with TOPK_V2"}


def check_floats(subgraph: Subgraph) -> None:
    """Raise `UnsupportedError` naming the first operator that still computes in float32 after all patterns."""
    graph, is_quantized = Subject(subgraph), has_codes(subgraph.tensors)
    for op in subgraph.operators:
        for position, index in enumerate(op.inputs):
            tensor = subgraph.tensors[index] if index >= 0 else None
            if tensor is None or tensor.dtype != "float32" or tensor.data is not None:
                continue
            given = _given(graph, index) if op.op in _COMPUTING and is_quantized else None
            if given is not None:
                raise UnsupportedError(
                    f"operator {op.index} ({op.op}): computes in float32 from the model's input, {label(given)}, which "
                    "is not quantized; have the exporter quantize the input (ai-edge-quantizer does, PyTorch's PT2E "
                    "does not)",
                    offer="; `tq-hw compile --partition` leaves what is in float32 to LiteRT on the host")
            if op.op not in ("QUANTIZE", "CAST", "BUCKETIZE", "SHAPE") and graph.maker(index) is not None:
                reason = _reason(graph, op) or _reason_of_all(graph, op)
                raise UnsupportedError(
                    f"operator {op.index} ({op.op}): input {position}, {label(tensor)}, is float32 computed inside "
                    f"the model{reason}",
                    offer="; supported are float32 operators that together are a function of one int8 or int16 tensor "
                          f"or of two int8 tensors, or {', '.join(FLOAT_COMPUTED)} of more int8 or int16 tensors, from "
                          "DEQUANTIZE to QUANTIZE or to an output; `tq-hw compile --partition` leaves others to LiteRT "
                          "on the host")


def _given(graph: Subject, index: int) -> Tensor | None:
    """Return the float32 input of the model that a tensor is, or that is moved there; None if there is none."""
    todo = [index]
    while todo:
        tensor, maker = graph.tensors[todo[-1]], graph.maker(todo.pop())
        if maker is None and tensor.dtype == "float32" and tensor.index in graph.subgraph.inputs:
            return tensor
        if maker is not None:
            todo += [maker.inputs[position] for position in moved(graph, maker)]
    return None


def alone(subgraph: Subgraph, op: Operator) -> str:
    """Return why an operator in float32 is not taken by itself, "" if it is none that is taken together with others."""
    graph = Subject(subgraph)
    read = [index for index in op.inputs if index >= 0 and graph.tensors[index].dtype == "float32"]
    if not read or op.op not in (*_COMPUTING, *MOVES, *RANKINGS, *FLOAT_TOPS):
        return ""
    if not has_codes(subgraph.tensors):
        return "it is in float32; quantize the model to int8"
    found = [tensor for tensor in (_given(graph, index) for index in read) if tensor is not None]
    if found:
        return f"it is in float32 from the model's input, {label(found[0])}, which is not quantized"
    if op.op in FLOAT_OPERATORS and op.op not in FLOAT_COMPUTED:
        return f"{op.op} {TABLES_ALONE}"
    return f"{PART_OF_FLOAT} by itself"


def why_in_float(subgraph: Subgraph, op: Operator) -> str:
    """Return why an operator that still is in float32 after all patterns is not computed, "" if that is not known."""
    graph = Subject(subgraph)
    return (_reason(graph, op) or _reason_of_all(graph, op)).removeprefix(" (").removesuffix(")")


#: Reasons for operators with their own pattern.
_OWN = {"ADD_N": " (its tensors have different shapes)",
        "ASSIGN_VARIABLE": " (the variable's initial value and all assigned values must be codes of one scale)"}
#: Functions that raise the reason, by operator name.
_CHECKS = dict.fromkeys(COMPARISONS, check_comparison) | dict.fromkeys(RANKINGS, check_ranking)


def _reason(graph: Subject, op: Operator) -> str:
    """Return why an operator's result is not a table, or why a comparison or ranking is not one of integers."""
    if op.op in _OWN:
        return _OWN[op.op]
    if op.op not in (*FLOAT_OPERATORS, *FLOAT_RESIZES, *MOVES, *_CHECKS) or not op.outputs:
        return ""
    readers, reached, moved = [op] if op.op in _CHECKS else [], set(op.outputs), set(op.outputs)
    reached = set() if op.op in MOVES else reached
    for each in graph.subgraph.operators:
        if (each.op in RANKINGS and moved & set(each.inputs)) or (
                each.op in ("QUANTIZE", *COMPARISONS) and reached & set(each.inputs)):
            readers.append(each)
        elif (is_inner(graph, each) or each.op in FLOAT_RESIZES) and reached & set(each.inputs):
            reached.update(each.outputs)
        if (each.op in MOVES or is_inner(graph, each)) and moved & set(each.inputs):
            moved.update(each.outputs)
    for each in readers:
        try:
            _CHECKS.get(each.op, find_table)(graph, each)
        except TqError as error:
            if each.op == "QUANTIZE":
                reason = (_why_no_sum(graph, each) or _by_zero(graph, each) or _why_not_packed(graph, each)
                          or _why_no_pair(graph, each))
                return f" ({reason or error})"
            return f" ({_why_not_packed(graph, each) or error})"
    return ""


def _reason_of_all(graph: Subject, op: Operator) -> str:
    """Return why the operators from this one up to codes or an output are not computed one by one."""
    reached = set(op.outputs)
    for each in graph.subgraph.operators:
        if each.op in ("QUANTIZE", *_CHECKS) and reached & set(each.inputs):
            if reason := _why_not_packed(graph, each):
                return f" ({reason})"
        elif each.op in ("CAST", "BUCKETIZE") and graph.output(each).dtype != "float32" and reached & set(each.inputs):
            return (f" (operator {each.index} ({each.op}) reads float32 that is computed operator by operator, but "
                    "needs codes: put QUANTIZE and DEQUANTIZE before it)")
        if reached & set(each.inputs):
            reached.update(index for index in each.outputs if graph.tensors[index].dtype == "float32")
    for index in sorted(reached):
        if graph.is_output(index):
            try:
                check_given(graph, index)
            except TqError as error:
                return f" ({error})"
    return ""


def _why_no_sum(graph: Subject, op: Operator) -> str:
    """Return why an island with an interpolation is not a float32 sum, "" if it has none."""
    todo, found = [op.inputs[0]], False
    while todo:
        maker = graph.maker(todo.pop())
        if maker is not None and (is_inner(graph, maker) or maker.op in FLOAT_RESIZES):
            found |= maker.op in FLOAT_RESIZES
            todo += maker.inputs
    try:
        add_chain(graph, op)
    except TqError as error:
        return str(error) if found else ""
    return ""


def _why_not_packed(graph: Subject, op: Operator) -> str:
    """Return why the input of a QUANTIZE is not computed operator by operator, "" if it depends on one tensor."""
    try:
        Island(graph, graph.output(op).shape).values(op.inputs[0])
        return ""
    except TqError:
        pass
    try:
        check_packed(graph, op)
    except TqError as error:
        return str(error)
    return ""


def _by_zero(graph: Subject, op: Operator) -> str:
    """Return which divisor of a function of two tensors may be 0, "" if none is known to be."""
    island = Island(graph, graph.output(op).shape, most=2, possible=True)
    todo = [op.inputs[0]]
    while todo:
        maker = graph.maker(todo.pop())
        if maker is None or not is_inner(graph, maker):
            continue
        try:
            if maker.op == "FLOOR_MOD" and not island.values(maker.inputs[1]).all():
                return (f"{label(graph.input(maker, 1))}, the divisor of operator {maker.index} (FLOOR_MOD), may be 0, "
                        "which gives NaN")
        except TqError:
            return ""
        todo += maker.inputs
    return ""


def _why_no_pair(graph: Subject, op: Operator) -> str:
    """Return why a function of two or more tensors is not a table of two, "" if it depends on one."""
    island = Island(graph, graph.output(op).shape, most=2, numbered=varying(graph, op.inputs[0]))
    try:
        island.values(op.inputs[0])
    except TqError as error:
        return str(error) if island.sources else ""
    try:
        table_of_two(graph, op)
    except TqError as error:
        return str(error) if len(island.sources) > 1 else ""
    return ""


def refuse_unknown(subgraph: Subgraph, known: Container[str]) -> None:
    """Raise an error that lists all operators that are not `known`, with their count and first occurrence."""
    places: dict[str, list[Operator]] = {}
    for op in subgraph.operators:
        if op.op not in known:
            places.setdefault(op.op, []).append(op)
    if places:
        found = ", ".join(f"{name} (operator {at[0].index})" if len(at) == 1 else f"{name} ({len(at)}, the first is "
                          f"operator {at[0].index})"
                          for name, at in sorted(places.items(), key=lambda item: item[1][0].index))
        why = "".join(_why_left(subgraph, at[0]) for at in places.values())
        raise UnsupportedError(f"not supported: {found}; `tq-hw ops` lists the operators that are{why}")


def _why_left(subgraph: Subgraph, op: Operator) -> str:
    """Return the reason why an operator is not supported, after a semicolon; "" if there is none."""
    if op.op in _WHY_LEFT:
        return f"; {_WHY_LEFT[op.op]}"
    if op.op not in FLOAT_OPERATORS:
        return ""
    read, made = (subgraph.tensors[index].dtype for index in (op.inputs[0], op.outputs[0]))
    if read == made == "float32":
        return f"; {op.op} {TABLES_ALONE}"
    return f"; {op.op} is supported for float32 inside a model, here it is from {read} to {made}"
