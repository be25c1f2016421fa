"""DEQUANTIZE, float32 operators of single elements, QUANTIZE: a table, where all comes of one int8 tensor.

Of two tensors it is what `pairs.py` finds; sums of more see `chains.py`, tensors that are only moved `float_moves.py`.
The float32 operators compute as LiteRT's kernels do (`sim/golden/float32.py`), for each of the 256 codes.
"""

import numpy as np

from tq_hw.compiler.rewrite.chains import add_chain, add_reduction
from tq_hw.compiler.rewrite.channel_scales import scaled_channels
from tq_hw.compiler.rewrite.comparisons import check_comparison
from tq_hw.compiler.rewrite.float_moves import MOVES
from tq_hw.compiler.rewrite.island import BYTES, ENTRIES, Island, label, varying
from tq_hw.compiler.rewrite.packed_floats import check_packed
from tq_hw.compiler.rewrite.pairs import find_pair
from tq_hw.compiler.rewrite.rankings import check_ranking
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.compiler.rewrite.tables_of_two import table_of_two
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.signatures import (
    COMPARISONS,
    FLOAT_COMPUTED,
    FLOAT_OPERATORS,
    FLOAT_REDUCTIONS,
    FLOAT_RESIZES,
    RANKINGS,
)
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["CHOSEN", "ISLANDS", "check_floats"]

def _table(graph: Subject, op: Operator) -> tuple[Tensor, Array]:
    """Return the tensor of bytes and the table that end in a QUANTIZE; raise `TqError` if there is none."""
    island = Island(graph, graph.output(op).shape)
    inputs = [island.values(op.inputs[0])]
    if not island.sources:
        raise UnsupportedError("the result is constant")
    return island.sources[0], KERNELS["QUANTIZE"](op, graph.subgraph, inputs)[0]


def _is_inner(graph: Subject, op: Operator) -> bool:
    """Whether an operator makes float32 of tensors that the model computes."""
    return bool(op.outputs) and graph.output(op).dtype == "float32" and op.op in (*ENTRIES, *FLOAT_OPERATORS)


@pattern("QUANTIZE")
def float_island(graph: Subject, op: Operator) -> Rewrite | None:
    """Float32 operators of single elements between codes are one table, whatever else reads what is between."""
    maker = graph.maker(op.inputs[0])
    target = graph.output(op)
    if maker is None or not _is_inner(graph, maker) or target.dtype not in (*BYTES, "int16"):
        return None
    try:
        source, values = _table(graph, op)
    except TqError:
        return _of_two(graph, op)
    return _looked_up(graph, op, source, values)


def _looked_up(graph: Subject, op: Operator, source: Tensor, values: Array) -> Rewrite:
    """Return the table in place of a QUANTIZE; of int16 in which nothing changes it is another view."""
    target = graph.output(op)
    if source.dtype == "int16" and values.dtype == np.int16 and np.array_equal(
            values.view(np.uint16), np.arange(1 << 16)):
        shape = graph.add_constant(np.array(target.shape, np.int32))
        return Rewrite([op], [Operator(op.index, "RESHAPE", (source.index, shape), op.outputs)])
    return Rewrite([op], [Operator(op.index, "TABLE", (source.index, graph.add_constant(values)), op.outputs)])


@pattern("QUANTIZE")
def float_choice(graph: Subject, op: Operator) -> Rewrite | None:
    """A choice between float32 numbers by how such numbers compare is a table, where all comes of one tensor."""
    maker, target = graph.maker(op.inputs[0]), graph.output(op)
    if maker is None or maker.op not in ("SELECT", "SELECT_V2") or target.dtype not in (*BYTES, "int16"):
        return None
    try:
        source, values = _table(graph, op)
    except TqError:
        return None
    return _looked_up(graph, op, source, values)


def _of_two(graph: Subject, op: Operator) -> Rewrite | None:
    try:
        found = find_pair(graph, op)
    except TqError:
        return _of_chain(graph, op)
    tables = [graph.add_constant(each) for each in found.tables]
    inputs = (*(source.index for source in found.sources), *tables)
    return Rewrite([op], [Operator(op.index, "PAIR", inputs, op.outputs, found.options)])


def _of_chain(graph: Subject, op: Operator) -> Rewrite | None:
    try:
        return Rewrite([op], add_chain(graph, op))
    except TqError:
        return _of_all_pairs(graph, op)


def _of_all_pairs(graph: Subject, op: Operator) -> Rewrite | None:
    try:
        return Rewrite([op], scaled_channels(graph, op))
    except TqError:
        pass
    try:
        return Rewrite([op], [table_of_two(graph, op)])
    except TqError:
        return None


@pattern("QUANTIZE")
def float_reduction(graph: Subject, op: Operator) -> Rewrite | None:
    """MEAN or SUM of float32 that comes of bytes: additions of float32 in their order."""
    maker = graph.maker(op.inputs[0])
    if maker is None or maker.op not in FLOAT_REDUCTIONS or graph.input(maker).dtype != "float32":
        return None
    try:
        return Rewrite([op], add_reduction(graph, op, maker))
    except TqError:
        return None


@pattern("QUANTIZE")
def float_interpolation(graph: Subject, op: Operator) -> Rewrite | None:
    """RESIZE_BILINEAR of float32 that comes of bytes: products from tables, and additions of float32 in their order."""
    maker = graph.maker(op.inputs[0])
    return None if maker is None or maker.op not in FLOAT_RESIZES else _of_chain(graph, op)


