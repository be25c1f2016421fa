"""Machines with their figures, and the Pareto front: the machines that no other beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config

__all__ = ["OBJECTIVES", "Aim", "Point", "alike", "front_of", "in_time", "make_point", "times_as_fast"]

#: Figures to be minimized.
OBJECTIVES = ("milliseconds", "luts", "multipliers", "block_rams", "bytes")
#: Ways of confirming that replace the estimate of an objective. The rules for multipliers and block RAMs are exact for
#: the machine, but synthesis of the whole board may find one more.
_MEASURED = {"milliseconds": ("route", "rtl"), "bytes": ("rtl",)}
_MEASURED |= dict.fromkeys(("luts", "multipliers", "block_rams"), ("synth", "route"))


@dataclass(frozen=True)
class Aim:
    """A model with its weight in the mean, and its deadline in ms (0: none)."""

    name: str
    path: str
    blob: bytes = field(repr=False)
    weight: float = 1.0
    deadline_ms: float = 0.0


@dataclass(frozen=True)
class Point:
    """One machine: `cycles`, `bytes` and bound per model, resources `taken`, clock, and the ways of its confirmation.

    `before` is its estimate; None if nothing was confirmed.
    """

    config: Config
    taken: Mapping[str, float]
    models: Mapping[str, Mapping[str, Any]]
    milliseconds_by_model: Mapping[str, float]
    milliseconds: float
    clock_hz: int
    confirmed_by: tuple[str, ...] = ()
    before: "Point | None" = None

    @property
    def estimate(self) -> "Point":
        """The point as it was estimated."""
        return self.before or self

    def measured(self, objective: str) -> tuple[str, ...]:
        """Return the ways in which an objective was confirmed; () if it is an estimate."""
        return tuple(way for way in _MEASURED[objective] if way in self.confirmed_by)

    @property
    def confirmation(self) -> str:
        """The ways in which the figures were confirmed, in words."""
        ways = [f"{way} at {self.clock_hz / 1e6:.1f} MHz" if way == "route" else way for way in self.confirmed_by]
        return " and ".join(ways) or "estimate"

    @property
    def bytes(self) -> int:
        """Total bytes that one inference of each model moves."""
        return sum(values["bytes"] for values in self.models.values())

    @property
    def objectives(self) -> tuple[float, ...]:
        """The figures to be minimized, in the order of OBJECTIVES."""
        return (self.milliseconds, self.taken["luts"], self.taken["multipliers"], self.taken["block_rams"], self.bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the point as in the JSON of `explore --json`."""
        sizes = {key: getattr(self.config, key) for key in Config.__dataclass_fields__}
        return {"config": sizes, "fingerprint": f"{self.config.fingerprint:08x}", "milliseconds": self.milliseconds,
                "clock_mhz": self.clock_hz / 1e6,
                "cycles": {name: values["cycles"] for name, values in self.models.items()},
                "milliseconds_by_model": dict(self.milliseconds_by_model), "bytes": self.bytes,
                "bound": {name: values["bound"] for name, values in self.models.items()},
                "resources": dict(self.taken), "confirmed_by": self.confirmation}


def make_point(config: Config, taken: Mapping[str, float], aims: Sequence[Aim], models: Mapping[str, Mapping[str, Any]],
               clock_hz: int, confirmed_by: tuple[str, ...] = (), before: Point | None = None) -> Point:
    """Return a point. Its time is the weighted geometric mean over the models."""
    times = {aim.name: 1000 * models[aim.name]["cycles"] / clock_hz for aim in aims}
    total = sum(aim.weight for aim in aims)
    mean = exp(sum(aim.weight * log(times[aim.name]) for aim in aims) / total)
    return Point(config, taken, models, times, mean, clock_hz, confirmed_by, before)


def in_time(point: Point, aims: Sequence[Aim]) -> bool:
    """Whether a point meets every deadline."""
    return all(not aim.deadline_ms or point.milliseconds_by_model[aim.name] <= aim.deadline_ms for aim in aims)


def alike(one: Point, other: Point) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return comparable objectives of two points: both by estimate, unless both were confirmed in the same ways.

    An RTL run differs from its estimate by some percent, so it cannot be compared with another machine's estimate.
    """
    pairs = [pair if one.measured(name) == other.measured(name) else estimates for name, pair, estimates in zip(
        OBJECTIVES, zip(one.objectives, other.objectives, strict=True),
        zip(one.estimate.objectives, other.estimate.objectives, strict=True), strict=True)]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def times_as_fast(one: Point, other: Point) -> float:
    """Return how many times as fast a point is as another, by comparable figures."""
    mine, its = alike(one, other)
    return its[0] / mine[0]


def _beats(one: Point, other: Point) -> bool:
    """Whether a point beats another one that comes later in the order. It must be confirmed in at least the same ways.

    It must be as good both by comparable figures and by all that is known: a confirmed figure that is worse than its
    estimate must not hide another point.
    """
    mine, its = alike(one, other)
    return (set(other.confirmed_by) <= set(one.confirmed_by)
            and all(better <= worse for better, worse in zip(mine, its, strict=True))
            and all(better <= worse for better, worse in zip(one.objectives, other.objectives, strict=True)))


def _order(point: Point) -> tuple[object, ...]:
    return (*point.objectives, point.config.name)


def front_of(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats: as good in every objective and better in one. Fastest first.

    An estimate never beats a confirmed point.
    """
    estimated = _front_of_estimates([point for point in points if not point.confirmed_by])
    ordered = sorted([*(point for point in points if point.confirmed_by), *estimated], key=_order)
    return [point for number, point in enumerate(ordered)
            if not any(_beats(other, point) for other in ordered[:number] if other.confirmed_by)]


def _front_of_estimates(points: Sequence[Point]) -> list[Point]:
    ordered = sorted(points, key=_order)
    values: npt.NDArray[np.float64] = np.array([point.objectives for point in ordered], np.float64).reshape(
        len(ordered), len(OBJECTIVES))
    kept: list[int] = []
    for number, row in enumerate(values):
        # In this order, any point that beats another one comes before it.
        if not any((values[other] <= row).all() for other in kept):
            kept.append(number)
    return [ordered[number] for number in kept]
