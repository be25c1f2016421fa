"""Files that a command cannot use: one message on stderr, word for word, with exit code 2."""

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Tq = Callable[..., Any]


@pytest.mark.parametrize(("text", "message"), [
    ("rows = 8\n", "odd.toml: keys 'cols', 'requantize_lanes' and 'scratchpad_bytes' are missing"),
    ("rows = 8\ncols = 8\nscratchpad_bytes = 16384\n", "odd.toml: key 'requantize_lanes' is missing"),
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


def test_a_configuration_that_is_no_text(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\x7fELF\xff")
    result = tq("compile", model.name, "--config", "odd.toml")
    assert (result.code, result.err) == (2, "tq-hw: odd.toml: expected a TOML file, found one that is not text\n")


@pytest.mark.parametrize(("text", "found"), [
    ("rows = 1" + "0" * 5000, "an integer of more than 4300 digits"),
    ("rows = " + "[" * 5000 + "]" * 5000, "values that are nested too deeply")])
@pytest.mark.parametrize("option", ["--config", "--space"])
def test_a_toml_file_that_python_does_not_take(tq: Tq, model: Path, tmp_path: Path, text: str, found: str,
                                               option: str) -> None:
    (tmp_path / "odd.toml").write_text(text)
    result = tq("compile" if option == "--config" else "explore", model.name, option, "odd.toml")
    assert (result.code, result.err) == (
        2, f"tq-hw: {'--space ' * (option == '--space')}odd.toml: expected a TOML file, found {found}\n")


def test_a_size_of_many_digits(tq: Tq, model: Path, tmp_path: Path) -> None:
    size = "9" * 5000 + " KiB"
    (tmp_path / "odd.toml").write_text(
        f"rows = 8\ncols = 8\nrequantize_lanes = 4\nscratchpad_bytes = '{size}'\n")
    result = tq("compile", model.name, "--config", "odd.toml")
    assert (result.code, result.err) == (
        2, "tq-hw: odd.toml: scratchpad_bytes must be an integer, or a size such as \"64 KiB\", not "
        f"'{size}'; did you mean \"{size}\"?\n")


def test_devices_without_an_end(tq: Tq, model: Path, tmp_path: Path) -> None:
    for name in ("zero.toml", "zero.json", "zero.tflite"):
        (tmp_path / name).symlink_to("/dev/zero")
    for arguments, message in (
            (("compile", model.name, "--config", "zero.toml"), "zero.toml: expected a TOML file, found a device"),
            (("report", model.name, "-o", "r.html", "--compare", "zero.json"),
             "zero.json: expected a report that --json wrote, found a device"),
            (("sim", "zero.tflite"), "zero.tflite: expected a .tflite file, found a device or a pipe"),
            (("run", "--board", "ulx3s_85f", "--port", "x", "zero.tflite"),
             "zero.tflite: expected a .tflite file, found a device or a pipe")):
        result = tq(*arguments)
        assert (result.code, result.err) == (2, f"tq-hw: {message}\n")


@pytest.mark.parametrize("command", [("compile",), ("sim",), ("sim", "--partition"), ("verify",), ("report", "-o", "r"),
                                     ("run", "--board", "ulx3s_85f", "--port", "x")])
def test_a_pipe_without_a_writer_is_not_waited_for(tq: Tq, tmp_path: Path, command: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = tq(*command, "pipe")
    assert result.code == 2
    assert "pipe: expected a .tflite file, found a device or a pipe\n" in result.out + result.err


def test_a_report_of_deeply_nested_values(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = tq("report", model.name, "-o", "r.html", "--compare", "deep.json")
    assert (result.code, result.err) == (
        2, "tq-hw: deep.json: expected a report that --json wrote, found values that are nested too deeply\n")


@pytest.mark.parametrize("changes", [
    {"model": None}, {"config": 3}, {"bytes": "x"}, {"cycles": 1e400}, {"cycles": -1}, {"cycles": 10**400},
    {"layers": [{}]}, *({"layers": [{"index": 0, "op": "ADD", "cycles": 1, "bytes": 1} | row]} for row in (
        {"index": "a"}, {"index": None}, {"op": [1]}, {"cycles": "x"}, {"bytes": {}}))])
def test_a_report_with_other_values(tq: Tq, model: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    report = {"model": "m", "config": "n8", "cycles": 1, "bytes": 1, "layers": []} | changes
    (tmp_path / "other.json").write_text(json.dumps(report))
    result = tq("report", model.name, "-o", "r.html", "--compare", "other.json")
    found = ("has no cycles to compare with: its engine does not model time" if changes == {"cycles": 1e400} else
             "expected a report that `tq-hw sim`, `compile` or `report` wrote with --json, found other JSON")
    assert (result.code, result.err) == (2, f"tq-hw: other.json: {found}\n")


def test_a_configuration_in_utf_16(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes("rows = 8\n".encode("utf-16"))
    result = tq("compile", model.name, "--config", "odd.toml")
    assert (result.code, result.err) == (
        2, "tq-hw: odd.toml: expected a TOML file, found text in UTF-16: save it as UTF-8\n")


def test_a_configuration_with_a_byte_order_mark(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfrosw = 4\r\n")
    result = tq("compile", model.name, "--config", "marked.toml")
    assert (result.code, result.err) == (2, "tq-hw: marked.toml: unknown key 'rosw'; did you mean rows?\n")


def test_a_space_that_is_no_text(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\x7fELF\xff")
    result = tq("explore", model.name, "--space", "odd.toml", "--store", "s.db")
    assert (result.code, result.err) == (
        2, "tq-hw: --space odd.toml: expected a TOML file, found one that is not text\n")


def test_a_compiled_file_is_not_compiled_again(tq: Tq, model: Path) -> None:
    assert tq("compile", model.name, "--config", "tiny").code == 0
    result = tq("compile", "small.tqm")
    assert (result.code, result.err) == (
        2, "tq-hw: small.tqm: expected a .tflite model, found a compiled file; `tq-hw sim` runs it\n")


def test_an_array_alone(tq: Tq, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "a.npy")
    assert (result.code, result.err) == (
        2, "tq-hw: a.npy: expected an .npz archive as numpy.savez writes it, found an array alone (.npy): "
        "np.savez(\"x.npz\", input_0=np.load(...)) makes an archive of it\n")


@pytest.mark.parametrize(("data", "found"), [
    (b"", "an empty file"), (b"1,2,3\n", "another kind of file"),
    (b"RIFF....WAVEfmt ", "a sound: compute features from it as docs/guide/recipes.md does")])
def test_inputs_of_another_kind(tq: Tq, model: Path, tmp_path: Path, data: bytes, found: str) -> None:
    (tmp_path / "in.npz").write_bytes(data)
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
    assert (result.code, result.err) == (
        2, f"tq-hw: in.npz: expected an .npz archive as numpy.savez writes it, found {found}\n")


def test_a_picture_that_is_none(tq: Tq, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.PNG").write_text("not found")
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.PNG")
    assert (result.code, result.err) == (2, "tq-hw: in.PNG: expected an .npz archive as numpy.savez writes it, or a "
                                         "picture, found another kind of file\n")


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


def test_an_archive_whose_contents_are_damaged(tq: Tq, model: Path, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "in.npz", image=np.arange(90, dtype=np.int8).reshape(1, 6, 5, 3))
    data = (tmp_path / "in.npz").read_bytes()
    at = data.index(b"image.npy") + len(b"image.npy")
    seen = set()
    for place in range(at, len(data) - 100):
        (tmp_path / "in.npz").write_bytes(data[:place] + bytes([data[place] ^ 0xff]) + data[place + 1:])
        result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
        if result.code:
            assert result.code == 2
            assert re.fullmatch(r"tq-hw: in\.npz: the \.npz archive cannot be read: [^\n]+\n", result.err), result.err
            seen.add(result.err.partition("read: ")[2])
    assert any(one.startswith("Error -3 while decompressing data: ") for one in seen)


@pytest.mark.parametrize("contents", [b"", b"1,2,3"])
def test_an_archive_of_something_else(tq: Tq, model: Path, tmp_path: Path, contents: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("image.npy", contents)
    result = tq("sim", model.name, "--engine", "golden", "--inputs", "in.npz")
    assert (result.code, result.err) == (2, "tq-hw: in.npz: 'image' is not an array as numpy.savez writes it\n")


def test_truncated_model(tq: Tq, model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:100])
    result = tq("compile", model.name)
    assert result.code == 2
    assert re.fullmatch(r"tq-hw: small\.tflite: .*\n", result.err)
    assert os.listdir(tmp_path) == ["small.tflite"]


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
