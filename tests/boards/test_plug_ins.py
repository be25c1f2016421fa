"""Boards of other packages: the guide's own package, installed, and messages about bad ones."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tq_hw.boards.catalog import catalog
from tq_hw.boards.catalog.board import OnChip, Spram
from tq_hw.boards.catalog.catalog import BOARDS, all_boards, board_names, find_board
from tq_hw.boards.catalog.rules import broken_rule
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import OptionError

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "add-a-board.md"


def blocks(language: str) -> list[str]:
    """Return the guide's code blocks in a language, without indentation."""
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    return ["\n".join(line.removeprefix("   ") for line in block.splitlines()) + "\n" for block in found]


def test_the_package_in_the_guide(tmp_path: Path) -> None:
    (record,), (project,) = blocks("python"), blocks("toml")
    (tmp_path / "my_board.py").write_text(record)
    # As in the guide, but from what is installed here: without a network.
    (tmp_path / "pyproject.toml").write_text(project.replace('dependencies = ["tq-hw[ecp5]"]\n', ""))
    made = tmp_path / "my_board-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: my-board\nVersion: 1\n")
    entry = re.search(r"^\[project.entry-points.\"(.+)\"\]\n(.*)$", project, re.MULTILINE)
    assert entry is not None
    (made / "entry_points.txt").write_text(f"[{entry[1]}]\n{entry[2]}\n".replace('"', ""))
    run = subprocess.run([sys.executable, "-m", "tq_hw", "boards", "--json", "-"], cwd=tmp_path, capture_output=True,
                         text=True, check=True, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"})
    board = json.loads(run.stdout)["boards"][-1]
    assert (board["name"], board["title"], board["macs"]) == ("my_board", "Somebody's board", 64)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    made: list[EntryPoint] = []
    monkeypatch.setattr(catalog, "entry_points", lambda group: made if group == "tq_hw.boards" else [])
    return made


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "tq_hw.boards")


def test_without_others(points: list[EntryPoint]) -> None:
    assert board_names() == list(BOARDS) and list(all_boards()) == list(BOARDS.values())


@pytest.mark.parametrize(("name", "value", "message"), [
    ("away", "not_there:BOARD", "board 'away' of entry point not_there:BOARD cannot be loaded: ModuleNotFoundError: No "
                                "module named 'not_there'"),
    ("path", "pathlib:Path", "board 'path' of entry point pathlib:Path: pathlib:Path is not "
                             "a tq_hw.boards.catalog.board.Board but type"),
    ("mine", "tq_hw.boards.catalog.ulx3s_85f:BOARD",
     "board 'mine' of entry point tq_hw.boards.catalog.ulx3s_85f:BOARD: the Board there is called 'ulx3s_85f'; entry "
     "point and board must have the same name"),
    ("ulx3s_85f", "x:BOARD", "there is more than one board 'ulx3s_85f': of tq-hw and of entry point x:BOARD; uninstall "
                             "one, or give it another name"),
])
def test_bad_boards(points: list[EntryPoint], name: str, value: str, message: str) -> None:
    points.append(point(name, value))
    with pytest.raises(OptionError) as error:
        find_board(name)
    assert str(error.value) == message
    assert find_board("arty_a7") is BOARDS["arty_a7"]


ULX3S: Any = BOARDS["ulx3s_85f"]
DDR3: Any = BOARDS["ecpix5_85f"].memories[0]


@pytest.mark.parametrize(("change", "rule"), [
    ({"device": "LFE5U"}, "device must be a Device, not 'LFE5U'"),
    ({"memories": ()}, "memories must not be empty"),
    ({"memories": ("SDRAM",)}, "a memory must be one of OnChip, Spram, Sdr, Ddr3, not 'SDRAM'"),
    ({"memories": (OnChip(1000),)}, "block RAM must have a multiple of 256 bytes below 2^32, not 1000"),
    ({"memories": (OnChip(256), OnChip(512))}, "2 memories have the name 'block RAM'"),
    ({"memories": (Spram(),)}, "SPRAM is for a serial machine in an iCE40UP5K"),
    ({"memories": (replace(DDR3, phy="K7DDRPHY"),)},
     "DDR3 has the PHY 'K7DDRPHY', expected one of A7DDRPHY, ECP5DDRPHY"),
    ({"config": PRESETS["serial"], "memories": (OnChip(768),)},
     "block RAM of a serial machine must have a power of two bytes, not 768"),
    ({"clock_hz": 1e8}, "clock_hz must be a whole number above 0, not 100000000.0"),
    ({"baud": 33_000_000}, "a clock of 100 MHz cannot make 33000000 baud: expected 5 or more cycles per bit and an "
     "error of 2 % or less, found 3.03 cycles")])
def test_records_that_break_a_rule(points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, change: dict[str, Any],
                                   rule: str) -> None:
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(BOARD=replace(ULX3S, name="mine", **change)))
    points.append(point("mine", "mine:BOARD"))
    with pytest.raises(OptionError) as error:
        find_board("mine")
    assert str(error.value) == f"board 'mine' of entry point mine:BOARD: {rule}"


def test_boards_of_this_package_obey_the_rules() -> None:
    assert [broken_rule(board) for board in BOARDS.values()] == [""] * len(BOARDS)


def test_near_names(points: list[EntryPoint]) -> None:
    points.append(point("my_board", "x:BOARD"))
    with pytest.raises(OptionError, match="no board 'my_bord': expected one of .*, my_board; did you mean my_board?"):
        find_board("my_bord")
