"""Comparisons of float32 numbers that are functions of codes, as comparisons of integers in the same order.

- If both sides are functions of one tensor, the result is a table.
- A function of bytes, or a constant, becomes an int32 that sorts like the float32 number, by a table.
- A monotonic function of int16 is not computed: its code is compared with the first code whose number reaches the
  other side.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.rewrite.island import BYTES, Island, label, rises
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.signatures import COMPARISONS
from tq_hw.sim.golden.arith import INT16_CODES
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.raw_float import ordered
from tq_hw.sim.golden.registry import Array

__all__ = ["COMPARED", "check_comparison"]

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
#: The comparison with its sides exchanged.
_MIRRORED = {"LESS": "GREATER", "LESS_EQUAL": "GREATER_EQUAL", "GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL",
             "EQUAL": "EQUAL", "NOT_EQUAL": "NOT_EQUAL"}



@dataclass(frozen=True)
class _Side:
    """One side of a comparison: a function of a tensor of codes, by unsigned code, or a constant with its shape."""

    source: Tensor | None
    values: Float32


def _side(graph: Subject, op: Operator, position: int) -> _Side:
    tensor = graph.input(op, position)
    if tensor.data is not None:
        values, source = tensor.data, None
    else:
        island = Island(graph, tensor.shape)
        values = island.values(tensor.index)
        source = island.sources[0] if island.sources else None
        if source is None or source.dtype not in (*BYTES, "int16"):
            raise UnsupportedError(f"{label(tensor)} does not come from a quantized tensor")
        values = np.broadcast_to(values, (1 << 16 if source.dtype == "int16" else 256,))
    if np.isnan(values).any():
        raise UnsupportedError(f"{label(tensor)} is NaN for some codes")
    return _Side(source, values.astype(np.float32))


def _keys(graph: Subject, op: Operator, side: _Side, made: list[Operator]) -> int:
    """Return a tensor of int32 that sorts like a side's numbers."""
    keys = ordered(np.ascontiguousarray(side.values).view(np.int32).astype(np.int64)).astype(np.int32)
    return _looked_up(graph, op, side, keys, made)


def _looked_up(graph: Subject, op: Operator, side: _Side, table: Array, made: list[Operator]) -> int:
    """Return a tensor of the table's entries at a side's codes; for a constant side, the entries themselves."""
    if side.source is None:
        return graph.add_constant(table)
    if table.dtype == np.int16 and np.array_equal(table, INT16_CODES):
        return side.source.index
    index = graph.add_tensor(Tensor(0, side.source.name, table.dtype.name, side.source.shape))
    made.append(Operator(op.index, "TABLE", (side.source.index, graph.add_constant(table)), (index,)))
    return index


def _rising(side: _Side) -> Float32 | None:
    """Return the numbers of an int16 side by signed code, None if they do not rise."""
    if side.source is None or side.source.dtype != "int16":
        return None
    values = np.roll(side.values, 1 << 15)
    return values if rises(values) else None


def _bound(name: str, rising: Float32, numbers: Float32) -> tuple[str, Array] | None:
    """Return a comparison of codes and its right operand; None if that does not fit in int16."""
    first = (np.searchsorted(rising, numbers, "left") if name in ("LESS", "GREATER_EQUAL") else
             np.searchsorted(rising, numbers, "right")).astype(np.int64) + _LOW
    is_less = name.startswith("LESS")
    if first.size == 0 or first.max() <= _HIGH:
        return "LESS" if is_less else "GREATER_EQUAL", first.astype(np.int16)
    if first.min() > _LOW:
        return "LESS_EQUAL" if is_less else "GREATER", (first - 1).astype(np.int16)
    return None


