"""Clocks after place and route. Few were measured, and the estimate says how few."""

from collections.abc import Iterable
from dataclasses import dataclass

from tq_hw.boards.catalog.icebreaker import BOARD as ICEBREAKER
from tq_hw.boards.catalog.icesugar_pro import BOARD as ICESUGAR
from tq_hw.boards.catalog.tang_primer_20k import BOARD as TANG
from tq_hw.boards.catalog.ulx3s_85f import BOARD as ULX3S
from tq_hw.isa.config import PRESETS, Config

__all__ = ["CLOCKS", "Clock", "ClockRange", "clock_range"]


@dataclass(frozen=True)
class Clock:
    """The clock that a configuration reached; `what`: the routed design, part and tool; `board`: the whole board."""

    family: str
    config: Config
    mhz: float
    what: str
    board: str


_ULX3S = "with host link and SDRAM controller, on an LFE5U-85F of speed grade 6, by nextpnr, "
_ECPIX5 = "with host link and DDR3 controller, on an LFE5UM5G-85F of speed grade 8, by nextpnr, seed 2"
_ICESUGAR = ("with host link and SDRAM controller, on an LFE5U-25F of speed grade 6, asked for 37.5 MHz, by nextpnr, "
             "seed 5")
#: By configuration, the slower part first; for each part its best route.
CLOCKS = (
    Clock("ecp5", ULX3S.config, 100.5, _ULX3S + "seed 1", ULX3S.name),
    Clock("ecp5", PRESETS["n9x8"], 146.0, _ECPIX5, "ecpix5_85f"),
    Clock("ecp5", ICESUGAR.config, 38.6, _ICESUGAR, ICESUGAR.name),
    Clock("gowin", TANG.config, 57.1, "with host link, asked for 27 MHz, by nextpnr, seed 1", TANG.name),
    Clock("ice40", ICEBREAKER.config, 15.5, "with host link, asked for 12 MHz, by nextpnr, seed 1", ICEBREAKER.name),
)


@dataclass(frozen=True)
class ClockRange:
    """Clocks of the routes of a family.

    Members
    -------
    low_mhz, high_mhz : the slowest and the fastest
    routes : those of the configuration itself if there are any, else all of the family
    same : whether they are of the configuration itself
    """

    low_mhz: float
    high_mhz: float
    routes: tuple[Clock, ...]
    same: bool

    @property
    def text(self) -> str:
        """The range as a sentence for users."""
        names = _listed(route.config.name for route in self.routes)
        clocks = (f"clock {self.low_mhz:g} MHz in one route" if len(self.routes) == 1 else
                  f"clock {self.low_mhz:g} to {self.high_mhz:g} MHz in {len(self.routes)} routes")
        return (f"{clocks} of {names} on {_listed(route.board for route in self.routes)}"
                + ("" if self.same else "; a machine of these sizes was never routed, a larger one may be slower"))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def clock_range(config: Config, family: str, board: str = "") -> ClockRange | None:
    """Return the known clocks for a configuration; None if the family was never routed.

    Parts of a family differ in speed: if there are routes for `board`, only these count.
    """
    known = [clock for clock in CLOCKS if (clock.family, clock.config.design) == (family, config.design)]
    known = [clock for clock in known if clock.board == board] or known
    same = [clock for clock in known if clock.config.same_machine(config)]
    chosen = tuple(same or known)
    if not chosen:
        return None
    clocks = [clock.mhz for clock in chosen]
    return ClockRange(min(clocks), max(clocks), chosen, bool(same))
