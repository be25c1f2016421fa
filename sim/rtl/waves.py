"""Waves of a run: the file, the recorded modules, and the recorded cycles."""

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from tq_hw.isa.permissions import new_file_mode
from tq_hw.model.errors import OptionError
from tq_hw.sim.faults import SimulationError

__all__ = ["FST_HEADERS", "KINDS", "SIGNALS", "TOP_SCOPE", "Waves", "check_scopes", "full_scopes", "read_signals",
           "signals_of", "without_made_up_names", "written_whole"]

#: By file name extension: Verilator's option.
KINDS = {"": (), "vcd": ("--trace",), "fst": ("--trace-fst",)}
#: Headers that replace those of lz4 and zlib.
FST_HEADERS = tuple(Path(__file__).with_name("fst") / name for name in ("lz4.h", "zlib.h"))
#: File next to a simulator with waves: the modules below the machine, and the bits of their signals.
SIGNALS = "signals.json"
#: The machine's path in the simulator.
TOP_SCOPE = "TOP.accelerator.accelerator"
_MODULE = re.compile(r"^module \\accelerator\.accelerator((?:\.\S+)?) ")
_SIGNAL = re.compile(r"^  (?:wire|reg) (?:\[(\d+):0\] )?([a-zA-Z]\w*)(?: = .*)?;")
#: Names that Yosys or Amaranth generated; an underscore in front makes Verilator omit them from waves.
_MADE_UP = re.compile(r"\\(?=\$|port\$)")


@dataclass(frozen=True)
class Waves:
    """What to record.

    Members
    -------
    path : output file; .fst or .vcd selects the format
    scopes : modules below the machine, such as `array` or `fetch.queue_load`, including their submodules; none:
        everything
    first_cycle, last_cycle : from the start of the first program on; None: to the end

    A cycle is a nanosecond of the file. Raises OptionError for another extension and for an empty span.
    """

    path: str | Path
    scopes: tuple[str, ...] = ()
    first_cycle: int = 0
    last_cycle: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("fst", "vcd"):
            raise OptionError(f"the name of a file of waves must end in .fst or .vcd, not {str(self.path)!r}")
        if self.last_cycle is not None and self.last_cycle < self.first_cycle:
            raise OptionError(f"the waves begin in cycle {self.first_cycle} and cannot end before, in cycle "
                              f"{self.last_cycle}")

    @property
    def kind(self) -> str:
        """The file format: "fst" or "vcd"."""
        return Path(self.path).suffix[1:]


@contextmanager
def written_whole(waves: Waves | None) -> Iterator[Waves | None]:
    """Provide waves that are recorded next to their file, and take its place at the end, also if the machine stopped.

    After any other error or an interrupt nothing remains. OptionError if no file can be made there.
    """
    if waves is None:
        yield None
        return
    path = Path(os.path.realpath(waves.path))
    if path.exists() and not path.is_file():
        # A device or a pipe is written to, and not replaced.
        yield waves
        return
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.stem[:16]}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise OptionError(f"waves cannot be written to {waves.path}: {error.strerror or error}") from None
    os.close(handle)
    try:
        try:
            yield replace(waves, path=temporary)
        except SimulationError:
            _put(temporary, path)
            raise
        _put(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _put(temporary: str, path: Path) -> None:
    """Rename a file that `mkstemp` made, with the permissions of any other new file."""
    os.chmod(temporary, new_file_mode())
    os.replace(temporary, path)


def without_made_up_names(verilog: str) -> str:
    """Return Verilog with an underscore in front of generated names, which hides them from waves."""
    return _MADE_UP.sub(r"\\_", verilog)


def signals_of(verilog: str) -> dict[str, dict[str, int]]:
    """Return, by path of each module below the machine ("" is the machine itself), the widths of its signals."""
    found: dict[str, dict[str, int]] = {}
    here: dict[str, int] = {}
    for line in verilog.splitlines():
        if line.startswith("module "):
            module = _MODULE.match(line)
            here = {}
            if module:
                found[re.sub(r"\$\d+", "", module[1].removeprefix("."))] = here
        elif signal := _SIGNAL.match(line):
            here[signal[2]] = int(signal[1] or 0) + 1
    return found


def read_signals(library: Path) -> dict[str, dict[str, int]]:
    """Return the result of `signals_of` from the build of a simulator with waves."""
    found: dict[str, dict[str, int]] = json.loads(library.with_name(SIGNALS).read_text(encoding="utf-8"))
    return found


def check_scopes(wanted: Iterable[str], there: Collection[str]) -> None:
    """Raise OptionError for a scope that the machine does not have."""
    for scope in wanted:
        if scope not in there:
            near = get_close_matches(scope, there, 1) or [max(there, key=len)]
            top = sorted({name.split(".")[0] for name in there} - {""})
            raise OptionError(f"the machine has no scope {scope!r}; it has {', '.join(top)}, and others in them, such "
                              f"as {near[0]!r}")


def full_scopes(wanted: Iterable[str], library: Path) -> list[str]:
    """Return the simulator's names of scopes; OptionError for one that it does not have."""
    wanted = list(wanted)
    check_scopes(wanted, read_signals(library) if wanted else {})
    return [f"{TOP_SCOPE}.{scope}" for scope in wanted]
