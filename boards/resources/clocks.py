"""Clocks after placing and routing, of the hardware as it is: few were measured, and the estimate says how few."""

from dataclasses import dataclass

from tq_hw.boards.catalog.tang_primer_20k import BOARD as TANG
from tq_hw.isa.config import PRESETS, Config

__all__ = ["CLOCKS", "Clock", "ClockRange", "clock_range"]


@dataclass(frozen=True)
class Clock:
    """The clock that a configuration reached; `what` was routed, on which part, by which tool; as whole `board`."""

    family: str
    config: Config
    mhz: float
    what: str
    board: str = ""


_ULX3S = "with host link and SDRAM controller, on an LFE5U-85F of speed grade 6, by nextpnr, "
#: The best of each configuration first.
CLOCKS = (
    Clock("ecp5", PRESETS["n9x8"], 106.5, _ULX3S + "seed 2", "ulx3s_85f"),
    Clock("ecp5", PRESETS["n9x8"], 94.5, _ULX3S + "seed 2, with another name of one register", "ulx3s_85f"),
    Clock("gowin", TANG.config, 55.7, "with host link, asked for 27 MHz, by nextpnr, seed 1", TANG.name),
)


@dataclass(frozen=True)
class ClockRange:
    """What routes of a family reached.

    Members
    -------
    low_mhz, high_mhz : the slowest and the fastest
    routes : those of the configuration itself where there are some, else all of the family
    same : whether they are of the configuration itself
    """

    low_mhz: float
    high_mhz: float
    routes: tuple[Clock, ...]
    same: bool

    @property
    def text(self) -> str:
        """What it says, as a person reads it."""
        names = ", ".join(dict.fromkeys(route.config.name for route in self.routes))
        clocks = (f"clock {self.low_mhz:g} MHz in one route" if len(self.routes) == 1 else
                  f"clock {self.low_mhz:g} to {self.high_mhz:g} MHz in {len(self.routes)} routes")
        return (f"{clocks} of {names}"
                + ("" if self.same else "; a machine of these sizes was never routed, a larger one may be slower"))


def clock_range(config: Config, family: str) -> ClockRange | None:
    """Return what is known of the clock that a configuration reaches; None where the family was never routed."""
    known = [clock for clock in CLOCKS if (clock.family, clock.config.design) == (family, config.design)]
    same = [clock for clock in known if clock.config.same_machine(config)]
    chosen = tuple(same or known)
    if not chosen:
        return None
    clocks = [clock.mhz for clock in chosen]
    return ClockRange(min(clocks), max(clocks), chosen, bool(same))
