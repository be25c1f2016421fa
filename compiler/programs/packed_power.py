"""Programs for x^0.5 of packed float32 numbers as `libm_double.powf` computes it: the square root, or a number beside.

`powf` computes 2^(log2(x) / 2) in double, with polynomials whose errors change the result where the root is close to a
tie: of one number in 1,572. Its result before the last rounding is the root times 1 + e. Here e is computed, and 2 e
times the number is added to the root's exact remainder, which then decides as it does for a root.

e is the sum of two errors, each approximated by a polynomial: that of the logarithm in r, where x = 2^k c (1 + r) for
a c from a table; that of the power in q, the remainder of log2(x) / 2 modulo 1 / 32. The sum differs from e by less
than a unit of the root's remainder, and hardly any number is that close to a tie.

So the result depends on the fraction and the parity of the exponent. For two fractions it also depends on the exponent,
because that decides how `powf` rounds k + log2(c); these are special cases. `powf` was run for all x, with and without
FMA, the programs for all fractions and both parities: they agree.
`tests/compiler/programs/test_packed_power.py` has every number whose root is near a tie.
"""

import numpy as np

from tq_hw.compiler.programs.packed_division import packed_root, root, root_table
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAM_B, Uop, immediate, low, reg_a, reg_b, shifted, to
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm_double import LOG2_PARTS
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["error_program", "error_tables", "power_program", "power_tables"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
_HIDDEN = 1 << FRACTION_BITS - 1
#: Left shift of a fraction in a register.
_USED = 7
#: Subtracted from a fraction, so that its upper bits, with one more above them, are the index of c; their lowest bit.
_FIRST, _PART_BITS = 0x330000, 19
#: Fraction bits of 1 / c, of r, and of log2(x), which wraps at 1 / 16.
_INVERSE_BITS, _REST_BITS, _LOG_BITS = 30, 36, 36
#: Factors of polynomials without a constant term, lowest power first. Those of r have 5 fraction bits less for each
#: higher power, those of q 6 less. log2(1 + r), less r: 31 in the first.
_LOG = (950680221, -48408864, 1009166, -23557)
#: e times 2^49 of the logarithm (7 fraction bits in the first) and of the power (6): 12 fraction bits in the sum.
#: Fitted to the least maximum error, 0.2 and 0.5.
_LOG_ERROR = (-289159, 41335082, 3296851, -192400056, -1985261, 179179529, -4761374)
_POWER_ERROR = (4744114, 1095069250, -16197376, -1321866362, 11453262)
_ERROR_BITS = 12
#: Fractions for which the exponent of x decides, as 24-bit numbers; exponents whose result differs from that of -1.
_DOWNWARDS, _UPWARDS = 0xC7C1F5, 0xFFFFFF
_ELSE = (*range(-63, -32, 2), *range(33, 64, 2))


def error_tables() -> tuple[IntArray, IntArray]:
    """Return 1 / c, halved where z is, and log2(c) modulo 1 / 16, by the index of c."""
    inverse, logs = LOG2_PARTS
    tables = np.zeros((2, 256), np.int64)
    for place in range(32):
        half = np.where(place < 16, 1.0, 0.5)
        tables[:, place] = (round(float(np.ldexp(inverse[place % 16] * half, _INVERSE_BITS))),
                            round(float(np.ldexp(logs[place % 16], _LOG_BITS))))
    return tables[0], ((tables[1] + (1 << 31)) % (1 << 32)) - (1 << 31)


def power_tables() -> tuple[IntArray, IntArray]:
    """Return the table of `root`, and a mask: -1 where exponents belong to the special cases."""
    mask = np.zeros(256, np.int64)
    mask[np.array(_ELSE) - EXPONENT - FRACTION_BITS + 1] = -1
    return root_table(), mask


def _times(register: int, a: int, b: int) -> Uop:
    return to(register, reg_a(a), reg_b(b), multiply=Multiply.HIGH_B)


def _polynomial(register: int, x: int, factors: tuple[int, ...]) -> list[Uop]:
    """Write a polynomial of register `x`, whose magnitude is less than 1, without a constant term, to a register."""
    *rest, last = factors
    uops = [to(register, reg_a(x), multiply=Multiply.HIGH_IMMEDIATE, immediate=last)]
    for factor in rest[::-1]:
        uops += [to(register, reg_a(register), immediate(factor), alu=Alu.ADD), _times(register, x, register)]
    return uops


def error_program() -> list[Uop]:
    """Compute 2^49 e of packed stream A, which is positive: the error of `powf`, with 12 fraction bits."""
    return [
        # r0: the fraction, Q1.30; r1: the index of c; r2: r
        to(0, STREAM_A, immediate(~_EXPONENT), shifted(_USED - EXPONENT_BITS, Rounding.FLOOR), alu=Alu.AND),
        to(0, reg_a(0), immediate(_HIDDEN << _USED), alu=Alu.ADD),
        to(1, reg_a(0), immediate(-_FIRST << _USED), shifted(-_PART_BITS - _USED, Rounding.FLOOR), alu=Alu.ADD),
        _times(2, 0, 1) | {"b_table": 1},
        to(2, reg_a(2), immediate(-1 << _INVERSE_BITS - 1), shifted(_REST_BITS - _INVERSE_BITS + 1), alu=Alu.ADD),
        # r3: log2(x), without its upper bits: 2^37 q
        *_polynomial(3, 2, _LOG), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        to(3, reg_a(3), reg_b(1), alu=Alu.ADD, b_table=2),
        *_polynomial(4, 3, _POWER_ERROR), *_polynomial(5, 2, _LOG_ERROR),
        {**reg_a(4), **reg_b(5), "alu": Alu.ADD, **OUT}]


def power_program() -> list[Uop]:
    """Compute x^0.5 of packed stream A, not negative; stream B is the result of `error_program`."""
    # A result between two integers counts as the upper one: ties are a quarter above an integer.
    more = [to(4, reg_a(3), STREAM_B, multiply=Multiply.HIGH_B, zero_point=3 << _ERROR_BITS - 2),
            to(4, reg_a(4), shifted(-_ERROR_BITS, Rounding.FLOOR)), to(6, reg_a(6), reg_b(4), alu=Alu.ADD)]
    return [
        *root(more), *packed_root([
            # The root of the one is 1 less, that of the other a power of two.
            to(4, reg_a(3), immediate(_DOWNWARDS << _USED), shifted(EXPONENT_BITS), alu=Alu.EQUAL),
            to(7, reg_a(3), immediate(_UPWARDS << _USED), alu=Alu.EQUAL),
            to(7, reg_a(7), immediate(1 - (_HIDDEN - 1 << EXPONENT_BITS)), low()),
            to(4, reg_a(7), reg_b(4), alu=Alu.SUB), to(4, STREAM_A, reg_b(4), alu=Alu.AND, a_table=2),
            to(5, reg_a(5), reg_b(4), alu=Alu.ADD)])]
