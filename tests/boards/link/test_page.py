"""The committed page about the link is what the module generates."""

from pathlib import Path

from tq_hw.boards.link.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "link.md"


def test_committed_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tq_hw.boards.link.reference > docs/reference/link.md")
