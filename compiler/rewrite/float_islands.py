"""Float32 islands (DEQUANTIZE, elementwise float32 operators, QUANTIZE) of one int8 tensor, as tables.

The float32 operators are evaluated with LiteRT's arithmetic (`sim/golden/float32.py`) for each of the 256 codes.

Other islands are elsewhere: of two tensors in `pairs.py`, sums of more in `chains.py`, moved tensors in
`float_moves.py`. `reasons.py` has the messages about operators that remain.
"""

import numpy as np

from tq_hw.compiler.rewrite.chains import add_chain, add_reduction
from tq_hw.compiler.rewrite.channel_scales import scaled_channels
from tq_hw.compiler.rewrite.island import BYTES, ENTRIES, Island
from tq_hw.compiler.rewrite.pairs import find_pair
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.compiler.rewrite.tables_of_two import table_of_two
from tq_hw.model.errors import InputError, TqError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.signatures import FLOAT_OPERATORS, FLOAT_RESIZES
from tq_hw.sim.golden.arith import INT16_CODES
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["CHOSEN", "ISLANDS", "find_table", "is_inner"]


def find_table(graph: Subject, op: Operator) -> tuple[Tensor, Array]:
    """Return the tensor of bytes and the table whose result a QUANTIZE gives; raise `TqError` if there is none."""
    try:
        return _table(graph, op, possible=False)
    except InputError:
        # Codes that never occur may give NaN.
        return _table(graph, op, possible=True)


def _table(graph: Subject, op: Operator, *, possible: bool) -> tuple[Tensor, Array]:
    island = Island(graph, graph.output(op).shape, possible=possible)
    inputs = [island.values(op.inputs[0])]
    if not island.sources:
        raise UnsupportedError("the result is constant")
    return island.sources[0], KERNELS["QUANTIZE"](op, graph.subgraph, inputs)[0]


def is_inner(graph: Subject, op: Operator) -> bool:
    """Whether an operator gives float32 and reads a tensor that the model computes."""
    return bool(op.outputs) and graph.output(op).dtype == "float32" and op.op in (*ENTRIES, "TABLE", *FLOAT_OPERATORS)


@pattern("QUANTIZE")
def float_island(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace elementwise float32 operators between codes by one table, even if others read their results, too."""
    maker = graph.maker(op.inputs[0])
    target = graph.output(op)
    if maker is None or not is_inner(graph, maker) or target.dtype not in (*BYTES, "int16"):
        return None
    try:
        source, values = find_table(graph, op)
    except TqError:
        return _of_two(graph, op)
    return _looked_up(graph, op, source, values)


def _looked_up(graph: Subject, op: Operator, source: Tensor, values: Array) -> Rewrite:
    """Return the table that replaces a QUANTIZE; an identity of int16 is another view."""
    target = graph.output(op)
    if source.dtype == "int16" and values.dtype == np.int16 and np.array_equal(
            values, INT16_CODES):
        shape = graph.add_constant(np.array(target.shape, np.int32))
        return Rewrite([op], [Operator(op.index, "RESHAPE", (source.index, shape), op.outputs)])
    return Rewrite([op], [Operator(op.index, "TABLE", (source.index, graph.add_constant(values)), op.outputs)])


@pattern("QUANTIZE")
def float_choice(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace a SELECT of float32 by a float32 comparison, all functions of one tensor, by a table."""
    maker, target = graph.maker(op.inputs[0]), graph.output(op)
    if maker is None or maker.op not in ("SELECT", "SELECT_V2") or target.dtype not in (*BYTES, "int16"):
        return None
    try:
        source, values = find_table(graph, op)
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
    """Replace MEAN or SUM of float32 functions of bytes by float32 additions in the kernel's order."""
    maker = graph.maker(op.inputs[0])
    if maker is None or maker.op not in ("MEAN", "SUM") or graph.input(maker).dtype != "float32":
        return None
    try:
        return Rewrite([op], add_reduction(graph, op, maker))
    except TqError:
        return None


@pattern("QUANTIZE")
def float_interpolation(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace RESIZE_BILINEAR of float32 functions of bytes by products from tables and additions in order."""
    maker = graph.maker(op.inputs[0])
    return None if maker is None or maker.op not in FLOAT_RESIZES else _of_chain(graph, op)


@pattern("CAST", "BUCKETIZE")
def float_island_of_indices(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace a float32 function of one tensor that is cast to int32, such as token numbers, by a table of int32."""
    maker = graph.maker(op.inputs[0])
    if maker is None or not is_inner(graph, maker) or graph.output(op).dtype != "int32":
        return None
    island = Island(graph, graph.output(op).shape)
    try:
        values = KERNELS[op.op](op, graph.subgraph, [island.values(op.inputs[0])])[0]
    except TqError:
        return None
    if not island.sources:
        return None
    codes = 1 << 16 if island.sources[0].dtype == "int16" else 256
    table = graph.add_constant(np.broadcast_to(values, (codes,)).copy())
    return Rewrite([op], [Operator(op.index, "TABLE", (island.sources[0].index, table), op.outputs)])


#: Patterns that are tried before choices are moved.
CHOSEN = (float_choice,)
#: Patterns in the order in which they are tried.
ISLANDS = (float_island, float_reduction, float_interpolation, float_island_of_indices)
