"""Programs for e^x of packed float32 numbers x below 72, with the steps of `libm.expf`, which computes in double.

The product of x and 32 / ln 2, rounded to 53 bits, is split into the nearest integer K and a remainder r. Then e^x is
2^(K / 32) times a cubic polynomial in r.

A double becomes two words here. Only the rounding of the first product is reproduced; all other steps are exact to at
least 55 bits. A result can differ from `libm.expf` only where the two lie on either side of a tie between two float32
numbers. An exhaustive run over all x found one such x (`_UPWARDS`), which the program recognizes by its product.
`tests/compiler/programs/test_packed_exp.py` samples every exponent.
"""

import math
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
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.sim.golden.arith import INT32_MIN, IntArray
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["STEPS", "power_tables"]

_FLOOR = Rounding.FLOOR
_EXPONENT = (1 << EXPONENT_BITS) - 1
#: 32 / ln 2 with 52 bits, in two halves; the last bit is 2^-46.
_SCALE = int(math.ldexp(float.fromhex("0x1.71547652b82fep+0"), 51))
_UPPER, _LOWER = _SCALE >> 26, _SCALE & (1 << 26) - 1
#: Coefficients of r, r^2 and r^3.
_LINEAR, _SQUARE, _CUBIC = (float.fromhex(number) / 32**power for power, number in enumerate(
    ("0x1.62e42ff0c52d6p-1", "0x1.ebfce50fac4f3p-3", "0x1.c6af84b912394p-5"), 1))
#: Minimum of a product's upper bits.
_HIDDEN = 1 << 24
#: The x whose result is rounded up: `libm.expf` has a tie there.
_UPWARDS = float.fromhex("0x1.e75bc4p-3")
#: Low bits of K, which index the tables.
_TABLE_BITS = 5


def _key(x: float) -> int:
    """Return the output of `_upper_product` for a positive number."""
    fraction, power = math.frexp(x)
    upper = int(math.ldexp(fraction, FRACTION_BITS)) * _SCALE >> 50
    return (upper - _HIDDEN << 6) - EXPONENT - 4 - (power - FRACTION_BITS - EXPONENT)


def power_tables() -> tuple[IntArray, IntArray]:
    """Return tables of 2^(i / 32) for i in 0..31: the first 30 fraction bits, and the next 22, shifted left by 5."""
    parts = [split(float(np.exp2(index / (1 << _TABLE_BITS))), 30, 52) for index in range(1 << _TABLE_BITS)]
    tables = np.zeros((2, 256), np.int64)
    tables[:, :len(parts)] = np.array(parts).T * [[1], [1 << 5]]
    return tables[0], tables[1]


def _product() -> list[Uop]:
    """r3: bits 50 and up of the product; r5: bits 24..49 and a carry that r3 includes; r1: the 24-bit |x|."""
    return [
        *fraction(0, 1, STREAM_A, 1), to(1, immediate_a(0), reg_b(0), alu=Alu.SUB),
        to(0, reg_a(0), reg_b(1), alu=Alu.MAX),
        to(1, reg_a(0), immediate(6), SAR),
        to(3, reg_a(0), high(_UPPER << 1)), to(4, reg_a(0), high(_LOWER << 1)),
        to(5, reg_a(1), immediate(_UPPER), low()), masked(5, 5, 24, 2), to(5, reg_a(5), reg_b(4), alu=Alu.ADD),
        to(4, reg_a(5), immediate(26), SAR), to(3, reg_a(3), reg_b(4), alu=Alu.ADD)]


def _upper_product() -> list[Uop]:
    """The sign of x; 25 bits of the product from bit 50 on, less 2^24; 6 bits: the right shift that makes them K."""
    return [
        *_product(), to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND),
        # A shift below 12 means that e^x is 0 or x is out of range; above 60, that e^x is 1.
        to(0, immediate_a(-EXPONENT - 4), reg_b(0), alu=Alu.SUB), to(0, reg_a(0), immediate(12), alu=Alu.MAX),
        to(0, reg_a(0), immediate(60), alu=Alu.MIN), to(3, reg_a(3), immediate(-_HIDDEN), alu=Alu.ADD),
        to(3, reg_a(3), immediate(0), alu=Alu.MAX), to(3, reg_a(3), immediate(6), SHL),
        to(3, reg_a(3), reg_b(0), alu=Alu.ADD), to(0, STREAM_A, immediate(INT32_MIN), alu=Alu.AND),
        {**reg_a(3), **reg_b(0), "alu": Alu.ADD, **OUT}]


