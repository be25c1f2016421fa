"""`tq-hw explore`: small spaces and the digits network."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tq_hw.boards.build.build import BuildResult
from tq_hw.boards.build.figures import Timing
from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.resources.record import Machine
from tq_hw.cli.commands.explore import read_aims
from tq_hw.cli.explore.bounds import Bounds, weight_bytes
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import Point
from tq_hw.cli.explore.options import with_options
from tq_hw.cli.explore.search import Workers, explore
from tq_hw.cli.explore.target import board_target, file_target
from tq_hw.cli.explore.tasks import estimate_task
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import ToolError
from tq_hw.model.tflite.reader import read_model

Tq = Callable[..., Any]
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"
SPACE = """\
preset = "tiny"
clock_mhz = 50
[limits]
multipliers = 40
[space]
rows = [4, 6]
cols = 4
requantize_lanes = [1, 2, 4]
scratchpad_bytes = [8192, 16384]
acc_words = 16
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE, encoding="utf-8")
    return path


def kept(store: Path) -> int:
    """Return the number of results in a store."""
    if not store.exists():
        return 0
    base = sqlite3.connect(store, timeout=60)
    tables = base.execute("SELECT name FROM sqlite_master").fetchall()
    count = base.execute("SELECT count(*) FROM results").fetchone()[0] if tables else 0
    base.close()
    return int(count)


def front(path: str = "r.json") -> dict[str, Any]:
    report: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return report


def test_the_front_of_a_small_space(tq: Tq, space: Path) -> None:
    result = tq("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--json", "r.json", "-o",
                "c.toml", "--html", "p.html")
    assert (result.code, result.err) == (0, "")
    report = front()
    # The largest machine, 6x4x4, takes 24 + 16 = 40 multipliers, which is the limit: all machines fit.
    assert (report["space"], report["estimated"], report["exhaustive"]) == (12, 12, True)
    points = report["front"]
    times = [point["milliseconds"] for point in points]
    assert times == sorted(times)
    assert points[0]["cycles"]["digits"] / 50e3 == pytest.approx(times[0])
    keys = ("milliseconds", "bytes")
    for one in points:
        for other in points:
            better = all(other[key] <= one[key] for key in keys) and all(
                other["resources"][kind] <= one["resources"][kind] for kind in ("luts", "multipliers", "block_rams"))
            assert other is one or not better
    chosen = load_config("c.toml")
    assert f"{chosen.fingerprint:08x}" == points[0]["fingerprint"] == report["chosen"]["fingerprint"]
    assert tomllib.loads(Path("c.toml").read_text(encoding="utf-8"))["rows"] == chosen.rows
    page = Path("p.html").read_text(encoding="utf-8")
    assert chosen.name in page
    links = re.findall(r'href="#(machine\d+)"', page)
    assert links == re.findall(r'<h3 id="(machine\d+)"', page)
    assert len(links) == len(points)
    assert page.count("requantize_lanes = ") == len(points)
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", page)


def test_reports_are_files_beside_the_page(tq: Tq, space: Path) -> None:
    """Relative links remain valid if the page and its folder are moved together."""
    Path("out").mkdir()
    result = tq("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--finalists", "1", "--html",
                "out/p.html", "--reports", "--json", "r.json")
    assert (result.code, result.err) == (0, "")
    Path("out").rename("moved")
    page = Path("moved/p.html").read_text(encoding="utf-8")
    links = re.findall(r'class="report" href="([^"]+)">digits</a>', page)
    fastest = front()["chosen"]["config"]["name"]
    assert links == [f"p_reports/1-{fastest}/1-digits.html", "p_reports/2-tiny/1-digits.html"]
    for link, name in zip(links, (fastest, "tiny"), strict=True):
        report = (Path("moved") / link).read_text(encoding="utf-8")
        assert name in report
        assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", report)
    result = tq("explore", DIGITS, "--space", space, "--store", "s.db", "--reports")
    assert (result.code, result.err) == (2, "tq-hw: --reports: go with a page; give --html FILE.html\n")


def test_a_preset_off_the_front_is_on_the_page(tq: Tq, space: Path) -> None:
    assert tq("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--html", "p.html", "--json",
              "r.json", "--deadline", "digits=0.2").code == 0
    assert front()["preset_on_front"] is False
    page = Path("p.html").read_text(encoding="utf-8")
    assert page.count("<h3 ") == len(front()["front"]) + 1
    assert "tiny, the preset</h3>" in page


