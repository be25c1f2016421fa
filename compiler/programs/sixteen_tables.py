"""Programs that look up int16 elements in tables and interpolate linearly: LOGISTIC, TANH and SOFTMAX."""

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import (
    OUT,
    SHL,
    STREAM_A,
    STREAM_B,
    STREAMS,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescaled,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.sim.golden.interpolated import logistic_table
from tq_hw.sim.golden.sixteen import GateParams, WideSoftmaxParams

__all__ = ["exponential_program", "gate_program", "reciprocal_program", "share_program", "split_table"]

_FLOOR, _HALF_UP = Rounding.FLOOR, Rounding.HALF_UP
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
#: Bits of the distance to the next entry in the logistic's table.
_STEP_BITS = 10
#: Bits of the right shift that comes with a factor.
_SHIFT_BITS = 5

Tables = tuple[IntArray | None, IntArray | None]


def gate_program(op: str, p: GateParams) -> tuple[tuple[Uop, ...], Tables]:
    """LOGISTIC or TANH: the magnitude indexes a table of 256 logistics; results for negative arguments are mirrored.

    The result is `sign * value + constant`, shifted, with a sign of 1 or -1.
    """
    is_logistic = op == "LOGISTIC"
    fraction, right = (9, 10) if is_logistic else (8, 8)
    positive, negative = (1 << 9, (1 << 25) + (1 << 9) - 1) if is_logistic else (
        (1 << 7) - (1 << 23), (1 << 23) + (1 << 7) - 1)
    values = logistic_table()
    steps = np.append(np.diff(values), 0)
    if is_logistic:
        # The kernel's saturated value is half a code less than the last entry.
        values[-1] = 0xFFFE
    entry = {**reg_a(2), "a_table": 1}
    product: Uop = {**STREAM_A, **immediate(p.multiplier), **low()}
    uops = (
        to(0, product), to(0, reg_a(0), shifted(-p.shift, _HALF_UP)),
        to(1, immediate_a(0), reg_b(0), alu=Alu.SUB),
        to(1, reg_a(0), reg_b(1), alu=Alu.MAX),
        to(1, reg_a(1), immediate(255 << fraction), alu=Alu.MIN),
        to(2, reg_a(1), shifted(-fraction, _FLOOR)),
        to(1, reg_a(1), immediate((1 << fraction) - 1), alu=Alu.AND),
        to(3, entry, immediate((1 << _STEP_BITS) - 1), alu=Alu.AND),
        to(1, reg_a(1), reg_b(3), low()),
        to(3, entry, immediate(-1 << _STEP_BITS), shifted(fraction - _STEP_BITS, _FLOOR), alu=Alu.AND),
        to(1, reg_a(1), reg_b(3), alu=Alu.ADD),
        to(0, reg_a(0), immediate(0), alu=Alu.LESS),
        to(2, reg_a(0), immediate(negative - positive), low()),
        to(2, reg_a(2), immediate(positive), alu=Alu.ADD),
        to(0, reg_a(0), immediate(-2), low(), zero_point=1),
        to(1, reg_a(1), reg_b(0), low()),
        {**reg_a(1), **reg_b(2), "alu": Alu.ADD, **shifted(-right, _FLOOR), **OUT})
    return uops, (values << _STEP_BITS | steps, None)


def split_table(table: IntArray) -> Tables:
    """Pack 513 samples in 512 entries, by the low nine bits of `code >> 7`: a sample, and the distance to the next."""
    entries = np.roll(table[:-1] << 16 | np.diff(table) & 0xFFFF, -256)
    return entries[:256], entries[256:]


def _interpolated() -> tuple[Uop, ...]:
    """Interpolate at the 16-bit code in register 0: the result is register 3 plus register 0."""
    entry = {**reg_a(1), "a_table": 3}
    return (
        to(0, reg_a(0), immediate(_LOW), alu=Alu.MAX), to(0, reg_a(0), immediate(_HIGH), alu=Alu.MIN),
        to(1, reg_a(0), shifted(-7, _FLOOR)),
        to(0, reg_a(0), immediate(127), alu=Alu.AND),
        to(2, entry, shifted(16)), to(2, reg_a(2), shifted(-16, _FLOOR)),
        to(3, entry, shifted(-16, _FLOOR)),
        to(0, reg_a(0), reg_b(2), low(), shifted(-7, _HALF_UP)))


def exponential_program(p: WideSoftmaxParams) -> tuple[Uop, ...]:
    """Compute the exponential, in Q0.15, of stream A less the row's maximum in stream B."""
    return (to(0, STREAMS, alu=Alu.SUB), *rescaled(to(0, reg_a(0)), p.multiplier, p.shift, 0),
            to(0, reg_a(0), immediate(_HIGH), alu=Alu.ADD), *_interpolated(),
            {**reg_a(3), **reg_b(0), "alu": Alu.ADD, **OUT})


def reciprocal_program() -> tuple[Uop, ...]:
    """Compute the reciprocal of a row's normalized sum, in Q0.15, above the right shift of a product with it."""
    return (to(4, STREAM_A, alu=Alu.CLZ, zero_point=-1), to(0, STREAM_A, reg_b(4), SHL),
            to(0, reg_a(0), shifted(-14, _HALF_UP)),
            to(0, reg_a(0), immediate((1 << 15) + (1 << 16)), alu=Alu.SUB), *_interpolated(),
            to(0, reg_a(3), reg_b(0), shifted(_SHIFT_BITS), alu=Alu.ADD),
            to(4, immediate_a(30), reg_b(4), alu=Alu.SUB),
            {**reg_a(0), **reg_b(4), "alu": Alu.ADD, **OUT})


def share_program() -> tuple[Uop, ...]:
    """Multiply the exponential in stream A by the reciprocal in stream B."""
    return (to(0, immediate_a(0), STREAM_B, shifted(-_SHIFT_BITS, _FLOOR), alu=Alu.ADD),
            to(0, STREAM_A, reg_b(0), low()),
            to(0, reg_a(0), STREAM_B, shift_source=ShiftSource.SHIFT_B, rounding=_HALF_UP),
            {**reg_a(0), **immediate(0), "alu": Alu.MAX, "clamp": 1, **OUT})
