"""Fields of micro-operations by what they mean, for programs written as tables of them."""

from tq_hw.isa.uop import Destination, Multiply, Rounding, ShiftSource, Source

__all__ = ["HIGH_B", "POWER", "TO_INT8", "Uop", "a_imm", "b_reg", "high", "imm", "once", "reg", "shift_by", "to"]

#: Fields of a micro-operation; those left out are 0.
Uop = dict[str, int]


def reg(number: int, hold: bool = True) -> Uop:
    """Operand a is a register; `hold`: its word 0, for all elements."""
    return {"a_source": Source.REGISTER, "a_register": number, "a_hold": int(hold)}


def b_reg(number: int, hold: bool = True) -> Uop:
    """Operand b is a register; `hold`: its word 0, for all elements."""
    return {"b_source": Source.REGISTER, "b_register": number, "b_hold": int(hold)}


def imm(value: int) -> Uop:
    """Operand b is a number."""
    return {"b_source": Source.IMMEDIATE, "immediate": value}


def a_imm(value: int) -> Uop:
    """Operand a is a number."""
    return {"a_source": Source.IMMEDIATE, "immediate": value}


def once(target: int, **fields: int) -> Uop:
    """Work on one element, into word 0 of register `target`."""
    return {"once": 1, "destination": Destination.REGISTER, "d_register": target, **fields}


def to(target: int, **fields: int) -> Uop:
    """Work on all elements, into register `target`."""
    return {"destination": Destination.REGISTER, "d_register": target, **fields}


def high(value: int) -> Uop:
    """Multiply by a number in Q0.31."""
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": value}


def shift_by(by: int, rounding: Rounding = Rounding.HALF_AWAY) -> Uop:
    """Shift left, or right by what is negative."""
    return {"shift_source": ShiftSource.IMMEDIATE, "shift": by, "rounding": rounding}


#: Multiply by operand b in Q0.31.
HIGH_B: Uop = {"multiply": Multiply.HIGH_B}
#: Clamp to int8 and write the output.
TO_INT8: Uop = {"clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT}
#: A difference's exponential in Q12.19, by table 1.
POWER: Uop = {"a_table": 1, **shift_by(-12)}
