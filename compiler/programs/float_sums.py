"""Sums of float32 numbers as fractions and exponents in registers, and rounding to 24 bits, halves to even.

A fraction has 24 bits in two's complement. A sum takes two of them 16 times as large: so there is room for a carry,
and a bit below all others for what is lost. What has been added up stays as it is, in r6 and r7, until all is added.
"""

from tq_hw.compiler.programs.words import Uop, immediate, immediate_a, reg_a, reg_b, set_to, shifted, to
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.sim.golden.soft_float import FRACTION_BITS

__all__ = ["ADDEND_BITS", "added", "begin", "between", "cut", "goes_on", "leading", "of_result", "of_total", "sticky",
           "to_even"]

#: Bits below the last one of a fraction that is added.
ADDEND_BITS = 4
#: An exponent below all others, of a total of 0.
_NONE = 512
#: Bits below the last one of what is packed, and leading bits of an addend that is the largest one.
_PACKED_BITS, _TOP = 6, 32 - FRACTION_BITS - ADDEND_BITS


def between(low: int, high: int) -> Uop:
    """Clamp a result, as a count of bits is that shifts."""
    return {"clamp": 1, "act_min": low, "act_max": high}


def leading(register: int, source: int) -> list[Uop]:
    """Leading bits of a register that are equal to its sign, in another one."""
    return [to(register, immediate_a(-1), reg_b(source), alu=Alu.SUB),
            to(register, reg_a(register), reg_b(source), alu=Alu.MAX),
            to(register, reg_a(register), alu=Alu.CLZ)]


def sticky(register: int, lost: int, free: int) -> list[Uop]:
    """Make a register odd if it is even and something positive is lost."""
    return [
        to(lost, immediate_a(0), reg_b(lost), alu=Alu.LESS), to(free, reg_a(register), immediate(1), alu=Alu.AND),
        to(lost, reg_a(free), reg_b(lost), alu=Alu.LESS), to(register, reg_a(register), reg_b(lost), alu=Alu.ADD)]


def cut(bits: int, leading_bits: int) -> list[Uop]:
    """How many bits are too many for 24, one at least: a number that has no more bits must be even."""
    return [to(bits, immediate_a(32 - FRACTION_BITS), reg_b(leading_bits), between(1, 31), alu=Alu.SUB)]


def to_even(register: int, bits: int, others: int, free: int) -> list[Uop]:
    """Shift a register right by `bits`, of which `others` is what is left to 31, and round halves to even.

    The last bit that stays, less 1, is added; then halves are rounded up.
    """
    return [
        to(free, reg_a(register), reg_b(others), shifted(-31, Rounding.FLOOR), alu=Alu.SHL),
        to(register, reg_a(register), reg_b(free), alu=Alu.SUB, zero_point=-1),
        to(register, reg_a(register), reg_b(bits), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP)]


def added() -> list[Uop]:
    """Add the number of exponent r0 and addend r2 to that of exponent r6 and addend r7.

    Both are brought to the larger exponent. If one of them is not itself again when it is brought back, something is
    lost. Then r7 is the sum, rounded and shifted right by r2, twice as large as an addend, r6 the larger exponent, r1
    the leading bits of the sum before. r0 and r3 to r5 are free.
    """
    return [
        # r3, r1: bits by which r2 and r7 are shifted to the right, in r5 and r4; r0: what both are together
        to(3, reg_a(6), reg_b(0), between(0, 31), alu=Alu.SUB),
        to(1, reg_a(0), reg_b(6), between(0, 31), alu=Alu.SUB),
        to(6, reg_a(6), reg_b(0), alu=Alu.MAX), to(0, reg_a(7), reg_b(2), alu=Alu.ADD),
        to(4, reg_a(7), reg_b(1), alu=Alu.SAR), to(5, reg_a(2), reg_b(3), alu=Alu.SAR),
        to(7, reg_a(4), reg_b(5), shifted(1), alu=Alu.ADD),
        # r0: whether anything is lost
        to(4, reg_a(4), reg_b(1), alu=Alu.SHL), to(5, reg_a(5), reg_b(3), alu=Alu.SHL),
        to(4, reg_a(4), reg_b(5), alu=Alu.ADD), to(0, reg_a(4), reg_b(0), alu=Alu.NOT_EQUAL),
        *leading(1, 7), *cut(2, 1),
        to(3, reg_a(1), immediate(FRACTION_BITS - 1), between(0, 30), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(0), alu=Alu.ADD), *to_even(7, 2, 3, 5)]


def begin() -> list[Uop]:
    """A total of 0."""
    return [set_to(6, -_NONE), set_to(7, 0)]


def goes_on() -> list[Uop]:
    """Make the sum an addend again, with its first bit at the top; 0 has an exponent below all others."""
    return [
        to(4, reg_a(1), immediate(1 - _TOP), between(ADDEND_BITS, 31), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(4), alu=Alu.SHL),
        to(6, reg_a(6), reg_b(1), alu=Alu.SUB, zero_point=_TOP - 1),
        to(0, reg_a(1), immediate(32), shifted(_NONE.bit_length() - 6), alu=Alu.AND),
        to(6, reg_a(6), reg_b(0), alu=Alu.SUB)]


def of_total() -> list[Uop]:
    """Bring the total to r5 and r2, 64 times a fraction and its exponent, to be packed."""
    return [to(5, reg_a(7)), to(2, reg_a(6), immediate(_PACKED_BITS - ADDEND_BITS), alu=Alu.ADD)]


def of_result() -> list[Uop]:
    """Bring what `added` makes there; it is twice as large as an addend."""
    return [to(5, reg_a(7), reg_b(2), alu=Alu.SHL),
            to(2, reg_a(6), immediate(_PACKED_BITS - ADDEND_BITS - 1), alu=Alu.ADD)]
