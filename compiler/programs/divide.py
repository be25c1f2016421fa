"""DIV of int8: `reference/div.h` step by step on two streams of bytes.

The divisor and, with it, the dividend change their sign where it is negative. The dividend is shifted to the top and
multiplied by the reciprocal, a table by the divisor, then by the quotient of the scales; leading zeros say how far the
result is shifted back.
"""

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAM_B, Uop, immediate, low, reg_a, reg_b, to
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource, Source
from tq_hw.sim.golden.product import DivParams, reciprocals

__all__ = ["divide_program", "reciprocal_table"]

_X, _Y, _HEAD, _T = range(4)


def _number(value: int) -> Uop:
    """Operand a of one value."""
    return {"a_source": Source.IMMEDIATE, "immediate": value}


def reciprocal_table() -> IntArray:
    """Return the reciprocals of 0..255, in Q0.31 for a power of two above; that of 0 is not used."""
    return np.concatenate([[0], reciprocals(np.arange(1, 256))])


def divide_program(p: DivParams) -> list[Uop]:
    """Return the micro-operations; table 2 has the reciprocals. A divisor of 0 gives a number without meaning."""
    return [
        to(_X, STREAM_A, immediate(p.zero_point_1), alu=Alu.SUB),
        # The divisor with the other sign, 1 where it is negative, then -1 there and 1 elsewhere.
        to(_Y, _number(p.zero_point_2), STREAM_B, alu=Alu.SUB),
        to(_T, _number(0), reg_b(_Y), alu=Alu.LESS),
        to(_T, reg_a(_T), immediate(1), alu=Alu.SHL),
        to(_T, _number(1), reg_b(_T), alu=Alu.SUB),
        to(_X, reg_a(_X), reg_b(_T), low()),
        to(_T, _number(0), reg_b(_Y), alu=Alu.SUB),
        to(_Y, reg_a(_Y), reg_b(_T), alu=Alu.MAX),
        # Bits that repeat the sign of the dividend.
        to(_HEAD, _number(-1), reg_b(_X), alu=Alu.SUB),
        to(_HEAD, reg_a(_HEAD), reg_b(_X), alu=Alu.MAX),
        to(_HEAD, reg_a(_HEAD), alu=Alu.CLZ),
        to(_HEAD, reg_a(_HEAD), immediate(1), alu=Alu.SUB),
        to(_X, reg_a(_X), reg_b(_HEAD), alu=Alu.SHL),
        to(_X, reg_a(_X), reg_b(_Y), b_table=2, multiply=Multiply.HIGH_B),
        to(_X, reg_a(_X), multiply=Multiply.HIGH_IMMEDIATE, immediate=p.multiplier),
        # How far to shift back; by more than 31 bits it is the rest, and 1 more. What is not 0 leaves int8 then.
        to(_Y, reg_a(_Y), alu=Alu.CLZ),
        to(_HEAD, reg_a(_HEAD), reg_b(_Y), alu=Alu.SUB),
        to(_HEAD, reg_a(_HEAD), immediate(31 - p.shift), alu=Alu.ADD),
        to(_T, _number(31), reg_b(_HEAD), alu=Alu.LESS),
        to(_X, reg_a(_X), reg_b(_HEAD), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_AWAY),
        {**reg_a(_X), **reg_b(_T), "alu": Alu.ADD, "zero_point": p.output_zero_point, "clamp": 1,
         "act_min": p.act_min, "act_max": p.act_max, **OUT}]
