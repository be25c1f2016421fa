"""Programs for quotients and square roots of packed float32 numbers; `sim/golden/packed_float.py` defines the format.

A table gives the first 8 bits of a reciprocal or of a reciprocal square root. Two Newton steps raise them to 28 bits.
The remainder, which is exact in 32 bits, then corrects the result by at most one unit in the last place.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.programs.float_sums import sticky
from tq_hw.compiler.programs.packed_float import fraction, rounded
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    SHL,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["packed_root", "quotient_program", "quotient_table", "root", "root_program", "root_table"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
_HIDDEN = 1 << FRACTION_BITS - 1
_HIGH: Uop = {"multiply": Multiply.HIGH_B}
#: Bits of a fraction that index the table, and bits of a quotient.
_INDEX_BITS, _QUOTIENT_BITS = 8, 26
#: Fraction bits of a reciprocal.
_POINT = 29
#: Exponent of a root, less half of the number's exponent.
_HALF = EXPONENT // 2 - FRACTION_BITS // 2


def quotient_table() -> IntArray:
    """Return 1 / d for d in 0.5 to 1, with 29 fraction bits, indexed by the 8 bits after the leading bit of d."""
    middles = 0.5 + (np.arange(1 << _INDEX_BITS) + 0.5) / (2 << _INDEX_BITS)
    return np.round(np.ldexp(1 / middles, _POINT)).astype(np.int64)


def root_table() -> IntArray:
    """Return 1 / sqrt(v) for v in 0.25 to 1, with 29 fraction bits, indexed by the first 8 bits of v."""
    middles = (np.maximum(np.arange(1 << _INDEX_BITS), 1 << _INDEX_BITS - 2) + 0.5) / (1 << _INDEX_BITS)
    return np.round(np.ldexp(1 / np.sqrt(middles), _POINT)).astype(np.int64)


def quotient_program() -> list[Uop]:
    """Divide packed stream A by packed stream B, which must be positive; table 1 is `quotient_table`."""
    scale = FRACTION_BITS + 7 - 2
    step = [to(4, reg_a(1), reg_b(0), _HIGH),
            to(4, immediate_a(1 << _POINT), reg_b(4), shifted(31 - _POINT), alu=Alu.SUB),
            to(4, reg_a(4), reg_b(0), _HIGH), to(0, reg_a(0), reg_b(4), alu=Alu.ADD)]
    return [
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND, zero_point=-_QUOTIENT_BITS - EXPONENT + 6),
        to(1, immediate_a(_EXPONENT), STREAM_B, alu=Alu.AND), to(2, reg_a(2), reg_b(1), alu=Alu.SUB),
        # r1: the divisor's fraction times 128; r3: the dividend's, too; r0: the reciprocal
        to(1, immediate_a(~_EXPONENT), STREAM_B, shifted(-1, Rounding.FLOOR), alu=Alu.AND),
        to(1, reg_a(1), immediate(_HIDDEN << 7), alu=Alu.ADD), *fraction(3, 6, STREAM_A, 0),
        to(0, reg_a(1), immediate(30 - _INDEX_BITS), SAR), to(0, reg_a(0), a_table=1), *step * 2,
        # r5: the quotient, off by at most one; r6: the remainder
        to(5, reg_a(3), reg_b(0), shifted(_QUOTIENT_BITS - scale, Rounding.FLOOR), _HIGH),
        to(1, reg_a(1), immediate(7), SAR), to(4, reg_a(3), immediate(_QUOTIENT_BITS - 7), SHL),
        to(6, reg_a(5), reg_b(1), low()), to(6, reg_a(4), reg_b(6), alu=Alu.SUB),
        to(7, reg_a(6), immediate(31), SAR), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(1), alu=Alu.AND), to(6, reg_a(6), reg_b(7), alu=Alu.ADD),
        to(7, reg_a(1), reg_b(6), alu=Alu.LESS_EQUAL), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(1), low()), to(6, reg_a(6), reg_b(7), alu=Alu.SUB),
        *sticky(5, 6, 4), *rounded(is_small=True)[:-1], rounded(is_small=True)[-1] | OUT]


def root(more: Sequence[Uop] = ()) -> list[Uop]:
    """Compute the square root of packed stream A in r5, with 24 bits; r2 is half of the exponent.

    The micro-operations `more` may add to the remainder r6. They must preserve all other registers but r4.
    """
    def step(bits: int) -> list[Uop]:
        """A step of Newton's method, in which the square times the number has 27 + `bits` fraction bits."""
        more_bits = [to(4, reg_a(4), shifted(bits))] if bits else []
        return [to(4, reg_a(1), reg_b(1), _HIGH), *more_bits, to(4, reg_a(4), reg_b(3), _HIGH),
                to(4, immediate_a(1 << 27 + bits), reg_b(4), shifted(3 - bits), alu=Alu.SUB),
                to(4, reg_a(4), reg_b(1), _HIGH), to(1, reg_a(1), reg_b(4), alu=Alu.ADD)]
    return [
        # r0: 1 for an odd exponent; r2: half of the exponent rounded up to even; r3: the number in 0.25 to 1, Q0.31
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), to(0, reg_a(2), immediate(1), alu=Alu.AND),
        to(2, reg_a(2), reg_b(0), shifted(-1, Rounding.FLOOR), alu=Alu.ADD),
        to(3, STREAM_A, immediate(~_EXPONENT), shifted(-1, Rounding.FLOOR), alu=Alu.AND),
        to(3, reg_a(3), immediate(_HIDDEN << 7), alu=Alu.ADD), to(3, reg_a(3), reg_b(0), SAR),
        to(1, reg_a(3), immediate(31 - _INDEX_BITS), SAR), to(1, reg_a(1), a_table=1), *step(0), *step(1),
        # r5: the root, off by at most one; r6: the number less the root's square
        to(5, reg_a(3), reg_b(1), shifted(FRACTION_BITS - _POINT, Rounding.FLOOR), _HIGH),
        to(6, reg_a(5), reg_b(5), low()), to(4, reg_a(3), immediate(2 * FRACTION_BITS - 31), SHL),
        to(6, reg_a(4), reg_b(6), alu=Alu.SUB), *more,
        to(7, reg_a(5), reg_b(6), alu=Alu.LESS), to(6, reg_a(6), reg_b(5), alu=Alu.ADD),
        to(6, reg_a(6), immediate(0), alu=Alu.LESS_EQUAL), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(5, reg_a(5), reg_b(6), alu=Alu.SUB)]


