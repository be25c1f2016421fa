"""The notebook's cells run in order, each with the results of the cells before it."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "first_model.ipynb"


def test_the_cells_run(capsys: pytest.CaptureFixture[str]) -> None:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    names: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "outputs are not kept"
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    assert names["result"].exact is True
    assert names["result"].output.argmax() == 0, "the ring is a zero"
    assert "equal to the golden model" in capsys.readouterr().out