@pattern(*FLOAT_REDUCTIONS, *FLOAT_RESIZES)
def unused_sum(graph: Subject, op: Operator) -> Rewrite | None:
    """Float32 sums that nothing reads any more go."""
    unused = graph.output(op).dtype == "float32" and not graph.is_used(op.outputs[0])
    return Rewrite([op], []) if unused else None


@pattern("CAST")
def float_island_of_indices(graph: Subject, op: Operator) -> Rewrite | None:
    """Float32 of one tensor of bytes that is cast to int32, as word numbers are, is a table of int32."""
    maker = graph.maker(op.inputs[0])
    if maker is None or not _is_inner(graph, maker) or graph.output(op).dtype != "int32":
        return None
    island = Island(graph, graph.output(op).shape)
    try:
        values = KERNELS["CAST"](op, graph.subgraph, [island.values(op.inputs[0])])[0]
    except TqError:
        return None
    if not island.sources or island.sources[0].dtype == "int16":
        return None
    table = graph.add_constant(np.broadcast_to(values, (256,)).copy())
    return Rewrite([op], [Operator(op.index, "TABLE", (island.sources[0].index, table), op.outputs)])


@pattern(*ENTRIES, *FLOAT_OPERATORS)
def unused_float(graph: Subject, op: Operator) -> Rewrite | None:
    """A float32 result that nothing reads any more goes."""
    unused = _is_inner(graph, op) and not any(graph.is_used(index) for index in op.outputs)
    return Rewrite([op], []) if unused else None


#: Tried before choices are moved.
CHOSEN = (float_choice,)
#: In the order in which they are tried.
ISLANDS = (float_island, float_reduction, float_interpolation, float_island_of_indices, unused_float, unused_sum)


def check_floats(subgraph: Subgraph) -> None:
    """Raise `UnsupportedError` naming the first operator that computes in float32 what the patterns left."""
    graph = Subject(subgraph)
    for op in subgraph.operators:
        for position, index in enumerate(op.inputs):
            tensor = subgraph.tensors[index] if index >= 0 else None
            if tensor is None or tensor.dtype != "float32" or tensor.data is not None or graph.maker(index) is None:
                continue
            if op.op not in ("QUANTIZE", "CAST", "SHAPE"):
                reason = _reason(graph, op) or _reason_of_all(graph, op)
                raise UnsupportedError(
                    f"operator {op.index} ({op.op}): input {position}, {label(tensor)}, is float32 computed inside "
                    f"the model{reason}; supported are float32 operators that together are a function of "
                    f"one int8 or int16 tensor or of two int8 tensors, or {', '.join(FLOAT_COMPUTED)} of more, from "
                    "DEQUANTIZE to QUANTIZE; `tq-hw compile --partition` leaves others to LiteRT on the host")


#: What says why an operator is left, by its name.
_CHECKS = dict.fromkeys(COMPARISONS, check_comparison) | dict.fromkeys(RANKINGS, check_ranking)


def _reason(graph: Subject, op: Operator) -> str:
    """Say why what an operator makes is no table, or why a comparison or ranking is none of integers."""
    if op.op not in (*FLOAT_OPERATORS, *FLOAT_RESIZES, *MOVES, *_CHECKS) or not op.outputs:
        return ""
    readers, reached, moved = [op] if op.op in _CHECKS else [], set(op.outputs), set(op.outputs)
    reached = set() if op.op in MOVES else reached
    for each in graph.subgraph.operators:
        if (each.op in RANKINGS and moved & set(each.inputs)) or (
                each.op in ("QUANTIZE", *COMPARISONS) and reached & set(each.inputs)):
            readers.append(each)
        elif (_is_inner(graph, each) or each.op in FLOAT_RESIZES) and reached & set(each.inputs):
            reached.update(each.outputs)
        if (each.op in MOVES or _is_inner(graph, each)) and moved & set(each.inputs):
            moved.update(each.outputs)
    for each in readers:
        try:
            _CHECKS.get(each.op, _table)(graph, each)
        except TqError as error:
            if each.op == "QUANTIZE":
                reason = _why_no_sum(graph, each) or _why_not_packed(graph, each) or _why_no_pair(graph, each)
                return f" ({reason or error})"
            return f" ({error})"
    return ""


def _reason_of_all(graph: Subject, op: Operator) -> str:
    """Say why what an operator begins is not computed operator by operator, up to codes or the caller."""
    reached = set(op.outputs)
    for each in graph.subgraph.operators:
        if each.op == "QUANTIZE" and reached & set(each.inputs):
            reason = _why_not_packed(graph, each)
            return f" ({reason})" if reason else ""
        if reached & set(each.inputs):
            reached.update(index for index in each.outputs if graph.tensors[index].dtype == "float32")
    for index in sorted(reached):
        if graph.is_output(index):
            return f" ({label(graph.tensors[index])} is an output of the model: let a QUANTIZE be the last operator)"
    return ""


def _why_no_sum(graph: Subject, op: Operator) -> str:
    """Say why what an interpolation is part of is no sum of float32, "" where none is in it."""
    todo, found = [op.inputs[0]], False
    while todo:
        maker = graph.maker(todo.pop())
        if maker is not None and (_is_inner(graph, maker) or maker.op in FLOAT_RESIZES):
            found |= maker.op in FLOAT_RESIZES
            todo += maker.inputs
    try:
        add_chain(graph, op)
    except TqError as error:
        return str(error) if found else ""
    return ""


def _why_not_packed(graph: Subject, op: Operator) -> str:
    """Say why what is quantized is not computed operator by operator, "" where it comes of one tensor."""
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


def _why_no_pair(graph: Subject, op: Operator) -> str:
    """Say why what comes of two tensors or more is no table of two, "" where it comes of one."""
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
