"""The search: all machines of a small space; in a large one, a random sample and then those near the front."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tq_hw.boards.resources.board import taken
from tq_hw.cli.explore.bounds import Bounds
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import Aim, Point, front_of, in_time, make_point
from tq_hw.cli.explore.target import Target, configurations, first_refusal, fitting
from tq_hw.cli.explore.tasks import estimate_task
from tq_hw.isa.config import Config
from tq_hw.model.errors import OptionError, UnsupportedError
from tq_hw.store import Store
from tq_hw.work import Task, run_tasks

__all__ = ["PROOFS", "Workers", "explore", "in_front"]

#: What a search can prove: that no machine beats the preset, or that none is faster than the fastest.
PROOFS = ("preset", "fastest")

#: Rounds in a large space, and the divisor of the random share: it is spent first, the rest on neighbours of the front.
_ROUNDS, _RANDOM_SHARE = 10, 3
#: Machines estimated for a proof before the bounds are computed again.
_PROOF_BATCH = 32


@dataclass(frozen=True)
class Workers:
    """The workers, the store of results, and the progress function: done and total of the current request."""

    store: Path
    jobs: int | None = None
    scheduler: str | None = None
    seen: Callable[[int, int, str], None] = lambda _done, _all, _what: None

    def run(self, tasks: Sequence[Task], what: str) -> dict[str, Any]:
        """Return the results by key."""
        count, done = len({task.key for task in tasks}), 0
        store = Store(self.store)

        def note(_key: str, _value: Any) -> None:
            nonlocal done
            done += 1
            self.seen(done, count, what)

        try:
            return run_tasks(tasks, store, jobs=self.jobs, scheduler=self.scheduler, seen=note)
        finally:
            store.close()


class _Search:
    """The machines that fit, and the points estimated so far."""

    def __init__(self, aims: Sequence[Aim], target: Target, workers: Workers) -> None:
        self._aims, self._target, self._workers = aims, target, workers
        self.fits: dict[Config, Mapping[str, float]] = {}
        for config in configurations(target.space, target.preset):
            resources = fitting(target, config)
            if resources is not None:
                self.fits[config] = taken(resources)
        self.known: dict[Config, Point | None] = {}
        self.refused: dict[str, int] = {}

    def estimate(self, configs: Sequence[Config]) -> None:
        """Estimate machines for all models."""
        wanted = set(configs)
        # In the order of the space: neighbours pack the same weights, which a worker caches.
        tasks = {(config, aim.name): estimate_task(aim.blob, config, self._target.rate)
                 for config in self.fits if config in wanted for aim in self._aims}
        results = self._workers.run(list(tasks.values()), "estimates")
        for config in configs:
            models = {aim.name: results[tasks[config, aim.name].key] for aim in self._aims}
            reason = next(filter(None, (self._refusal(name, values) for name, values in models.items())), None)
            if reason is not None:
                self.refused[reason] = self.refused.get(reason, 0) + 1
                self.known[config] = None
                continue
            models = {name: {**values, "bound": max(values["bounds"], key=lambda kind: values["bounds"][kind])}
                      for name, values in models.items()}
            self.known[config] = make_point(config, self.fits[config], self._aims, models, self._target.clock_hz)

    def _refusal(self, name: str, values: Mapping[str, Any]) -> str | None:
        if "error" in values:
            return f"{name}: {values['error']}"
        if self._target.memory_bytes and values["memory_bytes"] > self._target.memory_bytes:
            return f"{name} needs more than the {self._target.memory_bytes:,} bytes of memory of {self._target.name}"
        return None

    @property
    def points(self) -> list[Point]:
        """The machines that run all models."""
        return [point for point in self.known.values() if point is not None]

    def neighbours(self) -> list[Config]:
        """Machines not estimated yet, one step of one size away from the front; near its fast end first."""
        axes = {key: {value: number for number, value in enumerate(values)}
                for key, values in self._target.space.items()}

        def place(config: Config) -> tuple[int, ...]:
            return tuple(axis.get(getattr(config, key), -9) for key, axis in axes.items())

        places = {place(config): config for config in self.fits}
        found: dict[Config, None] = {}
        for point in front_of(self.points):
            here = place(point.config)
            for axis in range(len(here)):
                for step in (-1, 1):
                    config = places.get((*here[:axis], here[axis] + step, *here[axis + 1:]))
                    if config is not None and config not in self.known:
                        found[config] = None
        return list(found)

    @property
    def preset(self) -> Point | None:
        """The point of the target's preset."""
        return self.known.get(self._target.preset) if self._target.preset is not None else None

    def undecided(self, proof: str) -> list[Config]:
        """Return the machines that may still refute a proof, lowest time bound first."""
        points, preset = self.points, self.preset
        if proof == "preset" and preset is None:
            return []
        bounds = Bounds(self._aims, self._target, points)
        if proof == "preset" and preset is not None:
            hopeful = bounds.rivals(self.fits, preset)
        else:
            best = in_front(points, self._aims) or front_of(points)
            hopeful = bounds.faster(self.fits, best[0].milliseconds)
        return [config for config in hopeful if config not in self.known]

    def prove(self, proof: str) -> None:
        """Estimate machines until none is left that may refute the proof."""
        while hopeful := self.undecided(proof):
            self.estimate(hopeful[:_PROOF_BATCH])


def explore(aims: Sequence[Aim], target: Target, workers: Workers, *, most: int, seed: int = 0,
            prove: Sequence[str] = ()) -> Exploration:
    """Estimate at most `most` machines of the target's space (0: all) and return the front.

    In a larger space, a sample drawn with `seed` is estimated first, then machines near the current front. The search
    is reproducible. `prove`, of PROOFS, goes on to estimate every machine that the bounds do not exclude. Raises
    OptionError if the space has no legal machine, UnsupportedError if none fits or runs the models.
    """
    search = _Search(aims, target, workers)
    everything = list(search.fits)
    if not everything and next(configurations(target.space, target.preset), None) is None:
        raise OptionError(f"{target.name}: no machine of the space can be built: {first_refusal(target.space)}")
    if not everything:
        raise UnsupportedError(f"no machine of the space fits {target.name}; allow smaller sizes or higher limits")
    if not most or len(everything) <= most:
        search.estimate(everything)
    else:
        chance = random.Random(seed)
        drawn = chance.sample(everything[1:], len(everything) - 1)
        search.estimate([everything[0], *drawn[:max(0, most // _RANDOM_SHARE - 1)]])
        share = max(1, most // _ROUNDS)
        while len(search.known) < most:
            near = search.neighbours()
            others = (config for config in drawn if config not in search.known and config not in near)
            batch = [*near, *others][:min(max(share, 1), most - len(search.known))]
            search.estimate(batch)
    points = search.points
    if points:
        for proof in prove:
            search.prove(proof)
        points = search.points
    if not points:
        reason = max(search.refused, key=lambda text: search.refused[text])
        raise UnsupportedError(f"none of {len(search.known):,} machines runs all models: {reason}")
    proved = tuple(proof for proof in PROOFS if (proof != "preset" or search.preset) and not search.undecided(proof))
    left = {config: taken for config, taken in search.fits.items() if config not in search.known}
    return Exploration(tuple(points), tuple(in_front(points, aims)), search.preset, len(everything),
                       len(search.known), search.refused, proved, left)


def in_front(points: Sequence[Point], aims: Sequence[Aim]) -> list[Point]:
    """Return the front of the points that meet every deadline."""
    return front_of([point for point in points if in_time(point, aims)])
