"""The committed page of the instruction set is what the tables give."""

from pathlib import Path

from tq_hw.isa.layout import UNITS
from tq_hw.isa.reference import page
from tq_hw.isa.uop import Alu

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "isa.md"


def test_committed_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tq_hw.isa.reference > docs/reference/isa.md"


def test_page_names_every_field_and_operation() -> None:
    text = page()
    for table in UNITS.values():
        for name in table.fields:
            assert f"`{name}`" in text
    for operation in Alu:
        assert f"| {operation.value} | `{operation.name}` |" in text
