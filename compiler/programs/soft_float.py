"""Programs for float32 numbers that are words of `sim/golden/soft_float.py`: addition, and comparison with thresholds.

The 24 bits with their sign are used 64 or 128 times as large, so that up to 7 bits below them count.
"""

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
    set_to,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource
from tq_hw.sim.golden.arith import INT32_MAX
from tq_hw.sim.golden.soft_float import BIAS, EXPONENT_BITS, FINE_BITS, FRACTION_BITS

__all__ = ["codes_program", "product_program", "reduce_program", "sum_program"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
#: The register of a sum of many.
_TOTAL = 7


def _leading(register: int, source: int) -> list[Uop]:
    """Leading bits of a register that are equal to its sign, in another one."""
    return [to(register, immediate_a(-1), reg_b(source), alu=Alu.SUB),
            to(register, reg_a(register), reg_b(source), alu=Alu.MAX),
            to(register, reg_a(register), alu=Alu.CLZ)]


def sum_program(one: int, other: int, *, relu: bool) -> list[Uop]:
    """Add streams A and B, words or what tables `one` and `other` (0: none) make of bytes."""
    uops, last = _sum({**STREAM_A, "a_table": one}, {**STREAM_B, "b_table": other})
    if not relu:
        return [*uops, last | OUT]
    return [*uops, to(5, last), {**reg_a(5), **immediate(0), "alu": Alu.MAX, **OUT}]


def reduce_program(table: int) -> tuple[tuple[Uop, ...], tuple[Uop, ...], tuple[Uop, ...]]:
    """Add all of stream A, one after the other, to 0: what is done before, for each, and after."""
    uops, last = _sum({**STREAM_A, "a_table": table}, reg_b(_TOTAL))
    return (set_to(_TOTAL, 0),), (*uops, to(_TOTAL, last)), ({**reg_a(_TOTAL), **OUT},)


def product_program(fraction: int, power: int) -> list[Uop]:
    """Multiply stream A's words by `fraction * 2^power`; the fraction has 24 bits and may be negative.

    The product's 48 bits are cut to 31, of which the last one is odd where any bit is lost.
    """
    return [
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND),
        to(2, reg_a(2), immediate(power + FRACTION_BITS - 1), alu=Alu.ADD),
        to(3, STREAM_A, immediate(~_EXPONENT), alu=Alu.AND),
        to(5, reg_a(3), multiply=Multiply.HIGH_IMMEDIATE, immediate=fraction << EXPONENT_BITS, truncate=1),
        to(4, reg_a(3), immediate(EXPONENT_BITS), alu=Alu.SAR), to(4, reg_a(4), immediate(fraction), low()),
        to(4, reg_a(4), immediate((1 << 31 - 2 * EXPONENT_BITS) - 1), alu=Alu.AND),
        to(4, immediate_a(0), reg_b(4), alu=Alu.LESS), to(6, reg_a(5), immediate(1), alu=Alu.AND),
        to(6, reg_a(6), reg_b(4), alu=Alu.LESS), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        *_rounded(), _LAST | OUT]


def _sum(a: Uop, b: Uop) -> tuple[list[Uop], Uop]:
    """Return all micro-operations of the sum of two operands, the last one apart; b is read before r7 is written.

    Both numbers are brought to the larger exponent; what one of them loses there is kept in the sum's last bit, as an
    odd number, and rounded.
    """
    half = shifted(-1, Rounding.FLOOR)
    uops = [
        # r2: the larger exponent; r0, r1: bits by which a and b are shifted; r3, r4: their fractions
        to(0, a, immediate(_EXPONENT), alu=Alu.AND),
        to(1, immediate_a(_EXPONENT), b, alu=Alu.AND),
        to(2, reg_a(0), reg_b(1), alu=Alu.MAX),
        to(0, reg_a(2), reg_b(0), alu=Alu.SUB), to(0, reg_a(0), immediate(31), alu=Alu.MIN),
        to(1, reg_a(2), reg_b(1), alu=Alu.SUB), to(1, reg_a(1), immediate(31), alu=Alu.MIN),
        to(3, a, immediate(~_EXPONENT), half, alu=Alu.AND),
        to(4, immediate_a(~_EXPONENT), b, half, alu=Alu.AND),
        # r5: the sum; r3: what both have lost
        to(5, reg_a(3), reg_b(0), alu=Alu.SAR),
        to(6, reg_a(5), reg_b(0), alu=Alu.SHL), to(3, reg_a(3), reg_b(6), alu=Alu.SUB),
        to(6, reg_a(4), reg_b(1), alu=Alu.SAR), to(5, reg_a(5), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(6), reg_b(1), alu=Alu.SHL), to(4, reg_a(4), reg_b(6), alu=Alu.SUB),
        to(3, reg_a(3), reg_b(4), alu=Alu.ADD),
        # An even sum that has lost something becomes odd.
        to(3, immediate_a(0), reg_b(3), alu=Alu.LESS),
        to(4, reg_a(5), immediate(1), alu=Alu.AND),
        to(3, reg_a(4), reg_b(3), alu=Alu.LESS), to(5, reg_a(5), reg_b(3), alu=Alu.ADD)]
    return [*uops, *_rounded()], _LAST


