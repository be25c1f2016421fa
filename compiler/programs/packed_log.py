"""Programs for the logarithm of packed float32 numbers x from 1 to 2^23, step by step as `libm_double.logf` does it.

x is 2^k z, and z times 1 / c, of a table, is 1 + r, so that the logarithm is k ln 2 + log c + r + r^2 times a
polynomial. What double holds lies in two words here, exact to 2^-56, or to 2^-51 where k is not 0. A result could
differ where both lie on either side of the middle between two float32 numbers. Each x was tried once, and none does.
`tests/compiler/programs/test_packed_log.py` tries some of every exponent.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.programs.float_sums import sticky
from tq_hw.compiler.programs.packed_float import fraction, rounded
from tq_hw.compiler.programs.two_words import high, high_b, masked, rest, split
from tq_hw.compiler.programs.words import (
    OUT,
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
from tq_hw.isa.uop import Alu, Rounding
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm_double import LN2, LOG_PARTS, LOG_POLYNOMIAL
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["STEPS", "log_tables"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
#: What is taken off the bits of a fraction so that the upper ones, with one more above, number the parts.
_FIRST, _PART_BITS = 0x330000, 19
#: Where logarithms begin in the tables.
_LOGS = 32
#: Half of the last bit of a logarithm in the tables.
_HALF = 2.0**-53
#: Factors of r^2, r^3 and r^4, the first and the last one negative.
_SQUARE, _CUBIC, _FOURTH = (abs(number) for number in LOG_POLYNOMIAL[::-1])


def log_tables() -> tuple[IntArray, IntArray]:
    """Return 1 / c and, from 32 on, log c, in two halves each, by the number of a part."""
    inverse, logs = LOG_PARTS
    tables = np.zeros((2, 256), np.int64)
    for place in range(32):
        tables[:, place] = split(float(inverse[place % 16]), 26, 53)
        tables[:, _LOGS + place] = split(float(logs[place % 16]) + _HALF, 26, 52)
    return tables[0], tables[1]


def _part() -> list[Uop]:
    """r0: z, 24 bits behind the point; r1: the number of the part, of 5 bits."""
    return [
        *fraction(0, 1, STREAM_A, 7),
        to(1, reg_a(0), immediate(-_FIRST), shifted(-_PART_BITS, Rounding.FLOOR), alu=Alu.ADD),
        # It is half as large where the part's number has its upper bit.
        to(2, reg_a(1), immediate(4), alu=Alu.SAR), to(2, immediate_a(1), reg_b(2), alu=Alu.SUB),
        to(0, reg_a(0), reg_b(2), alu=Alu.SHL)]


def _product() -> list[Uop]:
    """Z / c - 1: r3 has 34 bits behind the point, without what r4 carries, which has 60 in its 26 bits and more."""
    return [
        *_part(), to(2, reg_a(1), a_table=1), to(5, reg_a(1), a_table=2),
        # r3: 19 bits behind the point, r4: the 31 bits after them
        to(3, reg_a(0), reg_b(2), high_b()), to(3, reg_a(3), immediate(-(1 << 19)), shifted(15), alu=Alu.ADD),
        to(4, reg_a(0), reg_b(2), low()), rest(4, 0),
        # r6: 46 bits behind the point, r7: 14 bits after them
        to(6, reg_a(0), reg_b(5), high_b()), to(7, reg_a(0), reg_b(5), low()), rest(7, 17),
        to(2, reg_a(4), immediate(16), alu=Alu.SAR), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        masked(4, 4, 16), to(6, reg_a(6), immediate(4), alu=Alu.SHL), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        to(2, reg_a(4), immediate(16), alu=Alu.SAR), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        masked(4, 4, 16, 10), to(4, reg_a(4), reg_b(7), alu=Alu.ADD)]


def _upper_rest() -> list[Uop]:
    """R with 34 bits behind the point."""
    return [*_product(), to(4, reg_a(4), immediate(26), alu=Alu.SAR), {**reg_a(3), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _lower_rest() -> list[Uop]:
    """26 bits of r after these."""
    return [*_product(), {**reg_a(4), **immediate((1 << 26) - 1), "alu": Alu.AND, **OUT}]


def _near() -> list[Uop]:
    """R and all that is of higher powers: r6 has 34 bits behind the point, without what r7 carries, which has 62."""
    square, cubic, fourth = split(_SQUARE, 31, 52), split(_CUBIC, 31, 52), split(_FOURTH, 31, 52)
    return [
        to(0, STREAM_A), to(1, immediate_a(0), STREAM_B, alu=Alu.ADD),
        # The square: r2 has 37 bits behind the point, r3 25 bits after them.
        to(2, reg_a(0), reg_b(0), high_b()), to(3, reg_a(0), reg_b(0), low()), rest(3, 6),
        to(4, reg_a(0), reg_b(1), high_b()), to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        to(4, reg_a(3), immediate(25), alu=Alu.SAR), to(2, reg_a(2), reg_b(4), alu=Alu.ADD), masked(3, 3, 25),
        # What the square is multiplied by: r4 has 31 bits behind the point, r5 52: less the cubic's part ...
        to(4, reg_a(0), high(cubic[0])), to(5, reg_a(0), immediate(cubic[0]), low()), rest(5, 13),
        masked(6, 4, 3, 18), to(5, reg_a(5), reg_b(6), alu=Alu.ADD), to(4, reg_a(4), immediate(3), alu=Alu.SAR),
        to(6, reg_a(0), high(cubic[1], 3)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(1), high(cubic[0], 8)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(4, immediate_a(square[0]), reg_b(4), alu=Alu.SUB), to(5, immediate_a(square[1]), reg_b(5), alu=Alu.SUB),
        # ... and with the last one's.
        to(6, reg_a(2), high(fourth[0])), to(7, reg_a(2), immediate(fourth[0]), low()), rest(7, 16),
        to(5, reg_a(5), reg_b(7), alu=Alu.ADD), masked(7, 6, 6, 15), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(6, reg_a(6), immediate(6), alu=Alu.SAR), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(2), high(fourth[1], 6)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(3), high(fourth[0], 10)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(5), immediate(21), alu=Alu.SAR), to(4, reg_a(4), reg_b(6), alu=Alu.ADD), masked(5, 5, 21),
        # The product: r6 has 37 bits behind the point, r7 62.
        to(6, reg_a(2), reg_b(4), high_b()), to(7, reg_a(2), reg_b(4), low()), rest(7, 6),
        to(5, reg_a(2), reg_b(5), high_b()), to(5, reg_a(5), immediate(4), alu=Alu.SHL),
        to(7, reg_a(7), reg_b(5), alu=Alu.ADD), to(5, reg_a(3), reg_b(4), high_b()),
        to(7, reg_a(7), reg_b(5), alu=Alu.ADD), masked(5, 6, 3, 25), to(7, reg_a(7), reg_b(5), alu=Alu.ADD),
        to(6, reg_a(6), immediate(3), alu=Alu.SAR), to(6, reg_a(0), reg_b(6), alu=Alu.SUB),
        to(1, reg_a(1), immediate(2), alu=Alu.SHL), to(7, reg_a(1), reg_b(7), alu=Alu.SUB)]


def _upper_near() -> list[Uop]:
    return [*_near(), to(7, reg_a(7), immediate(28), alu=Alu.SAR), {**reg_a(6), **reg_b(7), "alu": Alu.ADD, **OUT}]


def _lower_near() -> list[Uop]:
    """What is behind the first 26 bits of it, with 56 bits behind the point."""
    return [*_near(), to(5, reg_a(7), immediate(28), alu=Alu.SAR), to(6, reg_a(6), reg_b(5), alu=Alu.ADD),
            masked(6, 6, 8, 22), masked(7, 7, 28), to(7, reg_a(7), immediate(6), alu=Alu.SAR),
            {**reg_a(6), **reg_b(7), "alu": Alu.ADD, **OUT}]


def _far() -> list[Uop]:
    """K ln 2 + log c: r3 has 26 bits behind the point, without what r4 carries, which has 52."""
    upper, lower = split(LN2, 26, 52)
    return [
        *_part(), to(2, reg_a(1), immediate(4), alu=Alu.SAR),
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND, zero_point=EXPONENT + FRACTION_BITS - 1),
        to(2, reg_a(2), reg_b(0), alu=Alu.ADD), to(1, reg_a(1), immediate(_LOGS), alu=Alu.ADD),
        to(3, reg_a(2), immediate(upper), low()), to(4, reg_a(2), immediate(lower), low()),
        to(5, reg_a(1), a_table=1), to(3, reg_a(3), reg_b(5), alu=Alu.ADD),
        to(5, reg_a(1), a_table=2), to(4, reg_a(4), reg_b(5), alu=Alu.ADD),
        # LN2 ends with a half of the last bit here.
        to(2, reg_a(2), immediate(1), alu=Alu.SAR), to(4, reg_a(4), reg_b(2), alu=Alu.ADD)]


def _upper_sum() -> list[Uop]:
    """All of it, with 26 bits behind the point, but for what the lower one carries."""
    return [
        *_far(), to(4, reg_a(4), immediate(26), alu=Alu.SAR), to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        to(4, immediate_a(0), STREAM_B, alu=Alu.ADD), to(4, reg_a(4), immediate(8), alu=Alu.SAR),
        {**reg_a(3), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _lower_sum() -> list[Uop]:
    """What is behind these bits, with 56 bits behind the point."""
    return [
        *_far(), masked(4, 4, 26, 4),
        {**reg_a(4), **STREAM_B, "alu": Alu.ADD, **OUT}]


def _result() -> list[Uop]:
    """Both together, rounded and packed: stream A has 26 bits behind the point, stream B 56."""
    return [
        to(1, immediate_a(0), STREAM_B, alu=Alu.ADD), to(2, reg_a(1), immediate(30), alu=Alu.SAR),
        to(0, STREAM_A, reg_b(2), alu=Alu.ADD), masked(1, 1, 30),
        # r2: by how much the upper part is shifted to the top; r3: by how much the lower one, down
        to(2, reg_a(0), alu=Alu.CLZ, zero_point=-2), to(2, reg_a(2), immediate(30), alu=Alu.MIN),
        to(3, immediate_a(30), reg_b(2), alu=Alu.SUB),
        to(5, reg_a(0), reg_b(2), alu=Alu.SHL), to(4, reg_a(1), reg_b(3), alu=Alu.SAR),
        to(5, reg_a(5), reg_b(4), alu=Alu.ADD), to(4, reg_a(4), reg_b(3), alu=Alu.SHL),
        to(3, reg_a(1), reg_b(4), alu=Alu.SUB), *sticky(5, 3, 4),
        to(2, immediate_a(6 - 26 - EXPONENT), reg_b(2), alu=Alu.SUB),
        *rounded(is_small=False)[:-1], rounded(is_small=False)[-1] | OUT]


#: Programs, and where their streams come from: 0 is x, others are results of the programs before, counted from 1.
STEPS: Sequence[tuple[list[Uop], tuple[int, ...]]] = (
    (_upper_rest(), (0,)), (_lower_rest(), (0,)), (_upper_near(), (1, 2)), (_lower_near(), (1, 2)),
    (_upper_sum(), (0, 3)), (_lower_sum(), (0, 4)), (_result(), (5, 6)))
