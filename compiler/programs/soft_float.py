"""Programs for float32 numbers as words of `sim/golden/soft_float.py`: sums, products, quantization by thresholds.

A fraction, 24 bits and a sign, is shifted left by 7 bits, or by 4 bits where two are added.
"""

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
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import INT32_MAX
from tq_hw.sim.golden.soft_float import BIAS, EXPONENT_BITS, FINE_BITS, FRACTION_BITS

__all__ = ["codes_program", "product_program", "reduce_program", "sum_program"]

_EXPONENT = (1 << EXPONENT_BITS) - 1


def _addend(exponent: int, register: int, b: Uop) -> list[Uop]:
    """Write operand b's exponent, and its fraction as an addend of `added`, to registers."""
    right = shifted(ADDEND_BITS - EXPONENT_BITS, Rounding.FLOOR)
    return [to(exponent, immediate_a(_EXPONENT), b, alu=Alu.AND),
            to(register, immediate_a(~_EXPONENT), b, right, alu=Alu.AND)]


def _first(a: Uop) -> list[Uop]:
    """Write operand a's exponent to r0 and its fraction, as an addend, to r2."""
    right = shifted(ADDEND_BITS - EXPONENT_BITS, Rounding.FLOOR)
    return [to(0, a, immediate(_EXPONENT), alu=Alu.AND), to(2, a, immediate(~_EXPONENT), right, alu=Alu.AND)]


def sum_program(one: int, other: int, *, relu: bool) -> list[Uop]:
    """Add streams A and B: words, or bytes that tables `one` and `other` (0: none) turn into words."""
    *uops, last = [*_addend(6, 7, {**STREAM_B, "b_table": other}), *_first({**STREAM_A, "a_table": one}), *added(),
                   *of_result(), *_packed()]
    if not relu:
        return [*uops, last | OUT]
    return [*uops, to(5, last), {**reg_a(5), **immediate(0), "alu": Alu.MAX, **OUT}]


def reduce_program(table: int) -> tuple[list[Uop], list[Uop], list[Uop]]:
    """Sum stream A in order, from 0 on: the micro-operations before, for each element, and after."""
    *uops, last = _packed()
    return (begin(), [*_first({**STREAM_A, "a_table": table}), *added(), *goes_on()],
            [*of_total(), *uops, last | OUT])


def product_program(fraction: int, power: int) -> list[Uop]:
    """Multiply stream A's words by `fraction * 2^power`; the fraction has 24 bits and may be negative.

    The 48-bit product is cut to 31 bits, the last one sticky.
    """
    *uops, last = _packed()
    return [
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND),
        to(2, reg_a(2), immediate(power + FRACTION_BITS - 1), alu=Alu.ADD),
        to(3, STREAM_A, immediate(~_EXPONENT), alu=Alu.AND),
        to(5, reg_a(3), multiply=Multiply.HIGH_IMMEDIATE, immediate=fraction << EXPONENT_BITS, truncate=1),
        to(4, reg_a(3), immediate(EXPONENT_BITS), SAR), to(4, reg_a(4), immediate(fraction), low()),
        to(4, reg_a(4), immediate((1 << 31 - 2 * EXPONENT_BITS) - 1), alu=Alu.AND),
        *sticky(5, 4, 6), *leading(3, 5), *cut(4, 3), to(6, immediate_a(31), reg_b(4), alu=Alu.SUB),
        *to_even(5, 4, 6, 7), to(5, reg_a(5), reg_b(4), SHL), *uops, last | OUT]


def _packed() -> list[Uop]:
    """Normalize r5, 64 times a fraction of exponent r2, and join the two; 0 has exponent 0."""
    return [
        *leading(3, 5), to(3, reg_a(3), immediate(-1), alu=Alu.ADD),
        to(4, reg_a(5), immediate(0), shifted(8), alu=Alu.EQUAL),
        to(5, reg_a(5), reg_b(3), SHL),
        to(2, reg_a(2), reg_b(3), alu=Alu.SUB), to(2, reg_a(2), reg_b(4), alu=Alu.SUB),
        to(2, reg_a(2), immediate(-1), alu=Alu.MAX), {**reg_a(5), **reg_b(2), "alu": Alu.ADD, "zero_point": 1}]


def _fixed(register: int, left: int) -> list[Uop]:
    """The fraction in r1 in fixed point: shifted left by r0 + `left`, saturated, or right and truncated."""
    return [
        to(2, reg_a(0), immediate(left), between(0, 31), alu=Alu.ADD),
        to(3, immediate_a(-left), reg_b(0), between(0, 31), alu=Alu.SUB),
        to(register, reg_a(1), reg_b(2), SHL_SATURATE), to(register, reg_a(register), reg_b(3), SAR)]


def codes_program(left: int, multiplier: int, shift: int, zero_point: int) -> list[Uop]:
    """Quantize stream A: the rescaled fraction estimates the code, which is one too large below the code's threshold.

    Table 1 has the thresholds in fixed point, as fractions shifted by `left`; table 2 those near 0, with more bits.
    """
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), to(1, STREAM_A, immediate(~_EXPONENT), alu=Alu.AND),
        *_fixed(4, left), *_fixed(5, left + FINE_BITS),
        to(3, reg_a(4), immediate(INT32_MAX - BIAS), alu=Alu.MIN), to(3, reg_a(3), immediate(BIAS), alu=Alu.ADD),
        *rescaled(to(3, reg_a(3), zero_point=zero_point, clamp=1, act_min=-128, act_max=127), multiplier, shift, 3),
        to(4, reg_a(4), reg_b(3), alu=Alu.LESS, b_table=1), to(5, reg_a(5), reg_b(3), alu=Alu.LESS, b_table=2),
        to(3, reg_a(3), reg_b(4), alu=Alu.SUB), {**reg_a(3), **reg_b(5), "alu": Alu.SUB, **OUT}]
