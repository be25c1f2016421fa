"""The sdist has all that is tracked, and the wheel made from it all that the README's commands read.

The wheel is installed into an environment of its own. Packages of others are those that are installed here, named by a
path: this checkout, which is an editable install beside them, is not seen from there.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest
from platformdirs import user_cache_dir

from tests.cli.test_guides import ROOT, arguments_of, lines_of

#: Is not of the sources: what tools leave in a checkout.
LEFT = shutil.ignore_patterns(".git", ".venv", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "sim_build")
#: Tracked, and of use in a checkout alone: links for static checkers, which an archive would hold as copies.
NOT_IN_THE_SDIST = ".typing/"
#: Commands of the README that this test leaves out, and why.
LEFT_OUT = {
    "build": "places and routes for minutes; tests/boards/build",
    "explore": "searches for minutes; tests/cli/commands/test_explore.py",
    "run": "needs a board; its message is below",
}
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, made from a copy: a build writes beside the sources."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = shutil.copytree(ROOT, folder / "copy", symlinks=True, ignore=LEFT)
    shutil.rmtree(copy / "build", ignore_errors=True)
    return folder / call_backend("build_sdist", copy, folder)


def call_backend(hook: str, sources: Path, into: Path) -> str:
    code = f"import sys; from setuptools import build_meta as b; print('made', b.{hook}(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(into)], cwd=sources, capture_output=True, text=True,
                          check=True)
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def program(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program, in an environment that has the wheel of the archive."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    wheel = folder / call_backend("build_wheel", next(folder.glob("tq_hw-*")), folder)
    venv.create(folder / "env")
    packages = next((folder / "env").glob("lib/python*/site-packages"))
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "env" / "bin" / "python", "install", "--quiet",
                    "--no-index", "--no-deps", "--ignore-installed", "--disable-pip-version-check", wheel], check=True)
    return folder / "env" / "bin"


def call(program: Path, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program of the environment in `folder`, with a home of its own, and the simulators that there are."""
    cache = Path(user_cache_dir()).resolve()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run([program / arguments[0], *arguments[1:]], cwd=folder, capture_output=True, text=True,
                          check=False, env=environment | {"XDG_CACHE_HOME": str(cache), "HOME": str(folder)})


def test_the_sdist_has_every_tracked_file(sdist: Path) -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout of git")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2]: member.mode for name in archive.getnames()
                if (member := archive.getmember(name)).isfile()}
    tracked = {name for name in listed.stdout.split("\0")
               if name and not name.startswith(NOT_IN_THE_SDIST) and (ROOT / name).is_file()}
    assert sorted(tracked - set(held)) == []
    assert [name for name in tracked if held[name] & 0o100 != (ROOT / name).stat().st_mode & 0o100] == []


def test_what_runs_is_the_wheel(program: Path, tmp_path: Path) -> None:
    done = call(program, tmp_path, "python", "-c", "import tq_hw.cli as c, tq_hw as t; print(t.__file__, c.__file__)")
    assert all(Path(name).is_relative_to(program.parent) for name in done.stdout.split()), done
    done = call(program, tmp_path, "python", "-m", "tq_hw", "--version")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_of_the_readme(program: Path, tmp_path: Path) -> None:
    """The executor stands for the RTL, whose simulator is in no other test's cache; `generate` has a small machine."""
    shutil.copy(DIGITS, tmp_path / "model.tflite")
    ran = []
    for line in lines_of(ROOT / "README.md"):
        name, *arguments = arguments_of(line)
        if name in LEFT_OUT:
            continue
        arguments += ["--engine", "executor"] if name in ("sim", "verify", "report") else []
        if name == "generate":
            arguments = ["tiny" if word == "n8" else word for word in arguments]
        done = call(program, tmp_path, "tq-hw", name, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), line
        ran.append(name)
    assert set(ran) == {"compile", "sim", "report", "verify", "generate"}
    done = call(program, tmp_path, "tq-hw", "run", "--board", "ulx3s_85f", "--port", "none", "model.tflite")
    assert (done.returncode, done.stderr) == (
        5, "tq-hw: port none cannot be opened: No such file or directory; `tq-hw doctor` lists the ports\n")


@pytest.mark.parametrize("command", [
    "boards", "configs", "ops", "doctor", "resources --board ulx3s_85f", "sim model.tflite --config tiny"])
def test_other_commands(program: Path, tmp_path: Path, command: str) -> None:
    shutil.copy(DIGITS, tmp_path / "model.tflite")
    done = call(program, tmp_path, "tq-hw", *command.split())
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [
    "sim --soc --board icesugar_pro model.tflite", "sim model.tflite --config tiny --waves w.fst --trace t.json",
    "sim model.tflite --config tiny --array model --lanes model", "report model.tflite --board ulx3s_85f -o r.html"])
def test_commands_that_build_simulators(program: Path, tmp_path: Path, command: str) -> None:
    shutil.copy(DIGITS, tmp_path / "model.tflite")
    done = call(program, tmp_path, "tq-hw", *command.split())
    assert done.returncode == 0, done.stderr
