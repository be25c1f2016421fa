"""The page of operators is the one that the tools give."""

from pathlib import Path

from tq_hw.cli.operators import page
from tq_hw.compiler.legalize import supported_operators

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.cli.operators > docs/reference/operators.md")


def test_every_operator_has_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {op} | " in text for op in supported_operators())
