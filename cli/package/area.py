"""Area and clock of a core on FPGAs, each marked as measured, estimated or unknown."""

from dataclasses import dataclass
from typing import Any

from tq_hw.boards.resources.clocks import CLOCKS
from tq_hw.boards.resources.model import estimate_resources, families_of, spread
from tq_hw.boards.resources.record import KINDS, families, machines
from tq_hw.isa.config import Config

__all__ = ["Area", "areas"]


@dataclass(frozen=True)
class Area:
    """Cells on one family of FPGAs; None for unknown figures.

    Members
    -------
    family : as named by `tq-hw resources`
    source : "synthesized": this configuration, unit by unit; "estimated" from others; "not measured"
    cells : as named by `tq-hw build`
    clock_mhz : after routing; None: not measured
    clock_of : what was routed
    worst : of an estimate, the largest error of LUTs and flip-flops on known machines
    """

    family: str
    source: str
    cells: dict[str, float] | None = None
    clock_mhz: float | None = None
    clock_of: str = ""
    worst: float | None = None

    def facts(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {"family": self.family, "source": self.source, "cells": self.cells, "clock_mhz": self.clock_mhz,
                "clock_of": self.clock_of, "worst": self.worst}


def areas(config: Config) -> list[Area]:
    """Return the known figures of the machine by family, without the bridge to its register bus."""
    return [_area(config, family) for family in families()]


def _area(config: Config, family: str) -> Area:
    clock = next((one for one in CLOCKS if one.family == family and one.config.same_machine(config)), None)
    mhz, what = (clock.mhz, clock.what) if clock else (None, "")
    known = next((machine for machine in machines(family) if machine.config.same_machine(config)), None)
    if known is not None:
        cells = {kind: sum(unit.get(kind, 0) for unit in known.units.values()) for kind in KINDS}
        return Area(family, "synthesized", cells, mhz, what)
    if family not in families_of(config):
        return Area(family, "not measured", None, mhz, what)
    found = estimate_resources(config, family)
    errors = spread(family, config.design)
    worst = max((errors[kind].worst for kind in ("luts", "flip_flops") if kind in errors), default=None)
    return Area(family, "estimated", {kind: found.total(kind) for kind in KINDS}, mhz, what, worst)
