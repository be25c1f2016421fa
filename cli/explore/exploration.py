"""The result of a search, and what is proved of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tq_hw.cli.explore.front import Point
from tq_hw.isa.config import Config

__all__ = ["Exploration"]


@dataclass(frozen=True)
class Exploration:
    """The result of a search.

    Members
    -------
    points : every machine that runs all models in the available memory, unordered
    front : machines that meet every deadline and that no other such machine beats, fastest first
    preset : the point of the target's preset, if it has one
    space, estimated : the number of machines that fit, and how many of them were estimated
    refused : reasons for refusals, each with the number of machines
    proved : those of PROOFS that hold: by their bounds, the machines that were not estimated are too slow or too large
    left : machines that fit but were not estimated, with their resources
    undecided : number of machines that may or may not beat the preset, because only one of the two was confirmed
    by_estimates : the result before anything was confirmed; None if nothing was
    """

    points: tuple[Point, ...]
    front: tuple[Point, ...]
    preset: Point | None
    space: int
    estimated: int
    refused: Mapping[str, int]
    proved: tuple[str, ...] = ()
    left: Mapping[Config, Mapping[str, float]] = field(default_factory=dict, repr=False)
    undecided: int = 0
    by_estimates: "Exploration | None" = None

    @property
    def exhaustive(self) -> bool:
        """Whether every machine that fits was estimated."""
        return self.estimated == self.space

    @property
    def preset_on_front(self) -> bool | None:
        """Whether no machine beats the preset; None if that is undecided or there is no preset.

        Of several machines that are equal in every objective, the front keeps one.
        """
        if self.preset is None:
            return None
        there = any(self.preset.objectives == point.objectives for point in self.front)
        return None if there and self.undecided else there

    @property
    def chosen(self) -> Point | None:
        """The fastest machine of the front, confirmed ones before estimated ones."""
        return min(self.front, key=lambda point: not point.confirmed_by, default=None)

    @property
    def sure(self) -> list[tuple[str, str]]:
        """What is proved, what estimates prove, and what is open, in words."""
        now = self._proofs
        then = self.by_estimates._proofs if self.by_estimates is not None else []
        lines = [("proved", line) for line in now] + [("proved by estimates", line) for line in then if line not in now]
        if self.undecided and self.preset is not None:
            lines.append(("not decided", f"whether a machine beats {self.preset.config.name}, the preset: "
                          f"{self.undecided:,} that could were not confirmed the same way"))
        return lines

    @property
    def _proofs(self) -> list[str]:
        lines = []
        if "preset" in self.proved and self.preset is not None and not self.exhaustive:
            beats = f"{self.preset.config.name}, the preset"
            lines.append(f"no machine of the space beats {beats}" if self.preset_on_front
                         else f"every machine of the space that beats {beats}, was estimated")
        if "fastest" in self.proved and not self.exhaustive:
            lines.append("no machine of the space is faster than the first")
        return lines
