"""After a confirmation only figures of the same kind are compared: measured ones with measured ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli.explore.confirm import confirm, finalists_of
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import Aim, Point, front_of, make_point, times_as_fast
from tq_hw.cli.explore.search import Workers, explore
from tq_hw.cli.explore.target import Target, file_target
from tq_hw.isa.config import Config
from tq_hw.work import Task

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"
SPACE = """\
preset = "tiny"
clock_mhz = 50
[space]
rows = [4, 6]
cols = 4
requantize_lanes = [1, 2]
scratchpad_bytes = 8192
acc_words = 16
"""


class Measured(Workers):
    """Results of RTL runs, syntheses and routes that are given by the test, by machine size."""

    def __init__(self, answers: Mapping[tuple[int, int], Any]) -> None:
        super().__init__(Path("unused"))
        self.__dict__["answers"] = answers

    def run(self, tasks: Sequence[Task], what: str) -> dict[str, Any]:
        """Return the results by key."""
        return {task.key: self.__dict__["answers"][
            task.arguments["config"]["rows"], task.arguments["config"]["requantize_lanes"]] for task in tasks}


@pytest.fixture(scope="module")
def aims() -> list[Aim]:
    return [Aim("digits", "digits.tflite", DIGITS.read_bytes())]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    path = tmp_path_factory.mktemp("settled") / "space.toml"
    path.write_text(SPACE, encoding="utf-8")
    return file_target(str(path))


@pytest.fixture(scope="module")
def estimated(aims: list[Aim], target: Target, tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    found = explore(aims, target, Workers(tmp_path_factory.mktemp("settled") / "s.sqlite", 1), most=0)
    assert (len(found.points), found.preset_on_front, found.proved) == (4, True, ("preset", "fastest"))
    return found


def runs(found: Exploration, factors: Mapping[tuple[int, int], float]) -> Measured:
    """Return RTL runs whose cycles differ from the estimates."""
    return Measured({sizes: {"cycles": round(factor * point.models["digits"]["cycles"]), "bytes": point.bytes}
                     for point in found.points for sizes, factor in factors.items()
                     if sizes == (point.config.rows, point.config.requantize_lanes)})


def by_sizes(found: Exploration) -> dict[tuple[int, int], Point]:
    return {(point.config.rows, point.config.requantize_lanes): point for point in found.points}


def test_an_estimate_does_not_beat_the_cycles_of_the_preset(estimated: Exploration, aims: list[Aim],
                                                            target: Target) -> None:
    """On the RTL the preset is slower than a smaller machine's estimate, but that may be slower on the RTL, too."""
    slow = {(6, 2): 2.0, (4, 2): 2.0}
    found = confirm(("rtl",), estimated, aims, target, runs(estimated, slow), 1)
    smaller, preset = by_sizes(found)[4, 1], by_sizes(found)[4, 2]
    assert smaller.milliseconds < preset.milliseconds
    assert smaller.taken["luts"] < preset.taken["luts"]
    assert (found.preset_on_front, found.proved, found.undecided) == (None, (), 1)
    assert found.sure == [("not decided", "whether a machine beats tiny, the preset: 1 that could were not confirmed "
                                          "the same way")]
    assert found.by_estimates == estimated
    assert {point.config for point in (smaller, preset)} <= {point.config for point in found.front}
    # The slower one was requested and measured.
    assert found.chosen is not None
    assert (found.chosen.config.rows, found.chosen.confirmed_by) == (6, ("rtl",))


def test_measured_machines_are_compared_by_what_was_measured(estimated: Exploration, aims: list[Aim],
                                                             target: Target) -> None:
    every = dict.fromkeys(by_sizes(estimated), 2.0)
    found = confirm(("rtl",), estimated, aims, target, runs(estimated, every), 9)
    assert (found.preset_on_front, found.proved, found.undecided) == (True, ("preset", "fastest"), 0)
    found = confirm(("rtl",), estimated, aims, target, runs(estimated, {**every, (4, 1): 0.5}), 9)
    assert (found.preset_on_front, found.undecided) == (False, 0)
    assert by_sizes(found)[4, 2] not in found.front


