"""How commands end: exit codes, closed and full streams, interrupts, internal errors, and never a traceback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli import main as main_module
from tq_hw.cli.commands import compile as compile_module
from tq_hw.isa.encode import EncodeError
from tq_hw.model.errors import DeviceError, MismatchError, MissingToolError, ToolError
from tq_hw.sim.rtl import build as rtl_build

Tq = Callable[..., Any]


def shell(line: str, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a line in which `tq-hw` is the program."""
    return subprocess.run(["bash", "-c", line.replace("tq-hw", f"{sys.executable} -m tq_hw.cli")], cwd=folder,
                          capture_output=True, check=False)


@pytest.mark.parametrize("command", ["configs", "configs --json -", "compile small.tflite --config tiny"])
def test_standard_output_that_is_full(model: Path, command: str) -> None:
    done = shell(f"tq-hw {command} > /dev/full", model.parent)
    assert (done.returncode, done.stderr) == (
        2, b"tq-hw: standard output or a temporary file: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_a_shell_has_closed(model: Path, closed: str) -> None:
    done = shell(f"tq-hw compile small.tflite --config tiny -o out {closed}", model.parent)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (model.parent / "out").read_bytes().startswith(b"TQHM")
    done = shell(f"tq-hw compile nope {closed}", model.parent)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_current_directory_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = shell("rmdir ../gone; tq-hw compile x", tmp_path / "gone")
    assert done.returncode == 2
    assert done.stderr == b"tq-hw: the current directory: No such file or directory\n"


@pytest.mark.parametrize("command", ["sim small.tflite", "verify small.tflite", "report small.tflite -o x.html",
                                     "emulate --board icebreaker", "build --board icebreaker"])
def test_a_cache_that_is_a_file(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    (model.parent / "cache").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent / "cache"))
    monkeypatch.setattr(rtl_build, "_known", {})
    before = sorted(os.listdir(model.parent))
    result = tq(*command.split())
    assert (result.code, result.err) == (2, f"tq-hw: the cache folder {model.parent}/cache/tq-hw/rtl cannot be used: "
                                            "it is not a folder; set XDG_CACHE_HOME to a folder of your own\n")
    assert sorted(os.listdir(model.parent)) == before


@pytest.mark.parametrize(("error", "code"), [
    (MismatchError("differs"), 1), (EncodeError("does not fit"), 2), (MissingToolError("no g++"), 3),
    (ToolError("verilator failed"), 4), (DeviceError("stopped"), 5), (KeyboardInterrupt(), 130)])
def test_exit_codes(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(compile_module, "read_model", fail)
    result = tq("compile", model.name)
    assert (result.code, result.err.strip()) == (code, f"tq-hw: {error}" if str(error) else "tq-hw: interrupted")


def test_defect_asks_for_a_report(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_module, "to_bytes", lambda program: 1 // 0)
    result = tq("compile", model.name)
    message = ("tq-hw: internal error: ZeroDivisionError: integer division or modulo by zero; this is a bug in "
               "tq-hw, please report it with the traceback that --debug shows\n")
    assert (result.code, result.err) == (4, message)
    shown = tq("compile", model.name, "--debug").err
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith(message)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_debug_may_stand_anywhere(tq: Tq, place: int) -> None:
    arguments = ["compile", "nope.tflite", "--config=n8"]
    arguments.insert(place, "--debug")
    assert "Traceback (most recent call last)" in tq(*arguments).err


def test_help_is_exit_code_0(tq: Tq) -> None:
    for command in ([], ["compile"], ["sim"], ["verify"], ["configs"], ["ops"]):
        result = tq(*command, "--help")
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("Usage: tq-hw")
    assert tq().code == 2


def test_list_of_commands_says_whole_sentences(tq: Tq) -> None:
    listed = tq("--help").out.split("Commands:\n")[1].splitlines()
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_reader_that_closes_the_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m tq_hw.cli configs --json - | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{", b"")


def _heed() -> None:
    """Shells start background jobs with SIGINT ignored, `nohup` with SIGHUP ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_is_130_without_traceback(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "in.npz")
    process = subprocess.Popen([sys.executable, "-m", "tq_hw.cli", "sim", model.name, "--engine", "golden", "--inputs",
                                "in.npz"], cwd=tmp_path, stderr=subprocess.PIPE,
                               preexec_fn=_heed)
    # Opening the pipe blocks until the program opens it, too.
    with (tmp_path / "in.npz").open("wb"):
        time.sleep(0.1)
        process.send_signal(number)
        _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (130, b"\ntq-hw: interrupted\n")


def test_describe_knows_every_error_of_ours() -> None:
    assert main_module.describe(OSError(28, "No space left on device", "x")) == (2, "x: No space left on device")
    assert main_module.describe(MemoryError())[0] == 4