def _compared(graph: Subject, op: Operator, name: str, output: int) -> list[Operator]:
    """Return the operators that compute `output`, a comparison with codes of int16."""
    sides = _side(graph, op, 0), _side(graph, op, 1)
    for one, other, turned in ((*sides, name), (sides[1], sides[0], _MIRRORED[name])):
        # Negating both sides turns a falling function into a rising one.
        for sign, asked in ((1, turned), (-1, _MIRRORED[turned])):
            rising = _rising(_Side(one.source, one.values * np.float32(sign)))
            found = None if rising is None else _bound(asked, rising, other.values * np.float32(sign))
            if found is not None and one.source is not None:
                made: list[Operator] = []
                bound = _looked_up(graph, op, other, found[1], made)
                return [*made, Operator(op.index, found[0], (one.source.index, bound), (output,))]
    raise UnsupportedError("a comparison with int16 must be of values that rise or fall with its codes, and one side's "
                           "must lie within the other's")


def _table(graph: Subject, op: Operator) -> list[Operator] | None:
    """Return the table of a comparison whose sides are functions of one tensor, else None."""
    island = Island(graph, graph.output(op).shape)
    try:
        values = island.values(op.outputs[0])
    except TqError:
        return None
    if not island.sources:
        return None
    return [Operator(op.index, "TABLE", (island.sources[0].index, graph.add_constant(values)), op.outputs)]


def _of_wide(graph: Subject, op: Operator) -> list[Operator]:
    """Return the operators that replace a comparison with codes of int16."""
    if op.op not in ("EQUAL", "NOT_EQUAL"):
        return _compared(graph, op, op.op, op.outputs[0])
    parts = [graph.add_tensor(graph.output(op)) for _ in range(2)]
    names, join = (("LESS_EQUAL", "GREATER_EQUAL"), "LOGICAL_AND") if op.op == "EQUAL" else (
        ("LESS", "GREATER"), "LOGICAL_OR")
    first, second = (_compared(graph, op, name, part) for name, part in zip(names, parts, strict=True))
    return [*first, *second, Operator(op.index, join, tuple(parts), op.outputs)]


def _replaced(graph: Subject, op: Operator) -> list[Operator]:
    """Return the operators that replace a comparison of float32; raise `TqError` with the reason if there are none."""
    sides = _side(graph, op, 0), _side(graph, op, 1)
    if any(side.source is not None and side.source.dtype == "int16" for side in sides):
        try:
            return _of_wide(graph, op)
        except UnsupportedError:
            # A table of int16 costs a pass for each 1,024 codes for which it is true, so it is the last resort.
            if (found := _table(graph, op)) is None:
                raise
            return found
    if (found := _table(graph, op)) is not None:
        return found
    made: list[Operator] = []
    inputs = tuple(_keys(graph, op, side, made) for side in sides)
    return [*made, Operator(op.index, op.op, inputs, op.outputs)]


@pattern(*COMPARISONS)
def float_comparison(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace a comparison of float32 functions of codes by one of integers."""
    if graph.input(op).dtype != "float32":
        return None
    try:
        return Rewrite([op], _replaced(graph, op))
    except TqError:
        return None


def check_comparison(graph: Subject, op: Operator) -> None:
    """Raise `UnsupportedError` with the reason why a comparison of float32 was not replaced."""
    _replaced(graph, op)


@pattern("SELECT", "SELECT_V2")
def known_choice(graph: Subject, op: Operator) -> Rewrite | None:
    """Remove a choice by a comparison that has one result for all codes, such as whether a number is infinite."""
    maker, target = graph.maker(op.inputs[0]), graph.output(op)
    holds = None if maker is None or maker.op != "TABLE" else graph.constant(maker, 1)
    if holds is None or holds.dtype != np.bool_ or (holds != holds[0]).any() or graph.is_output(op.outputs[0]):
        return None
    chosen = graph.input(op, 1 if holds[0] else 2)
    if chosen.data is not None or (chosen.dtype, chosen.shape, chosen.quantization) != (
            target.dtype, target.shape, target.quantization):
        return None
    return Rewrite([op], [], (target.index, chosen.index))


COMPARED = (float_comparison, known_choice)
