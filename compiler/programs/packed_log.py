"""Programs for the logarithm of packed float32 numbers x from 1 to 2^23, with the steps of `libm_double.logf`.

x is 2^k z. A table gives 1 / c for a c near z, and z / c is 1 + r. The logarithm is k ln 2 + log c + r + r^2 times a
polynomial in r.

A double becomes two words here, exact to 2^-56, or to 2^-51 where k is not 0. A result could differ from
`libm_double.logf` only where the two lie on either side of a tie between two float32 numbers. An exhaustive run over
all x found no difference. `tests/compiler/programs/test_packed_log.py` samples every exponent.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.programs.float_sums import sticky
from tq_hw.compiler.programs.packed_float import fraction, rounded
from tq_hw.compiler.programs.two_words import high, high_b, masked, rest, split
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
from tq_hw.isa.uop import Alu, Rounding
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm_double import LN2, LOG_PARTS, LOG_POLYNOMIAL
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["STEPS", "log_tables"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
#: Subtracted from a fraction, so that its upper bits, with one more above them, are the index of c; their lowest bit.
_FIRST, _PART_BITS = 0x330000, 19
#: Index of the first logarithm in the tables.
_LOGS = 32
#: Half a unit in the last place of a logarithm in the tables.
_HALF = 2.0**-53
#: Magnitudes of the coefficients of r^2, r^3 and r^4; those of r^2 and r^4 are negative.
_SQUARE, _CUBIC, _FOURTH = (abs(number) for number in LOG_POLYNOMIAL[::-1])


def log_tables() -> tuple[IntArray, IntArray]:
    """Return the upper and lower words of 1 / c (from 0 on) and of log c (from 32 on), by the index of c."""
    inverse, logs = LOG_PARTS
    tables = np.zeros((2, 256), np.int64)
    for place in range(32):
        tables[:, place] = split(float(inverse[place % 16]), 26, 53)
        tables[:, _LOGS + place] = split(float(logs[place % 16]) + _HALF, 26, 52)
    return tables[0], tables[1]


def _part() -> list[Uop]:
    """r0: z, with 24 fraction bits; r1: the index of c, 5 bits."""
    return [
        *fraction(0, 1, STREAM_A, 7),
        to(1, reg_a(0), immediate(-_FIRST), shifted(-_PART_BITS, Rounding.FLOOR), alu=Alu.ADD),
        # z is halved where the index has its upper bit set.
        to(2, reg_a(1), immediate(4), SAR), to(2, immediate_a(1), reg_b(2), alu=Alu.SUB),
        to(0, reg_a(0), reg_b(2), SHL)]


def _product() -> list[Uop]:
    """Compute r = z / c - 1: r3 has 34 fraction bits, before the carry from r4; r4 has 26 more below its carry."""
    return [
        *_part(), to(2, reg_a(1), a_table=1), to(5, reg_a(1), a_table=2),
        # r3: to 19 fraction bits; r4: the next 31
        to(3, reg_a(0), reg_b(2), high_b()), to(3, reg_a(3), immediate(-(1 << 19)), shifted(15), alu=Alu.ADD),
        to(4, reg_a(0), reg_b(2), low()), rest(4, 0),
        # r6: to 46 fraction bits; r7: the next 14
        to(6, reg_a(0), reg_b(5), high_b()), to(7, reg_a(0), reg_b(5), low()), rest(7, 17),
        to(2, reg_a(4), immediate(16), SAR), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        masked(4, 4, 16), to(6, reg_a(6), immediate(4), SHL), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        to(2, reg_a(4), immediate(16), SAR), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        masked(4, 4, 16, 10), to(4, reg_a(4), reg_b(7), alu=Alu.ADD)]


def _upper_rest() -> list[Uop]:
    """The upper word of r: 34 fraction bits."""
    return [*_product(), to(4, reg_a(4), immediate(26), SAR), {**reg_a(3), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _lower_rest() -> list[Uop]:
    """The lower word of r: the next 26 bits."""
    return [*_product(), {**reg_a(4), **immediate((1 << 26) - 1), "alu": Alu.AND, **OUT}]


def _near() -> list[Uop]:
    """Add the terms in r^2, r^3 and r^4 to r: r6 has 34 fraction bits, before the carry from r7; r7 has 62."""
    square, cubic, fourth = split(_SQUARE, 31, 52), split(_CUBIC, 31, 52), split(_FOURTH, 31, 52)
    return [
        to(0, STREAM_A), to(1, immediate_a(0), STREAM_B, alu=Alu.ADD),
        # r^2: r2 has 37 fraction bits, r3 the next 25.
        to(2, reg_a(0), reg_b(0), high_b()), to(3, reg_a(0), reg_b(0), low()), rest(3, 6),
        to(4, reg_a(0), reg_b(1), high_b()), to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        to(4, reg_a(3), immediate(25), SAR), to(2, reg_a(2), reg_b(4), alu=Alu.ADD), masked(3, 3, 25),
        # The factor of r^2: r4 has 31 fraction bits, r5 52. First the square's coefficient less the cubic's times r ...
        to(4, reg_a(0), high(cubic[0])), to(5, reg_a(0), immediate(cubic[0]), low()), rest(5, 13),
        masked(6, 4, 3, 18), to(5, reg_a(5), reg_b(6), alu=Alu.ADD), to(4, reg_a(4), immediate(3), SAR),
        to(6, reg_a(0), high(cubic[1], 3)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(1), high(cubic[0], 8)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(4, immediate_a(square[0]), reg_b(4), alu=Alu.SUB), to(5, immediate_a(square[1]), reg_b(5), alu=Alu.SUB),
        # ... then plus the fourth's times r^2.
        to(6, reg_a(2), high(fourth[0])), to(7, reg_a(2), immediate(fourth[0]), low()), rest(7, 16),
        to(5, reg_a(5), reg_b(7), alu=Alu.ADD), masked(7, 6, 6, 15), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(6, reg_a(6), immediate(6), SAR), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(2), high(fourth[1], 6)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(3), high(fourth[0], 10)), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(5), immediate(21), SAR), to(4, reg_a(4), reg_b(6), alu=Alu.ADD), masked(5, 5, 21),
        # Their product: r6 has 37 fraction bits, r7 62.
        to(6, reg_a(2), reg_b(4), high_b()), to(7, reg_a(2), reg_b(4), low()), rest(7, 6),
        to(5, reg_a(2), reg_b(5), high_b()), to(5, reg_a(5), immediate(4), SHL),
        to(7, reg_a(7), reg_b(5), alu=Alu.ADD), to(5, reg_a(3), reg_b(4), high_b()),
        to(7, reg_a(7), reg_b(5), alu=Alu.ADD), masked(5, 6, 3, 25), to(7, reg_a(7), reg_b(5), alu=Alu.ADD),
        to(6, reg_a(6), immediate(3), SAR), to(6, reg_a(0), reg_b(6), alu=Alu.SUB),
        to(1, reg_a(1), immediate(2), SHL), to(7, reg_a(1), reg_b(7), alu=Alu.SUB)]


def _upper_near() -> list[Uop]:
    return [*_near(), to(7, reg_a(7), immediate(28), SAR), {**reg_a(6), **reg_b(7), "alu": Alu.ADD, **OUT}]


def _lower_near() -> list[Uop]:
    """The same sum after its first 26 fraction bits, to 56 fraction bits."""
    return [*_near(), to(5, reg_a(7), immediate(28), SAR), to(6, reg_a(6), reg_b(5), alu=Alu.ADD),
            masked(6, 6, 8, 22), masked(7, 7, 28), to(7, reg_a(7), immediate(6), SAR),
            {**reg_a(6), **reg_b(7), "alu": Alu.ADD, **OUT}]


def _far() -> list[Uop]:
    """The sum k ln 2 + log c: r3 has 26 fraction bits, before the carry from r4; r4 has 52."""
    upper, lower = split(LN2, 26, 52)
    return [
        *_part(), to(2, reg_a(1), immediate(4), SAR),
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND, zero_point=EXPONENT + FRACTION_BITS - 1),
        to(2, reg_a(2), reg_b(0), alu=Alu.ADD), to(1, reg_a(1), immediate(_LOGS), alu=Alu.ADD),
        to(3, reg_a(2), immediate(upper), low()), to(4, reg_a(2), immediate(lower), low()),
        to(5, reg_a(1), a_table=1), to(3, reg_a(3), reg_b(5), alu=Alu.ADD),
        to(5, reg_a(1), a_table=2), to(4, reg_a(4), reg_b(5), alu=Alu.ADD),
        # LN2 has one more bit: half a unit of r4's last place.
        to(2, reg_a(2), immediate(1), SAR), to(4, reg_a(4), reg_b(2), alu=Alu.ADD)]


def _upper_sum() -> list[Uop]:
    """The upper word of the logarithm: 26 fraction bits, before the carry from the lower word."""
    return [
        *_far(), to(4, reg_a(4), immediate(26), SAR), to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        to(4, immediate_a(0), STREAM_B, alu=Alu.ADD), to(4, reg_a(4), immediate(8), SAR),
        {**reg_a(3), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _lower_sum() -> list[Uop]:
    """The lower word of the logarithm, to 56 fraction bits."""
    return [
        *_far(), masked(4, 4, 26, 4),
        {**reg_a(4), **STREAM_B, "alu": Alu.ADD, **OUT}]


def _result() -> list[Uop]:
    """Add the two words, round and pack: stream A has 26 fraction bits, stream B 56."""
    return [
        to(1, immediate_a(0), STREAM_B, alu=Alu.ADD), to(2, reg_a(1), immediate(30), SAR),
        to(0, STREAM_A, reg_b(2), alu=Alu.ADD), masked(1, 1, 30),
        # r2: the left shift of the upper word, up to the top; r3: the right shift of the lower word
        to(2, reg_a(0), alu=Alu.CLZ, zero_point=-2), to(2, reg_a(2), immediate(30), alu=Alu.MIN),
        to(3, immediate_a(30), reg_b(2), alu=Alu.SUB),
        to(5, reg_a(0), reg_b(2), SHL), to(4, reg_a(1), reg_b(3), SAR),
        to(5, reg_a(5), reg_b(4), alu=Alu.ADD), to(4, reg_a(4), reg_b(3), SHL),
        to(3, reg_a(1), reg_b(4), alu=Alu.SUB), *sticky(5, 3, 4),
        to(2, immediate_a(6 - 26 - EXPONENT), reg_b(2), alu=Alu.SUB),
        *rounded(is_small=False)[:-1], rounded(is_small=False)[-1] | OUT]


#: Programs and the sources of their streams: 0 is x, n the result of the n-th program.
STEPS: Sequence[tuple[list[Uop], tuple[int, ...]]] = (
    (_upper_rest(), (0,)), (_lower_rest(), (0,)), (_upper_near(), (1, 2)), (_lower_near(), (1, 2)),
    (_upper_sum(), (0, 3)), (_lower_sum(), (0, 4)), (_result(), (5, 6)))
