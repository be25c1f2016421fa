"""A locale that knows ASCII alone: file names, tensor names and messages come through whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from odd_models import ODD_MODELS

from tq_hw.cli.shared.text import clean, printable
from tq_hw.isa.program_file import load

#: Runs command lines one after the other in one process, as the installed program does, and says how each ended. What
#: our own sources open must not depend on the locale.
SCRIPT = """
import os, sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="tq_hw")
from tq_hw.cli.main import main
lines = " ".join(sys.argv[1:]).split(" / ")
for line in lines:
    sys.argv = ["tq-hw", *line.split()]
    try:
        main()
    except SystemExit as end:
        sys.stderr.write(f"{sys.argv[1]} {end.code}\\n")
        sys.stderr.flush()
"""
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONWARNDEFAULTENCODING": "1"}
NAMES = {"utf8": "größe図".encode(), "no_text": b"\xff\xfe"}


def run_all(folder: Path, lines: list[bytes], **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-W", "ignore::EncodingWarning", "-c", SCRIPT, b" / ".join(lines)],
                          cwd=folder, env={**os.environ, **environment}, capture_output=True, check=False)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("environment", [ASCII, {"LC_ALL": "C.UTF-8"}], ids=["ascii", "utf8"])
def test_every_command_takes_any_name(tmp_path: Path, name: bytes, environment: dict[str, str]) -> None:
    (tmp_path / os.fsdecode(name + b".tflite")).write_bytes(ODD_MODELS["names"]())
    model, tiny = name + b".tflite", b" --config tiny"
    lines = [
        b"compile " + model + tiny,
        b"compile " + model + b" -o out --json -" + tiny,
        b"sim " + model + b" --engine golden --outputs " + name + b".npz --json " + name + b".json --dump 1",
        b"sim " + model + b" --engine executor" + tiny,
        b"sim " + model + b" --trace " + name + b".trace" + tiny,
        b"verify " + model + b" --engine executor --json verify.json" + tiny,
        b"verify " + model + b" --engine golden --oracle tflm --sets 1",
        b"verify " + model + b" --engine golden --oracle litert --sets 1",
        b"report " + model + b" --engine executor -o " + name + b".html" + tiny,
        b"boards", b"configs", b"ops"]
    done = run_all(tmp_path, lines, **environment)
    ends = "".join(f"{line.split()[0].decode()} 0\n" for line in lines)
    assert done.stderr.decode("utf-8", "backslashreplace") == ends
    text = name.decode("utf-8", "backslashreplace")
    assert load(tmp_path / os.fsdecode(name + b".tqm")).name == text
    for file in (b"%b.json", b"%b.trace", b"%b.html"):
        assert text in (tmp_path / os.fsdecode(file % name)).read_text(encoding="utf-8").replace("\\\\", "\\")
    assert json.loads((tmp_path / "verify.json").read_text(encoding="utf-8"))["cases"][0]["name"] == text
    assert f"model        {text}.tflite".encode() in done.stdout
    assert "größe/图像 \U0001f600".encode() in done.stdout


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_messages_hold_the_name_as_it_was_given(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name + b".tflite")).write_bytes(b"no model")
    done = run_all(tmp_path, [b"compile not-" + name, b"run --board ulx3s_85f --port x " + name, b"sim " + name,
                              b"compile " + name + b".tflite"], **ASCII)
    lines = done.stderr.splitlines()
    missing, near = b": cannot read the file: No such file or directory", b"; did you mean " + name + b".tflite?"
    # `not-` in front of two characters is no near name any more.
    other = near if len(os.fsdecode(name)) > 2 else b""
    assert lines[:5] == [b"tq-hw: not-" + name + missing + other, b"compile 2", b"tq-hw: " + name + missing + near,
                         b"run 2", b"tq-hw: " + name + missing + near]
    assert (lines[5], lines[-1], len(lines)) == (b"sim 2", b"compile 2", 8)
    assert lines[6].startswith(b"tq-hw: " + (name if name != b"\xff\xfe" else b"\\xff\\xfe") + b".tflite: ")


def test_a_terminal_that_knows_less_than_unicode(tmp_path: Path) -> None:
    (tmp_path / "names.tflite").write_bytes(ODD_MODELS["names"]())
    done = run_all(tmp_path, [b"sim names.tflite --engine golden --inputs names.tflite", b"compile nope\xe9"],
                   PYTHONIOENCODING="latin-1", PYTHONUTF8="1")
    assert done.stderr.splitlines()[2] == b"tq-hw: nope\xe9: cannot read the file: No such file or directory"
    done = run_all(tmp_path, ["compile nope図".encode()], PYTHONIOENCODING="latin-1", PYTHONUTF8="1")
    assert done.stderr.startswith(b"tq-hw: nope\\u56f3: cannot read the file")


def test_names_become_text() -> None:
    assert printable("a/größe.tflite") == "a/größe.tflite"
    assert printable(os.fsdecode(b"\xff.tflite")) == "\\xff.tflite"
    assert clean({"a\udcff": ["\udcfe", 1, None, ("b",)]}) == {"a\\xff": ["\\xfe", 1, None, ["b"]]}


def test_a_long_name_of_many_bytes(tmp_path: Path) -> None:
    name = "\U0001f600" * 60
    (tmp_path / f"{name}.tflite").write_bytes(ODD_MODELS["view"]())
    done = run_all(tmp_path, [f"compile {name}.tflite --config tiny".encode()])
    assert done.stderr == b"compile 0\n"
    assert (tmp_path / f"{name}.tqm").is_file()
