"""Boards of other packages: the guide's own package, installed; and what is wrong with one."""

import json
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tq_hw.boards.catalog import catalog
from tq_hw.boards.catalog.catalog import BOARDS, all_boards, board_names, find_board
from tq_hw.model.errors import OptionError

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "add-a-board.md"


def blocks(language: str) -> list[str]:
    """Return the guide's blocks of a language, moved to the left."""
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    return ["\n".join(line.removeprefix("   ") for line in block.splitlines()) + "\n" for block in found]


def test_the_guides_package(tmp_path: Path) -> None:
    (record,), (project,) = blocks("python"), blocks("toml")
    (tmp_path / "my_board.py").write_text(record)
    # As the guide says it, but from what is installed here: no network.
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
    ("path", "pathlib:Path", "board 'path' of entry point pathlib:Path: pathlib:Path is no "
                             "tq_hw.boards.catalog.board.Board but type"),
    ("mine", "tq_hw.boards.catalog.ulx3s_85f:BOARD",
     "board 'mine' of entry point tq_hw.boards.catalog.ulx3s_85f:BOARD: the Board there is called 'ulx3s_85f'; entry "
     "point and board must have one name"),
    ("ulx3s_85f", "x:BOARD", "there is more than one board 'ulx3s_85f': of tq-hw and of entry point x:BOARD; uninstall "
                             "one, or give it another name"),
])
def test_bad_boards(points: list[EntryPoint], name: str, value: str, message: str) -> None:
    points.append(point(name, value))
    with pytest.raises(OptionError) as error:
        find_board(name)
    assert str(error.value) == message
    assert find_board("arty_a7") is BOARDS["arty_a7"]


def test_near_names(points: list[EntryPoint]) -> None:
    points.append(point("my_board", "x:BOARD"))
    with pytest.raises(OptionError, match="no board 'my_bord': expected one of .*, my_board; did you mean my_board?"):
        find_board("my_bord")
