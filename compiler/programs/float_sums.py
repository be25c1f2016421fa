"""Sums of float32 numbers as fractions and exponents in registers, and rounding to 24 bits, ties to even.

A fraction has 24 bits and a sign, in two's complement. An addend is a fraction shifted left by 4 bits, which leaves
room for a carry above it and for a sticky bit below it. The running total stays unpacked, in r6 and r7, until the last
addition.
"""

from tq_hw.compiler.programs.words import SAR, SHL, Uop, immediate, immediate_a, reg_a, reg_b, set_to, shifted, to
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.sim.golden.soft_float import FRACTION_BITS

__all__ = ["ADDEND_BITS", "added", "begin", "between", "cut", "goes_on", "leading", "of_result", "of_total", "sticky",
           "to_even"]

#: Left shift of a fraction as an addend.
ADDEND_BITS = 4
#: The exponent of a total of 0 is less than all others by this.
_NONE = 512
#: Left shift of a fraction before it is packed, and sign bits of a normalized addend.
_PACKED_BITS, _TOP = 6, 32 - FRACTION_BITS - ADDEND_BITS


def between(low: int, high: int) -> Uop:
    """Clamp a result, such as a shift count."""
    return {"clamp": 1, "act_min": low, "act_max": high}


def leading(register: int, source: int) -> list[Uop]:
    """Count the leading bits of register `source` that are equal to its sign."""
    return [to(register, immediate_a(-1), reg_b(source), alu=Alu.SUB),
            to(register, reg_a(register), reg_b(source), alu=Alu.MAX),
            to(register, reg_a(register), alu=Alu.CLZ)]


def sticky(register: int, lost: int, free: int) -> list[Uop]:
    """Set a register's last bit if register `lost` is positive."""
    return [
        to(lost, immediate_a(0), reg_b(lost), alu=Alu.LESS), to(free, reg_a(register), immediate(1), alu=Alu.AND),
        to(lost, reg_a(free), reg_b(lost), alu=Alu.LESS), to(register, reg_a(register), reg_b(lost), alu=Alu.ADD)]


def cut(bits: int, leading_bits: int) -> list[Uop]:
    """Count the bits beyond 24, at least one: a number of at most 24 bits must be even."""
    return [to(bits, immediate_a(32 - FRACTION_BITS), reg_b(leading_bits), between(1, 31), alu=Alu.SUB)]


def to_even(register: int, bits: int, others: int, free: int) -> list[Uop]:
    """Shift a register right by register `bits` and round ties to even; register `others` is 31 less the shift.

    The last bit that stays, less 1, is added before a shift that rounds ties up.
    """
    return [
        to(free, reg_a(register), reg_b(others), shifted(-31, Rounding.FLOOR), SHL),
        to(register, reg_a(register), reg_b(free), alu=Alu.SUB, zero_point=-1),
        to(register, reg_a(register), reg_b(bits), shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP)]


def added() -> list[Uop]:
    """Add the number of exponent r0 and addend r2 to the total of exponent r6 and addend r7.

    Both addends are shifted right to the larger exponent, and back to find out whether bits were lost. Afterwards r7
    is the sum, at twice an addend's scale, rounded and shifted right by r2; r6 is the larger exponent; r1 has the
    leading bits of the sum before it was rounded. r0 and r3 to r5 are free.
    """
    return [
        # r3, r1: right shifts of r2 and r7; r5, r4: the shifted addends; r0: the sum of the unshifted ones
        to(3, reg_a(6), reg_b(0), between(0, 31), alu=Alu.SUB),
        to(1, reg_a(0), reg_b(6), between(0, 31), alu=Alu.SUB),
        to(6, reg_a(6), reg_b(0), alu=Alu.MAX), to(0, reg_a(7), reg_b(2), alu=Alu.ADD),
        to(4, reg_a(7), reg_b(1), SAR), to(5, reg_a(2), reg_b(3), SAR),
        to(7, reg_a(4), reg_b(5), shifted(1), alu=Alu.ADD),
        # r0: 1 if bits were lost
        to(4, reg_a(4), reg_b(1), SHL), to(5, reg_a(5), reg_b(3), SHL),
        to(4, reg_a(4), reg_b(5), alu=Alu.ADD), to(0, reg_a(4), reg_b(0), alu=Alu.NOT_EQUAL),
        *leading(1, 7), *cut(2, 1),
        to(3, reg_a(1), immediate(FRACTION_BITS - 1), between(0, 30), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(0), alu=Alu.ADD), *to_even(7, 2, 3, 5)]


def begin() -> list[Uop]:
    """Set the total to 0."""
    return [set_to(6, -_NONE), set_to(7, 0)]


def goes_on() -> list[Uop]:
    """Normalize the sum to an addend again; 0 gets an exponent below all others."""
    return [
        to(4, reg_a(1), immediate(1 - _TOP), between(ADDEND_BITS, 31), alu=Alu.ADD),
        to(7, reg_a(7), reg_b(4), SHL),
        to(6, reg_a(6), reg_b(1), alu=Alu.SUB, zero_point=_TOP - 1),
        to(0, reg_a(1), immediate(32), shifted(_NONE.bit_length() - 6), alu=Alu.AND),
        to(6, reg_a(6), reg_b(0), alu=Alu.SUB)]


def of_total() -> list[Uop]:
    """Move the total to r5 and r2, as 64 times a fraction and its exponent, to be packed."""
    return [to(5, reg_a(7)), to(2, reg_a(6), immediate(_PACKED_BITS - ADDEND_BITS), alu=Alu.ADD)]


def of_result() -> list[Uop]:
    """Move the result of `added`, at twice an addend's scale, to r5 and r2 to be packed."""
    return [to(5, reg_a(7), reg_b(2), SHL),
            to(2, reg_a(6), immediate(_PACKED_BITS - ADDEND_BITS - 1), alu=Alu.ADD)]
