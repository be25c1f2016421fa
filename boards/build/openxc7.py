"""The open tools for Artix-7, if installed: nextpnr-xilinx and Project X-Ray.

Neither they nor their databases are available from pip. `PRJXRAY_DB_DIR` names the folder of Project X-Ray's database,
`CHIPDB` that of nextpnr's chip databases. Packages since autumn 2026 include the latter with the program.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tq_hw.boards.build.figures import Timing, nextpnr_timing, read_json
from tq_hw.boards.build.open_pins import PINS_FILE
from tq_hw.boards.build.tools import find_tool, missing_tools
from tq_hw.model.errors import ToolError

__all__ = ["FASM", "OPENXC7_TOOLS", "OpenFlow", "find_openxc7", "openxc7_timing"]

OPENXC7_TOOLS = ("nextpnr-xilinx", "fasm2frames", "xc7frames2bit")
#: Files that the placer writes: the features of the bitstream, its log, and in newer versions a report.
FASM, LOG, REPORT = "top.fasm", "top.tim", "timing.json"
_DEVICE = re.compile(r"(?P<device>XC7A\d+T)I?-(?P<speed>\d)L?(?P<package>[A-Z]+\d+)")
_FMAX = re.compile(r"Max frequency for clock\s+'([^']+)': ([\d.]+) MHz \(\w+ at ([\d.]+) MHz\)")
#: Devices that share a die use one database.
_DIES = {"xc7a35t": "xc7a50t", "xc7a50t": "xc7a50t", "xc7a75t": "xc7a100t", "xc7a100t": "xc7a100t"}
_HELP_SECONDS = 60


@dataclass(frozen=True)
class OpenFlow:
    """A complete installation.

    Members
    -------
    part : name of the device in the databases
    family : Project X-Ray's folder of the family
    die : the device whose fabric this one has
    chipdb : nextpnr's database; None where the program finds its own
    by_device : the newer command line
    """

    part: str
    family: Path
    die: str
    chipdb: Path | None
    by_device: bool

    def commands(self, freq_mhz: float, seed: int) -> list[list[str]]:
        """Return the commands from top.json and `PINS_FILE` to top.bit.

        The standard output of `fasm2frames` is top.frames.
        """
        database = ["--chipdb", str(self.chipdb)] if self.chipdb else []
        if self.by_device:
            files = ["--device", self.part, *database, "-o", f"xdc={PINS_FILE}", "-o", f"fasm={FASM}", "--report",
                     REPORT]
        else:
            files = [*database, "--xdc", PINS_FILE, "--fasm", FASM]
        return [
            ["nextpnr-xilinx", *files, "--json", "top.json", "--freq", f"{freq_mhz:g}", "--seed", str(seed),
             "--timing-allow-fail", "--log", LOG],
            ["fasm2frames", "--part", self.part, "--db-root", str(self.family), FASM],
            ["xc7frames2bit", "--part_file", str(self.family / self.part / "part.yaml"), "--part_name", self.part,
             "--frm_file", "top.frames", "--output_file", "top.bit"],
        ]


def find_openxc7(device: str) -> OpenFlow | str:
    """Return the installed flow for a device by AMD's name, or the reason why there is none."""
    found = _DEVICE.fullmatch(device)
    if found is None:
        return f"{device} is not an Artix-7 with a known database"
    missing = missing_tools(OPENXC7_TOOLS)
    if missing:
        return f"{', '.join(missing)} not on the PATH"
    xray = os.environ.get("PRJXRAY_DB_DIR")
    if not xray:
        return "PRJXRAY_DB_DIR does not name the folder of Project X-Ray's database"
    name = found["device"].lower()
    footprint = name + found["package"].lower()
    part, die = f"{footprint}-{found['speed']}", _DIES.get(name, name)
    # Programs run in the build's folder.
    family = Path(xray).absolute() / "artix7"
    if not (family / part / "part.yaml").is_file():
        return f"{family} has no {part}/part.yaml"
    by_device = _takes_device()
    if by_device is None:
        return "nextpnr-xilinx --help names neither --device nor --fasm: not a known version"
    names = [f"{stem}.bin" for stem in (part, footprint, name, f"chipdb-{die}")]
    if by_device:
        names = names[-1:]
    chips = os.environ.get("CHIPDB")
    chipdb = next((path for path in (Path(chips).absolute() / one for one in names) if path.is_file()),
                  None) if chips else None
    if chipdb is None and not by_device:
        return (f"CHIPDB ({chips}) has none of {', '.join(names)}" if chips else
                "CHIPDB does not name the folder of nextpnr's chip databases")
    return OpenFlow(part, family, die, chipdb, by_device)


def _takes_device() -> bool | None:
    """Return whether the program has the newer command line, None when it has neither."""
    command = find_tool("nextpnr-xilinx")
    assert command is not None
    try:
        run = subprocess.run([*command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                             timeout=_HELP_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = (run.stdout + run.stderr).decode(errors="replace")
    return True if "--device" in words else False if "--fasm" in words else None


def openxc7_timing(folder: Path, targets_mhz: Mapping[str, float]) -> dict[str, Timing]:
    """Return the clocks in the placer's report, each with its own target; ToolError when there are none.

    `targets_mhz` are the netlist's targets by every name of a clock. The placer knows only one target for all clocks,
    so it passes a clock that misses a higher one. A clock that is not in the table gets the table's highest target.
    """
    report = folder / REPORT
    if report.is_file():
        found: dict[str, Any] = dict(nextpnr_timing(read_json(report)))
    else:
        log = (folder / LOG).read_text(encoding="utf-8", errors="replace")
        found = {name: Timing(name, float(fmax), float(target), ()) for name, fmax, target in _FMAX.findall(log)}
    if not found:
        raise ToolError("nextpnr reported no clock rate")
    fastest = max(targets_mhz.values())
    return {name: Timing(name, one.fmax_mhz, targets_mhz.get(name, fastest), one.path) for name, one in found.items()}
