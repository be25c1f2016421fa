"""RESIZE_BILINEAR of int16 in the vector unit: positions that share a fraction are computed together.

Columns give `1024 * low + (high - low) * fraction` in 27 bits. Rows do the same with these, which gives 37 bits in two
words: `1024 * whole + rest`, rest in 0..1023. The result is this number divided by 2^20, ties away from zero: `whole`
divided by 1024, after adding one where it is negative and rest is not 0.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer, publish
from tq_hw.compiler.lower.segments import affine_segments
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAMS, Uop, immediate, low, reg_a, reg_b, shifted, to
from tq_hw.isa.uop import Alu, Rounding
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.resize import Taps

__all__ = ["resize_wide"]

_FLOOR = Rounding.FLOOR
_BELOW = (1 << 10) - 1
_DIFFERENCE = to(0, STREAMS, alu=Alu.SUB)


def _columns(fraction: int) -> tuple[Uop, ...]:
    """Interpolate columns: stream A is the low tap, B the high one, int16."""
    if not fraction:
        return ({**STREAM_A, **shifted(10), **OUT},)
    return (_DIFFERENCE, to(0, reg_a(0), immediate(-fraction), low()), to(1, STREAM_A, shifted(10)),
            {**reg_a(0), **reg_b(1), "alu": Alu.ADD, **OUT})


def _rows(fraction: int) -> tuple[Uop, ...]:
    """Interpolate rows: stream A is the column result of the upper row, B that of the lower row, int32."""
    if not fraction:
        return ({**STREAM_A, **shifted(-10), "clamp": 1, **OUT},)
    return (_DIFFERENCE,
            to(1, reg_a(0), shifted(-10, _FLOOR)), to(1, reg_a(1), immediate(-fraction), low()),
            to(2, STREAM_A, reg_b(1), alu=Alu.ADD),
            to(0, reg_a(0), immediate(_BELOW), alu=Alu.AND), to(0, reg_a(0), immediate(-fraction), low()),
            to(1, reg_a(0), shifted(-10, _FLOOR)), to(2, reg_a(2), reg_b(1), alu=Alu.ADD),
            to(0, reg_a(0), immediate(_BELOW), alu=Alu.AND), to(0, reg_a(0), immediate(1), alu=Alu.MIN),
            to(1, reg_a(2), shifted(-31, _FLOOR)), to(0, reg_a(0), reg_b(1), alu=Alu.AND),
            {**reg_a(2), **reg_b(0), "alu": Alu.ADD, **shifted(-10), "clamp": 1, **OUT})


def _gathered(state: Legalizer, op: Operator, value: Value, shape: tuple[int, ...], axis: int, picked: Sequence[int],
              dtype: str) -> Value:
    """Return some positions of an axis, in order."""
    made_shape, before = (*shape[:axis], len(picked), *shape[axis + 1:]), (slice(None),) * axis
    base, target = blank(shape, dtype), blank(made_shape, dtype)
    copies = []
    for out, source in affine_segments(picked):
        part = target[(*before, out)]
        copies.append(copy_between(0, np.broadcast_to(base[(*before, source)], part.shape), base, part, target))
    made = Value(f"{value.name} (taps)", value.tensor, (1, 1, 1, element_count(made_shape) * target.shape[-1]))
    state.layers.append(Move(op.index, op.op, (value,), made, tuple(copies)))
    return made


def _along(state: Legalizer, op: Operator, value: Value, shape: tuple[int, ...], axis: int, taps: Taps,
           dtypes: tuple[str, str], program: Callable[[int], tuple[Uop, ...]]) -> Value:
    """Interpolate [n, h, w, c] along an axis, from one type to another."""
    size = len(taps.low)
    made_shape, before = (*shape[:axis], size, *shape[axis + 1:]), (slice(None),) * axis
    target = blank(made_shape, dtypes[1])
    fractions = np.where(taps.low == taps.high, 0, taps.fraction)
    parts, copies = [], []
    for number, fraction in enumerate(np.unique(fractions).tolist()):
        places = np.flatnonzero(fractions == fraction).tolist()
        ends = (taps.low, taps.high) if fraction else (taps.low,)
        inputs = tuple(_gathered(state, op, value, shape, axis, end[places].tolist(), dtypes[0]) for end in ends)
        part_shape = (*shape[:axis], len(places), *shape[axis + 1:])
        count, base = element_count(part_shape), blank(part_shape, dtypes[1])
        part = Value(f"{value.name} (fraction {fraction})", value.tensor, (1, 1, 1, count * target.shape[-1]))
        state.layers.append(Flat(op.index, op.op, inputs, part, count, (TYPE_CODES[dtypes[0]],) * len(inputs),
                                 TYPE_CODES[dtypes[1]], program(fraction)))
        parts.append(part)
        for source, out in affine_segments(places):
            copies.append(copy_between(number, base[(*before, source)], base, target[(*before, out)], target))
    if len(parts) == 1:
        return parts[0]
    made = Value(f"{value.name} (resized)", value.tensor, (1, 1, 1, element_count(made_shape) * target.shape[-1]))
    state.layers.append(Move(op.index, op.op, tuple(parts), made, tuple(copies)))
    return made


def resize_wide(state: Legalizer, op: Operator, rows: Taps, cols: Taps) -> None:
    """Columns to int32, then rows to int16."""
    n, h, w, c = state.tensor(op, 0).shape
    middle = _along(state, op, state.input(op, 0), (n, h, w, c), 2, cols, ("int16", "int32"), _columns)
    publish(state, op, _along(state, op, middle, (n, h, len(cols.low), c), 1, rows, ("int32", "int16"), _rows))
