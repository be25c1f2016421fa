"""Clocks after placing and routing, as docs/guide/measure.md tells of them: few were measured."""

from dataclasses import dataclass

from tq_hw.isa.config import PRESETS, Config

__all__ = ["CLOCKS", "Clock"]


@dataclass(frozen=True)
class Clock:
    """The clock that a configuration reached; `what` was routed, on which part, by which tool."""

    family: str
    config: Config
    mhz: float
    what: str


CLOCKS = (
    Clock("ecp5", PRESETS["n9x8"], 100.9,
          "with host link and SDRAM controller, on an LFE5U-85F of speed grade 6, by nextpnr, best of two seeds"),
)
