"""Confirms the estimates of the finalists: cycles by the RTL, cells by synthesis, the clock by routing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tq_hw.boards.build.toolchains import choose
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.boards.resources.board import taken
from tq_hw.boards.resources.model import Resources
from tq_hw.boards.resources.record import KINDS
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import Aim, Point, make_point
from tq_hw.cli.explore.search import Workers, in_front
from tq_hw.cli.explore.settled import settled
from tq_hw.cli.explore.target import Target
from tq_hw.cli.explore.tasks import route_task, rtl_task, synthesis_task
from tq_hw.isa.config import Config
from tq_hw.model.errors import MissingToolError, OptionError
from tq_hw.sim.rtl.cache import open_cache
from tq_hw.sim.rtl.tools import check_tools
from tq_hw.work import Task

__all__ = ["WAYS", "check_ways", "confirm", "finalists_of"]

#: In order of execution: synthesis drops machines that do not fit before the later steps.
WAYS = ("synth", "route", "rtl")


def check_ways(ways: Sequence[str], target: Target, here: bool = True) -> None:
    """Check before the search that each way of confirming is possible; `here`: on local processes."""
    for way in ("synth", "route"):
        if way in ways and not target.memory:
            raise OptionError(f"--confirm {way}: a board is {'synthesized' if way == 'synth' else 'routed'}; give "
                              "--board")
    if "route" in ways:
        missing = choose(find_board(target.name), "").missing
        if missing:
            raise MissingToolError(f"--confirm route: {target.name} needs {' and '.join(missing)}, not installed here; "
                                   "--confirm synth does without")
    if "rtl" in ways and here:
        check_tools(open_cache("rtl"))


def confirm(ways: Sequence[str], found: Exploration, aims: Sequence[Aim], target: Target, workers: Workers,
            finalists: int) -> Exploration:
    """Confirm the fastest machines of the front, and the preset, in each of the ways."""
    does = {"synth": _cells, "route": _routes, "rtl": _cycles}
    estimated = found
    for way in WAYS:
        if way in ways:
            found = does[way](found, aims, target, workers, finalists)
    return settled(found, estimated, aims, target) if ways else found


def finalists_of(found: Exploration, count: int) -> list[Point]:
    """Return the fastest machines of the front, those already confirmed first, and the preset."""
    chosen = sorted(found.front, key=lambda point: not point.confirmed_by)[:count]
    if found.preset is not None and found.preset not in chosen:
        chosen.append(found.preset)
    return chosen


def _exchanged(found: Exploration, aims: Sequence[Aim], better: Mapping[Config, Point]) -> Exploration:
    """Return an exploration with some points replaced by confirmed ones, and its new front."""
    points = [better.get(point.config, point) for point in found.points]
    preset = better.get(found.preset.config) if found.preset is not None else None
    return replace(found, points=tuple(points), front=tuple(in_front(points, aims)), preset=preset)


def _cycles(found: Exploration, aims: Sequence[Aim], target: Target, workers: Workers, finalists: int) -> Exploration:
    """Run machines on the RTL and replace the estimated cycles by the counted ones."""
    chosen = finalists_of(found, finalists)
    tasks = {(point.config, aim.name): rtl_task(aim.blob, point.config, target.rate)
             for point in chosen for aim in aims}
    results = workers.run(list(tasks.values()), "RTL runs")
    better: dict[Config, Point] = {}
    for point in chosen:
        models = {name: {**values, **results[tasks[point.config, name].key], "estimate": values["cycles"]}
                  for name, values in point.models.items()}
        better[point.config] = make_point(point.config, point.taken, aims, models, point.clock_hz,
                                          (*point.confirmed_by, "rtl"), point.estimate)
    return _exchanged(found, aims, better)


def _without(found: Exploration, configs: Mapping[Config, str]) -> Exploration:
    """Return an exploration without the given machines, whose reasons are counted as refusals."""
    refused = dict(found.refused)
    for reason in configs.values():
        refused[reason] = refused.get(reason, 0) + 1
    return replace(found, points=tuple(point for point in found.points if point.config not in configs),
                   refused=refused)


def _counts(target: Target, cells: Mapping[str, Any]) -> Mapping[str, float]:
    return taken(Resources(target.family, {target.name: {kind: cells.get(kind, 0) for kind in KINDS}}))


def _on_board(points: Sequence[Point], task: Callable[[str, str, Config], Task], target: Target, workers: Workers,
              what: str) -> list[tuple[Point, Any]]:
    """Run a task of the board for each point; return points and results."""
    tasks = {point.config: task(target.name, target.memory, point.config) for point in points}
    results = workers.run(list(tasks.values()), what)
    return [(point, results[tasks[point.config].key]) for point in points]


def _cells(found: Exploration, aims: Sequence[Aim], target: Target, workers: Workers, finalists: int) -> Exploration:
    """Synthesize the board with each machine, replace the estimated cells, and drop machines that exceed a limit."""
    better: dict[Config, Point] = {}
    too_large: dict[Config, str] = {}
    for point, cells in _on_board(finalists_of(found, finalists), synthesis_task, target, workers, "syntheses"):
        counts = _counts(target, cells)
        better[point.config] = replace(point, taken=counts, confirmed_by=(*point.confirmed_by, "synth"),
                                       before=point.estimate)
        if any(counts[kind] > most for kind, most in target.limits.items()):
            too_large[point.config] = "does not fit by synthesis"
    return _exchanged(_without(found, too_large), aims, better)


def _routes(found: Exploration, aims: Sequence[Aim], target: Target, workers: Workers, finalists: int) -> Exploration:
    """Place and route the board with each machine. One that misses the board's clock gets the clock that it reaches."""
    better: dict[Config, Point] = {}
    failed: dict[Config, str] = {}
    for point, result in _on_board(finalists_of(found, finalists), route_task, target, workers, "routes"):
        if "error" in result:
            failed[point.config] = f"could not be routed: {result['error']}"
            continue
        clock_hz = round(target.clock_hz * min(1.0, result["reached"]))
        better[point.config] = make_point(point.config, _counts(target, result["cells"]), aims, point.models, clock_hz,
                                          (*point.confirmed_by, "route"), point.estimate)
    return _exchanged(_without(found, failed), aims, better)
