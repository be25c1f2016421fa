"""The page of programs is the one that the compiler gives; lines read as what the unit does."""

from pathlib import Path

import pytest

from tq_hw.cli.reference.programs import UNITS, page, text_of, units_page
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    SHL,
    SHL_SATURATE,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    low,
    reg_a,
    reg_b,
    rescale,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "programs.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.cli.reference.programs > docs/reference/programs.md")


def test_units_are_up_to_date() -> None:
    assert UNITS.read_text(encoding="utf-8") == units_page(), (
        "run: python -m tq_hw.cli.reference.programs --units > cli/reference/units.json")


@pytest.mark.parametrize(("uop", "line"), [
    ({**STREAM_A, "a_table": 1, **OUT}, "out = T1[A]"),
    ({**STREAM_A, "a_table": 3, **OUT}, "out = T[A]"),
    (to(3, STREAM_A, immediate(-5), alu=Alu.ADD), "r3 = A - 5"),
    (to(1, reg_a(2), reg_b(7), low(), alu=Alu.SUB), "r1 = (r2 - r7) * r7"),
    (to(1, reg_a(2), rescale(99, -3), zero_point=-4), "r1 = (high(r2, 99) >> 3) - 4"),
    (to(1, reg_a(2), shifted(2), once=1), "s1 = s2 << 2"),
    (to(1, reg_a(2), multiply=Multiply.SHL, shift_source=ShiftSource.PARAM), "r1 = r2 << shift"),
    (to(1, reg_a(2), reg_b(3), SHL, shifted(-4)), "r1 = (r2 << r3) >> 4"),
    (to(1, reg_a(2), immediate(5), SHL_SATURATE), "r1 = sat(r2 << 5)"),
    (to(1, reg_a(2), reg_b(3), SAR), "r1 = r2 >>floor r3"),
    (to(0, STREAM_A, STREAM_B, shifted(-1, Rounding.FLOOR), alu=Alu.MAX), "r0 = max(A, B) >>floor 1"),
    ({**reg_a(0), "clamp": 1, "act_min": -128, "act_max": 5, **OUT}, "out = clamp(r0, -128, 5)"),
    ({**reg_a(0), "destination": Destination.REDUCE, "reduce": Reduce.MIN, "d_register": 4}, "s4 = min of r0")])
def test_line(uop: Uop, line: str) -> None:
    assert text_of(uop) == line


def test_int16() -> None:
    assert text_of({**reg_a(0), "clamp": 1, **OUT}, wide=True) == "out = int16(r0)"
