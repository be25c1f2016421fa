"""Placing with several seeds at once: which result is kept, and what remains of the others; nextpnr is a stand-in."""

import json
import sys
import time
from pathlib import Path

import pytest

from tq_hw.boards.build.cluster_seeds import place_on_cluster
from tq_hw.boards.build.seeds import place_and_route
from tq_hw.boards.build.tools import TOOLS, Tool
from tq_hw.model.errors import ToolError

#: Waits and reports the clock rates that `plan.json` gives for its seed; writes nextpnr's files where it is told to.
PROGRAM = f"""#!{sys.executable}
import json, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("seed", words["--seed"])
seconds, clocks = json.load(open("plan.json"))[words["--seed"]]
time.sleep(seconds)
if not clocks:
    sys.exit("no room")
if "use" in clocks:
    open(words["--log"], "w").write(clocks["use"])
    time.sleep(60)
for option in ("--log", "--textcfg"):
    open(words[option], "w").write(words["--seed"])
fmax = {{name: {{"achieved": mhz, "constraint": 100}} for name, mhz in clocks.items()}}
json.dump({{"fmax": fmax, "critical_paths": []}}, open(words["--report"], "w"))
"""
ARGUMENTS = ["--seed", "1", "--report", "timing.json", "--json", "top.json", "--log", "top.tim", "--textcfg",
             "top.config"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "place"
    program.parent.mkdir()
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setitem(TOOLS, "place", Tool("place"))
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def write_plan(folder: Path, plan: dict[int, tuple[float, dict[str, float]]]) -> None:
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def test_the_best_seed_is_kept(folder: Path) -> None:
    write_plan(folder, {3: (4, {"a": 90, "b": 120}), 4: (4.2, {"a": 99, "b": 95}), 5: (4.1, {"a": 130, "b": 80})})
    placed = place_and_route("place", ARGUMENTS, folder, [3, 4, 5])
    assert (placed.seed, dict(placed.reached)) == (4, {3: 0.9, 4: 0.95, 5: 0.8})
    assert {name: timing.fmax_mhz for name, timing in placed.timings.items()} == {"a": 99, "b": 95}
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "timing.json", "top.config", "top.tim"]
    assert (folder / "top.config").read_text() == (folder / "top.tim").read_text() == "4"


def test_cluster_tasks_return_the_best_seed(folder: Path) -> None:
    arguments = [*ARGUMENTS, "--plan", "plan.json"]
    write_plan(folder, {3: (0, {"a": 90}), 4: (0, {"a": 99}), 5: (0, {"a": 80})})
    placed = place_on_cluster("place", arguments, folder, [3, 4, 5], None)
    assert (placed.seed, dict(placed.reached)) == (4, {3: 0.9, 4: 0.99, 5: 0.8})
    assert (folder / "top.config").read_text() == (folder / "top.tim").read_text() == "4"
    write_plan(folder, {3: (0, {"a": 90}), 4: (0, {"a": 100}), 5: (0, {"a": 120})})
    placed = place_on_cluster("place", arguments, folder, [3, 4, 5], None)
    assert (placed.seed, dict(placed.reached)) == (4, {3: 0.9, 4: 1.0})


def test_a_seed_that_meets_the_timing_stops_the_others(folder: Path) -> None:
    write_plan(folder, {1: (60, {"a": 200}), 2: (0.2, {"a": 100})})
    start = time.monotonic()
    told: list[float] = []
    placed = place_and_route("place", ARGUMENTS, folder, [1, 2], told.append)
    assert (placed.seed, dict(placed.reached)) == (2, {2: 1.0})
    assert time.monotonic() - start < 30 and told and told == sorted(told)
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "timing.json", "top.config", "top.tim"]


def test_the_other_seeds_are_stopped_after_half_as_long_again(folder: Path) -> None:
    write_plan(folder, {1: (60, {"a": 200}), 2: (0.2, {"a": 99})})
    start = time.monotonic()
    placed = place_and_route("place", ARGUMENTS, folder, [1, 2])
    assert (placed.seed, dict(placed.reached)) == (2, {2: 0.99})
    assert time.monotonic() - start < 30
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "timing.json", "top.config", "top.tim"]


def test_a_seed_that_fails_stops_the_others(folder: Path) -> None:
    write_plan(folder, {1: (60, {"a": 200}), 2: (0.2, {})})
    start = time.monotonic()
    with pytest.raises(ToolError) as error:
        place_and_route("place", ARGUMENTS, folder, [1, 2])
    assert str(error.value) == "place failed with exit code 1; its last output:\nseed 2\nno room"
    assert time.monotonic() - start < 30


#: As nextpnr 0.9 writes it; nextpnr itself would keep looking for room.
USE = """Info: Device utilisation:
Info: \t          TRELLIS_IO:       4/    197     2%
Info: \t        TRELLIS_COMB:   24684/  24288   101%
Info: \t        TRELLIS_RAMW:    3040/   3036   100%

Info: Running Static placer...
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_design_that_is_too_large_is_not_placed(folder: Path, elsewhere: bool) -> None:
    (folder / "plan.json").write_text(json.dumps({1: (0, {"use": USE})}), encoding="utf-8")
    with pytest.raises(ToolError) as error:
        if elsewhere:
            place_on_cluster("place", [*ARGUMENTS, "--plan", "plan.json"], folder, [1], None)
        else:
            place_and_route("place", ARGUMENTS, folder, [1])
    assert str(error.value).startswith(
        "place: the design does not fit: it needs 24,684 TRELLIS_COMB of 24,288 and 3,040 TRELLIS_RAMW of 3,036; "
        "a smaller configuration would help")
