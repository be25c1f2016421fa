"""Programs that compare packed float32 numbers (`sim/golden/packed_float.py`), and that unpack them to float32.

A key is an int32 that sorts like the number: the exponent above the fraction, the exponent negated for a negative
number.
"""

from tq_hw.compiler.programs.packed_float import fraction
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
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
from tq_hw.sim.golden.arith import INT32_MIN
from tq_hw.sim.golden.packed_float import EXPONENT, EXPONENT_BITS, FRACTION_BITS

__all__ = ["extreme_program", "float_program", "key_program", "number_program", "sign_program"]

_EXPONENT = (1 << EXPONENT_BITS) - 1
_BITS = FRACTION_BITS - 1
#: Packed exponent of the smallest normal float32 numbers.
_NORMAL = -149 - EXPONENT


def _key(register: int, free: int, a: Uop) -> list[Uop]:
    """Write the key of operand a to a register; registers `free` and `free + 1` are overwritten."""
    return [
        to(free, a, immediate(_EXPONENT), shifted(_BITS), alu=Alu.AND),
        to(free + 1, a, immediate(INT32_MIN), shifted(-30, Rounding.FLOOR), alu=Alu.AND, zero_point=1),
        to(free, reg_a(free), reg_b(free + 1), low()), to(register, a, immediate(EXPONENT_BITS), SAR),
        to(register, reg_a(register), reg_b(free), alu=Alu.ADD)]


def _number(source: Uop) -> list[Uop]:
    """Output the packed number of a key."""
    return [
        to(0, source, immediate(_BITS), SAR), to(1, immediate_a(-1), reg_b(0), alu=Alu.SUB),
        to(0, reg_a(0), reg_b(1), alu=Alu.MAX),
        to(1, source, immediate((1 << _BITS) - 1), shifted(EXPONENT_BITS), alu=Alu.AND),
        to(2, source, immediate(INT32_MIN), alu=Alu.AND), to(1, reg_a(1), reg_b(2), alu=Alu.ADD),
        {**reg_a(1), **reg_b(0), "alu": Alu.ADD, **OUT}]


def key_program() -> list[Uop]:
    """Return the keys of packed stream A."""
    *before, last = _key(0, 1, STREAM_A)
    del last["destination"], last["d_register"]
    return [*before, last | OUT]


def number_program() -> list[Uop]:
    """Return the packed numbers whose keys are in stream A."""
    return _number(STREAM_A)


def extreme_program(*, least: bool) -> list[Uop]:
    """Return the maximum of packed streams A and B; with `least` the minimum."""
    return [
        to(0, immediate_a(0), STREAM_B, alu=Alu.ADD), *_key(4, 1, reg_a(0)), *_key(3, 1, STREAM_A),
        to(3, reg_a(3), reg_b(4), alu=Alu.MIN if least else Alu.MAX), *_number(reg_a(3))]


def sign_program() -> list[Uop]:
    """Return the sign bit of a product of streams A and B: -2^31 where exactly one of them is negative, else 0."""
    return [
        to(0, immediate_a(0), STREAM_B, alu=Alu.ADD), to(0, reg_a(0), immediate(0), alu=Alu.LESS),
        to(1, STREAM_A, immediate(0), alu=Alu.LESS),
        {**reg_a(0), **reg_b(1), "alu": Alu.NOT_EQUAL, **shifted(31), **OUT}]


def float_program(*, signed: bool = False) -> list[Uop]:
    """Return the float32 bits of packed stream A: 0 is +0, or with `signed` each number has the sign of stream B."""
    sign = immediate_a(INT32_MIN) | STREAM_B if signed else STREAM_A | immediate(INT32_MIN)
    return [
        # r1: magnitude, r0: exponent; a subnormal number has fewer bits and exponent 0.
        *fraction(3, 1, STREAM_A, 7), to(1, immediate_a(0), reg_b(3), alu=Alu.SUB),
        to(1, reg_a(1), reg_b(3), alu=Alu.MAX),
        to(0, STREAM_A, immediate(_EXPONENT), alu=Alu.AND), to(2, immediate_a(_NORMAL), reg_b(0), alu=Alu.SUB),
        to(2, reg_a(2), immediate(0), alu=Alu.MAX), to(1, reg_a(1), reg_b(2), SAR),
        to(0, reg_a(0), immediate(_NORMAL), alu=Alu.MAX),
        to(0, reg_a(0), immediate(-_NORMAL), shifted(_BITS), alu=Alu.ADD),
        # The magnitude includes its leading bit, which adds 1 to the exponent.
        to(1, reg_a(1), reg_b(0), alu=Alu.ADD), to(2, sign, alu=Alu.AND),
        {**reg_a(1), **reg_b(2), "alu": Alu.ADD, **OUT}]