def _lower_product() -> list[Uop]:
    """Bits 22..49 of the product, rounded to 53 bits in all, ties to even."""
    return [
        *_product(), to(4, reg_a(1), immediate(_LOWER), low()), masked(4, 4, 24),
        # r2: 1 for a product of 76 bits; r6: the number of dropped bits
        to(2, immediate_a(1 << 25), reg_b(3), alu=Alu.LESS_EQUAL), to(6, reg_a(2), immediate(22), alu=Alu.ADD),
        to(7, reg_a(4), reg_b(6), SAR), masked(7, 7, 1), to(4, reg_a(4), reg_b(7), alu=Alu.ADD),
        to(7, immediate_a(1 << 21), reg_b(2), SHL, zero_point=-1), to(4, reg_a(4), reg_b(7), alu=Alu.ADD),
        to(4, reg_a(4), reg_b(6), SAR), to(4, reg_a(4), reg_b(2), SHL), masked(5, 5, 26, 2),
        {**reg_a(5), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _whole() -> list[Uop]:
    """r0: the shift; r1: the product's upper bits; r2: |K|; r3: the shift, at most 31; r6: the sign of x, 1 or -1."""
    return [
        masked(0, 0, 6) | STREAM_A, to(1, STREAM_A, immediate(6), SAR), masked(1, 1, 25),
        to(1, reg_a(1), immediate(_HIDDEN), alu=Alu.ADD),
        to(6, STREAM_A, immediate(INT32_MIN), shifted(-30, Rounding.FLOOR), alu=Alu.AND, zero_point=1),
        to(3, reg_a(0), immediate(31), alu=Alu.MIN),
        to(2, reg_a(1), reg_b(3), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP)]


def _parted() -> list[Uop]:
    """r1: the product's upper bits less K; r4: the 28 bits below them."""
    return [
        *_whole(), to(3, reg_a(2), reg_b(3), SHL), to(1, reg_a(1), reg_b(3), alu=Alu.SUB),
        to(1, reg_a(1), reg_b(6), low()), to(4, reg_a(6), STREAM_B, low()), to(3, reg_a(4), immediate(28), SAR),
        to(1, reg_a(1), reg_b(3), alu=Alu.ADD), masked(4, 4, 28)]


def _between(register: int, number: int, *, less: bool) -> list[Uop]:
    """A number less the shift (`less`), or the shift less the number, clamped to 0..31."""
    first = (to(register, immediate_a(number), reg_b(0), alu=Alu.SUB) if less else
             to(register, reg_a(0), immediate(-number), alu=Alu.ADD))
    return [first, to(register, reg_a(register), immediate(0), alu=Alu.MAX),
            to(register, reg_a(register), immediate(31), alu=Alu.MIN)]


def _upper_rest() -> list[Uop]:
    """The remainder r, to 31 fraction bits."""
    return [
        *_parted(), *_between(5, 31, less=True), to(1, reg_a(1), reg_b(5), SHL),
        *_between(5, 31, less=False), to(1, reg_a(1), reg_b(5), SAR),
        *_between(5, 3, less=False), to(4, reg_a(4), reg_b(5), SAR),
        {**reg_a(1), **reg_b(4), "alu": Alu.ADD, **OUT}]


def _lower_rest() -> list[Uop]:
    """The next 26 bits of r, above the low five bits of K."""
    return [
        *_parted(), *_between(5, 57, less=True), to(1, reg_a(1), reg_b(5), SHL),
        *_between(5, 29, less=True), to(4, reg_a(4), reg_b(5), SHL),
        *_between(5, 29, less=False), to(4, reg_a(4), reg_b(5), SAR),
        to(1, reg_a(1), reg_b(4), alu=Alu.ADD), masked(1, 1, 26, _TABLE_BITS),
        to(2, reg_a(2), reg_b(6), low()), masked(2, 2, _TABLE_BITS),
        {**reg_a(1), **reg_b(2), "alu": Alu.ADD, **OUT}]


def _cubic() -> list[Uop]:
    """r1: the cubic less 1, with 36 fraction bits, before the carry from r3; r3: its lower part in units of 2^-57."""
    linear, square, cubic = split(_LINEAR, 36, 58), split(_SQUARE, 43, 57), round(math.ldexp(_CUBIC, 50))
    return [
        to(0, immediate_a(0), STREAM_B, alu=Alu.ADD),
        to(0, reg_a(0), immediate(_TABLE_BITS), SAR),
        # r1, r3: the linear term
        to(1, STREAM_A, high(linear[0])), to(3, STREAM_A, immediate(linear[0]), low()), rest(3, 10),
        to(2, STREAM_A, high(linear[1], 1)), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        to(2, reg_a(0), high(linear[0], 5)), to(3, reg_a(3), reg_b(2), alu=Alu.ADD),
        # r2: r^2, with 31 fraction bits; r0: its next 15 bits
        to(4, STREAM_A, reg_b(0), high_b(10)), to(5, STREAM_A),
        to(2, reg_a(5), reg_b(5), high_b()), to(0, reg_a(5), reg_b(5), low()), rest(0, 16),
        to(0, reg_a(0), reg_b(4), alu=Alu.ADD),
        # r5, r6: the factor of r^2, with 43 and 57 fraction bits
        to(6, reg_a(5), immediate(cubic), low()), rest(6, 24), to(5, reg_a(5), high(cubic)),
        masked(7, 5, 7, 7), to(6, reg_a(6), reg_b(7), alu=Alu.ADD), to(6, reg_a(6), immediate(square[1]), alu=Alu.ADD),
        to(5, reg_a(5), immediate(7), SAR), to(5, reg_a(5), immediate(square[0]), alu=Alu.ADD),
        # r7: their product, with 43 fraction bits
        to(7, reg_a(2), reg_b(5), high_b()), to(4, reg_a(2), reg_b(5), low()), rest(4, 17),
        to(3, reg_a(3), reg_b(4), alu=Alu.ADD), to(4, reg_a(2), reg_b(6), high_b()),
        to(3, reg_a(3), reg_b(4), alu=Alu.ADD), to(4, reg_a(0), reg_b(5), high_b(1)),
        to(3, reg_a(3), reg_b(4), alu=Alu.ADD), masked(4, 7, 7, 14), to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        to(7, reg_a(7), immediate(7), SAR), to(1, reg_a(1), reg_b(7), alu=Alu.ADD)]


def _upper_cubic() -> list[Uop]:
    return [*_cubic(), to(3, reg_a(3), immediate(21), SAR), {**reg_a(1), **reg_b(3), "alu": Alu.ADD, **OUT}]


def _lower_cubic() -> list[Uop]:
    """The next 21 bits of the cubic, above the low five bits of K."""
    index = to(0, immediate_a((1 << _TABLE_BITS) - 1), STREAM_B, alu=Alu.AND)
    return [*_cubic(), masked(3, 3, 21, _TABLE_BITS), index, {**reg_a(3), **reg_b(0), "alu": Alu.ADD, **OUT}]


def _power() -> list[Uop]:
    """The cubic times 2^(i / 32), i the low five bits of K, with 28 fraction bits; odd if bits are lost (sticky)."""
    return [
        to(0, immediate_a((1 << _TABLE_BITS) - 1), STREAM_B, alu=Alu.AND),
        to(2, reg_a(0), a_table=1), to(3, reg_a(0), a_table=2),
        to(1, immediate_a(0), STREAM_B, alu=Alu.ADD), to(1, reg_a(1), immediate(_TABLE_BITS), SAR),
        to(4, STREAM_A, reg_b(2), high_b()), to(5, STREAM_A, reg_b(2), low()), rest(5, 9),
        to(6, reg_a(1), reg_b(2), high_b()), to(6, reg_a(6), immediate(1), SHL),
        to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(3), immediate(5), SAR), to(6, STREAM_A, reg_b(6), high_b()),
        to(5, reg_a(5), reg_b(6), alu=Alu.ADD), to(5, reg_a(5), reg_b(3), alu=Alu.ADD),
        masked(6, 2, 2, 27), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        masked(6, 4, 7, 22), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(2, reg_a(2), immediate(2), SAR), to(4, reg_a(4), immediate(7), SAR),
        to(2, reg_a(2), reg_b(4), alu=Alu.ADD), to(4, reg_a(5), immediate(29), SAR),
        to(2, reg_a(2), reg_b(4), alu=Alu.ADD), masked(5, 5, 29), *sticky(2, 5, 4),
        {**reg_a(2), **OUT}]


def _result() -> list[Uop]:
    """Scale by the power of 2, round and pack. Stream A has the shift and K, stream B the result of `_power`."""
    return [
        *_whole(), to(2, reg_a(2), reg_b(6), low()),
        to(2, reg_a(2), immediate(_TABLE_BITS), SAR, zero_point=6 - 28 - EXPONENT),
        # In double the result for _UPWARDS is a tie; one more makes it round up.
        to(5, STREAM_A, immediate(_key(_UPWARDS)), alu=Alu.EQUAL), to(5, reg_a(5), STREAM_B, alu=Alu.ADD),
        *rounded(is_small=True)[:-1], rounded(is_small=True)[-1] | OUT]


#: Programs and the sources of their streams: 0 is x, n the result of the n-th program.
STEPS: Sequence[tuple[list[Uop], tuple[int, ...]]] = (
    (_upper_product(), (0,)), (_lower_product(), (0,)), (_upper_rest(), (1, 2)), (_lower_rest(), (1, 2)),
    (_upper_cubic(), (3, 4)), (_lower_cubic(), (3, 4)), (_power(), (5, 6)), (_result(), (1, 7)))
