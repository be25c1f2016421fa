"""Float32 resource variables that are read by QUANTIZE and written by DEQUANTIZE alone: int8 takes their place.

What QUANTIZE would make of the contents is kept instead of them: of the first ones when the model is compiled, of later
ones by a table in front of the assignment. Every read gives the same byte as before.
"""

from dataclasses import dataclass, replace

import numpy as np

from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.variables import variable_names
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["first_codes", "quantized_variables"]



@dataclass(frozen=True)
class _Uses:
    """Operators of one variable: reads, each with its QUANTIZE, and assignments, each with its DEQUANTIZE."""

    reads: tuple[tuple[Operator, Operator], ...]
    assigns: tuple[tuple[Operator, Operator], ...]


def quantized_variables(subgraph: Subgraph) -> Subgraph:
    """Return the subgraph with int8 in the place of float32 variables, where that gives the same."""
    names = variable_names(subgraph)
    for name in dict.fromkeys(names.values()):
        uses = _uses(subgraph, {index for index, each in names.items() if each == name})
        if uses is not None:
            subgraph = _replaced(subgraph, uses)
    return subgraph


def first_codes(subgraph: Subgraph, name: str, contents: Array) -> Array:
    """Return the first contents of a variable as what its reads give has them: quantized where it is int8 by now."""
    names = variable_names(subgraph)
    read = next((op for op in subgraph.operators if op.op == "READ_VARIABLE" and names.get(op.inputs[0]) == name), None)
    if read is None or contents.dtype != np.float32 or subgraph.tensors[read.outputs[0]].dtype != "int8":
        return contents
    source = Tensor(len(subgraph.tensors), name, "float32", contents.shape)
    quantize = Operator(read.index, "QUANTIZE", (source.index,), read.outputs)
    return KERNELS["QUANTIZE"](quantize, replace(subgraph, tensors=(*subgraph.tensors, source)), [contents])[0]


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
    """Return the subgraph with reads that give what QUANTIZE gave, and tables before assignments."""
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
