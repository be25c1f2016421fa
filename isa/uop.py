"""The micro-operation of the vector unit: one pass of a beat (`requantize_lanes` int32 lanes) down one pipeline.

    a, b  --table lookup-->  alu  --multiply-->  right shift  --add, clamp-->  destination

Every stage can be bypassed. The stages in order, all on 32-bit two's complement values:

1. operands `a` and `b`; each may index the table of 512 int32 entries:
   table 1 = entries 0..255, table 2 = entries 256..511, both indexed by the low 8 bits of the operand;
   table 3 (operand a only) = all entries, indexed by the low 9 bits.
2. `alu` on (a, b) gives x, wrapping at 32 bits unless stated.
3. multiply: the high product with a multiplier m:
   nudged: (x*m + 2^30) >> 31, saturated (TFLite's SaturatingRoundingDoublingHighMul), or
   truncated: (x*m) >> 31; or the low 32 bits of the product: with b, or with a power of two, which is a left shift,
   wrapping or saturated.
4. right shift by max(-shift, 0), which SHL leaves out, or by b for SHIFT_B, rounding HALF_AWAY
   (RoundingDivideByPOT), HALF_UP (add half, floor) or FLOOR.
5. add `zero_point`, wrapping; clamp to [act_min, act_max] if `clamp`, act_min <= act_max; to int16 if the output is
   int16.
6. to a vector register, to the output stream, into a reduction, or through an activation to the output stream.

An activation takes the result x with 12 fraction bits. With e = exp(-|x| / 2^12) a logistic is 1 / (1 + e), a tanh
(1 - e) / (1 + e), both in Q0.15 and mirrored for a negative x: gemmlowp's 16-bit logistic of x / 2^12 and its tanh of
x / 2^13, to the bit. There is hardware for it where a configuration has `activation_lanes`.
"""

from enum import IntEnum

from tq_hw.isa.config import Config
from tq_hw.isa.layout import Field, Register, register

__all__ = ["OUTPUTS", "UOP", "VECTOR_REGISTERS", "Activation", "Alu", "Destination", "Multiply", "Reduce", "Rounding",
           "ShiftSource", "Source", "destinations"]

#: Number of vector registers that the fields of a micro-operation can name.
VECTOR_REGISTERS = 8


class Source(IntEnum):
    """Source of an operand."""

    IMMEDIATE = 0
    REGISTER = 1
    #: operand a: the accumulator word; operand b: the bias of the lane's channel
    ACC_OR_BIAS = 2
    #: operand a: stream A; operand b: stream B
    STREAM = 3


class Alu(IntEnum):
    """x = alu(a, b)."""

    PASS = 0
    ADD = 1
    SUB = 2
    MAX = 3
    MIN = 4
    #: leading zeros of a + b as an unsigned 32-bit value, 0..32
    CLZ = 5
    #: 1 if a < b else 0, signed
    LESS = 6
    #: 1 if a <= b else 0, signed
    LESS_EQUAL = 7
    #: 1 if a == b else 0
    EQUAL = 8
    #: 1 if a != b else 0
    NOT_EQUAL = 9
    AND = 10
    #: a if a >= 0 else b
    SELECT_NEGATIVE = 11
    #: in lane l: a of lane l ^ 1 minus a
    PAIR_DIFFERENCE = 12


class Multiply(IntEnum):
    """The multiply stage."""

    NONE = 0
    HIGH_IMMEDIATE = 1
    HIGH_PARAM = 2
    HIGH_B = 3
    LOW_B = 4
    #: x << max(shift, 0), wrapping; a negative shift shifts nothing
    SHL = 5
    #: x << (b & 31), wrapping
    SHL_B = 6
    #: x << (b & 31), limited to int32
    SHL_B_SATURATE = 7


class ShiftSource(IntEnum):
    """Where the shift comes from (TFLite's signed exponent: positive left, for SHL alone, negative right)."""

    NONE = 0
    IMMEDIATE = 1
    PARAM = 2
    #: right shift by the low 5 bits of operand b
    SHIFT_B = 3


class Rounding(IntEnum):
    """How the right shift rounds."""

    HALF_AWAY = 0
    HALF_UP = 1
    FLOOR = 2


class Destination(IntEnum):
    """Where a result goes."""

    REGISTER = 0
    OUTPUT = 1
    #: reduce all beats of the chunk and all valid lanes to one value, written to every lane of word 0 of the register
    REDUCE = 2
    #: to the output stream, through the logistic or tanh that `reduce` names
    ACTIVATION = 3


#: Destinations that write the output stream.
OUTPUTS = (Destination.OUTPUT, Destination.ACTIVATION)


def destinations(config: Config) -> list[Destination]:
    """Return the destinations that a configuration has."""
    return [d for d in Destination if config.activation_lanes or d is not Destination.ACTIVATION]


class Activation(IntEnum):
    """Function of Destination.ACTIVATION, int32 to int16."""

    LOGISTIC = 0
    TANH = 1


class Reduce(IntEnum):
    """Operation of a reduction; SUM wraps at 32 bits."""

    SUM = 0
    MAX = 1
    MIN = 2


#: The four registers of a micro-operation.
UOP: tuple[Register, ...] = (
    register(
        0,
        Field("a_source", 2, "Source of operand a"), Field("a_register", 3, "vector register of a"),
        Field("a_hold", 1, "always word 0 of the register"), Field("a_table", 2, "table of a: 0 none, 1, 2, 3"),
        Field("b_source", 2, "Source of operand b"), Field("b_register", 3, "vector register of b"),
        Field("b_hold", 1, "always word 0 of the register"), Field("b_table", 2, "table of b: 0 none, 1, 2"),
        Field("alu", 4, "Alu"), Field("destination", 2, "Destination"),
        Field("d_register", 3, "vector register written"), Field("reduce", 2, "Reduce, or Activation"),
        Field("once", 1, "run for one beat only, word 0 of every register"),
    ),
    register(1, Field("immediate", 32, "immediate operand or multiplier", signed=True)),
    register(
        2,
        Field("multiply", 3, "Multiply"), Field("truncate", 1, "high product without the nudge"),
        Field("shift_source", 2, "ShiftSource"), Field("shift", 6, "immediate shift, -31..31", signed=True),
        Field("rounding", 2, "Rounding"), Field("clamp", 1, "clamp to act_min..act_max"),
    ),
    register(
        3,
        Field("zero_point", 16, "added after the right shift", signed=True),
        Field("act_min", 8, "lower clamp", signed=True), Field("act_max", 8, "upper clamp", signed=True),
    ),
)
