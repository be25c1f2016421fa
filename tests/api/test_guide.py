"""The snippets of docs/guide/python.md run, and print what the page says."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tq_hw.cli.commands.build import DEMO_MODEL

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "python.md").read_text(encoding="utf-8")


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DEMO_MODEL, "digits.tflite")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 20, 3)).astype(np.uint8)).save("photo.png")
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)), "python.md", "exec"), {})
    network, compiled, slowest, result, best, total, shape, verdict = capsys.readouterr().out.splitlines()
    shown, = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    # Cycles on the page may lag behind changes of the compiler.
    assert re.sub(r"[\d,]+ cycles", "", shown) == re.sub(r"[\d,]+ cycles", "", f"{network}\n{compiled}\n")
    assert slowest.split()[1] in ("compute", "weights", "activations", "vector")
    assert result == "<Result of digits on executor: int8[1, 10], equal to the golden model>"
    assert 0 <= int(best) <= 9 and total == "1.0"
    assert f"prints `{shape}`" in PAGE
    assert verdict == "True 2 input sets equal the golden model"
    assert (tmp_path / "digits.html").stat().st_size > 100_000


def test_the_snippet_for_mismatches_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "debug-a-mismatch.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shutil.copy(DEMO_MODEL, "model.tflite")
    names: dict[str, Any] = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), "debug-a-mismatch.md", "exec"), names)
    output, result = names["output"], names["result"]
    assert result.writer_of(output.region, output.region_offset_bytes)[0].name == "STORE"
    assert " array " in capsys.readouterr().out
