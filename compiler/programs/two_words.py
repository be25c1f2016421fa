"""Parts of programs that compute with fixed-point numbers in two words, with more than 31 fraction bits."""

import math

from tq_hw.compiler.programs.words import Uop, immediate, reg_a, shifted, to
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import INT32_MAX

__all__ = ["high", "high_b", "masked", "rest", "split"]

_FLOOR = Rounding.FLOOR


def split(number: float, upper: int, lower: int) -> tuple[int, int]:
    """Return a number in two words: down to fraction bit `upper`, and from there down to fraction bit `lower`."""
    whole = math.floor(math.ldexp(number, lower))
    return whole >> lower - upper, whole & (1 << lower - upper) - 1


def high(multiplier: int, right: int = 0) -> Uop:
    """Multiply by a constant and drop the low 31 + `right` bits of the product."""
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "truncate": 1, **shifted(-right, _FLOOR)}


def high_b(right: int = 0) -> Uop:
    """Multiply by operand b and drop the low 31 + `right` bits of the product."""
    return {"multiply": Multiply.HIGH_B, "truncate": 1, **shifted(-right, _FLOOR)}


def rest(register: int, right: int) -> Uop:
    """The 31 bits that a high product drops, taken from the low product in a register, shifted right."""
    return to(register, reg_a(register), immediate(INT32_MAX), shifted(-right, _FLOOR), alu=Alu.AND)


def masked(register: int, source: int, bits: int, left: int = 0) -> Uop:
    """The low bits of a register, shifted left."""
    return to(register, reg_a(source), immediate((1 << bits) - 1), shifted(left), alu=Alu.AND)
