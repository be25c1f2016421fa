"""Place, route and pack for Gowin's FPGAs: nextpnr-himbaechel and Apicula, with the options of today's programs."""

from typing import Any

__all__ = ["PACKED", "gowin_commands", "synthesis_options"]

#: The bitstream, as text of zeros and ones.
PACKED = "top.fs"


def synthesis_options(platform: Any) -> str:
    """Return the options of Yosys' `synth_gowin`: the series decides which cells exist."""
    return f"-family {platform.series[:4].lower()}"


def gowin_commands(platform: Any, clock_mhz: float, seed: int) -> list[list[str]]:
    """Return the command lines after synthesis.

    Amaranth's commands are for nextpnr-gowin, which has been discontinued. Its successor takes family and pins as
    options of the architecture.
    """
    place = ["nextpnr-himbaechel-gowin", "--quiet", "--device", platform.part, "--vopt", f"family={platform.family}",
             "--vopt", "cst=top.cst", "--json", "top.syn.json", "--write", "top.pnr.json", "--log", "top.tim",
             "--report", "timing.json", "--seed", str(seed), "--timing-allow-fail", "--freq", f"{clock_mhz:g}"]
    return [place, ["gowin_pack", "-d", platform.family, "-o", PACKED, "top.pnr.json"]]
