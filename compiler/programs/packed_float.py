"""Sums, products and quantization of packed float32 numbers; `sim/golden/packed_float.py` defines the format.

A fraction is shifted left by 7 bits, to the top of a register, or by 4 bits where two are added.
"""

import numpy as np

from tq_hw.compiler.programs.float_sums import (
    ADDEND_BITS,
    added,
    begin,
    between,
    cut,
    goes_on,
    leading,
    of_result,
    of_total,
    sticky,
    to_even,
)
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
    rescaled,
    set_to,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource
from tq_hw.sim.golden.arith import INT32_MAX
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS, packed
from tq_hw.sim.golden.soft_float import BIAS, FINE_BITS

__all__ = ["codes_program", "fraction", "integer_program", "product_program", "reduce_product_program",
           "reduce_program", "round_program", "rounded", "sum_program", "wide_integer_program"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
#: Exponent of the last bit of a subnormal number.
_LEAST = -149
_MORE = 6
#: Left shift of a fraction in a register.
_USED = 7
#: Leading bits of a number of 29 bits that are equal to its sign.
_SPARE = 3
#: Fraction bits of a number before it is rounded to an integer: a half, and a sticky bit.
_HALVES = 2


def fraction(register: int, free: int, a: Uop, right: int) -> list[Uop]:
    """Write operand a's fraction, times 128 and shifted right, to a register; register `free` is overwritten."""
    return [
        # The omitted bit below the sign is the sign's complement; 0 has no such bit.
        to(free, a, immediate(31), shifted(-1 - right), SHL_SATURATE),
        to(register, a, immediate(~_EXPONENT), shifted(-1 - right, Rounding.FLOOR), alu=Alu.AND),
        to(register, reg_a(register), reg_b(free), alu=Alu.ADD)]


def _addend(exponent: int, register: int, free: int, a: Uop) -> list[Uop]:
    """Write operand a's exponent, and its fraction as an addend of `added`, to registers."""
    return [to(exponent, a, immediate(_EXPONENT), alu=Alu.AND), *fraction(register, free, a, _USED - ADDEND_BITS)]


def rounded(*, is_small: bool) -> list[Uop]:
    """Round r5, 64 times a fraction of exponent r2, to 24 bits, ties to even, and pack it.

    A number of at most 24 bits must be even. With `is_small` it may be subnormal and is rounded to fewer bits. The
    last micro-operation has no destination.
    """
    # Bits below 2^-149 are dropped, too.
    small = [to(6, immediate_a(_LEAST - EXPONENT + _MORE), reg_b(2), between(0, 31), alu=Alu.SUB),
             to(4, reg_a(4), reg_b(6), alu=Alu.MAX)]
    return [*leading(3, 5), *cut(4, 3), *(small if is_small else ()), to(6, immediate_a(31), reg_b(4), alu=Alu.SUB),
            *to_even(5, 4, 6, 7), to(5, reg_a(5), reg_b(4), SHL), *_packed()]


def _packed() -> list[Uop]:
    """Normalize r5, 64 times a fraction of exponent r2, and pack it; 0 has exponent 0."""
    return [
        *leading(3, 5), to(3, reg_a(3), immediate(-1), alu=Alu.ADD),
        to(4, reg_a(5), immediate(0), shifted(9), alu=Alu.EQUAL),
        to(5, reg_a(5), reg_b(3), SHL),
        to(2, reg_a(2), reg_b(3), alu=Alu.SUB), to(2, reg_a(2), reg_b(4), alu=Alu.SUB),
        to(2, reg_a(2), immediate(-1), alu=Alu.MAX),
        to(4, reg_a(5), immediate(31), shifted(-1), SHL_SATURATE),
        to(5, reg_a(5), reg_b(4), shifted(1), alu=Alu.SUB),
        {**reg_a(5), **reg_b(2), "alu": Alu.ADD, "zero_point": 1}]


def _given(uops: list[Uop], *, relu: bool) -> list[Uop]:
    """Output the result of the last micro-operation; with `relu`, 0 where it is negative."""
    *before, last = uops
    if not relu:
        return [*before, last | OUT]
    return [*before, to(5, last), {**reg_a(5), **immediate(0), "alu": Alu.MAX, **OUT}]


def sum_program(*, difference: bool, relu: bool) -> list[Uop]:
    """Add packed streams A and B, or subtract B from A."""
    return [
        to(3, immediate_a(0), STREAM_B, alu=Alu.ADD), *_addend(6, 7, 1, reg_a(3)),
        *([to(7, immediate_a(0), reg_b(7), alu=Alu.SUB)] if difference else ()), *_addend(0, 2, 1, STREAM_A),
        *added(), *of_result(), *_given(_packed(), relu=relu)]


def reduce_program() -> tuple[list[Uop], list[Uop], list[Uop]]:
    """Sum stream A in order, from 0 on: the micro-operations before, for each element, and after."""
    *uops, last = _packed()
    return begin(), [*_addend(0, 2, 1, STREAM_A), *added(), *goes_on()], [*of_total(), *uops, last | OUT]


def product_program(*, relu: bool) -> list[Uop]:
    """Multiply packed streams A and B."""
    return [to(0, immediate_a(0), STREAM_B, alu=Alu.ADD), *_given(_multiplied(), relu=relu)]


def reduce_product_program() -> tuple[list[Uop], list[Uop], list[Uop]]:
    """Multiply stream A in order, from 1 on: the micro-operations before, for each element, and after."""
    *uops, last = _multiplied()
    return [set_to(0, int(packed(np.ones((), np.float32))))], [*uops, to(0, last)], [{**reg_a(0), **OUT}]


def _multiplied() -> list[Uop]:
    """Multiply stream A by r0: the 48-bit product is cut to 30 bits, the last one sticky.

    The last micro-operation has no destination.
    """
    return [
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND, zero_point=EXPONENT + 2 * FRACTION_BITS - 2 * 15 + _MORE),
        to(1, reg_a(0), immediate(_EXPONENT), alu=Alu.AND), to(2, reg_a(2), reg_b(1), alu=Alu.ADD),
        *fraction(3, 6, STREAM_A, 0), *fraction(4, 6, reg_a(0), 1),
        to(5, reg_a(3), reg_b(4), multiply=Multiply.HIGH_B, truncate=1),
        to(4, reg_a(3), reg_b(4), low()), to(4, reg_a(4), immediate(INT32_MAX), alu=Alu.AND),
        *sticky(5, 4, 6), *rounded(is_small=True)]


