"""The open tools for Artix-7, where somebody has installed them: nextpnr-xilinx and Project X-Ray.

They and their databases cannot be had from pip. `CHIPDB` names the folder of nextpnr's chip databases,
`PRJXRAY_DB_DIR` that of Project X-Ray's.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tq_hw.boards.build.figures import Timing
from tq_hw.boards.build.tools import missing_tools
from tq_hw.model.errors import ToolError

__all__ = ["OPENXC7_TOOLS", "openxc7_commands", "openxc7_timing"]

OPENXC7_TOOLS = ("nextpnr-xilinx", "fasm2frames", "xc7frames2bit")
_DEVICE = re.compile(r"(?P<die>XC7A\d+T)I?-(?P<speed>\d)L?(?P<package>[A-Z]+\d+)")
_FMAX = re.compile(r"Max frequency for clock\s+'([^']+)': ([\d.]+) MHz \(\w+ at ([\d.]+) MHz\)")


def openxc7_commands(device: str, freq_mhz: float, seed: int) -> list[list[str]] | None:
    """Return the commands from top.json and top.xdc to top.bit; None when programs or databases are missing.

    `fasm2frames` writes to its standard output, which belongs into top.frames.
    """
    found = _DEVICE.fullmatch(device)
    chips, xray = os.environ.get("CHIPDB"), os.environ.get("PRJXRAY_DB_DIR")
    if found is None or not chips or not xray or missing_tools(OPENXC7_TOOLS):
        return None
    die = found["die"].lower()
    part = f"{die}{found['package'].lower()}-{found['speed']}"
    # Packagers name the database by the part or by the die.
    candidates = (Path(chips) / f"{part}.bin", Path(chips) / f"{die}.bin")
    database = next((path for path in candidates if path.is_file()), None)
    family = Path(xray) / "artix7"
    if database is None or not family.is_dir():
        return None
    return [
        ["nextpnr-xilinx", "--chipdb", str(database), "--xdc", "top.xdc", "--json", "top.json", "--fasm", "top.fasm",
         "--freq", f"{freq_mhz:g}", "--seed", str(seed), "--timing-allow-fail", "--log", "top.tim"],
        ["fasm2frames", "--part", part, "--db-root", str(family), "top.fasm"],
        ["xc7frames2bit", "--part_file", str(family / part / "part.yaml"), "--part_name", part, "--frm_file",
         "top.frames", "--output_file", "top.bit"],
    ]


def openxc7_timing(log: str) -> Mapping[str, Timing]:
    """Return the clocks by the last words of nextpnr's log, without paths; ToolError when it has none."""
    clocks = {name: Timing(name, float(fmax), float(target), ()) for name, fmax, target in _FMAX.findall(log)}
    if not clocks:
        raise ToolError("nextpnr-xilinx wrote no clock into top.tim")
    return clocks
