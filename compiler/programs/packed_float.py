"""Programs for float32 numbers packed as `sim/golden/packed_float.py` says: sums, products, codes.

A fraction is used 128 times as large, 16 times where two are added: it ends below the top of a register.
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
from tq_hw.sim.golden.arith import INT32_MAX
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS
from tq_hw.sim.golden.soft_float import BIAS, FINE_BITS

__all__ = ["codes_program", "fraction", "integer_program", "product_program", "reduce_program", "round_program",
           "rounded", "sum_program"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
#: Exponent of the last bit of the smallest numbers.
_LEAST = -149
_MORE = 6
#: Bits by which a fraction that is used lies above its last one.
_USED = 7
#: Bits below the last one of what is rounded to an integer: a half, and whether there is more.
_HALVES = 2


def fraction(register: int, free: int, a: Uop, right: int) -> list[Uop]:
    """Bring operand a's fraction, 128 times as large and shifted right, into a register; another one is used."""
    return [
        # The bit below the sign is the sign's opposite, and 0 has none.
        to(free, a, immediate(31), shifted(-1 - right), alu=Alu.SHL_SATURATE),
        to(register, a, immediate(~_EXPONENT), shifted(-1 - right, Rounding.FLOOR), alu=Alu.AND),
        to(register, reg_a(register), reg_b(free), alu=Alu.ADD)]


def _addend(exponent: int, register: int, free: int, a: Uop) -> list[Uop]:
    """Bring operand a's exponent and its fraction, as `added` takes it, into registers."""
    return [to(exponent, a, immediate(_EXPONENT), alu=Alu.AND), *fraction(register, free, a, _USED - ADDEND_BITS)]


def rounded(*, is_small: bool) -> list[Uop]:
    """Round r5, 64 times a fraction of exponent r2, to 24 bits, halves to even, and pack it.

    Where it has no more than 24, it is even. With `is_small` it may have bits below those of the smallest numbers. The
    last one has no destination.
    """
    # What is below the last bit of the smallest numbers goes, too.
    small = [to(6, immediate_a(_LEAST - EXPONENT + _MORE), reg_b(2), between(0, 31), alu=Alu.SUB),
             to(4, reg_a(4), reg_b(6), alu=Alu.MAX)]
    return [*leading(3, 5), *cut(4, 3), *(small if is_small else ()), to(6, immediate_a(31), reg_b(4), alu=Alu.SUB),
            *to_even(5, 4, 6, 7), to(5, reg_a(5), reg_b(4), alu=Alu.SHL), *_packed()]


def _packed() -> list[Uop]:
    """Bring r5, 64 times a fraction of exponent r2, to the top and pack it; 0 has exponent 0."""
    return [
        *leading(3, 5), to(3, reg_a(3), immediate(-1), alu=Alu.ADD),
        to(4, reg_a(5), immediate(0), shifted(9), alu=Alu.EQUAL),
        to(5, reg_a(5), reg_b(3), alu=Alu.SHL),
        to(2, reg_a(2), reg_b(3), alu=Alu.SUB), to(2, reg_a(2), reg_b(4), alu=Alu.SUB),
        to(2, reg_a(2), immediate(-1), alu=Alu.MAX),
        to(4, reg_a(5), immediate(31), shifted(-1), alu=Alu.SHL_SATURATE),
        to(5, reg_a(5), reg_b(4), shifted(1), alu=Alu.SUB),
        {**reg_a(5), **reg_b(2), "alu": Alu.ADD, "zero_point": 1}]


def _given(uops: list[Uop], *, relu: bool) -> list[Uop]:
    """Give what the last one makes, or 0 where it is negative."""
    *before, last = uops
    if not relu:
        return [*before, last | OUT]
    return [*before, to(5, last), {**reg_a(5), **immediate(0), "alu": Alu.MAX, **OUT}]


def sum_program(*, difference: bool, relu: bool) -> list[Uop]:
    """Add packed streams A and B, or take B away from A."""
    return [
        to(3, immediate_a(0), STREAM_B, alu=Alu.ADD), *_addend(6, 7, 1, reg_a(3)),
        *([to(7, immediate_a(0), reg_b(7), alu=Alu.SUB)] if difference else ()), *_addend(0, 2, 1, STREAM_A),
        *added(), *of_result(), *_given(_packed(), relu=relu)]


