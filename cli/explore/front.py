"""Machines with what is known of them, and which of them no other beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config

__all__ = ["OBJECTIVES", "Aim", "Point", "front_of"]

#: What is to be small.
OBJECTIVES = ("milliseconds", "luts", "multipliers", "block_rams", "bytes")


@dataclass(frozen=True)
class Aim:
    """A model with its weight, and its deadline in ms (0: none)."""

    name: str
    path: str
    blob: bytes = field(repr=False)
    weight: float = 1.0
    deadline_ms: float = 0.0


@dataclass(frozen=True)
class Point:
    """One machine: per model `cycles`, `bytes` and what bounds it; `taken` of the device, clock; what confirmed it."""

    config: Config
    taken: Mapping[str, float]
    models: Mapping[str, Mapping[str, Any]]
    milliseconds_by_model: Mapping[str, float]
    milliseconds: float
    clock_hz: int
    confirmed_by: tuple[str, ...] = ()

    @property
    def confirmation(self) -> str:
        """What confirmed the figures, as a person reads it."""
        ways = [f"{way} at {self.clock_hz / 1e6:.1f} MHz" if way == "route" else way for way in self.confirmed_by]
        return " and ".join(ways) or "estimate"

    @property
    def bytes(self) -> int:
        """Bytes that an inference of each model moves, together."""
        return sum(values["bytes"] for values in self.models.values())

    @property
    def objectives(self) -> tuple[float, ...]:
        """What is to be small, in the order of OBJECTIVES."""
        return (self.milliseconds, self.taken["luts"], self.taken["multipliers"], self.taken["block_rams"], self.bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the point as `explore --json` has it."""
        sizes = {key: getattr(self.config, key) for key in Config.__dataclass_fields__}
        return {"config": sizes, "fingerprint": f"{self.config.fingerprint:08x}", "milliseconds": self.milliseconds,
                "clock_mhz": self.clock_hz / 1e6,
                "cycles": {name: values["cycles"] for name, values in self.models.items()},
                "milliseconds_by_model": dict(self.milliseconds_by_model), "bytes": self.bytes,
                "bound": {name: values["bound"] for name, values in self.models.items()},
                "resources": dict(self.taken), "confirmed_by": self.confirmation}


def make_point(config: Config, taken: Mapping[str, float], aims: Sequence[Aim], models: Mapping[str, Mapping[str, Any]],
               clock_hz: int, confirmed_by: tuple[str, ...] = ()) -> Point:
    """Return a point; its time is the geometric mean over the models by their weights, which no unit of time bends."""
    times = {aim.name: 1000 * models[aim.name]["cycles"] / clock_hz for aim in aims}
    total = sum(aim.weight for aim in aims)
    mean = exp(sum(aim.weight * log(times[aim.name]) for aim in aims) / total)
    return Point(config, taken, models, times, mean, clock_hz, confirmed_by)


def in_time(point: Point, aims: Sequence[Aim]) -> bool:
    """Whether a point meets every deadline."""
    return all(not aim.deadline_ms or point.milliseconds_by_model[aim.name] <= aim.deadline_ms for aim in aims)


def front_of(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other is at least as good as in everything and better in something, fastest first."""
    ordered = sorted(points, key=lambda point: (*point.objectives, point.config.name))
    values: npt.NDArray[np.float64] = np.array([point.objectives for point in ordered], np.float64).reshape(
        len(ordered), len(OBJECTIVES))
    kept: list[int] = []
    for number, row in enumerate(values):
        # Whatever beats it comes before it in this order.
        if not any((values[other] <= row).all() for other in kept):
            kept.append(number)
    return [ordered[number] for number in kept]
