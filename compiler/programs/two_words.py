"""Parts of programs that compute with numbers of two words, more than 31 bits behind the point."""

import math

from tq_hw.compiler.programs.words import Uop, immediate, reg_a, shifted, to
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import INT32_MAX

__all__ = ["high", "high_b", "masked", "rest", "split"]

_FLOOR = Rounding.FLOOR


def split(number: float, upper: int, lower: int) -> tuple[int, int]:
    """Return a number's bits before the last of `upper`, and those after it up to `lower`, behind the point."""
    whole = math.floor(math.ldexp(number, lower))
    return whole >> lower - upper, whole & (1 << lower - upper) - 1


def high(multiplier: int, right: int = 0) -> Uop:
    """The product with a number, 31 bits and more of it less."""
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "truncate": 1, **shifted(-right, _FLOOR)}


def high_b(right: int = 0) -> Uop:
    """The same with operand b."""
    return {"multiply": Multiply.HIGH_B, "truncate": 1, **shifted(-right, _FLOOR)}


def rest(register: int, right: int) -> Uop:
    """The 31 bits that a high product leaves, of a low one in a register."""
    return to(register, reg_a(register), immediate(INT32_MAX), shifted(-right, _FLOOR), alu=Alu.AND)


def masked(register: int, source: int, bits: int, left: int = 0) -> Uop:
    """The last bits of a register."""
    return to(register, reg_a(source), immediate((1 << bits) - 1), shifted(left), alu=Alu.AND)
