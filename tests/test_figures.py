"""The figures of the documentation are what their script draws; docstrings are read as they are written."""

import importlib
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
sys.path.insert(0, str(FOLDER))
draw: Any = importlib.import_module("draw")
svg: Any = importlib.import_module("svg")
docstrings: Any = importlib.import_module("docstrings")


@pytest.mark.parametrize("name", draw.FIGURES)
def test_figure_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == draw.FIGURES[name](), "run: python docs/figures/draw.py"


@pytest.mark.parametrize("name", draw.FIGURES)
def test_text_stays_on_the_page(name: str) -> None:
    root = ET.parse(FOLDER / name).getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        x, y, size = (float(element.attrib[key]) for key in ("x", "y", "font-size"))
        long = len(element.text or "") * size * 0.6
        left = x - {"start": 0, "middle": long / 2, "end": long}[element.attrib["text-anchor"]]
        assert left >= 0 and left + long <= width and size <= y <= height, element.text


def test_every_figure_has_its_script_and_its_page() -> None:
    drawn = {path.name for path in FOLDER.glob("*.svg")}
    assert drawn == set(draw.FIGURES)
    pages = [page.read_text(encoding="utf-8") for page in FOLDER.parent.rglob("*.md")]
    assert [name for name in sorted(drawn) if not any(f"figures/{name})" in page for page in pages)] == []


def test_a_slanted_arrow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"horizontal or vertical, not from \(0, 0\) to \(3, 4\)"):
        svg.Drawing(10, 10, "none").arrow((0, 0), (3, 4))


def test_members_are_a_list() -> None:
    text = "A port.\n\nMembers\n-------\na, b : two\n    lines\nc : one : more\n\nThe end."
    assert docstrings.with_lists(text) == (
        "A port.\n\n**Members**\n\n- `a, b`: two lines\n- `c`: one : more\n\nThe end.")
