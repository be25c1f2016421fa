"""What is proved once some machines are confirmed and others only estimated: only figures of one kind are compared.

A machine that was not confirmed is represented by its bounds: its lower bound of time, and its multipliers and block
RAMs, which are exact. If these leave open whether it beats a confirmed one, nothing is claimed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tq_hw.cli.explore.bounds import TAKEN, Bounds
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import OBJECTIVES, Aim, Point
from tq_hw.cli.explore.target import Target

__all__ = ["settled"]


def settled(found: Exploration, estimated: Exploration, aims: Sequence[Aim], target: Target) -> Exploration:
    """Return an exploration after confirmation, with what is proved and how many machines are undecided."""
    bounds = Bounds(aims, target, [point.estimate for point in found.points])
    proved, undecided = [], 0
    if found.preset is not None:
        undecided = sum(_could_beat(point, found.preset, bounds) for point in found.points
                        if point.config != found.preset.config)
        if "preset" in estimated.proved and not undecided and not _left(found, found.preset, bounds):
            proved.append("preset")
    if "fastest" in estimated.proved and found.front and _is_fastest(found, found.front[0], bounds):
        proved.append("fastest")
    return replace(found, proved=tuple(proved), undecided=undecided, by_estimates=estimated)


def _least(point: Point, bounds: Bounds) -> Mapping[str, float]:
    """Return lower bounds of an estimated machine's objectives."""
    return {"milliseconds": bounds.milliseconds(point.config), "luts": 0.0, "bytes": 0.0,
            **{kind: point.estimate.taken[kind] for kind in ("multipliers", "block_rams")}}


def _could_beat(point: Point, preset: Point, bounds: Bounds) -> bool:
    """Whether a machine may beat the preset: confirmed in other ways, and not known to be worse in any objective."""
    kinds = [name for name in OBJECTIVES if point.measured(name) != preset.measured(name)]
    least = _least(point, bounds)
    for name, value, limit in zip(OBJECTIVES, point.objectives, preset.objectives, strict=True):
        if name not in kinds and value > limit:
            return False
        if name in kinds and not point.measured(name) and least[name] > limit:
            return False
    return bool(kinds)


def _left(found: Exploration, preset: Point, bounds: Bounds) -> bool:
    """Whether a machine that was never estimated may beat the preset."""
    kinds = [kind for kind in TAKEN if kind != "luts" or not preset.measured(kind)]
    return bool(bounds.rivals(found.left, preset, kinds))


def _is_fastest(found: Exploration, first: Point, bounds: Bounds) -> bool:
    """Whether the first machine is proved the fastest. Those confirmed in other ways count with their bounds."""
    others = [point for point in found.points if point.measured("milliseconds") != first.measured("milliseconds")]
    slower = (not point.measured("milliseconds") and bounds.milliseconds(point.config) >= first.milliseconds
              for point in others)
    return all(slower) and not bounds.faster(found.left, first.milliseconds)
