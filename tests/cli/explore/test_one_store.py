"""Two concurrent searches with one store: each finds what it finds alone, and the store gets the results of both."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"
SPACE = """\
preset = "tiny"
clock_mhz = 50
[space]
rows = {rows}
cols = 4
requantize_lanes = [1, 2, 4]
scratchpad_bytes = [8192, 16384]
acc_words = 16
"""
#: Machines with four rows are in both spaces.
ROWS = ("[4, 5]", "[3, 4]")


@pytest.fixture
def spaces(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"space{number}.toml" for number in range(len(ROWS))]
    for path, rows in zip(paths, ROWS, strict=True):
        path.write_text(SPACE.format(rows=rows), encoding="utf-8")
    return paths


def start(space: Path, store: Path, report: Path, jobs: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "tq_hw", "explore", str(DIGITS), "--space", str(space), "--store",
                             str(store), "--jobs", str(jobs), "--json", str(report)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert "database is locked" not in said


def results(store: Path) -> dict[str, Any]:
    base = sqlite3.connect(store)
    rows = base.execute("SELECT key, value FROM results").fetchall()
    base.close()
    return {key: json.loads(value) for key, value in rows}


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_searches_at_once_find_what_each_finds_alone(jobs: int, spaces: list[Path], tmp_path: Path) -> None:
    both = tmp_path / "both.sqlite"
    reports = [tmp_path / f"both{number}.json" for number in range(len(spaces))]
    for process in [start(space, both, report, jobs) for space, report in zip(spaces, reports, strict=True)]:
        ended(process)
    kept: dict[str, Any] = {}
    for number, (space, report) in enumerate(zip(spaces, reports, strict=True)):
        store, alone = tmp_path / f"alone{number}.sqlite", tmp_path / f"alone{number}.json"
        ended(start(space, store, alone, 1))
        assert json.loads(report.read_text(encoding="utf-8")) == json.loads(alone.read_text(encoding="utf-8"))
        kept |= results(store)
    assert len(kept) == 18
    assert results(both) == kept
