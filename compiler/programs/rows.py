"""Programs over rows of channels: SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION, put together of their parts.

Three layers put the parts of `compiler.programs.row_parts` together: `RowProgram` has a row in registers, `LongRows`
brings it in pieces, `Columns` has a row in each lane.
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


#: Registers of rows that come in pieces, or lie one in each lane; TERM is free while the sum is made.
FIRST, TERM, MAXIMUM, ROW = 0, 5, 6, 7


def parts_of(name: str, numbers: Mapping[str, int]) -> RowParts:
    """Return the parts of a program over registers FIRST.. and ROW."""
    return PROGRAMS[name][0](ROW, FIRST, numbers)


def _less(parts: RowParts, maximum: int) -> Uop:
    """Operand b and alu that take the maximum (in a register) or the constant off operand a."""
    return {**(b_reg(maximum) if parts.less is None else immediate(parts.less)), "alu": Alu.SUB}


def start() -> list[Uop]:
    """The least maximum, and a sum of 0."""
    return [once(MAXIMUM, **immediate_a(-128)), once(FIRST, **immediate_a(0))]


def maximum(reduced: bool) -> list[Uop]:
    """Take an element (`reduced`: a piece of a row) of stream A into the maximum."""
    if reduced:
        return [{"a_source": Source.STREAM, "destination": Destination.REDUCE, "reduce": Reduce.MAX,
                 "d_register": TERM},
                once(MAXIMUM, **reg(MAXIMUM), **b_reg(TERM), alu=Alu.MAX)]
    return [once(MAXIMUM, a_source=Source.STREAM, **b_reg(MAXIMUM), alu=Alu.MAX)]


def difference(parts: RowParts) -> list[Uop]:
    """Bring an element of stream A, less the maximum, into ROW."""
    return [to(ROW, a_source=Source.STREAM, **_less(parts, MAXIMUM))]


def summand(parts: RowParts, reduced: bool) -> list[Uop]:
    """Add the element in ROW (`reduced`: all of a piece) to the sum."""
    to = {"destination": Destination.REDUCE, "reduce": Reduce.SUM} if reduced else {"destination": Destination.REGISTER}
    return [{**parts.term, **to, "d_register": TERM}, once(FIRST, **reg(FIRST), **b_reg(TERM), alu=Alu.ADD)]


def scalars_of(parts: RowParts) -> RowCode:
    """Return the program from the sum to what `apply` needs."""
    return RowCode([*in_pairs(parts.scalars), *in_pairs(parts.step), *in_pairs(parts.finish)],
                   (len(parts.scalars), len(parts.step)), parts.repeats)


def each_lane(uops: list[Uop]) -> list[Uop]:
    """Return the same with scalars that each lane and beat has its own of."""
    return [{name: value for name, value in uop.items() if name not in ("once", "a_hold", "b_hold")} for uop in uops]


def short_row(name: str, registers: int, numbers: Mapping[str, int]) -> RowCode:
    """Return the program for a row that lies in registers 0..registers - 1."""
    row, first = 0, registers
    parts = PROGRAMS[name][0](row, first, numbers)
    before: list[Uop] = [to(row, a_source=Source.STREAM, **({} if parts.less is None else _less(parts, first)))]
    if parts.less is None:
        before += [{**reg(row, False), "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": first},
                   to(row, **reg(row, False), **_less(parts, first))]
    before.append({**parts.term, "destination": Destination.REDUCE, "reduce": Reduce.SUM, "d_register": first})
    code = scalars_of(parts)
    return RowCode([*before, *code.uops, *parts.apply], (len(before) + code.body[0], code.body[1]), code.repeats)