@pytest.mark.parametrize("width", [1400, 390])
def test_a_browser_draws_the_page(tq: Tq, space: Path, browser: Any, width: int) -> None:
    assert tq("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--html", "p.html").code == 0
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.goto(Path("p.html").resolve().as_uri())
    page.wait_for_function("window.Bokeh && Bokeh.documents.length === 1 && Bokeh.documents[0].is_idle")
    assert page.evaluate("Bokeh.documents[0].roots().map(root => root.name)") == ["front", "parallel", "models"]
    page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
    boxes = page.evaluate("Bokeh.index.roots.map(view => view.el.getBoundingClientRect().toJSON())")
    assert all(box["width"] > (500 if width > 1000 else 250) and box["height"] > 200 for box in boxes[:3]), boxes
    # Each machine's name links to its reports.
    page.locator("#front tbody tr a").last.click()
    number = page.locator("#front tbody tr").count()
    assert page.url.endswith(f"#machine{number}")
    assert page.locator(f"#machine{number}").bounding_box()["y"] < 900
    page.close()
    assert problems == []


def test_a_second_run_estimates_nothing_more(tq: Tq, space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--json", "r.json")
    assert tq(*options).code == 0
    first = front()
    monkeypatch.setattr("tq_hw.cli.explore.tasks.estimate_model", lambda *_: pytest.fail("estimated again"))
    assert tq(*options).code == 0
    assert front() == first


def test_a_large_space_is_searched_the_same_way_each_time(tq: Tq, space: Path) -> None:
    options = ("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--most", "6", "--json", "r.json")
    assert tq(*options).code == 0
    first = front()
    assert (first["space"], first["estimated"], first["exhaustive"]) == (12, 6, False)
    assert tq(*options).code == 0
    assert front() == first


def test_bounds_prove_what_a_whole_search_finds(tq: Tq, space: Path) -> None:
    """The preset on the front and the fastest machine are proved: two machines are drawn, bounds leave some more."""
    options = ("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--json", "r.json")
    assert tq(*options).code == 0
    whole = front()
    assert (whole["proved"], whole["preset_on_front"]) == (["preset", "fastest"], True)
    assert tq(*options, "--most", "2").code == 0
    assert front()["proved"] == []
    result = tq(*options, "--most", "2", "--prove", "preset")
    assert "proved: no machine of the space beats tiny, the preset\n" in result.out
    assert (front()["estimated"], front()["proved"], front()["preset_on_front"]) == (4, ["preset"], True)
    assert tq(*options, "--most", "2", "--prove", "fastest").code == 0
    assert front()["chosen"] == whole["chosen"]
    assert "fastest" in front()["proved"]


def test_bounds_are_below_every_estimate(tq: Tq, space: Path) -> None:
    aims = read_aims([str(DIGITS)], (), ())
    target = file_target(str(space))
    found = explore(aims, target, Workers(Path("s.db"), 1), most=0)
    bounds = Bounds(aims, target, found.points)
    for point in found.points:
        assert 0 < bounds.cycles(point.config, "digits") <= point.models["digits"]["cycles"]
        assert bounds.milliseconds(point.config) <= point.milliseconds
    # The weights of the convolutions and of the last layer.
    assert weight_bytes(aims[0].blob) == 6_432
    slow = replace(target, rate=replace(target.rate, bytes_per_cycle=0.5))
    assert Bounds(aims, slow, found.points).cycles(PRESETS["n16"], "digits") == 2 * 6_432
    coded = replace(PRESETS["n16"], compressed_weights=1)
    assert Bounds(aims, slow, found.points).cycles(coded, "digits") < 2 * 6_432


def test_a_packed_machine_has_an_estimate_of_its_own() -> None:
    """The program is the same, but the array takes slots in pairs: the estimate equals the compiler's."""
    memory, model = Memory(30, 8.0), read_model(DIGITS)
    cycles = []
    for packing in (0, 2):
        config = replace(PRESETS["n8"], dsp_packing=packing)
        task = estimate_task(DIGITS.read_bytes(), config, memory)
        cycles.append(task.function(task.blob, task.arguments)["cycles"])
        assert cycles[-1] == sum(row.cycles for row in compile_model(model, config, memory=memory).report)
    assert cycles[0] < cycles[1]


def test_killed_and_started_again_it_goes_on(tq: Tq, space: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    arguments = ["explore", str(DIGITS), "--space", str(space), "--store", str(store), "--jobs", "1"]
    process = subprocess.Popen([sys.executable, "-m", "tq_hw", *arguments], stdout=subprocess.DEVNULL)
    while kept(store) < 2 and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 2 <= kept(store) <= 12
    assert tq(*arguments, "--json", "r.json").code == 0
    assert kept(store) == 12
    assert tq("explore", DIGITS, "--space", space, "--store", "new.db", "--jobs", "1", "--json", "new.json").code == 0
    assert front() == front("new.json")


def test_weights_and_deadlines(tq: Tq, space: Path) -> None:
    options = ("explore", DIGITS, "--space", space, "--store", "s.db", "--jobs", "1", "--json", "r.json")
    assert tq(*options).code == 0
    times = [point["milliseconds"] for point in front()["front"]]
    assert tq(*options, "--deadline", f"digits={times[0] * 1.001}").code == 0
    assert [point["milliseconds"] for point in front()["front"]][0] == times[0]
    assert all(point["milliseconds"] <= times[0] * 1.001 for point in front()["front"])
    result = tq(*options, "--deadline", "digits=0.001", "-o", "c.toml")
    assert result.code == 4
    assert "no machine meets all deadlines; the fastest, " in result.err
    assert not Path("c.toml").exists()


def test_finalists_run_on_the_rtl(tq: Tq, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(SPACE.replace("[4, 6]", "4").replace("[1, 2, 4]", "2").replace("[8192, 16384]", "8192"),
                    encoding="utf-8")
    result = tq("explore", DIGITS, "--space", path, "--store", "s.db", "--jobs", "1", "--confirm", "rtl", "--json",
                "r.json")
    assert (result.code, result.err) == (0, "")
    point, = front()["front"]
    assert point["confirmed_by"] == "rtl"
    assert point["config"]["name"] == "tiny"
    assert front()["preset_on_front"] is True


def test_finalists_are_synthesized(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, by synthesis, only the preset fits."""
    built = []

    def synthesize(board: Board, memory: object, folder: Path) -> dict[str, float]:
        built.append(board.config)
        fits = board.config.fingerprint == BOARDS["ulx3s_85f"].config.fingerprint
        return {"luts": 30_000 if fits else 90_000, "flip_flops": 1, "multipliers": 104, "block_rams": 92}

    monkeypatch.setattr("tq_hw.cli.explore.tasks.synthesize", synthesize)
    result = tq("explore", DIGITS, "--board", "ulx3s_85f", "--most", "3", "--finalists", "3", "--store", "s.db",
                "--jobs", "1", "--confirm", "synth", "--json", "r.json")
    assert (result.code, result.err) == (0, "")
    report = front()
    point, = (point for point in report["front"] if point["confirmed_by"] == "synth")
    assert (point["config"]["name"], point["resources"]["luts"]) == ("ulx3s_85f", 30_000)
    assert report["refused"] == {"does not fit by synthesis": len(built) - 1}


def test_finalists_are_routed(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the preset misses its clock by a tenth, and the others cannot be placed."""
    def build(board: Board, memory: object, folder: Path) -> BuildResult:
        if board.config.fingerprint != BOARDS["ulx3s_85f"].config.fingerprint:
            raise ToolError("nextpnr-ecp5 failed: no room")
        return BuildResult("top.bit", 1, {"luts": 30_000, "multipliers": 104, "block_rams": 92},
                           {"sync": Timing("sync", 90.0, 100.0, ())}, ())

    monkeypatch.setattr("tq_hw.cli.explore.tasks.build", build)
    result = tq("explore", DIGITS, "--board", "ulx3s_85f", "--most", "3", "--finalists", "3", "--store", "s.db",
                "--jobs", "1", "--confirm", "route", "--json", "r.json")
    assert (result.code, result.err) == (0, "")
    assert "route at 90.0 MHz" in result.out
    report = front()
    point, = (point for point in report["front"] if point["confirmed_by"].startswith("route"))
    assert (point["config"]["name"], point["clock_mhz"], point["resources"]["luts"]) == ("ulx3s_85f", 90.0, 30_000)
    assert point["milliseconds"] == pytest.approx(point["cycles"]["digits"] / 90e3)
    assert list(report["refused"]) == ["could not be routed: nextpnr-ecp5 failed: no room"]


def test_bad_options(tq: Tq, space: Path, tmp_path: Path) -> None:
    for text, message in (
            ("rows = 3", "unknown key 'rows' in the file; known keys are family, clock_mhz,"),
            ("[space]\nrows = 'x'", "space.rows must be an integer or a list of integers, not 'x'"),
            ("[space]\nrows = 4", "space.cols is missing"),
            (SPACE.replace("[4, 6]", "[1, 2]").replace('preset = "tiny"', ""), "bad: no machine of the space can be "
             "built: rows must be 3 to 32 (a depthwise group takes three rows), not 1; the nearest legal value is 3"),
            (SPACE.replace("[4, 6]", "[]"), "space.rows must be an integer or a list of integers, not []"),
            (SPACE.replace("multipliers = 40", "multipliers = 4"), "no machine of the space fits bad; allow small"),
            ('preset = "n99"\n' + SPACE.partition("\n")[2], "preset must be one of n16,"),
            ('family = "ice40"\n' + SPACE, "family must be ecp5"),
            ("memory_bytes = 100\n" + SPACE, "none of 12 machines runs all models: digits needs more than the 100")):
        path = tmp_path / "bad.toml"
        path.write_text(text, encoding="utf-8")
        result = tq("explore", DIGITS, "--space", path, "--store", "s.db", "--jobs", "1")
        assert (result.code, message in result.err) == (2, True), result.err
    for arguments, message in (
            ((), "expected either --board or --space"),
            (("--board", "icebreaker"), "--board icebreaker: has room for the serial machine only"),
            (("--space", str(space), "--weight", "x=1"), "--weight x=1: expected NAME=NUMBER with the name of a"),
            (("--space", str(space), "--weight", "digits=-1"), "--weight digits=-1: expected a number above 0"),
            (("--space", str(space), "--confirm", "synth"), "--confirm synth: a board is synthesized; give --board"),
            (("--space", str(space), "--confirm", "route"), "--confirm route: a board is routed; give --board"),
            (("--space", str(space), str(DIGITS)), "two models are called 'digits'")):
        result = tq("explore", DIGITS, "--store", "s.db", *arguments)
        assert (result.code, message in result.err) == (2, True), result.err


def test_a_route_without_its_tools_is_refused_at_once(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.cli.explore.confirm.choose", lambda _board, _: SimpleNamespace(missing=("vivado",)))
    result = tq("explore", DIGITS, "--board", "arty_a7", "--confirm", "route", "--store", "s.db")
    assert (result.code, result.err) == (3, "tq-hw: --confirm route: arty_a7 needs vivado, not installed here; "
                                         "--confirm synth does without\n")


def test_a_confirmation_without_a_compiler_is_refused_at_once(tq: Tq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.sim.rtl.tools.shutil.which", lambda name: None if name in ("g++", "clang++") else name)
    result = tq("explore", DIGITS, "--board", "ulx3s_85f", "--confirm", "rtl", "--store", "s.db")
    assert (result.code, result.err) == (3, "tq-hw: g++ is needed to simulate the RTL and is not installed: apt "
                                         "install g++\n")


def test_a_store_that_cannot_be_written_is_named(tq: Tq, space: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = tmp_path / "file" / "s.db"
    result = tq("explore", DIGITS, "--space", space, "--store", store, "--jobs", "1")
    assert result.code == 2
    assert result.err.startswith(f"tq-hw: {store}: cannot keep results there: ")
    assert result.err.endswith("; choose another --store\n")
    assert result.err.count("\n") == 1


def test_interrupted_it_says_one_line(space: Path, tmp_path: Path) -> None:
    space.write_text(SPACE.replace("[4, 6]", "[4, 5, 6, 7, 8]"), encoding="utf-8")  # many machines stay unestimated
    process = subprocess.Popen([sys.executable, "-m", "tq_hw", "explore", str(DIGITS), "--space", str(space), "--store",
                                str(tmp_path / "s.db"), "--jobs", "2"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    while kept(tmp_path / "s.db") < 1 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said.splitlines()[-1], "Traceback" in said) == (130, "tq-hw: interrupted", False)


def test_options_are_tried_where_they_are_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    board = replace(BOARDS["ulx3s_85f"], config=PRESETS["n9x8"])
    target = board_target(board, board.memories[0])
    model = read_model(DIGITS)
    packed = Machine(replace(board.config, dsp_packing=2), {})
    monkeypatch.setattr("tq_hw.cli.explore.options.machines", lambda _family: (packed,))
    # On an ECP5 two packed products take two multipliers, so only arrays of odd rows would change, for the worse.
    assert with_options(target, [model]).space["dsp_packing"] == (0,)
    monkeypatch.setattr("tq_hw.cli.explore.options.multipliers", lambda config, _family: {"array": -config.dsp_packing})
    assert with_options(target, [model]).space["dsp_packing"] == (0, 2)
    monkeypatch.setattr("tq_hw.cli.explore.options.machines", lambda _family: ())
    assert with_options(target, [model]).space == target.space


def test_a_preset_that_another_machine_equals_is_on_the_front() -> None:
    def point(name: str, luts: int) -> Point:
        return Point(Config(name, 4, 4, 2, 8192), {"luts": luts, "multipliers": 1, "block_rams": 1}, {}, {}, 1.0, 10**8)

    def with_front(*front: Point) -> Exploration:
        return Exploration(front, front, point("preset", 10), 2, 2, {})

    assert with_front(point("a", 9), point("b", 10)).preset_on_front
    assert not with_front(point("a", 9)).preset_on_front


def test_names_of_machines_are_different() -> None:
    from tq_hw.cli.explore.target import configurations
    space = {"rows": (4, 8), "cols": (4, 8), "requantize_lanes": (2, 3), "scratchpad_bytes": (16384,),
             "bus_bytes": (4, 8), "acc_words": (64,), "acc_open": (0, 4)}
    found: list[Config] = list(configurations(space, None))
    assert len({config.name for config in found}) == len(found) == 16
