"""Float32 operators between DEQUANTIZE and QUANTIZE that no pattern took: each computed in float32, packed into int32.

That is what LayerNorm, GroupNorm and attention of PyTorch's exports are. Every operator rounds as LiteRT's kernels do,
in their order.
"""

from dataclasses import replace

from tq_hw.compiler.rewrite.packed_elements import ELEMENTS
from tq_hw.compiler.rewrite.packed_rows import ROWS
from tq_hw.compiler.rewrite.packing import Packing
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator, Subgraph

__all__ = ["check_packed", "packed_floats"]

_ALL = ROWS | ELEMENTS


def packed_floats(subgraph: Subgraph) -> Subgraph:
    """Compute in packed numbers what goes from DEQUANTIZE to QUANTIZE; what cannot be stays as it is."""
    graph = Subject(subgraph)
    packing, operators = Packing(graph, _ALL), list[Operator]()
    found = False
    for op in subgraph.operators:
        done = False
        if _is_left(graph, op):
            try:
                packing.codes(op)
                found = done = True
            except TqError:
                pass
            operators += packing.new
            packing.new.clear()
        operators += () if done else (op,)
    if not found:
        return subgraph
    return _without_unused(replace(graph.subgraph, operators=tuple(operators)), len(subgraph.tensors))


def _is_left(graph: Subject, op: Operator) -> bool:
    """Whether an operator quantizes what the model computes in float32."""
    return op.op == "QUANTIZE" and graph.input(op).dtype == "float32" and graph.maker(op.inputs[0]) is not None


def _without_unused(subgraph: Subgraph, count: int) -> Subgraph:
    """Leave out what makes float32, or tensors from number `count` on, that nothing reads."""
    used, kept = set(subgraph.outputs), list[Operator]()
    for op in reversed(subgraph.operators):
        made = [subgraph.tensors[index] for index in op.outputs]
        if used & set(op.outputs) or not made or not all(
                each.dtype == "float32" or each.index >= count for each in made):
            used |= set(op.inputs)
            kept.append(op)
    return replace(subgraph, operators=tuple(reversed(kept)))


def check_packed(graph: Subject, op: Operator) -> None:
    """Raise `TqError` that says why what the QUANTIZE `op` reads is not computed in packed numbers."""
    Packing(graph, _ALL).codes(op)
