"""Short functions that build micro-operations over vector registers, and the fields of a program."""

from tq_hw.compiler.ir.layers import ByteTable
from tq_hw.compiler.ir.meaning import Code
from tq_hw.isa.uop import Activation, Alu, Destination, Multiply, Rounding, ShiftSource, Source

__all__ = ["LOOK_UP", "OUT", "SAR", "SHL", "SHL_SATURATE", "STREAMS", "STREAM_A", "STREAM_B", "Uop", "activated",
           "high16", "immediate", "immediate_a", "low", "multiplied", "look_up_byte", "program_fields", "reg_a",
           "reg_b", "rescale", "rescaled", "rescaled_by_channel", "set_to", "shifted", "to"]

Uop = dict[str, int]
STREAM_A: Uop = {"a_source": Source.STREAM}
STREAM_B: Uop = {"b_source": Source.STREAM}
#: Both operands.
STREAMS: Uop = STREAM_A | STREAM_B
OUT: Uop = {"destination": Destination.OUTPUT}
#: Shift left by operand b, wrapping; saturating; shift right, rounding down.
SHL: Uop = {"multiply": Multiply.SHL_B}
SHL_SATURATE: Uop = {"multiply": Multiply.SHL_B_SATURATE}
SAR: Uop = {"shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.FLOOR}
#: Stream A looked up in the first table.
LOOK_UP: Uop = {**STREAM_A, "a_table": 1, "alu": Alu.PASS, **OUT}


def activated(function: Activation) -> Uop:
    """Output through an activation."""
    return {"destination": Destination.ACTIVATION, "reduce": function}


def to(register: int, *parts: Uop, alu: Alu = Alu.PASS, **fields: int) -> Uop:
    """Return a micro-operation that writes a register."""
    out: Uop = {"destination": Destination.REGISTER, "d_register": register, "alu": alu}
    for part in parts:
        out |= part
    return out | fields


def reg_a(number: int) -> Uop:
    """Operand a from a register."""
    return {"a_source": Source.REGISTER, "a_register": number}


def reg_b(number: int) -> Uop:
    """Operand b from a register."""
    return {"b_source": Source.REGISTER, "b_register": number}


def immediate(value: int) -> Uop:
    """Operand b is a constant."""
    return {"b_source": Source.IMMEDIATE, "immediate": value}


def immediate_a(value: int) -> Uop:
    """Operand a is a constant: the micro-operation's only immediate, so operand b cannot be one."""
    return {"a_source": Source.IMMEDIATE, "immediate": value}


def set_to(register: int, value: int) -> Uop:
    """Return a micro-operation that writes a number to a register."""
    return to(register, immediate_a(value))


def shifted(shift: int, rounding: Rounding = Rounding.HALF_AWAY) -> Uop:
    """Left shift in place of a product; right shift (negative) after one."""
    left: Uop = {"multiply": Multiply.SHL} if shift > 0 else {}
    return left | {"shift_source": ShiftSource.IMMEDIATE, "shift": shift, "rounding": rounding}


def look_up_byte(table: ByteTable) -> Uop:
    """Return the fields that make `LOOK_UP` read a byte of the entries; those above it are not written."""
    return {"a_table": table.half + 1, **(shifted(-8 * table.place, Rounding.FLOOR) if table.place else {})}


def rescale(multiplier: int, shift: int) -> Uop:
    """MultiplyByQuantizedMultiplier; `shift` is at most 0."""
    assert shift <= 0, "a left shift needs a micro-operation of its own: `rescaled`"
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, **shifted(shift)}


def rescaled(uop: Uop, multiplier: int, shift: int, register: int) -> list[Uop]:
    """Return a micro-operation with MultiplyByQuantizedMultiplier of its ALU's result in it, `multiplied` by it."""
    product: Uop = {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "rounding": Rounding.HALF_AWAY}
    return multiplied(uop, product, {"shift_source": ShiftSource.IMMEDIATE, "shift": shift}, register, left=shift > 0)


def rescaled_by_channel(uop: Uop, register: int, *, left: bool) -> list[Uop]:
    """Return `rescaled` by the channel's parameters; `left`: whether a channel has a left shift."""
    return multiplied(uop, {"multiply": Multiply.HIGH_PARAM}, {"shift_source": ShiftSource.PARAM}, register, left=left)


def multiplied(uop: Uop, product: Uop, shift: Uop, register: int, *, left: bool) -> list[Uop]:
    """Return a micro-operation with the fields of a product and a shift.

    `left`: some shift is to the left. It takes a micro-operation of its own, before the product, which writes the
    shifted result of the ALU to `register`.
    """
    if not left:
        return [uop | product | shift]
    front = ("a_source", "a_register", "a_hold", "a_table", "b_source", "b_register", "b_hold", "b_table", "alu",
             "immediate")
    rest = {key: value for key, value in uop.items() if key not in front}
    return [to(register, {key: value for key, value in uop.items() if key in (*front, "once")}, shift,
               multiply=Multiply.SHL),
            rest | reg_a(register) | product | shift | {"shift": min(shift.get("shift", 0), 0)}]


def low() -> Uop:
    """Low 32 bits of the product with operand b."""
    return {"multiply": Multiply.LOW_B}


def high16(a: int, b: int | None = None, constant: int = 0) -> Uop:
    """16-bit SaturatingRoundingDoublingHighMul of a register and another register, or a constant.

    It is `(a * b + 2^14) >> 15`. For a constant this is the 32-bit operation on `a` and `constant << 16`.
    """
    if b is None:
        return {**reg_a(a), "multiply": Multiply.HIGH_IMMEDIATE, "immediate": constant << 16}
    return {**reg_a(a), **reg_b(b), **low(), **shifted(-15, Rounding.HALF_UP)}


def program_fields(code: Code, body: tuple[int, int] | None = None) -> dict[str, int]:
    """Fields of a program; `body` is (offset, length) of the repeated part."""
    first, count = code.first, len(code.uops)
    body_first = first + (body[0] if body else count)
    return {"first": first, "body_first": body_first, "body_last": body_first + (body[1] if body else 0) - 1,
            "last": first + count - 1, "repeat1": 1, "repeat2": 1}
