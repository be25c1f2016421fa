"""Estimate the FPGA resources of a configuration, in milliseconds.

Multipliers and block RAM follow from rules (memories.py). LUTs, carries, flip-flops and small RAMs of each unit are
linear functions of a few sizes of the configuration. Their factors are fitted to the recorded syntheses with the least
relative error.

The error of an estimate is measured on machines that are kept out of the fit, and by leaving out each of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median_low

import numpy as np
import numpy.typing as npt

from tq_hw.boards.resources.memories import block_rams, multipliers
from tq_hw.boards.resources.options import added_by_options
from tq_hw.boards.resources.record import KINDS, Machine, families, machines
from tq_hw.boards.resources.sizes import sizes_of
from tq_hw.isa.config import Config
from tq_hw.model.errors import UnsupportedError

__all__ = ["FITTED", "Resources", "Spread", "errors_of", "estimate_resources", "families_of", "held", "spread"]

#: Kinds of cells that are fitted; multipliers and block RAM are exact.
FITTED = ("luts", "carries", "flip_flops", "small_rams")
#: Families with few records, and the family, also with LUTs of four inputs, whose factors are scaled for them.
_LIKE = {"gowin": "ecp5"}
#: Least number of recorded machines for a family to be offered.
_LEAST = 3
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resources:
    """Estimated cells by unit and kind."""

    family: str
    units: Mapping[str, Mapping[str, float]]

    def total(self, kind: str) -> float:
        """Return the sum over all units."""
        return sum(cells[kind] for cells in self.units.values())


@dataclass(frozen=True)
class Spread:
    """Relative errors of estimated totals, for recorded machines outside the fit.

    `machines` counts them. `held` of them are never part of the fit; each of the others was left out in turn.
    """

    machines: int
    held: int
    median: float
    worst: float


def families_of(config: Config) -> tuple[str, ...]:
    """Return the families in which machines of the configuration's design were recorded."""
    least = _LEAST if config.design == "parallel" else 1
    return tuple(family for family in families() if len(_complete(family, config.design)) >= least)


def _whole(family: str, design: str) -> tuple[Machine, ...]:
    """Return the recorded machines of a design with every unit synthesized."""
    same = [machine for machine in machines(family) if machine.config.design == design]
    most = max((len(machine.units) for machine in same), default=0)
    return tuple(machine for machine in same if len(machine.units) == most)


def _complete(family: str, design: str) -> tuple[Machine, ...]:
    """Return the machines of the fit."""
    return tuple(machine for machine in _whole(family, design) if not machine.held)


def held(family: str, design: str) -> tuple[Machine, ...]:
    """Return the machines that are kept out of the fit."""
    return tuple(machine for machine in _whole(family, design) if machine.held)


def _fit(rows: Array, counts: Array) -> Array:
    """Return non-negative factors with the least relative error.

    Sizes whose factor would be negative are removed, the most negative first. Sizes that the rows do not distinguish
    share a factor.
    """
    weights = 1 / np.maximum(counts, 1)
    scales = np.maximum(rows.max(axis=0), 1)
    scaled = rows / scales * weights[:, None]
    kept = list(range(rows.shape[1]))
    found: Array = np.zeros(rows.shape[1])
    while kept:
        factors = np.linalg.lstsq(scaled[:, kept], counts * weights, rcond=1e-6)[0]
        if factors.min() >= 0:
            found[kept] = factors
            break
        del kept[int(factors.argmin())]
    factors_of: Array = found / scales
    return factors_of



Factors = Mapping[str, Mapping[str, Array]]


def _shared(rows: Array, counts: Array, like: Array) -> Array:
    """Return the factors of another family, scaled by the mean ratio of counts to their estimates."""
    estimates = rows @ like
    shares = counts[estimates > 0] / estimates[estimates > 0]
    factors_of: Array = like * (shares.mean() if len(shares) else 0.0)
    return factors_of


def _factors(family: str, known: Sequence[Machine]) -> Factors:
    found: dict[str, dict[str, Array]] = {}
    added = [added_by_options(machine.config, family) for machine in known]
    like = _all_factors(_LIKE[family], known[0].config.design) if family in _LIKE else None
    for unit in known[0].units:
        found[unit] = {}
        for kind in FITTED:
            rows = np.array([sizes_of(unit, kind, machine.config, family) for machine in known], np.float64)
            counts = np.array([machine.units[unit].get(kind, 0) - more.get((unit, kind), 0)
                               for machine, more in zip(known, added, strict=True)], np.float64)
            found[unit][kind] = _fit(rows, counts) if like is None else _shared(rows, counts, like[unit][kind])
    return found


@cache
def _all_factors(family: str, design: str) -> Factors:
    return _factors(family, _complete(family, design))


def _estimate(config: Config, family: str, factors: Factors) -> dict[str, dict[str, float]]:
    units: dict[str, dict[str, float]] = {}
    for unit, kinds in factors.items():
        units[unit] = {kind: round(float(np.array(sizes_of(unit, kind, config, family), np.float64) @ vector))
                       for kind, vector in kinds.items()}
    for (unit, kind), count in added_by_options(config, family).items():
        units[unit][kind] += round(count)
    return units


def estimate_resources(config: Config, family: str) -> Resources:
    """Return the resources of a configuration; UnsupportedError if no machine of its design was recorded."""
    if family not in families_of(config):
        raise UnsupportedError(
            f"configuration {config.name!r}: the {config.design} design was never synthesized for {family}; it was for "
            f"{' and '.join(families_of(config)) or 'no family'}: benches/area.py makes the record")
    if config.design == "serial":
        return Resources(family, _serial(config, family))
    units = _estimate(config, family, _all_factors(family, config.design))
    exact, rams = multipliers(config, family), block_rams(config, family)
    for unit, cells in units.items():
        cells |= {"multipliers": exact.get(unit, 0), "block_rams": rams.get(unit, 0)}
    return Resources(family, units)


def _serial(config: Config, family: str) -> Mapping[str, Mapping[str, float]]:
    """Return a serial machine's cells: its own if recorded, else the median of the recorded machines by kind.

    All serial machines have the same memories and engine. Constants that depend on the scratchpad's size make Yosys map
    the same logic to different numbers of LUTs: 2,531, 2,712 and 2,997 for Gowin.
    """
    known = _complete(family, "serial")
    same = [machine for machine in known if machine.config.same_machine(config)] or known
    return {unit: {kind: median_low(machine.units[unit].get(kind, 0) for machine in same) for kind in KINDS}
            for unit in known[0].units}


def errors_of(machine: Machine, family: str, known: Sequence[Machine]) -> Mapping[str, float]:
    """Return the relative error of a machine's totals by kind, as estimated from a fit of `known` machines."""
    units = _estimate(machine.config, family, _factors(family, known))
    real = {kind: max(1, sum(cells.get(kind, 0) for cells in machine.units.values())) for kind in FITTED}
    return {kind: sum(cells[kind] for cells in units.values()) / real[kind] - 1 for kind in FITTED}


@cache
def spread(family: str, design: str) -> Mapping[str, Spread]:
    """Return the errors of totals by kind, for machines outside the fit.

    The serial design has no fit, so its result is empty.
    """
    known = _complete(family, design)
    if design == "serial":
        return {}
    found = [errors_of(machine, family, [one for one in known if one is not machine]) for machine in known]
    found += [errors_of(machine, family, known) for machine in held(family, design)]
    by_kind = {kind: [abs(errors[kind]) for errors in found] for kind in FITTED}
    return {kind: Spread(len(found), len(found) - len(known), float(np.median(errors)), max(errors))
            for kind, errors in by_kind.items()}
