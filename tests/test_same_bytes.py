"""Verilog and compiled samples are those of the record; `scripts/same_bytes.py --all --record` renews it."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tq_hw.isa.config import load_config

SCRIPT = Path(__file__).parents[1] / "scripts" / "same_bytes.py"


def same_bytes() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("same_bytes", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [pytest.param("tiny", marks=pytest.mark.slow), "n8"])
def test_verilog_and_streams_are_the_recorded_ones(name: str) -> None:
    script = same_bytes()
    record = json.loads(script.RECORD.read_text(encoding="utf-8"))
    assert script.differences(record, load_config(name)) == []


def test_a_difference_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script = same_bytes()
    monkeypatch.setattr(script, "digests", lambda config: {"conv": "1", "add": "2"})
    assert script.differences({"tiny": {"conv": "1", "add": "3", "mul": "4"}}, load_config("tiny")) == [
        "tiny: add", "tiny: mul"]