def test_a_bound_decides_without_a_run(estimated: Exploration, aims: list[Aim], target: Target) -> None:
    """The preset takes fewer cycles than the lower bound of the other machine's array."""
    found = confirm(("rtl",), estimated, aims, target, runs(estimated, {(6, 2): 1.0, (4, 2): 0.01}), 1)
    assert (found.preset_on_front, found.undecided) == (True, 0)
    assert "preset" in found.proved
    # The preset is the fastest now, which is proved.
    assert (found.front[0].config.name, found.proved) == ("tiny", ("preset", "fastest"))


def test_the_fastest_is_not_sure_before_a_slower_one(estimated: Exploration, aims: list[Aim], target: Target) -> None:
    """The finalist turns out slower than the estimate of another machine that was not run."""
    found = confirm(("rtl",), estimated, aims, target, runs(estimated, {(6, 2): 9.0, (4, 2): 1.0}), 1)
    assert "fastest" not in found.proved


@pytest.mark.parametrize(("way", "proved", "undecided"), [("synth", ("fastest",), 1), ("route", (), 2)])
def test_cells_and_clocks_are_compared_alike_too(aims: list[Aim], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 way: str, proved: tuple[str, ...], undecided: int) -> None:
    """The preset has more cells, or a slower clock, than the estimates for machines with other lanes."""
    monkeypatch.setattr(f"tq_hw.cli.explore.confirm.{'synthesis' if way == 'synth' else 'route'}_task",
                        lambda board, memory, config: Task(str(config.fingerprint), print, b"", {"config": {
                            "rows": config.rows, "requantize_lanes": config.requantize_lanes}}))
    path = tmp_path / "lanes.toml"
    path.write_text(SPACE.replace("[4, 6]", "4").replace("[1, 2]", "[1, 2, 4]"), encoding="utf-8")
    target = file_target(str(path))
    estimated = explore(aims, target, Workers(tmp_path / "s.sqlite", 1), most=0)
    assert (estimated.preset_on_front, estimated.proved) == (True, ("preset", "fastest"))
    cells = {lanes: {"luts": 40_000 + lanes, "multipliers": 99, "block_rams": 99} for lanes in (1, 2, 4)}
    measured = Measured({(4, lanes): found if way == "synth" else {"cells": found, "reached": 0.5}
                         for lanes, found in cells.items()})
    found = confirm((way,), estimated, aims, target, measured, 0)
    assert (found.preset_on_front, found.proved, found.undecided) == (None, proved, undecided)
    # Later ways of confirming continue from the confirmed points.
    assert [point.confirmed_by for point in finalists_of(found, 2)] == [(way,), ()]
    every = confirm((way,), estimated, aims, target, measured, 9)
    assert (every.preset_on_front, every.proved, every.undecided) == (True, ("preset", "fastest"), 0)


def point(name: str, milliseconds: float, before: float = 0.0) -> Point:
    """Return a machine; all are equal except for their time. `before` is the estimate of a measured one."""
    taken = {"luts": 1, "multipliers": 1, "block_rams": 1}
    aim = Aim("m", "m", b"")

    def timed(value: float) -> Point:
        return make_point(Config(name, 4, 4, 2, 8192), taken, [aim], {"m": {"cycles": value, "bytes": 1}}, 1000)

    if not before:
        return timed(milliseconds)
    return make_point(Config(name, 4, 4, 2, 8192), taken, [aim], {"m": {"cycles": milliseconds, "bytes": 1}}, 1000,
                      ("rtl",), timed(before))


def names(*points: Point) -> list[str]:
    return [found.config.name for found in front_of(points)]


def test_a_front_of_both_kinds() -> None:
    # Measured points are compared by measured time, whatever their estimates.
    assert names(point("a", 5, 1), point("b", 4, 2)) == ["b"]
    # A measured point hides another that was worse by estimate and is worse by measurement.
    assert names(point("a", 5, 4), point("b", 6)) == ["a"]
    # It hides only points that its measured time beats, and no estimate hides it.
    assert names(point("a", 8, 4), point("b", 6)) == ["b", "a"]
    assert names(point("a", 8, 7), point("b", 6)) == ["b", "a"]
    assert names(point("a", 5, 7), point("b", 6)) == ["a", "b"]


def test_times_are_compared_alike() -> None:
    assert times_as_fast(point("a", 5, 4), point("b", 8)) == pytest.approx(2)
    assert times_as_fast(point("a", 5, 4), point("b", 10, 1)) == pytest.approx(2)
