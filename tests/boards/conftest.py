"""Fixtures; the helper modules of this folder are imported by their plain names."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.build import steps
from tq_hw.boards.build.tools import run_tool

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def quick_synthesis(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Make synthesis only write its statistics; return the list of Yosys' arguments."""
    from stand_ins import NETLIST, STAT

    called: list[list[str]] = []

    def run(name: str, arguments: Sequence[str], folder: Path, progress: Any = None, *, output: str = "") -> float:
        if name != "yosys":
            return run_tool(name, arguments, folder, output=output)
        called.append(list(arguments))
        (folder / "stat.json").write_text(json.dumps(STAT), encoding="utf-8")
        (folder / "top.json").write_text(json.dumps(NETLIST), encoding="utf-8")
        return 1.0

    monkeypatch.setattr(steps, "run_tool", run)
    return called
