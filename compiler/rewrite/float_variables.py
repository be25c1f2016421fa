"""Float32 resource variables whose contents are dequantized codes: the variable becomes int8 or int16.

If all reads go to a QUANTIZE and all assignments come from a DEQUANTIZE, the variable keeps the quantized contents. The
compiler quantizes the initial contents; a table before each assignment quantizes later ones. Every read gives the same
byte as before.

If all assigned values are codes of one type and scale, moved or not, such as in ring buffers, the variable keeps these
codes, and every read dequantizes them. An assigned value may also be moved out of the variable itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.rules.variables import variable_names
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array, located, require
from tq_hw.sim.golden.run import run_operator
from tq_hw.sim.golden.state import State

__all__ = ["first_codes", "first_contents", "quantized_variables"]

_CODES = ("int8", "int16")
_USES = ("READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass(frozen=True)
class _Uses:
    """Uses of one variable: reads, each with its QUANTIZE, and assignments, each with its DEQUANTIZE."""

    reads: tuple[tuple[Operator, Operator], ...]
    assigns: tuple[tuple[Operator, Operator], ...]


def first_contents(model: Model, subgraph: Subgraph) -> dict[str, Array]:
    """Return the values that the CALL_ONCE operators of `subgraph` assign to variables, by name.

    Raises UnsupportedError if a CALL_ONCE comes after a use of a variable.
    """
    first, is_begun = State(), False
    for op in subgraph.operators:
        is_begun |= op.op in _USES
        if op.op == "CALL_ONCE":
            with located(op):
                require(not is_begun, "CALL_ONCE must come before all READ_VARIABLE and ASSIGN_VARIABLE")
                run_operator(model, 0, op, {}, first)
    return first.resources


def quantized_variables(subgraph: Subgraph, first: Mapping[str, Array]) -> Subgraph:
    """Return the subgraph with codes in place of float32 variables, where the results are the same.

    `first`: the contents of the variables before the first inference.
    """
    names = variable_names(subgraph)
    # Twice, because a value read from one variable may be assigned to another.
    for name in [*dict.fromkeys(names.values())] * 2:
        handles = {index for index, each in names.items() if each == name}
        uses = _uses(subgraph, handles)
        subgraph = _coded(subgraph, handles, first.get(name)) if uses is None else _replaced(subgraph, uses)
    return subgraph


def first_codes(subgraph: Subgraph, name: str, contents: Array) -> Array:
    """Return the initial contents of a variable, quantized if the variable now has codes."""
    names = variable_names(subgraph)
    kept = next((op.outputs[0] if op.op == "READ_VARIABLE" else op.inputs[1] for op in subgraph.operators
                 if op.op in _USES and names.get(op.inputs[0]) == name), None)
    if kept is None or contents.dtype != np.float32 or subgraph.tensors[kept].dtype not in _CODES:
        return contents
    return _quantized(subgraph.tensors[kept], contents)


def _quantized(code: Tensor, contents: Array) -> Array:
    """Quantize contents to the type and scale of `code`."""
    tensors = (replace(code, index=0, shape=contents.shape), Tensor(1, "real", "float32", contents.shape))
    return KERNELS["QUANTIZE"](Operator(0, "QUANTIZE", (1,), (0,)), Subgraph("", tensors, (), (), ()), [contents])[0]


def _has_codes(code: Tensor, contents: Array) -> bool:
    """Whether float32 contents are dequantized codes, to the last bit."""
    tensors = (replace(code, index=0, shape=contents.shape), Tensor(1, "real", "float32", contents.shape))
    try:
        codes = _quantized(code, contents)
    except TqError:
        return False
    again = KERNELS["DEQUANTIZE"](Operator(0, "DEQUANTIZE", (0,), (1,)), Subgraph("", tensors, (), (), ()), [codes])[0]
    return np.array_equal(again.view(np.int32), contents.view(np.int32))


def _coded(subgraph: Subgraph, handles: set[int], first: Array | None) -> Subgraph:
    """Return the subgraph with codes in a float32 variable, unchanged if it may have other numbers."""
    uses = [op for op in subgraph.operators if op.op in _USES and op.inputs[0] in handles]
    numbers = [op.outputs[0] if op.op == "READ_VARIABLE" else op.inputs[1] for op in uses]
    own = {index for op, index in zip(uses, numbers, strict=True) if op.op == "READ_VARIABLE"}
    graph = Subject(subgraph)
    code = _code(graph, own, [index for index in numbers if index not in own])
    if code is None or (first is not None and (first.dtype != np.float32 or not _has_codes(code, first))):
        return subgraph
    tensors, instead = list(subgraph.tensors), dict[int, list[Operator]]()
    for op, index in zip(uses, numbers, strict=True):
        real, made, maker = tensors[index], len(tensors), graph.maker(index)
        if op.op == "ASSIGN_VARIABLE" and maker is not None and maker.op == "DEQUANTIZE":
            instead[id(op)] = [replace(op, inputs=(op.inputs[0], maker.inputs[0]))]
            continue
        data = None if real.data is None else _quantized(code, real.data)
        tensors.append(replace(code, index=made, name=f"{real.name} (codes)", shape=real.shape, data=data))
        if op.op == "READ_VARIABLE":
            instead[id(op)] = [replace(op, outputs=(made,)), Operator(op.index, "DEQUANTIZE", (made,), (index,))]
        else:
            before = [Operator(op.index, "QUANTIZE", (index,), (made,))] if data is None else []
            instead[id(op)] = [*before, replace(op, inputs=(op.inputs[0], made))]
    operators = tuple(new for op in subgraph.operators for new in instead.get(id(op), [op]))
    return replace(subgraph, tensors=tuple(tensors), operators=operators)


def _code(graph: Subject, own: set[int], written: list[int]) -> Tensor | None:
    """Return a tensor with the type and scale of all codes `written`, moved or not; None if they differ.

    `own`: the tensors read from the variable itself.
    """
    codes, constants, seen, stack = list[Tensor](), list[Array](), set(own), [*written]
    while stack:
        index = stack.pop()
        if index in seen:
            continue
        seen.add(index)
        tensor, maker = graph.tensors[index], graph.maker(index)
        if tensor.data is not None:
            constants.append(tensor.data)
        elif maker is not None and maker.op == "DEQUANTIZE":
            codes.append(graph.input(maker))
        elif maker is not None and moved(graph, maker):
            stack += [maker.inputs[position] for position in moved(graph, maker)]
        else:
            return None
    if not codes or codes[0].dtype not in _CODES or any(
            (each.dtype, each.quantization) != (codes[0].dtype, codes[0].quantization) for each in codes):
        return None
    return codes[0] if all(data.dtype == np.float32 and _has_codes(codes[0], data) for data in constants) else None


def _uses(subgraph: Subgraph, handles: set[int]) -> _Uses | None:
    makers = {index: op for op in subgraph.operators for index in op.outputs}
    reads, assigns, kinds = [], [], set()
    for op in subgraph.operators:
        if op.op == "READ_VARIABLE" and op.inputs[0] in handles:
            found = [each for each in subgraph.operators if op.outputs[0] in each.inputs]
            tensor = subgraph.tensors[op.outputs[0]]
            if tensor.dtype != "float32" or len(found) != 1 or found[0].op != "QUANTIZE" or (
                    tensor.index in subgraph.outputs):
                return None
            target = subgraph.tensors[found[0].outputs[0]]
            kinds.add((target.dtype, target.quantization))
            reads.append((op, found[0]))
        if op.op == "ASSIGN_VARIABLE" and op.inputs[0] in handles:
            maker = makers.get(op.inputs[1])
            if maker is None or maker.op != "DEQUANTIZE" or subgraph.tensors[maker.inputs[0]].dtype != "int8":
                return None
            assigns.append((op, maker))
    same = len(kinds) == 1 and all(dtype == "int8" for dtype, _ in kinds)
    return _Uses(tuple(reads), tuple(assigns)) if same else None


def _replaced(subgraph: Subgraph, uses: _Uses) -> Subgraph:
    """Return the subgraph with reads in place of their QUANTIZE, and tables before assignments."""
    tensors, quantize = list(subgraph.tensors), uses.reads[0][1]
    code = tensors[quantize.outputs[0]]
    instead: dict[int, list[Operator]] = {id(each): [] for _, each in uses.reads}
    for read, each in uses.reads:
        instead[id(read)] = [replace(read, outputs=each.outputs)]
    for assign, maker in uses.assigns:
        floats = KERNELS["DEQUANTIZE"](maker, subgraph, [INT8_CODES])
        table = np.zeros(256, np.int8)
        table[INT8_CODES.view(np.uint8)] = KERNELS["QUANTIZE"](quantize, subgraph, floats)[0]
        made = len(tensors)
        shape = tensors[maker.inputs[0]].shape
        tensors += [replace(code, index=made, name=f"{code.name} ({made})", shape=shape),
                    Tensor(made + 1, f"constant {made + 1}", "int8", (256,), None, table)]
        instead[id(assign)] = [Operator(assign.index, "TABLE", (maker.inputs[0], made + 1), (made,)),
                               replace(assign, inputs=(assign.inputs[0], made))]
    operators = tuple(new for op in subgraph.operators for new in instead.get(id(op), [op]))
    return replace(subgraph, tensors=tuple(tensors), operators=operators)
