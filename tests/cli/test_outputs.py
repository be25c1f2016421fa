"""Outputs: never in the place of an input or of another output, refused early, and written before what is printed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tq = Callable[..., Any]
CONFIG = "rows = 4\ncols = 4\nrequantize_lanes = 2\nscratchpad_bytes = 8192\nacc_words = 16\nvector_words = 128\n"
SPACE = "[space]\nrows = 4\ncols = 4\nrequantize_lanes = 2\nscratchpad_bytes = 8192\nacc_words = 16\n"
EXECUTOR = ["--engine", "executor"]


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}


@pytest.mark.parametrize(("arguments", "output"), [
    (["compile", "small.tflite", "--config", "c.toml", "--json", "c.toml"], "--json c.toml"),
    (["compile", "small.tflite", "--config", "c.toml", "-o", "c.toml"], "-o c.toml"),
    (["sim", "small.tflite", "--config", "c.toml", "--outputs", "c.toml", *EXECUTOR], "--outputs c.toml"),
    (["sim", "small.tflite", "--config", "c.toml", "--trace", "./c.toml"], "--trace ./c.toml"),
    (["sim", "small.tflite", "--config", "tiny", "--patterns", "c.toml", "--json", "c.toml"], "--json c.toml"),
    (["sim", "c.gtkw", "--waves", "c.fst"], "the view for GTKWave of --waves c.gtkw"),
    (["report", "small.tflite", "--config", "c.toml", "-o", "c.toml"], "-o c.toml"),
    (["report", "small.tflite", "--patterns", "c.toml", "-o", "c.toml"], "-o c.toml"),
    (["verify", "small.tflite", "--config", "c.toml", "--json", "c.toml"], "--json c.toml"),
    (["verify", "small.tflite", "--patterns", "c.toml", "--json", "c.toml"], "--json c.toml"),
    (["verify", "small.tflite", "--json", "small.tflite"], "--json small.tflite"),
    (["verify", ".", "--json", "small.npz"], "--json small.npz"),
    (["generate", "--config", "c.toml", "-o", "npu", "--json", "c.toml"], "--json c.toml"),
    (["resources", "--config", "c.toml", "--json", "c.toml"], "--json c.toml"),
    (["run", "--uio", "u", "--config", "c.toml", "small.tflite", "--json", "c.toml"], "--json c.toml"),
    *((["explore", "small.tflite", "--space", "s.toml", option, "s.toml"], f"{option} s.toml")
      for option in ("-o", "--html", "--json"))])
def test_no_output_replaces_an_input(tq: Tq, case: Path, tmp_path: Path, arguments: list[str], output: str) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "s.toml").write_text(SPACE)
    (tmp_path / "c.gtkw").write_bytes(case.read_bytes())
    before = files(tmp_path)
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {output}: is an input of this command; choose another file\n")
    assert files(tmp_path) == before


@pytest.mark.parametrize(("arguments", "message"), [
    (["generate", "--config", "tiny", "-o", "npu", "--json", "npu"],
     "--json npu: is the folder of -o; choose another file"),
    (["build", "--board", "icebreaker", "--no-verify", "-o", "b", "--json", "b"],
     "--json b: is the folder of -o; choose another file"),
    (["explore", "small.tflite", "--space", "s.toml", "--store", "st", "-o", "st"],
     "-o st: is the file of --store; choose another file"),
    (["sim", "small.tflite", "--waves", "o.fst", "--json", "o.sucl"],
     "--json o.sucl: is the file of the view for Surfer of --waves too; choose another file")])
def test_no_output_replaces_another(tq: Tq, model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "s.toml").write_text(SPACE)
    before = os.listdir(tmp_path)
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")
    assert os.listdir(tmp_path) == before


def test_a_build_does_not_replace_the_folder_of_its_model(tq: Tq, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    model.rename(folder / model.name)
    (folder / "report.json").write_text('{"board": "", "bitstream": "", "toolchain": "", "missing": []}')
    before = files(folder)
    for path in (f"b/{model.name}", str(folder / model.name)):
        result = tq("build", "--board", "icebreaker", "--no-verify", "-o", "b", "--model", path)
        assert (result.code, result.err) == (
            2, f"tq-hw: --model {path}: is in b, which this command replaces; move it to another folder\n")
    assert files(folder) == before


def test_a_file_where_the_reports_go(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SPACE)
    (tmp_path / "p_reports").write_text("old")
    before = os.listdir(tmp_path)
    result = tq("explore", model.name, "--space", "s.toml", "--store", "st", "--html", "p.html", "--reports")
    assert (result.code, result.err) == (
        2, "tq-hw: --reports: p_reports is not a folder; rename it, or give --html another name\n")
    assert os.listdir(tmp_path) == before


def test_a_preset_is_no_file(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny").write_text("old")
    result = tq("compile", model.name, "--config", "tiny", "-o", "tiny")
    assert (result.code, result.err) == (0, "")
    assert (tmp_path / "tiny").read_bytes().startswith(b"TQHM")


@pytest.mark.parametrize(("arguments", "output"), [
    (["sim", "small.tflite", *EXECUTOR, "--outputs", "o.npz", "--json", "/proc/x"], "--json /proc/x"),
    (["generate", "--config", "tiny", "-o", "/proc/x"], "-o /proc/x"),
    (["emulate", "--board", "icebreaker", "--port", "/proc/x"], "--port /proc/x")])
def test_a_folder_that_takes_no_files_is_refused_before_the_work(tq: Tq, model: Path, tmp_path: Path,
                                                                  arguments: list[str], output: str) -> None:
    """In /proc not even root can make one."""
    before = os.listdir(tmp_path)
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {output}: cannot be written: No such file or directory\n")
    assert os.listdir(tmp_path) == before


@pytest.mark.parametrize("command", [
    "boards", "configs", "ops", "doctor", "resources", "compile small.tflite --config tiny",
    "compile small.tflite --config tiny --dump-after emit", "compile small.tflite --config tiny --partition",
    "compile small.tflite --fit icebreaker", "sim small.tflite --config tiny --engine executor",
    "sim small.tflite --config tiny --engine executor --partition",
    "verify small.tflite small.tflite --config tiny --engine executor", "generate --config tiny -o npu",
    "explore small.tflite --space s.toml --store st --jobs 1 -o best.toml --html page.html"])
def test_files_are_written_though_nobody_reads_the_tables(model: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "s.toml").write_text(SPACE)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "tq_hw", *command.split(), "--json", "r.json"], stdout=writer,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False, cwd=tmp_path)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = {"r.json", *(word for word in command.split() if word in ("npu", "best.toml", "page.html"))}
    assert wanted <= set(os.listdir(tmp_path))


def test_a_machine_on_standard_output_is_alone_there(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SPACE)
    result = tq("explore", model.name, "--space", "s.toml", "--store", "st", "--jobs", "1", "-o", "-")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith('name = "')