def _fixed(register: int, left: int) -> list[Uop]:
    """The fraction in r6 in fixed point: shifted left by r0 + `left`, saturated, or right and truncated."""
    return [
        to(2, reg_a(0), immediate(left), between(0, 31), alu=Alu.ADD),
        to(1, immediate_a(-left), reg_b(0), between(0, 31), alu=Alu.SUB),
        to(3, reg_a(6), reg_b(2), SHL_SATURATE), to(register, reg_a(3), reg_b(1), SAR)]


def codes_program(left: int, multiplier: int, shift: int, zero_point: int) -> list[Uop]:
    """Quantize stream A: the rescaled fraction estimates the code, which is one too large below the code's threshold.

    Table 1 has the thresholds in fixed point, as fractions shifted by `left`; table 2 those near 0, with more bits.
    """
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), *fraction(6, 5, STREAM_A, 0),
        *_fixed(4, left), *_fixed(5, left + FINE_BITS),
        to(3, reg_a(4), immediate(INT32_MAX - BIAS), alu=Alu.MIN), to(3, reg_a(3), immediate(BIAS), alu=Alu.ADD),
        *rescaled(to(3, reg_a(3), zero_point=zero_point, clamp=1, act_min=-128, act_max=127), multiplier, shift, 3),
        to(4, reg_a(4), reg_b(3), alu=Alu.LESS, b_table=1), to(5, reg_a(5), reg_b(3), alu=Alu.LESS, b_table=2),
        to(3, reg_a(3), reg_b(4), alu=Alu.SUB), {**reg_a(3), **reg_b(5), "alu": Alu.SUB, **OUT}]


def integer_program() -> list[Uop]:
    """Pack the int16 numbers of stream A, which are exact in float32."""
    return [to(5, STREAM_A, shifted(_MORE)), to(2, immediate_a(-EXPONENT)),
            *_given(rounded(is_small=False), relu=False)]


def wide_integer_program() -> list[Uop]:
    """Pack the int32 numbers of stream A, rounded to 24 bits.

    A number is first shifted left, or right by up to 2 with a sticky bit, so that it has 29 bits and a sign.
    """
    return [
        to(5, STREAM_A), *leading(3, 5), to(1, immediate_a(_SPARE), reg_b(3), between(0, 2), alu=Alu.SUB),
        to(7, reg_a(3), immediate(-_SPARE), between(0, 31), alu=Alu.ADD),
        to(2, immediate_a(_MORE - EXPONENT + _SPARE), reg_b(3), alu=Alu.SUB),
        to(0, reg_a(5), reg_b(1), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.FLOOR),
        to(4, reg_a(0), reg_b(1), SHL), to(4, reg_a(5), reg_b(4), alu=Alu.SUB),
        to(5, reg_a(0), reg_b(7), SHL), *sticky(5, 4, 6), *_given(rounded(is_small=False), relu=False)]


def round_program() -> list[Uop]:
    """Round stream A's numbers to int16, ties away from zero, saturated.

    The fixed-point number has two fraction bits, the last one sticky, so that a number above a tie is not a tie. With
    an int16 output every clamp is one to int16; the shifts are therefore limited by MAX and MIN.
    """
    left = EXPONENT - _USED + _HALVES

    def bits(register: int) -> list[Uop]:
        return [to(register, reg_a(register), immediate(0), alu=Alu.MAX),
                to(register, reg_a(register), immediate(31), alu=Alu.MIN)]
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), *fraction(6, 5, STREAM_A, 0),
        to(2, reg_a(0), immediate(left), alu=Alu.ADD), to(1, immediate_a(0), reg_b(2), alu=Alu.SUB),
        *bits(2), *bits(1), to(3, reg_a(6), reg_b(2), SHL_SATURATE), to(5, reg_a(3), reg_b(1), SAR),
        # r1: the right shift; r3: the number before it.
        to(4, reg_a(5), reg_b(1), SHL), to(3, reg_a(3), reg_b(4), alu=Alu.SUB),
        *sticky(5, 3, 4),
        {**reg_a(5), "clamp": 1, **shifted(-_HALVES, Rounding.HALF_AWAY), **OUT}]
