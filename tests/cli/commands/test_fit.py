"""`tq-hw compile --fit`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.catalog.board import OnChip
from tq_hw.boards.catalog.catalog import BOARDS

Tq = Callable[..., Any]
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"


def test_a_board_with_room(tq: Tq) -> None:
    result = tq("compile", DIGITS, "--fit", "ulx3s_85f", "--json", "f.json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(Path("f.json").read_text(encoding="utf-8"))
    assert (report["fits"], report["memory"], report["preset"]["config"]["name"]) == (True, "SDR SDRAM", "ulx3s_85f")
    largest = report["largest"]
    assert largest["config"]["rows"] * largest["config"]["cols"] > 100
    assert largest["resources"]["multipliers"] <= 156
    fastest = report["fastest"]
    assert fastest["cycles"] <= min(largest["cycles"], report["preset"]["cycles"])
    assert fastest["resources"]["multipliers"] <= 156
    assert "`tq-hw explore MODEL --board ulx3s_85f` searches all that fit, and options\n" in result.out
    assert report["preset"]["milliseconds"] == pytest.approx(report["preset"]["cycles"] / 1e5)
    assert report["gives"] == ["multipliers: 288 of 156 for ulx3s_85f with twice the columns, lanes and scratchpad"]
    assert f"needs {report['memory_bytes']:,} bytes of memory; ulx3s_85f has SDR SDRAM of 33,554,432" in result.out
    assert list(Path().glob("*.tqm")) == []


def test_the_serial_machine_has_no_time(tq: Tq) -> None:
    result = tq("compile", DIGITS, "--fit", "icebreaker")
    assert (result.code, result.err) == (0, "")
    assert "scratchpad of 32 KiB: no estimate of its time" in result.out


def test_a_board_without_room(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOARDS, "icebreaker", replace(BOARDS["icebreaker"], memories=(OnChip(4096),)))
    result = tq("compile", DIGITS, "--fit", "icebreaker", "--json", "f.json")
    assert result.code == 4
    assert result.err.endswith("bytes of memory, more than any memory of icebreaker\n")
    report = json.loads(Path("f.json").read_text(encoding="utf-8"))
    assert report["gives"] == [f"{report['memory_bytes'] - 4096:,} bytes too large; use a smaller model, or a board "
                               "with more memory"]


def test_options_that_go_with_a_file(tq: Tq) -> None:
    result = tq("compile", DIGITS, "--fit", "ulx3s_85f", "-o", "x.tqm", "--config", "n8")
    assert result.code == 2
    assert result.err == "tq-hw: --fit ulx3s_85f: compiles nothing; leave -o and --config or --board out\n"
