"""Running programs: their child processes end with them, and messages when one does not start or fails."""

import time
from pathlib import Path

import pytest
from stand_ins import stand_in

from tq_hw.boards.build.tools import TOOLS, Tool, run_tool
from tq_hw.model.errors import ToolError

#: Starts a child process and writes its process number to a file; `then` follows.
PARENT = "import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nopen('child', 'w').write(str(child.pid))\n"


def gone(process: int) -> bool:
    """Wait until a process has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


class StopError(Exception):
    """Asks for the end of the program."""


def test_child_processes_end_with_a_stopped_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", PARENT + "child.wait()", monkeypatch)

    def stop(_seconds: float) -> None:
        if (tmp_path / "child").is_file() and (tmp_path / "child").read_text(encoding="ascii"):
            raise StopError

    with pytest.raises(StopError):
        run_tool("vivado", [], tmp_path, stop)
    assert gone(int((tmp_path / "child").read_text(encoding="ascii")))


def test_child_processes_end_with_a_failed_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", PARENT + "sys.exit(2)", monkeypatch)
    with pytest.raises(ToolError, match="^vivado failed with exit code 2; "):
        run_tool("vivado", [], tmp_path)
    assert gone(int((tmp_path / "child").read_text(encoding="ascii")))


def test_temporary_files_of_a_stopped_program_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "vivado", "import tempfile, time\nplace = tempfile.mkdtemp()\n"
             "open('place', 'w').write(place)\ntime.sleep(60)", monkeypatch)

    def stop(_seconds: float) -> None:
        if (tmp_path / "place").is_file() and (tmp_path / "place").read_text(encoding="utf-8"):
            raise StopError

    with pytest.raises(StopError):
        run_tool("vivado", [], tmp_path, stop)
    place = Path((tmp_path / "place").read_text(encoding="utf-8"))
    assert tmp_path in place.parents
    assert not place.exists()
    assert list(tmp_path.glob(".*")) == []


def test_a_program_that_is_killed_by_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = "import os, signal\nprint('placing', flush=True)\nos.kill(os.getpid(), signal.{})"
    for name, words in (("SIGKILL", "SIGKILL, as the system does when memory runs out"), ("SIGABRT", "SIGABRT")):
        stand_in(tmp_path / "bin", "vivado", ended.format(name), monkeypatch)
        with pytest.raises(ToolError) as error:
            run_tool("vivado", [], tmp_path)
        assert str(error.value) == f"vivado was killed by {words}; its last output:\nplacing"


def test_the_error_of_a_program_that_prints_nothing_is_in_its_log(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Yosys' package loses its standard output in ABC9, and its errors after that are in the log alone."""
    monkeypatch.setitem(TOOLS, "yosys", Tool("yosys", log=TOOLS["yosys"].log))
    fails = "open(sys.argv[sys.argv.index('-l') + 1], 'w').write('ERROR: Assert failed\\n')\nsys.exit(1)"
    stand_in(tmp_path / "bin", "yosys", fails, monkeypatch)
    for arguments in (["-q", "-p", "synth"], ["-q", "-l", "top.rpt", "top.ys"]):
        with pytest.raises(ToolError) as error:
            run_tool("yosys", arguments, tmp_path)
        assert str(error.value) == "yosys failed with exit code 1; its last output:\nERROR: Assert failed"
    assert (tmp_path / "top.rpt").is_file()
    stand_in(tmp_path / "bin", "yosys", "print(*sys.argv[1:], file=open('words', 'w'))", monkeypatch)
    run_tool("yosys", ["-q"], tmp_path)
    assert (tmp_path / "words").read_text(encoding="utf-8") == "-l yosys.log -q\n"


def test_a_program_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = stand_in(tmp_path / "bin", "vivado", "", monkeypatch)
    for text, why in (("", "Exec format error"), ("#!/no/such/interpreter\n", "No such file or directory")):
        program.write_text(text, encoding="ascii")
        with pytest.raises(ToolError) as error:
            run_tool("vivado", [], tmp_path)
        assert str(error.value) == f"vivado cannot be started: {program}: {why}"
