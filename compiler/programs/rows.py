"""Programs over rows of channels (SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION), composed of their parts.

Three layers compose the parts of `compiler.programs.row_parts`: `RowProgram` has a row in registers, `LongRows` reads
it in pieces, `Columns` has a row in each lane.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tq_hw.compiler.programs.in_pairs import in_pairs
from tq_hw.compiler.programs.row_parts import PROGRAMS, RowParts
from tq_hw.compiler.programs.row_words import b_reg, once, reg, to
from tq_hw.compiler.programs.words import Uop, immediate, immediate_a
from tq_hw.isa.uop import Alu, Destination, Reduce, Source

__all__ = ["FIRST", "MAXIMUM", "ROW", "TERM", "RowCode", "difference", "each_lane", "maximum", "parts_of",
           "scalars_of", "short_row", "start", "summand"]


@dataclass(frozen=True)
class RowCode:
    """One program.

    Members
    -------
    body : (first, count) of the micro-operations repeated `repeats` times
    """

    uops: list[Uop]
    body: tuple[int, int]
    repeats: int


#: Registers of rows in pieces and of rows in lanes; TERM is free between additions to the sum.
FIRST, TERM, MAXIMUM, ROW = 0, 5, 6, 7


def parts_of(name: str, numbers: Mapping[str, int]) -> RowParts:
    """Return the parts of a program over registers FIRST.. and ROW."""
    return PROGRAMS[name][0](ROW, FIRST, numbers)


def _less(parts: RowParts, maximum: int) -> Uop:
    """Operand b and ALU function that subtract the maximum (in a register) or the constant from operand a."""
    return {**(b_reg(maximum) if parts.less is None else immediate(parts.less)), "alu": Alu.SUB}


def start() -> list[Uop]:
    """Set the maximum to -128 and the sum to 0."""
    return [once(MAXIMUM, **immediate_a(-128)), once(FIRST, **immediate_a(0))]


def maximum(reduced: bool) -> list[Uop]:
    """Update the maximum with an element (`reduced`: a piece of a row) of stream A."""
    if reduced:
        return [{"a_source": Source.STREAM, "destination": Destination.REDUCE, "reduce": Reduce.MAX,
                 "d_register": TERM},
                once(MAXIMUM, **reg(MAXIMUM), **b_reg(TERM), alu=Alu.MAX)]
    return [once(MAXIMUM, a_source=Source.STREAM, **b_reg(MAXIMUM), alu=Alu.MAX)]


def difference(parts: RowParts) -> list[Uop]:
    """Write an element of stream A, less the maximum or the constant, to ROW."""
    return [to(ROW, a_source=Source.STREAM, **_less(parts, MAXIMUM))]


def summand(parts: RowParts, reduced: bool) -> list[Uop]:
    """Add the term of the element in ROW (`reduced`: of a whole piece) to the sum."""
    to = {"destination": Destination.REDUCE, "reduce": Reduce.SUM} if reduced else {"destination": Destination.REGISTER}
    return [{**parts.term, **to, "d_register": TERM}, once(FIRST, **reg(FIRST), **b_reg(TERM), alu=Alu.ADD)]


def scalars_of(parts: RowParts) -> RowCode:
    """Return the program that computes the scalars for `apply` from the sum."""
    return RowCode([*in_pairs(parts.scalars), *in_pairs(parts.step), *in_pairs(parts.finish)],
                   (len(parts.scalars), len(parts.step)), parts.repeats)


def each_lane(uops: list[Uop]) -> list[Uop]:
    """Return the same micro-operations with separate scalars for each lane and beat."""
    return [{name: value for name, value in uop.items() if name not in ("once", "a_hold", "b_hold")} for uop in uops]


def short_row(name: str, registers: int, numbers: Mapping[str, int]) -> RowCode:
    """Return the program for a row in registers 0..registers - 1."""
    row, first = 0, registers
    parts = PROGRAMS[name][0](row, first, numbers)
    before: list[Uop] = [to(row, a_source=Source.STREAM, **({} if parts.less is None else _less(parts, first)))]
    if parts.less is None:
        before += [{**reg(row, False), "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": first},
                   to(row, **reg(row, False), **_less(parts, first))]
    before.append({**parts.term, "destination": Destination.REDUCE, "reduce": Reduce.SUM, "d_register": first})
    code = scalars_of(parts)
    return RowCode([*before, *code.uops, *parts.apply], (len(before) + code.body[0], code.body[1]), code.repeats)
