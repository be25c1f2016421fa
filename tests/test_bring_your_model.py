"""The snippets of docs/guide/bring-your-model.md make models that equal LiteRT, where their packages are here."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tq_hw.cli import main as cli_main

_PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "bring-your-model.md").read_text(encoding="utf-8")
_SNIPPETS = re.findall(r"```python\n(.*?)```", _PAGE, re.S)


def packages(snippet: str) -> set[str]:
    """Packages that a snippet imports."""
    return {name.split(".")[0] for name in re.findall(r"^(?:import|from) ([\w.]+)", snippet, re.M)}


def test_every_snippet_writes_one_model_that_is_tried() -> None:
    assert len(_SNIPPETS) == 4
    assert all(len(written(snippet)) == 1 for snippet in _SNIPPETS)


def written(snippet: str) -> set[str]:
    """Files that a snippet writes, but those that it reads again."""
    return set(re.findall(r'"(\w+\.tflite)"', snippet)) - {"float.tflite"}


@pytest.mark.slow
@pytest.mark.parametrize("snippet", _SNIPPETS, ids=lambda snippet: ", ".join(sorted(packages(snippet) - {"numpy"})))
def test_snippet(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = sorted(name for name in packages(snippet) if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    # In a process of its own, since what the packages warn of is no defect here.
    subprocess.run([sys.executable, "-c", snippet], check=True, capture_output=True)
    (model,) = written(snippet)
    for config in ("n16", "n8"):
        assert cli_main.run(["verify", model, "--config", config, "--engine", "executor", "--oracle", "litert"]) == 0
