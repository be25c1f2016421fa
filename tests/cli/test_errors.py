"""Bad input is one message on stderr, word for word, with exit code 2 and no output file."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.cli import main as main_module
from tq_hw.cli.commands import compile as compile_module
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, load_config
from tq_hw.isa.encode import EncodeError
from tq_hw.model.errors import DeviceError, MismatchError, MissingToolError, ToolError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.rtl import build as rtl_build

Tq = Callable[..., Any]
NAMES = ", ".join(PRESETS)


def cumsum() -> bytes:
    builder = ModelBuilder("cumsum")
    image = builder.input((1, 4), scale=0.5, name="image")
    relu = builder.add("RESHAPE", [image, builder.constant([4, 1])], shape=(4, 1))
    return builder.build(builder.add("CUMSUM", [relu, builder.constant(0)], shape=(4, 1)))


@pytest.mark.parametrize(("arguments", "message"), [
    (["compile", "nope.tflite"], "nope.tflite: cannot read the file: No such file or directory"),
    (["compile", "."], ".: expected a .tflite file, found a directory; it holds small.tflite"),
    (["compile", "smal.tflite"],
     "smal.tflite: cannot read the file: No such file or directory; did you mean small.tflite?"),
    (["compile", "small.tflite", "--config", "n17"],
     f"no configuration 'n17': expected one of {NAMES} or a file that ends in .toml"),
    (["compile", "small.tflite", "--config", "N16X8"],
     f"no configuration 'N16X8': expected one of {NAMES} or a file that ends in .toml; did you mean n16x8?"),
    (["compile", "small.tflite", "--config", "small.tflite"],
     f"no configuration 'small.tflite': expected one of {NAMES} or a file that ends in .toml; a file is there, and its "
     "name does not end so"),
    (["emulate", "--board", "icebreaker", "--port", "small.tflite"],
     "--port small.tflite: exists and is no link of an earlier emulation; choose another name"),
    (["emulate", "--board", "icebreaker", "--port", "no/board"], "--port no/board: the directory no does not exist"),
    (["program", "--board", "ulx3s_85f"],
     "build/ulx3s_85f: is not a folder of `tq-hw build --board ulx3s_85f`: report.json cannot be read: No such file or "
     "directory; build it first, or name its folder with --dir"),
    (["compile", "small.tflite", "--board", "ULX3S_85F"],
     "no board 'ULX3S_85F': expected one of arty_a7, arty_a7_100, ecpix5_85f, icebreaker, icesugar_pro, "
     "tang_primer_20k, ulx3s_85f; did you mean ulx3s_85f?"),
    (["compile", "small.tflite", "--config", "nope.toml"],
     "nope.toml: cannot be read: No such file or directory"),
    (["compile", "small.tflite", "-o", "no/where"], "-o no/where: the directory no does not exist"),
    (["compile", "small.tflite", "-o", "."], "-o .: expected a file to write, found a directory"),
    (["compile", "small.tflite", "-o", "small.tflite"],
     "-o small.tflite: is an input of this command; choose another file"),
    (["compile", "small.tflite", "-o", "same", "--json", "same"],
     "--json same: is the file of -o too; choose another file"),
    (["compile", "small.tflite", "--patterns", "nope.py"], "nope.py is no Python file; give one with patterns"),
    (["compile", "small.tflite", "--patterns", "a.py", "-o", "a.py"],
     "-o a.py: is an input of this command; choose another file"),
    (["compile", "small.tflite", "--frob"], "No such option '--frob'. Try 'tq-hw compile --help'."),
    (["compile"], "Missing argument 'MODEL.tflite'. Try 'tq-hw compile --help'."),
    (["frob"], "No such command 'frob'. Try 'tq-hw --help'."),
    (["sim", "small.tflite", "--engine", "abacus"], "Invalid value for '--engine': 'abacus' is not one of 'rtl', "
     "'executor', 'golden'. Try 'tq-hw sim --help'."),
    (["sim", "small.tflite", "--latency", "0"],
     "Invalid value for '--latency': 0 is not in the range 1<=x<=1048575. Try 'tq-hw sim --help'."),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "nope.npz"],
     "nope.npz: cannot read the file: No such file or directory"),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "."], ".: expected an .npz file, found a directory"),
    (["sim", "small.tflite", "--engine", "golden", "--inputs", "small.tflite"],
     "small.tflite: expected an .npz archive as numpy.savez writes it, found another kind of file"),
    (["sim", "small.tflite", "--engine", "golden", "--waves", "w.fst"], "--waves needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--waves", "w.txt"], "the name of a file of waves must end in .fst or .vcd, not 'w.txt'"),
    (["sim", "small.tflite", "--waves-from", "3"],
     "--waves-scope, --waves-from and --waves-to need --waves, the file that they are about"),
    (["sim", "small.tflite", "--waves", "w.fst", "--waves-from", "3", "--waves-to", "2"],
     "the waves begin in cycle 3 and cannot end before, in cycle 2"),
    (["sim", "small.tflite", "--waves", "w.fst", "--array", "model"],
     "--waves shows the whole RTL: leave --array model out"),
    (["sim", "small.tflite", "--engine", "golden", "--array", "model"],
     "--array model needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--waves", "w.fst", "--lanes", "model"],
     "--waves shows the whole RTL: leave --lanes model out"),
    (["sim", "small.tflite", "--engine", "golden", "--lanes", "model"],
     "--lanes model needs --engine rtl, not golden"),
    (["sim", "small.tflite", "--engine", "executor", "--trace", "t.json"], "--trace needs --engine rtl, not executor"),
    (["sim", "small.tflite", "--engine", "golden", "--resident"],
     "--resident needs --engine rtl or executor, not golden"),
    (["verify", "small.tflite", "--engine", "golden", "--oracle", "tflm", "--resident"],
     "--resident needs --engine rtl or executor, not golden"),
    (["sim", "--soc", "--board", "ulx3s_85f", "small.tflite", "--resident"],
     "--soc runs the firmware of a board: --resident does not go with it"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "t3"],
     "--dump needs --outputs, the file that the tensor goes to"),
    (["sim", "small.tflite", "--engine", "golden", "--dump", "x", "--outputs", "o.npz"],
     "--dump x: no operator of small computes a tensor of that name or index; there are, for example, 't3', 't4'"),
    (["verify", "nope.tflite"], "nope.tflite: expected a model or a folder of models, found no such file"),
    (["verify", "small.tflite", "--engine", "golden"], "small.tflite: --engine golden needs stored expectations or "
     "--oracle tflm|litert: an engine is never compared with itself"),
    (["verify", "small.tflite", "--engine", "golden", "--oracle", "golden"], "--engine golden cannot be held against "
     "--oracle golden: an engine is never compared with itself; name --oracle tflm or litert"),
])
def test_message(tq: Tq, model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    before = sorted(os.listdir(tmp_path))
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")
    assert sorted(os.listdir(tmp_path)) == before


def test_truncated_model(tq: Tq, model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:100])
    result = tq("compile", model.name)
    assert result.code == 2
    assert re.fullmatch(r"tq-hw: small\.tflite: .*\n", result.err)
    assert os.listdir(tmp_path) == ["small.tflite"]


def test_unsupported_operator_is_named(tq: Tq, tmp_path: Path) -> None:
    (tmp_path / "cumsum.tflite").write_bytes(cumsum())
    result = tq("compile", "cumsum.tflite")
    assert result.code == 2
    assert result.err == ("tq-hw: cumsum.tflite: not supported: CUMSUM (operator 1); `tq-hw ops` lists the operators "
                          "that are\n1 of 2 operators are not taken; `tq-hw ops` lists those that are:\n"
                          "  CUMSUM (operator 1): the accelerator does not have this operator\n"
                          "with --partition 1 of 2 operators, none of which multiplies, would be on the accelerator, "
                          "the rest in LiteRT\n")


def test_all_unsupported_operators_are_named_with_their_counts() -> None:
    b = ModelBuilder("many")
    x = b.input((1, 4, 4, 2), scale=0.5)
    for op in ("ABS", "BUCKETIZE", "ABS", "UNIQUE", "BUCKETIZE"):
        x = b.add(op, [x], scale=0.5, shape=(1, 4, 4, 2))
    with pytest.raises(UnsupportedError, match=r"^not supported: BUCKETIZE \(2, the first is operator 1\), UNIQUE "
                                               r"\(operator 3\); `tq-hw ops` lists the operators that are$"):
        compile_model(parse_model(b.build(x), "many"), load_config("tiny"))


@pytest.mark.parametrize(("text", "message"), [
    ("rows = 8\n", "odd.toml: key 'cols' is missing"),
    ("rows = 2\ncols = 8\nrequantize_lanes = 8\nscratchpad_bytes = 16384\n",
     "odd.toml: rows must be 3 to 32 (a depthwise group takes three rows), not 2; the nearest legal value is 3"),
    ("rows = 8\ncols = 8\nrequantize_lanes = 3\nscratchpad_bytes = 16384\n",
     "odd.toml: requantize_lanes must divide cols, not 3; the nearest legal value is 2"),
    ("rows = 8\ncols = 8\nrequantize_lanes = 4\nscratchpad_bytes = '96 KiB'\n",
     "odd.toml: scratchpad_bytes must be a power of two of words of 8 bytes, 512 to 65536 words, not 98304; the "
     "nearest legal value is 65536"),
    ("rows = 8\ncols = '8'\nrequantize_lanes = 4\nscratchpad_bytes = 8192\n",
     "odd.toml: cols must be an integer, not '8'"),
    ("rows = 8\ncols = 8\nrequantize_lanes = 4\nscratchpad_bytes = '64k'\n",
     "odd.toml: scratchpad_bytes must be an integer, or a size such as \"64 KiB\", not '64k'; did you mean \"64 "
     "KiB\"?"),
    ("row = 8\n", "odd.toml: unknown key 'row'; did you mean rows?"),
    ("lanes = 8\n", "odd.toml: unknown key 'lanes'; did you mean activation_lanes or requantize_lanes?"),
    ("name = 8\n", "odd.toml: name must be a text, not 8"),
    ("rows = 18\ncols = 9\nrequantize_lanes = 1\nscratchpad_bytes = 32768\nvector_words = 128\n",
     "odd.toml: vector_words must be a power of two from 128 to 4096, at least 8 * block / requantize_lanes (each of "
     "eight registers holds a word), not 128; the nearest legal value is 256"),
    ("frob = 1\n", None),
    ("rows = [", None),
])
def test_bad_configuration_file(tq: Tq, model: Path, tmp_path: Path, text: str, message: str | None) -> None:
    (tmp_path / "odd.toml").write_text(text)
    result = tq("compile", model.name, "--config", "odd.toml")
    assert result.code == 2
    assert result.err.count("\n") == 1 and "odd" in result.err
    if message is not None:
        assert result.err == f"tq-hw: {message}\n"


def test_an_array_alone(tq: Tq, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "a.npy")
    assert (result.code, result.err) == (
        2, "tq-hw: a.npy: expected an .npz archive as numpy.savez writes it, found an array alone (.npy): "
        "np.savez(\"x.npz\", input_0=np.load(...)) makes an archive of it\n")


def test_a_configuration_that_is_no_text(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\x7fELF\xff")
    result = tq("compile", model.name, "--config", "odd.toml")
    assert (result.code, result.err) == (2, "tq-hw: odd.toml: expected a TOML file, found one that is no text\n")


def test_a_configuration_in_utf_16(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes("rows = 8\n".encode("utf-16"))
    result = tq("compile", model.name, "--config", "odd.toml")
    assert (result.code, result.err) == (
        2, "tq-hw: odd.toml: expected a TOML file, found text in UTF-16: save it as UTF-8\n")


def test_a_compiled_file_is_not_compiled_again(tq: Tq, model: Path) -> None:
    assert tq("compile", model.name, "--config", "tiny").code == 0
    result = tq("compile", "small.tqm")
    assert (result.code, result.err) == (
        2, "tq-hw: small.tqm: expected a .tflite model, found a compiled file; `tq-hw sim` runs it\n")


@pytest.mark.parametrize(("data", "found"), [
    (b"", "an empty file"), (b"1,2,3\n", "another kind of file"),
    (b"RIFF....WAVEfmt ", "a sound: make features of it as docs/guide/recipes.md does")])
def test_inputs_of_another_kind(tq: Tq, model: Path, tmp_path: Path, data: bytes, found: str) -> None:
    (tmp_path / "in.npz").write_bytes(data)
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
    assert (result.code, result.err) == (
        2, f"tq-hw: in.npz: expected an .npz archive as numpy.savez writes it, found {found}\n")


def test_a_configuration_with_a_byte_order_mark(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfrosw = 4\r\n")
    result = tq("compile", model.name, "--config", "marked.toml")
    assert (result.code, result.err) == (2, "tq-hw: marked.toml: unknown key 'rosw'; did you mean rows?\n")


def test_a_space_that_is_no_text(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\x7fELF\xff")
    result = tq("explore", model.name, "--space", "odd.toml", "--store", "s.db")
    assert (result.code, result.err) == (
        2, "tq-hw: --space odd.toml: expected a TOML file, found one that is no text\n")


@pytest.mark.parametrize(("arrays", "message"), [
    ({"x": np.zeros((1, 6, 5, 3), np.int8)}, "in.npz: no array for input 0: expected one named 'image', as the "
     "tensor, or 'input_0', found 'x'"),
    ({"input_0": np.zeros((1, 6, 5, 3), np.float32)}, "in.npz: array 'input_0' must be int8[1, 6, 5, 3], alone or with "
     "one more axis in front for several sets, found float32[1, 6, 5, 3]; quantize real numbers: np.clip(np.rint(x / "
     "0.5) + -3, -128, 127).astype(np.int8)"),
    ({"image": np.zeros((1, 6, 5, 3), np.uint8)}, "in.npz: array 'image' must be int8[1, 6, 5, 3], alone or with one "
     "more axis in front for several sets, found uint8[1, 6, 5, 3]"),
    ({"input_0": np.zeros((6, 5, 3), np.int8)}, "in.npz: array 'input_0' must be int8[1, 6, 5, 3], alone or with one "
     "more axis in front for several sets, found int8[6, 5, 3]"),
    ({"input_0": np.zeros((0, 1, 6, 5, 3), np.int8)}, "in.npz: expected at least one input set, found none"),
    ({"input_0": np.array([{}], object)}, "in.npz: array 'input_0' holds Python objects, expected numbers"),
])
def test_bad_arrays(tq: Tq, model: Path, tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "in.npz", allow_pickle=True, **arrays)
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")


def test_damaged_archive(tq: Tq, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 6, 5, 3), np.int8))
    (tmp_path / "in.npz").write_bytes((tmp_path / "in.npz").read_bytes()[:60])
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
    assert (result.code, result.err) == (2, "tq-hw: in.npz: the .npz archive cannot be read: File is not a zip file\n")


def test_read_only_directory(tq: Tq, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    # Root may write everywhere, so that the mode of a directory would show nothing.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    result = tq("compile", model.name, "-o", "locked/out")
    assert (result.code, result.err) == (2, "tq-hw: -o locked/out: cannot be written: permission denied\n")


def test_full_disk(tq: Tq, model: Path) -> None:
    result = tq("compile", model.name, "-o", "/dev/full")
    assert (result.code, result.err) == (2, "tq-hw: /dev/full: cannot be written: No space left on device\n")


@pytest.mark.parametrize(("arguments", "message"), [
    (["compile", ""], "argument 2 ('') is empty: expected a name or a value"),
    (["sim", "m", "--outputs="], "argument 3 ('--outputs=') is empty: expected a name or a value"),
])
def test_an_empty_argument(tq: Tq, arguments: list[str], message: str) -> None:
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")


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
                                            "it is no folder; set XDG_CACHE_HOME to a folder of your own\n")
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
    message = ("tq-hw: internal error: ZeroDivisionError: integer division or modulo by zero; this is a defect of "
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


def test_interrupt_is_130_without_traceback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.npz")
    (tmp_path / "m.tflite").write_bytes(cumsum())
    process = subprocess.Popen([sys.executable, "-m", "tq_hw.cli", "sim", "m.tflite", "--engine", "golden", "--inputs",
                                "in.npz"], cwd=tmp_path, stderr=subprocess.PIPE,
                               # A shell starts what runs in the background with interrupts ignored.
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    # Opening the pipe blocks until the program has it open too.
    with (tmp_path / "in.npz").open("wb"):
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (130, b"\ntq-hw: interrupted\n")


def test_describe_knows_every_error_of_ours() -> None:
    assert main_module.describe(OSError(28, "No space left on device", "x")) == (2, "x: No space left on device")
    assert main_module.describe(MemoryError())[0] == 4


def test_malformed_models_are_refused_cleanly(tq: Tq, tmp_path: Path, shared: Path) -> None:
    malformed = shared / "cases" / "malformed"
    entries = json.loads((malformed / "index.json").read_text())["files"]
    assert entries
    for entry in entries:
        result = tq("compile", malformed / entry["file"], "-o", "out")
        assert result.code == 2 or (result.code == 0 and entry["verdict"] != "reject"), entry["file"]
        if result.code:
            assert re.fullmatch(r"tq-hw: [^\n]+\n", result.err), entry["file"]
            assert not (tmp_path / "out").exists()
            words = entry.get("message_should_mention_one_of", [])
            assert not words or any(re.search(word, result.err, re.IGNORECASE) for word in words), result.err
        (tmp_path / "out").unlink(missing_ok=True)


def test_verify_goes_on_after_inputs_without_a_result(tq: Tq) -> None:
    for name, op in (("a", "DIV"), ("b", "ADD")):
        b = ModelBuilder(name)
        x, y = (b.input((1, 4000), scale=0.05) for _ in range(2))
        Path(f"{name}.tflite").write_bytes(b.build(b.add(op, [x, y], scale=0.05)))
    result = tq("verify", "a.tflite", "b.tflite", "--config", "n8", "--engine", "executor", "--sets", "1")
    assert result.out.splitlines() == [
        "unsupported a: a.tflite: no result for these inputs: operator 0 (DIV): a divisor is 0: "
        "the engines refuse to run",
        "passed      b: 1 input set equal the golden model", "1 passed, 0 failed, 1 unsupported"]
    assert (result.code, result.err) == (2, "tq-hw: 1 of 2 cases are not supported; first a\n")
