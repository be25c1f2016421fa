"""Waves of a run: which file, which part of the machine, which cycles."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from tq_hw.model.errors import OptionError

__all__ = ["FST_HEADERS", "KINDS", "SIGNALS", "TOP_SCOPE", "Waves", "check_scopes", "full_scopes", "read_signals",
           "signals_of", "without_made_up_names"]

#: By the ending of the file's name: what Verilator is told.
KINDS = {"": (), "vcd": ("--trace",), "fst": ("--trace-fst",)}
#: Headers that stand for those of lz4 and zlib.
FST_HEADERS = tuple(Path(__file__).with_name("fst") / name for name in ("lz4.h", "zlib.h"))
#: File next to a simulator with waves: the modules below the machine, and the bits of each one's signals.
SIGNALS = "signals.json"
#: Where the machine is in the simulator.
TOP_SCOPE = "TOP.accelerator.accelerator"
_MODULE = re.compile(r"^module \\accelerator\.accelerator((?:\.\S+)?) ")
_SIGNAL = re.compile(r"^  (?:wire|reg) (?:\[(\d+):0\] )?([a-zA-Z]\w*)(?: = .*)?;")
#: Names that Yosys or Amaranth made up. With a line in front Verilator leaves them out of waves.
_MADE_UP = re.compile(r"\\(?=\$|port\$)")


@dataclass(frozen=True)
class Waves:
    """What is written.

    Members
    -------
    path : file, .fst or .vcd by its name
    scopes : modules below the machine, as `array` or `fetch.queue_load`, each with all in it; none: everything
    first_cycle, last_cycle : from the start of the first program on; None: to the end

    A nanosecond of the file is a cycle. Raises OptionError for another name and for an empty span.
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
        """What the file is: "fst" or "vcd"."""
        return Path(self.path).suffix[1:]


def without_made_up_names(verilog: str) -> str:
    """Return Verilog with a line in front of the names that nobody chose, which hides them."""
    return _MADE_UP.sub(r"\\_", verilog)


def signals_of(verilog: str) -> dict[str, dict[str, int]]:
    """Return the modules below the machine by their places ("" is its own), and the bits of each signal in them."""
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
    """Return what `signals_of` found when a simulator with waves was built."""
    found: dict[str, dict[str, int]] = json.loads(library.with_name(SIGNALS).read_text(encoding="utf-8"))
    return found


def check_scopes(wanted: Iterable[str], there: Collection[str]) -> None:
    """Raise OptionError for a scope that is not among those of a machine."""
    for scope in wanted:
        if scope not in there:
            near = get_close_matches(scope, there, 1) or [max(there, key=len)]
            top = sorted({name.split(".")[0] for name in there} - {""})
            raise OptionError(f"the machine has no scope {scope!r}; it has {', '.join(top)}, and in them others, as "
                              f"{near[0]!r}")


def full_scopes(wanted: Iterable[str], library: Path) -> list[str]:
    """Return the simulator's names of scopes; OptionError for one that it does not have."""
    wanted = list(wanted)
    check_scopes(wanted, read_signals(library) if wanted else {})
    return [f"{TOP_SCOPE}.{scope}" for scope in wanted]