#: What joins r5, brought to the top, and the exponent less 1 in r2.
_LAST: Uop = {**reg_a(5), **reg_b(2), "alu": Alu.ADD, "zero_point": 1}


def _rounded() -> list[Uop]:
    """Round r5, 64 times a fraction of exponent r2, to 24 bits, halves to even, and bring it to the top."""
    return [
        # r4: bits too many; sum - min(r4, 1) + the last bit that stays, rounded half up
        *_leading(3, 5),
        to(4, immediate_a(32 - FRACTION_BITS), reg_b(3), alu=Alu.SUB), to(4, reg_a(4), immediate(0), alu=Alu.MAX),
        to(6, reg_a(4), immediate(1), alu=Alu.MIN),
        to(7, reg_a(5), reg_b(4), alu=Alu.SAR), to(7, reg_a(7), reg_b(6), alu=Alu.AND),
        to(7, reg_a(7), reg_b(6), alu=Alu.SUB), to(5, reg_a(5), reg_b(7), alu=Alu.ADD),
        to(5, reg_a(5), reg_b(4), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP),
        to(5, reg_a(5), reg_b(4), alu=Alu.SHL),
        # To the top, and the exponent less by as much; 0 has exponent 0.
        *_leading(3, 5), to(3, reg_a(3), immediate(-1), alu=Alu.ADD),
        to(4, reg_a(5), immediate(0), shifted(8), alu=Alu.EQUAL),
        to(5, reg_a(5), reg_b(3), alu=Alu.SHL),
        to(2, reg_a(2), reg_b(3), alu=Alu.SUB), to(2, reg_a(2), reg_b(4), alu=Alu.SUB),
        to(2, reg_a(2), immediate(-1), alu=Alu.MAX)]



def _fixed(register: int, left: int) -> list[Uop]:
    """Stream A's number in fixed point: its fraction shifted by its exponent and `left`, saturated or cut off."""
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), to(0, reg_a(0), immediate(left), alu=Alu.ADD),
        to(1, STREAM_A, immediate(~_EXPONENT), alu=Alu.AND),
        to(2, reg_a(0), immediate(0), alu=Alu.MAX), to(2, reg_a(2), immediate(31), alu=Alu.MIN),
        to(1, reg_a(1), reg_b(2), alu=Alu.SHL_SATURATE),
        to(0, immediate_a(0), reg_b(0), alu=Alu.SUB),
        to(0, reg_a(0), immediate(0), alu=Alu.MAX), to(0, reg_a(0), immediate(31), alu=Alu.MIN),
        to(register, reg_a(1), reg_b(0), alu=Alu.SAR)]


def codes_program(left: int, scaled: Uop, zero_point: int) -> list[Uop]:
    """Codes of stream A's words: about what they are `scaled` to, one less below the number at which a code begins.

    Table 1 has these numbers in units whose fractions are shifted by `left`, table 2 those near 0 in finer ones.
    """
    return [
        *_fixed(4, left), *_fixed(5, left + FINE_BITS),
        to(3, reg_a(4), immediate(INT32_MAX - BIAS), alu=Alu.MIN), to(3, reg_a(3), immediate(BIAS), alu=Alu.ADD),
        to(3, reg_a(3), scaled, zero_point=zero_point, clamp=1, act_min=-128, act_max=127),
        to(4, reg_a(4), reg_b(3), alu=Alu.LESS, b_table=1), to(5, reg_a(5), reg_b(3), alu=Alu.LESS, b_table=2),
        to(3, reg_a(3), reg_b(4), alu=Alu.SUB), {**reg_a(3), **reg_b(5), "alu": Alu.SUB, **OUT}]