def packed_root(more: Sequence[Uop] = ()) -> list[Uop]:
    """Pack and output the result of `root`; the root of 0 is 0. The micro-operations `more` may add to the word r5."""
    return [
        to(5, reg_a(5), immediate(-_HIDDEN), shifted(EXPONENT_BITS), alu=Alu.ADD),
        to(5, reg_a(5), reg_b(2), alu=Alu.ADD, zero_point=_HALF - EXPONENT), *more,
        to(4, STREAM_A, immediate(0), alu=Alu.NOT_EQUAL), {**reg_a(5), **reg_b(4), **low(), **OUT}]


def root_program(*, reciprocal: bool) -> list[Uop]:
    """Compute the square roots of packed stream A, or their reciprocals, each rounded once.

    Stream A is positive; without `reciprocal` it may also be 0. Ties cannot occur: (s + 0.5)^2 is not an integer, and
    2^48 has no odd divisor but 1.
    """
    if not reciprocal:
        return [*root(), *packed_root()]
    return [
        *root(),
        # r1: 2^47 / r5, off by at most one, which the sum with -1 ensures for every number in 0.25 to 1
        to(1, reg_a(1), immediate(-1), shifted(FRACTION_BITS - 1 - _POINT), alu=Alu.ADD),
        # r6: twice the remainder 2^47 - r1 * r5
        to(6, reg_a(1), reg_b(5), low()), to(6, immediate_a(0), reg_b(6), shifted(1), alu=Alu.SUB),
        to(7, reg_a(5), reg_b(6), alu=Alu.LESS), to(6, reg_a(6), reg_b(5), alu=Alu.ADD),
        to(6, reg_a(6), immediate(0), alu=Alu.LESS), to(1, reg_a(1), reg_b(7), alu=Alu.ADD),
        to(1, reg_a(1), reg_b(6), alu=Alu.SUB),
        # The reciprocal of a root of 2^23 has 25 bits.
        to(7, reg_a(1), immediate(2 * _HIDDEN), alu=Alu.EQUAL), to(1, reg_a(1), reg_b(7), SAR),
        to(7, reg_a(7), reg_b(2), alu=Alu.SUB),
        to(1, reg_a(1), immediate(-_HIDDEN), shifted(EXPONENT_BITS), alu=Alu.ADD),
        {**reg_a(1), **reg_b(7), "alu": Alu.ADD, "zero_point": 1 - 2 * FRACTION_BITS - _HALF - EXPONENT, **OUT}]
