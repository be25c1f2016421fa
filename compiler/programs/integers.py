"""Integer programs: division of int32 without a table (FLOOR_DIV, FLOOR_MOD, DIV), powers, XOR, right shifts.

A division normalizes the divisor's magnitude and computes its reciprocal in three Newton steps. The dividend times the
reciprocal is the quotient, off by a few units. The remainder, divided in the same way, corrects it; the new remainder
is less than the divisor. Quotient and remainder are then adjusted to the kernel's rounding.

Remainders are small, so arithmetic that wraps at 32 bits is exact. A divisor of -2^31, whose magnitude saturates to
2^31 - 1, therefore has correct results, too.
"""

from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
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
    rescale,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, ShiftSource
from tq_hw.sim.golden.arith import INT32_MIN, wrap_int32

__all__ = ["integer_divide", "integer_power", "right_shift", "xor"]

_REST, _DIVISOR, _SIZE, _BACK, _RECIPROCAL, _SIGN, _QUOTIENT, _T = range(8)
#: Half of the reciprocal of x in 1/2..1, Q0.31, starts as 24/17 - 16/17 x: the error is at most 1/17.
_SLOPE, _FIRST = (16 << 31) // 17, int(wrap_int32((24 << 31) // 17))
_STEPS = 3


def _reciprocal() -> list[Uop]:
    """Compute from the divisor in stream B: 2^61 by its normalized magnitude, and the right shift of products."""
    steps: list[Uop] = []
    for _ in range(_STEPS):
        # y + 2 y (1/2 - x y), with a constant slightly below 1/2, so that no reciprocal exceeds 31 bits.
        steps += [to(_T, reg_a(_SIZE), reg_b(_RECIPROCAL), multiply=Multiply.HIGH_B),
                  to(_T, immediate_a((1 << 30) - 2), reg_b(_T), shifted(1), alu=Alu.SUB),
                  to(_T, reg_a(_T), reg_b(_RECIPROCAL), multiply=Multiply.HIGH_B),
                  to(_RECIPROCAL, reg_a(_RECIPROCAL), reg_b(_T), alu=Alu.ADD)]
    return [
        to(_DIVISOR, immediate_a(0), STREAM_B, alu=Alu.ADD),
        # The product with -1 saturates.
        to(_SIZE, reg_a(_DIVISOR), rescale(INT32_MIN, 0)),
        to(_SIZE, reg_a(_SIZE), reg_b(_DIVISOR), alu=Alu.MAX),
        to(_BACK, reg_a(_SIZE), alu=Alu.CLZ), to(_BACK, reg_a(_BACK), immediate(1), alu=Alu.SUB),
        to(_SIZE, reg_a(_SIZE), reg_b(_BACK), SHL), to(_BACK, immediate_a(30), reg_b(_BACK), alu=Alu.SUB),
        to(_RECIPROCAL, reg_a(_SIZE), rescale(_SLOPE, 0)),
        to(_RECIPROCAL, immediate_a(_FIRST), reg_b(_RECIPROCAL), alu=Alu.SUB), *steps,
        # The divisor's sign: 1 or -1.
        to(_SIGN, reg_a(_DIVISOR), immediate(0), shifted(1), alu=Alu.LESS),
        to(_SIGN, immediate_a(1), reg_b(_SIGN), alu=Alu.SUB)]


def _about(register: int, a: Uop) -> list[Uop]:
    """Estimate the quotient of `a` and the divisor."""
    return [to(register, a, reg_b(_RECIPROCAL), multiply=Multiply.HIGH_B),
            to(register, reg_a(register), reg_b(_BACK), shift_source=ShiftSource.SHIFT_B),
            to(register, reg_a(register), reg_b(_SIGN), low())]


def _rest() -> list[Uop]:
    return [to(_REST, reg_a(_QUOTIENT), reg_b(_DIVISOR), low()), to(_REST, STREAM_A, reg_b(_REST), alu=Alu.SUB)]


def integer_divide(op: str) -> list[Uop]:
    """Divide stream A by stream B: FLOOR_DIV, FLOOR_MOD, or DIV, which rounds toward 0.

    The result for a divisor of 0 is undefined. The quotient of -2^31 and -1 is -2^31.
    """
    uops = [*_reciprocal(), *_about(_QUOTIENT, STREAM_A), *_rest(), *_about(_T, reg_a(_REST)),
            to(_QUOTIENT, reg_a(_QUOTIENT), reg_b(_T), alu=Alu.ADD), *_rest(),
            # 1 where the remainder's sign differs from the divisor's: the quotient is one too large.
            to(_T, reg_a(_REST), reg_b(_SIGN), low()), to(_T, reg_a(_T), immediate(0), alu=Alu.LESS)]
    if op == "FLOOR_MOD":
        return [*uops, to(_T, reg_a(_T), reg_b(_DIVISOR), low()), {**reg_a(_REST), **reg_b(_T), "alu": Alu.ADD, **OUT}]
    if op == "FLOOR_DIV":
        return [*uops, {**reg_a(_QUOTIENT), **reg_b(_T), "alu": Alu.SUB, **OUT}]
    # DIV: a negative quotient with a remainder is increased by 1.
    return [*uops, to(_QUOTIENT, reg_a(_QUOTIENT), reg_b(_T), alu=Alu.SUB),
            to(_T, reg_a(_QUOTIENT), immediate(0), alu=Alu.LESS),
            to(_REST, reg_a(_REST), immediate(0), alu=Alu.NOT_EQUAL), to(_T, reg_a(_T), reg_b(_REST), alu=Alu.AND),
            {**reg_a(_QUOTIENT), **reg_b(_T), "alu": Alu.ADD, **OUT}]


def integer_power(exponent: int) -> list[Uop]:
    """Raise stream A to a power by squaring and multiplying, low 32 bits; the exponent is 0 or more.

    An exponent above 31 is used only with the bases 0, 1 and -1, for which only its parity matters.
    """
    exponent = exponent if exponent < 32 else 30 + exponent % 2
    if exponent == 0:
        return [{**STREAM_A, **immediate(0), "alu": Alu.AND, "zero_point": 1, **OUT}]
    uops = [to(0, STREAM_A), to(1, STREAM_A)]
    for bit in bin(exponent)[3:]:
        uops.append(to(1, reg_a(1), reg_b(1), low()))
        if bit == "1":
            uops.append(to(1, reg_a(1), reg_b(0), low()))
    return [*uops, {**reg_a(1), **OUT}]


def xor() -> list[Uop]:
    """Exclusive or of streams A and B: their sum less twice their AND."""
    return [to(0, STREAMS, alu=Alu.AND), to(0, reg_a(0), immediate(1), SHL),
            to(1, STREAMS, alu=Alu.ADD), {**reg_a(1), **reg_b(0), "alu": Alu.SUB, **OUT}]


def right_shift(bits: int) -> list[Uop]:
    """Shift stream A right by stream B, arithmetic; the shift is clamped to 0..`bits` - 1."""
    return [to(0, immediate_a(0), STREAM_B, alu=Alu.MAX), to(0, reg_a(0), immediate(bits - 1), alu=Alu.MIN),
            {**STREAM_A, **reg_b(0), **SAR, **OUT}]
