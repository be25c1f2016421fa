"""DIV of int8 and int16: the steps of `reference/div.h` on two streams.

If the divisor is negative, both operands change their sign. The dividend is normalized and multiplied by the
reciprocal of the divisor, which is a table for int8, then by the quotient of the scales. The counts of leading zeros
give the final right shift.
"""

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.sixteen import clamped
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    SHL,
    SHL_SATURATE,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescale,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource
from tq_hw.sim.golden.arith import INT32_MIN
from tq_hw.sim.golden.fixedpoint import RECIPROCAL_SLOPE, RECIPROCAL_START
from tq_hw.sim.golden.product import DivParams, reciprocals

__all__ = ["divide_program", "divide_wide_program", "reciprocal_table"]

_X, _Y, _HEAD, _T = range(4)


def reciprocal_table() -> IntArray:
    """Return the reciprocals of 0..255, in Q0.31 relative to the next power of two; entry 0 is not used."""
    return np.concatenate([[0], reciprocals(np.arange(1, 256))])


def _signs(p: DivParams) -> list[Uop]:
    """Subtract the zero points, make the divisor positive, negate the dividend with it, and normalize the dividend."""
    return [
        to(_X, STREAM_A, immediate(p.zero_point_1), alu=Alu.SUB),
        # y: the negated divisor; t: 1 where the divisor is negative, then its sign, -1 or 1
        to(_Y, immediate_a(p.zero_point_2), STREAM_B, alu=Alu.SUB),
        to(_T, immediate_a(0), reg_b(_Y), alu=Alu.LESS),
        to(_T, reg_a(_T), immediate(1), SHL),
        to(_T, immediate_a(1), reg_b(_T), alu=Alu.SUB),
        to(_X, reg_a(_X), reg_b(_T), low()),
        to(_T, immediate_a(0), reg_b(_Y), alu=Alu.SUB),
        to(_Y, reg_a(_Y), reg_b(_T), alu=Alu.MAX),
        # The number of bits that repeat the dividend's sign.
        to(_HEAD, immediate_a(-1), reg_b(_X), alu=Alu.SUB),
        to(_HEAD, reg_a(_HEAD), reg_b(_X), alu=Alu.MAX),
        to(_HEAD, reg_a(_HEAD), alu=Alu.CLZ),
        to(_HEAD, reg_a(_HEAD), immediate(1), alu=Alu.SUB),
        to(_X, reg_a(_X), reg_b(_HEAD), SHL)]


def _back(p: DivParams) -> list[Uop]:
    """Multiply by the quotient of the scales and compute the right shift; t: 1 where it is more than 31 bits."""
    return [to(_X, reg_a(_X), multiply=Multiply.HIGH_IMMEDIATE, immediate=p.multiplier),
            to(_Y, reg_a(_Y), alu=Alu.CLZ),
            to(_HEAD, reg_a(_HEAD), reg_b(_Y), alu=Alu.SUB),
            to(_HEAD, reg_a(_HEAD), immediate(31 - p.shift), alu=Alu.ADD),
            to(_T, immediate_a(31), reg_b(_HEAD), alu=Alu.LESS)]


_ROUNDED: Uop = {"shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY}


def divide_program(p: DivParams) -> list[Uop]:
    """Return the micro-operations; table 2 has the reciprocals. The result for a divisor of 0 is undefined."""
    return [
        *_signs(p), to(_X, reg_a(_X), reg_b(_Y), b_table=2, multiply=Multiply.HIGH_B),
        # A shift of more than 31 bits becomes the shift modulo 32, plus 1: any result but 0 is then outside int8.
        *_back(p), to(_X, reg_a(_X), reg_b(_HEAD), _ROUNDED),
        {**reg_a(_X), **reg_b(_T), "alu": Alu.ADD, "zero_point": p.output_zero_point, "clamp": 1,
         "act_min": p.act_min, "act_max": p.act_max, **OUT}]


def divide_wide_program(p: DivParams) -> list[Uop]:
    """Return the micro-operations for int16, without a table: `one_over_one_plus_x` of the normalized divisor.

    A right shift of more than 31 bits is taken modulo 32, rounds down, and adds 1 to a product that is 0 or more.
    """
    half, x, t = _T, 4, 5
    steps = [to(t, reg_a(half), reg_b(x), multiply=Multiply.HIGH_B),
             to(t, immediate_a(1 << 29), reg_b(t), alu=Alu.SUB), to(t, reg_a(x), reg_b(t), multiply=Multiply.HIGH_B),
             to(t, reg_a(t), immediate(2), SHL_SATURATE), to(x, reg_a(x), reg_b(t), alu=Alu.ADD)]
    reciprocal = [
        to(half, reg_a(_Y), alu=Alu.CLZ), to(half, reg_a(_Y), reg_b(half), SHL),
        to(half, reg_a(half), immediate(INT32_MIN), alu=Alu.ADD),
        to(half, reg_a(half), immediate(1), SAR), to(half, reg_a(half), immediate(1 << 30), alu=Alu.ADD),
        to(x, reg_a(half), rescale(RECIPROCAL_SLOPE, 0)), to(x, reg_a(x), immediate(RECIPROCAL_START), alu=Alu.ADD),
        *steps * 3, to(x, reg_a(x), immediate(1), SHL_SATURATE)]
    last: Uop = {**reg_a(4), **reg_b(5), "alu": Alu.ADD}
    return [
        *_signs(p), *reciprocal, to(_X, reg_a(_X), reg_b(x), multiply=Multiply.HIGH_B), *_back(p),
        to(4, reg_a(_X), reg_b(_HEAD), _ROUNDED), to(5, reg_a(_X), reg_b(_HEAD), SAR),
        to(_X, immediate_a(-1), reg_b(_X), alu=Alu.LESS), to(5, reg_a(5), reg_b(_X), alu=Alu.ADD),
        to(5, reg_a(5), reg_b(4), alu=Alu.SUB), to(5, reg_a(5), reg_b(_T), low()),
        *clamped([last], p.act_min, p.act_max)]