def reduce_program() -> tuple[list[Uop], list[Uop], list[Uop]]:
    """Add all of stream A, one after the other, to 0: what is done before, for each, and after."""
    *uops, last = _packed()
    return begin(), [*_addend(0, 2, 1, STREAM_A), *added(), *goes_on()], [*of_total(), *uops, last | OUT]


def product_program(*, relu: bool) -> list[Uop]:
    """Multiply packed streams A and B: the product's 48 bits are cut to 30, and odd where any bit is lost."""
    return [
        to(0, immediate_a(0), STREAM_B, alu=Alu.ADD),
        to(2, STREAM_A, immediate(_EXPONENT), alu=Alu.AND, zero_point=EXPONENT + 2 * FRACTION_BITS - 2 * 15 + _MORE),
        to(1, reg_a(0), immediate(_EXPONENT), alu=Alu.AND), to(2, reg_a(2), reg_b(1), alu=Alu.ADD),
        *fraction(3, 6, STREAM_A, 0), *fraction(4, 6, reg_a(0), 1),
        to(5, reg_a(3), reg_b(4), multiply=Multiply.HIGH_B, truncate=1),
        to(4, reg_a(3), reg_b(4), low()), to(4, reg_a(4), immediate(INT32_MAX), alu=Alu.AND),
        *sticky(5, 4, 6), *_given(rounded(is_small=True), relu=relu)]


def _fixed(register: int, left: int) -> list[Uop]:
    """The fraction in r6 in fixed point: shifted by the exponent in r0 and `left`, saturated or cut off."""
    return [
        to(2, reg_a(0), immediate(left), between(0, 31), alu=Alu.ADD),
        to(1, immediate_a(-left), reg_b(0), between(0, 31), alu=Alu.SUB),
        to(3, reg_a(6), reg_b(2), alu=Alu.SHL_SATURATE), to(register, reg_a(3), reg_b(1), alu=Alu.SAR)]


def codes_program(left: int, scaled: Uop, zero_point: int) -> list[Uop]:
    """Codes of stream A's numbers: about what they are `scaled` to, one less below the number at which a code begins.

    Table 1 has these numbers in units whose fractions are shifted by `left`, table 2 those near 0 in finer ones.
    """
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), *fraction(6, 5, STREAM_A, 0),
        *_fixed(4, left), *_fixed(5, left + FINE_BITS),
        to(3, reg_a(4), immediate(INT32_MAX - BIAS), alu=Alu.MIN), to(3, reg_a(3), immediate(BIAS), alu=Alu.ADD),
        to(3, reg_a(3), scaled, zero_point=zero_point, clamp=1, act_min=-128, act_max=127),
        to(4, reg_a(4), reg_b(3), alu=Alu.LESS, b_table=1), to(5, reg_a(5), reg_b(3), alu=Alu.LESS, b_table=2),
        to(3, reg_a(3), reg_b(4), alu=Alu.SUB), {**reg_a(3), **reg_b(5), "alu": Alu.SUB, **OUT}]


def integer_program() -> list[Uop]:
    """Packed numbers of stream A's int16, which float32 has exactly."""
    return [to(5, STREAM_A, shifted(_MORE)), to(2, immediate_a(-EXPONENT)),
            *_given(rounded(is_small=False), relu=False)]


def round_program() -> list[Uop]:
    """Stream A's numbers rounded to int16, halves away from zero; what is beyond ends at the last int16.

    The number is a multiple of a quarter, odd where more of it is lost, so that it is no half where none was. Where
    the output is int16 every clamp is one to int16, so bits are counted without.
    """
    left = EXPONENT - _USED + _HALVES

    def bits(register: int) -> list[Uop]:
        return [to(register, reg_a(register), immediate(0), alu=Alu.MAX),
                to(register, reg_a(register), immediate(31), alu=Alu.MIN)]
    return [
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), *fraction(6, 5, STREAM_A, 0),
        to(2, reg_a(0), immediate(left), alu=Alu.ADD), to(1, immediate_a(0), reg_b(2), alu=Alu.SUB),
        *bits(2), *bits(1), to(3, reg_a(6), reg_b(2), alu=Alu.SHL_SATURATE), to(5, reg_a(3), reg_b(1), alu=Alu.SAR),
        # r1: bits that are shifted out; r3 has what they are shifted out of.
        to(4, reg_a(5), reg_b(1), alu=Alu.SHL), to(3, reg_a(3), reg_b(4), alu=Alu.SUB),
        *sticky(5, 3, 4),
        {**reg_a(5), "clamp": 1, **shifted(-_HALVES, Rounding.HALF_AWAY), **OUT}]
