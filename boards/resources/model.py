"""What a configuration takes of an FPGA, estimated in milliseconds.

Multipliers and block RAM follow from rules (memories.py). LUTs, carries, flip-flops and small RAMs of each unit are
sums of a few sizes of the configuration, with factors that fit the recorded syntheses best in parts of their counts.
How far that is off is told by machines that are kept out of the fit, and by leaving each of the others out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tq_hw.boards.resources.memories import acc_depth, block_rams, lut_memory_bits, multipliers
from tq_hw.boards.resources.options import added_by_options
from tq_hw.boards.resources.record import KINDS, Machine, families, machines
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_log2
from tq_hw.model.errors import UnsupportedError

__all__ = ["FITTED", "Resources", "Spread", "errors_of", "estimate_resources", "families_of", "held", "spread"]

#: Kinds of cells that are fitted; multipliers and block RAM are exact.
FITTED = ("luts", "carries", "flip_flops", "small_rams")
#: Families whose units grow as those of another one, of LUTs with four inputs too, of which more was recorded.
_LIKE = {"gowin": "ecp5"}
#: Machines that are recorded, at least, where a family is offered.
_LEAST = 3
Array = npt.NDArray[np.float64]
Sizes = Callable[[Config, str], Sequence[float]]


@dataclass(frozen=True)
class Resources:
    """Cells by unit and kind, estimated."""

    family: str
    units: Mapping[str, Mapping[str, float]]

    def total(self, kind: str) -> float:
        """Return the sum over all units."""
        return sum(cells[kind] for cells in self.units.values())


@dataclass(frozen=True)
class Spread:
    """How far the totals of recorded machines are off that are not in the fit, in parts of their counts.

    `machines` were left out one at a time, or, `held` of them, all and always.
    """

    machines: int
    held: int
    median: float
    worst: float


def _beats(config: Config, family: str) -> Sequence[float]:
    return (1, config.bus_bytes)


def _shifter(config: Config) -> float:
    """Size of a shifter of a whole word by any number of bytes."""
    return config.word_bytes * ceil_log2(config.word_bytes)


def _words(config: Config, family: str) -> Sequence[float]:
    return (1, _shifter(config), config.bus_bytes, ceil_log2(config.scratchpad_words))


def _words_luts(config: Config, family: str) -> Sequence[float]:
    # Of a wide word synthesis makes a choice among all bytes for each byte, not stages of a shifter.
    return (*_words(config, family), config.word_bytes ** 2)


def _scratchpad(config: Config, family: str) -> Sequence[float]:
    return (1, config.word_bytes, ceil_log2(config.scratchpad_words))


def _registers(config: Config) -> float:
    """Bits of the registers of cells and of what comes to the rows one after another (hdl/array/grid.py)."""
    rows, cols, grouped = config.rows, config.cols, 3 * config.groups
    return (rows * cols * (2 * 8 + 16 + config.partial_sum_bits) + 8 * (grouped * cols + rows - grouped)
            + 8 * (rows * (rows - 1) // 2 + cols * grouped * (config.groups - 1) // 2))


def _array(config: Config, family: str) -> Sequence[float]:
    opens = config.cols * (config.acc_open > 0)
    return (1, config.rows * config.cols, config.cols, _shifter(config), lut_memory_bits(config, family),
            ceil_log2(acc_depth(config)), opens)


def _array_luts(config: Config, family: str) -> Sequence[float]:
    # A cell of a depthwise group chooses between two bytes; the others have no LUT. Each row is fed from a word.
    constant, _, *others = _array(config, family)
    return (constant, 3 * config.groups * config.cols, config.rows, *others)


def _vector(config: Config, family: str) -> Sequence[float]:
    lanes = config.requantize_lanes
    return (1, lanes, config.word_bytes, config.cols, config.activation_lanes, config.uops,
            lanes * config.beats_per_acc_word)


def _constant(config: Config, family: str) -> Sequence[float]:
    return (1,)


#: Sizes that a unit's cells grow with; of units that are not named no cell does.
_SIZES: dict[str, Sizes] = {
    "array": _array, "vector": _vector, "scratchpad": _scratchpad, "load": _words, "store": _words, "fetch": _beats,
    "read_channel": _beats, "write_channel": _beats,
}
#: Where LUTs grow with others than carries and flip-flops do.
_SIZES_OF_LUTS: dict[str, Sizes] = {"array": _array_luts, "load": _words_luts, "store": _words_luts}


def families_of(config: Config) -> tuple[str, ...]:
    """Return the families in which machines of the configuration's design were recorded."""
    least = _LEAST if config.design == "parallel" else 1
    return tuple(family for family in families() if len(_complete(family, config.design)) >= least)


