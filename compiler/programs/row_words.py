"""Named groups of micro-operation fields, for programs over rows."""

from tq_hw.compiler.programs.words import Uop, shifted
from tq_hw.isa.uop import Destination, Multiply, Source

__all__ = ["HIGH_B", "POWER", "TO_INT8", "b_reg", "high", "once", "reg", "to"]


def reg(number: int, hold: bool = True) -> Uop:
    """Operand a is a register; `hold`: its word 0, for all elements."""
    return {"a_source": Source.REGISTER, "a_register": number, "a_hold": int(hold)}


def b_reg(number: int, hold: bool = True) -> Uop:
    """Operand b is a register; `hold`: its word 0, for all elements."""
    return {"b_source": Source.REGISTER, "b_register": number, "b_hold": int(hold)}


def once(target: int, **fields: int) -> Uop:
    """Compute one element, into word 0 of register `target`."""
    return {"once": 1, "destination": Destination.REGISTER, "d_register": target, **fields}


def to(target: int, **fields: int) -> Uop:
    """Compute all elements, into register `target`."""
    return {"destination": Destination.REGISTER, "d_register": target, **fields}


def high(value: int) -> Uop:
    """Multiply by a number in Q0.31."""
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": value}


#: Multiply by operand b in Q0.31.
HIGH_B: Uop = {"multiply": Multiply.HIGH_B}
#: Clamp to int8 and write the output.
TO_INT8: Uop = {"clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT}
#: The exponential of a difference in Q12.19, from table 1.
POWER: Uop = {"a_table": 1, **shifted(-12)}