def _whole(family: str, design: str) -> tuple[Machine, ...]:
    """Return the recorded machines of a design of which every unit was synthesized."""
    same = [machine for machine in machines(family) if machine.config.design == design]
    most = max((len(machine.units) for machine in same), default=0)
    return tuple(machine for machine in same if len(machine.units) == most)


def _complete(family: str, design: str) -> tuple[Machine, ...]:
    """Return the machines that are fitted."""
    return tuple(machine for machine in _whole(family, design) if not machine.held)


def held(family: str, design: str) -> tuple[Machine, ...]:
    """Return the machines that are kept out of the fit."""
    return tuple(machine for machine in _whole(family, design) if machine.held)


def _fit(rows: Array, counts: Array) -> Array:
    """Return factors, none of which is negative, that fit best in parts of the counts.

    What would need a negative factor is taken out, the most negative first. Of sizes that the rows do not tell apart
    each gets a share.
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




def _sizes(unit: str, kind: str, config: Config, family: str) -> Sequence[float]:
    """Return the sizes that a unit's cells of a kind grow with."""
    by_unit = _SIZES | _SIZES_OF_LUTS if kind == "luts" else _SIZES
    sizes = by_unit.get(unit, _constant)(config, family)
    return (*sizes, _registers(config)) if (unit, kind) == ("array", "flip_flops") else sizes


Factors = Mapping[str, Mapping[str, Array]]


def _shared(rows: Array, counts: Array, like: Array) -> Array:
    """Return the factors of another family times what the counts are of its estimates, on average."""
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
            rows = np.array([_sizes(unit, kind, machine.config, family) for machine in known], np.float64)
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
        units[unit] = {kind: round(float(np.array(_sizes(unit, kind, config, family), np.float64) @ vector))
                       for kind, vector in kinds.items()}
    for (unit, kind), count in added_by_options(config, family).items():
        units[unit][kind] += round(count)
    return units


def estimate_resources(config: Config, family: str) -> Resources:
    """Return what a configuration takes; UnsupportedError where no machine of its design was recorded."""
    if family not in families_of(config):
        raise UnsupportedError(
            f"configuration {config.name!r}: the {config.design} design was never synthesized for {family}; it was for "
            f"{' and '.join(families_of(config)) or 'no family'}: benches/area.py makes the record")
    if config.design == "serial":
        # Its memories and its engine have one size.
        return Resources(family, {unit: {kind: cells.get(kind, 0) for kind in KINDS}
                                  for unit, cells in _complete(family, config.design)[0].units.items()})
    units = _estimate(config, family, _all_factors(family, config.design))
    exact, rams = multipliers(config, family), block_rams(config, family)
    for unit, cells in units.items():
        cells |= {"multipliers": exact.get(unit, 0), "block_rams": rams.get(unit, 0)}
    return Resources(family, units)


def errors_of(machine: Machine, family: str, known: Sequence[Machine]) -> Mapping[str, float]:
    """Return by kind how far the total of a machine is off in a fit of others, in parts of its count."""
    units = _estimate(machine.config, family, _factors(family, known))
    real = {kind: max(1, sum(cells.get(kind, 0) for cells in machine.units.values())) for kind in FITTED}
    return {kind: sum(cells[kind] for cells in units.values()) / real[kind] - 1 for kind in FITTED}


@cache
def spread(family: str, design: str) -> Mapping[str, Spread]:
    """Return by kind how far totals are off for machines that are not in the fit.

    Of the serial design nothing is fitted, and nothing returned.
    """
    known = _complete(family, design)
    if design == "serial":
        return {}
    found = [errors_of(machine, family, [one for one in known if one is not machine]) for machine in known]
    found += [errors_of(machine, family, known) for machine in held(family, design)]
    by_kind = {kind: [abs(errors[kind]) for errors in found] for kind in FITTED}
    return {kind: Spread(len(found), len(found) - len(known), float(np.median(errors)), max(errors))
            for kind, errors in by_kind.items()}
