"""`tq-hw report`: the page's contents, that it needs no network, and that a browser draws it."""

import importlib.util
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tq_hw
from tq_hw.cli.report import plots as page_plots
from tq_hw.cli.report.layers import bound_text, compile_report
from tq_hw.cli.report.waits import WAITS, most_waited, wait_rows
from tq_hw.compiler import compile_model
from tq_hw.compiler.memory_map import Tenant, memory_map, peak_words
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import COUNTERS
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.sim.diagnose.trace import trace_events
from tq_hw.sim.rtl.simulate import layer_cycles
from tq_hw.sim.traffic import Traffic

Tq = Callable[..., Any]
#: A name that would break out of a page without escaping.
NASTY = "</script><script>document.title='broken'</script><b>&\u2028"


class Page(HTMLParser):
    """Elements, the cells of the tables by id, and the text of scripts with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.scripts: dict[str, str] = {}
        self._rows: list[list[str]] = []
        self._script = ""
        self._in_cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.links += [value for name in ("src", "href", "action", "data") if (value := named.get(name)) is not None]
        if tag == "table":
            self._rows = self.tables.setdefault(named.get("id") or "", [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._in_cell = True
        elif tag == "script":
            self._script = named.get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False
        elif tag == "script":
            self._script = ""

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self._rows[-1][-1] += data
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def two_convolutions(path: Path, name: str = "image") -> None:
    rng = np.random.default_rng(1)
    builder = ModelBuilder("two")
    x = builder.input((1, 8, 8, 16), scale=0.5, zero_point=-3, name=name)
    for kernel in (3, 1):
        weights = builder.constant(rng.integers(-127, 128, (16, kernel, kernel, 16)).astype(np.int8), scale=[0.01] * 16)
        x = builder.add("CONV_2D", [x, weights, builder.bias(x, weights, [0] * 16)], scale=0.9, zero_point=4,
                        padding="SAME")
    path.write_bytes(builder.build(x))


@pytest.mark.parametrize("engine", ["executor", "rtl"])
def test_the_page_says_what_sim_says(tq: Tq, engine: str) -> None:
    two_convolutions(Path("two.tflite"))
    outcome = tq("report", "two.tflite", "-o", "r.html", "--config", "tiny", "--engine", engine)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    report = json.loads(page.scripts["report"])
    compiled = compile_model(read_model("two.tflite"), PRESETS["tiny"])
    if engine == "rtl":
        assert tq("sim", "two.tflite", "--config", "tiny", "--json", "s.json").code == 0
        assert report == json.loads(Path("s.json").read_text())
    else:
        assert report["cycles"] == sum(row.cycles for row in compiled.report)
        assert report["bit_exact"] is True
    header, *rows, total = page.tables["layers"]
    assert header == ["index", "op", "unit", "cycles", "estimate", "error", "MACs", "utilization", "bytes", "bound",
                      "tensor", "share of the cycles"]
    assert [(row[0], row[1], row[3], row[4], row[6]) for row in rows] == [
        (str(layer["index"]), layer["op"], f"{layer['cycles']:,}", f"{estimate.cycles:,}", f"{layer['macs']:,}")
        for layer, estimate in zip(report["layers"], compiled.report, strict=True)]
    assert total[1:5] == ["total", "", f"{report['cycles']:,}", f"{sum(row.cycles for row in compiled.report):,}"]
    summary = dict(page.tables["summary"])
    assert summary["every integer equal to the golden model's"] == "yes"
    assert page.tables["summary"][0] == ["bound by", bound_text(report["lost"])]
    assert sum(report["lost"].values()) == report["cycles"]
    if engine == "rtl":
        assert summary["longest wait"] == most_waited(report["counters"])
        assert [int(row[2].replace(",", "")) for row in page.tables["waits"]] == sorted(
            (report["counters"][name] for name in WAITS if report["counters"][name]), reverse=True)
    assert summary["made by"].startswith(f"tq-hw {tq_hw.__version__}: ")
    assert "of 8,192 bytes" in summary["scratchpad in use, at most"]
    counts = [int(row[1].replace(",", "")) for row in page.tables["lost"]]
    assert counts == sorted(report["lost"].values(), reverse=True)


def test_nothing_is_fetched(tq: Tq) -> None:
    two_convolutions(Path("two.tflite"))
    assert tq("report", "two.tflite", "-o", "r.html", "--config", "tiny", "--engine", "executor").code == 0
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    assert page.links == []
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)


def test_names_of_a_model_stay_text(tq: Tq) -> None:
    two_convolutions(Path("two.tflite"), NASTY)
    assert tq("report", "two.tflite", "-o", "r.html", "--config", "tiny", "--engine", "executor").code == 0
    text = Path("r.html").read_text(encoding="utf-8")
    assert "document.title='broken'</script>" not in text
    assert "b" not in Page(text).tags


def test_tenants_cover_what_the_operations_touch() -> None:
    model = read_model(Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite")
    compiled = compile_model(model, PRESETS["n16"])
    tenants = memory_map(compiled)
    at = dict.fromkeys(compiled.timeline, 0)
    for operation in compiled.emitter.stream.operations:
        run, at[operation.unit] = at[operation.unit], at[operation.unit] + 1
        for access in (*operation.reads, *operation.writes):
            memory = "scratchpad" if access.space == "pad" else ("image", "arena", "state")[int(access.space[-1])]
            assert any(t.memory == memory and t.low <= access.low and access.high <= t.high
                       and t.runs[operation.unit][0] <= run <= t.runs[operation.unit][1]
                       for t in tenants if operation.unit in t.runs), (run, operation.unit, access)
    assert {tenant.kind for tenant in tenants} == {"tensor", "strip", "constants", "commands"}
    resident = [tenant for tenant in tenants if tenant.kind == "tensor" and tenant.memory == "scratchpad"]
    for number, one in enumerate(resident):
        for other in resident[:number]:
            # Two tensors at one address: every unit has finished with the first before it begins with the second.
            apart = one.high <= other.low or other.high <= one.low
            assert apart or all(other.runs[unit][1] < one.runs[unit][0] for unit in one.runs if unit in other.runs)


def test_what_the_scratchpad_holds_at_once() -> None:
    """A word that two tenants share for a moment counts once; the peak never exceeds the machine's memory."""
    times = {Unit.LOAD: np.array([[0, 40], [30, 60], [50, 90]])}
    lives = [(0, 8, 0, 0), (4, 12, 1, 1), (0, 6, 2, 2)]
    tenants = [Tenant("scratchpad", "strip", "x", low, high, {Unit.LOAD: (first, last)})
               for low, high, first, last in lives]
    assert [peak_words(tenants[:count], times) for count in range(4)] == [0, 8, 12, 12]
    rng = np.random.default_rng(2)
    builder = ModelBuilder("deep")
    x = builder.input((1, 24, 24, 4), scale=0.5)
    for _ in range(6):
        depth = builder.tensors[x].shape[-1]
        weights = builder.constant(rng.integers(-127, 128, (16, 3, 3, depth)).astype(np.int8), scale=[0.01] * 16)
        x = builder.add("CONV_2D", [x, weights, builder.bias(x, weights, [0] * 16)], scale=0.9, padding="SAME")
    for config in (PRESETS["tiny"], PRESETS["n8"]):
        compiled = compile_model(parse_model(builder.build(x), "deep"), config)
        assert 0 < peak_words(memory_map(compiled), compiled.timeline) <= config.scratchpad_words


def test_plots_show_operations_layers_and_tenants() -> None:
    model = read_model(Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite")
    compiled = compile_model(model, PRESETS["n16"])
    program, times = compiled.program, compiled.timeline
    cycles = layer_cycles(program, times)
    total = sum(cycles.values())
    timeline = page_plots.timeline_plot(trace_events(program, times, cycles)["traceEvents"], total)
    bars = timeline.renderers[0].data_source.data
    counts = {unit.name.lower(): len(runs) for unit, runs in times.items()} | {"layers": len(cycles)}
    assert {track: bars["y"].count(track) for track in counts} == counts
    assert [what for what, y in zip(bars["what"], bars["y"], strict=True) if y == "layers"] == [
        f"{index} {model.main.operators[index].op}" for index in cycles]
    names = timeline.renderers[1].data_source.data
    assert names["name"][0] == f"0 CONV_2D {program.layers[0].name}" and len(names["name"]) == len(cycles)
    assert set(names["y"]) == {"layers"} and names["left"][1:] == names["right"][:-1]
    assert max(bars["right"]) == total == int(times[Unit.STORE][-1, 1])
    tenants = memory_map(compiled)
    plot = page_plots.memory_plot("scratchpad", tenants, times, total, 16384, "word", timeline)
    assert plot is not None and plot.x_range is timeline.x_range
    boxes = [quad.data_source.data for quad in plot.renderers]
    assert sum(len(box["left"]) for box in boxes) == sum(tenant.memory == "scratchpad" for tenant in tenants)
    assert all(0 <= left < right <= total for box in boxes for left, right in zip(
        box["left"], box["right"], strict=True))
    assert page_plots.memory_plot("state", tenants, times, total, 0, "byte", timeline) is None


def test_traffic_without_times_is_what_loads_and_stores_move() -> None:
    model = read_model(Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite")
    compiled = compile_model(model, PRESETS["tiny"])
    cycles = sum(layer_cycles(compiled.program, compiled.timeline).values())
    moved = Traffic.of_operations(compiled.program, compiled.timeline, cycles, 8.0)
    assert moved.read.sum() + moved.written.sum() == sum(layer.bytes_moved for layer in compiled.program.layers)
    timeline = page_plots.timeline_plot([], cycles)
    plot = page_plots.traffic_plot(moved, 8.0, timeline)
    assert plot.x_range is timeline.x_range
    assert max(plot.renderers[1].data_source.data["both"]) <= 8


def test_waits_in_words() -> None:
    counters = dict.fromkeys(WAITS, 0) | {"cycles": 200, "vector_acc": 50, "array_token": 10, "store_token": 150}
    assert [row[2] for row in wait_rows(counters)] == [150, 50, 10]
    assert most_waited(counters) == "vector for sums of the array: 50 cycles, 25%"
    assert most_waited(dict.fromkeys(WAITS, 0) | {"cycles": 0}) == "array and vector unit never waited"
    assert set(WAITS) == {name for name in COUNTERS if not name.endswith(("cycles", "_busy", "_beats"))}


def test_cold_and_warm_side_by_side(tq: Tq) -> None:
    two_convolutions(Path("two.tflite"))
    assert tq("report", "two.tflite", "-o", "r.html", "--config", "tiny", "--resident").code == 0
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    report = json.loads(page.scripts["report"])
    warm = report["resident"]
    assert page.tables["warm"][1] == ["cycles", f"{report['cycles']:,}", f"{warm['cycles']:,}"]
    assert sum(warm["lost"].values()) == warm["cycles"] and warm["counters"]["cycles"] <= warm["cycles"]


def test_roofline_has_the_layers_that_multiply() -> None:
    layer = {"index": 3, "op": "CONV_2D", "name": "t", "macs": 6000, "cycles": 100, "bytes": 300, "bound": "compute"}
    report = {"model": "m", "macs": 6000, "cycles": 150, "bytes": 500,
              "layers": [layer, layer | {"index": 4, "macs": 0}, layer | {"index": 5, "bytes": 0}]}
    plot = page_plots.roofline_plot(report, PRESETS["n16"], 8.0)
    roof, points = (renderer.data_source.data for renderer in plot.renderers)
    assert (points["layer"], points["x"], points["y"]) == (["3 CONV_2D", "network"], [20.0, 12.0], [60.0, 40.0])
    assert (roof["x"][1], roof["y"][1:]) == (32.0, [256, 256])
    assert roof["y"][0] == 8 * roof["x"][0]


def test_layers_that_take_turns_are_one_group(tq: Tq) -> None:
    """A wide image goes strip by strip through two layers: cycles are those of both, no share exceeds 100 %."""
    rng = np.random.default_rng(1)
    builder = ModelBuilder("wide")
    x = builder.input((1, 96, 96, 8), scale=0.5, zero_point=-3)
    for kernel in (3, 3):
        weights = builder.constant(rng.integers(-127, 128, (8, kernel, kernel, 8)).astype(np.int8), scale=[0.01] * 8)
        x = builder.add("CONV_2D", [x, weights, builder.bias(x, weights, [0] * 8)], scale=0.9, zero_point=4,
                        padding="SAME")
    Path("wide.tflite").write_bytes(builder.build(x))
    assert tq("report", "wide.tflite", "-o", "r.html", "--config", "n8", "--engine", "executor").code == 0
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    report = json.loads(page.scripts["report"])
    assert [layer["group"] for layer in report["layers"]] == [0, 0]
    assert all(0 < layer["utilization"] <= 1 for layer in report["layers"])
    _, group, first, second, _ = page.tables["layers"]
    assert group[:4] == ["0-1", "2 alternating layers", "", f"{report['cycles']:,}"]
    assert (first[0], first[3], second[0], second[3]) == ("0", "", "1", "")


def test_two_runs_side_by_side(tq: Tq) -> None:
    two_convolutions(Path("two.tflite"))
    assert tq("compile", "two.tflite", "--config", "tiny", "--json", "before.json").code == 0
    assert tq("report", "two.tflite", "-o", "r.html", "--config", "n8", "--engine", "executor", "--compare",
              "before.json", "--json", "now.json").code == 0
    before, now = (json.loads(Path(name).read_text()) for name in ("before.json", "now.json"))
    _, network, *rows = Page(Path("r.html").read_text(encoding="utf-8")).tables["compared"]
    assert network[1:5] == ["network", f"{before['cycles']:,}", f"{now['cycles']:,}",
                            f"{now['cycles'] / before['cycles'] - 1:+.1%}"]
    assert [row[:4] for row in rows] == [
        [str(index), "CONV_2D", f"{before['layers'][index]['cycles']:,}", f"{now['layers'][index]['cycles']:,}"]
        for index in (0, 1)]


@pytest.mark.parametrize(("text", "message"), [
    ("{", "other.json: expected a report that --json wrote, found invalid JSON: Expecting property name enclosed in "
          "double quotes: line 1 column 2 (char 1)"),
    (b"\x80\x9a", "other.json: expected a report that --json wrote, found a file that is not text"),
    ("[]", "other.json: expected a report that `tq-hw sim`, `compile` or `report` wrote with --json, found other JSON"),
    ('{"layers": [], "cycles": null}', "other.json: has no cycles to compare with: its engine does not model time"),
    (None, "other.json: cannot be read: No such file or directory"),
])
def test_what_cannot_be_compared(tq: Tq, model: Path, text: str | bytes | None, message: str) -> None:
    if text is not None:
        Path("other.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    outcome = tq("report", model.name, "-o", "r.html", "--engine", "executor", "--compare", "other.json")
    assert (outcome.code, outcome.err) == (2, f"tq-hw: {message}\n")


def test_no_point_is_above_the_roof() -> None:
    model = read_model(Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite")
    report = compile_report(compile_model(model, PRESETS["n16"]), model, "digits", "out", 0)
    _, points = (renderer.data_source.data for renderer in page_plots.roofline_plot(
        report, PRESETS["n16"], 8.0).renderers)
    assert all(rate <= min(256, 8 * intensity) * 1.0001 for intensity, rate in zip(points["x"], points["y"],
                                                                                  strict=True))


@pytest.mark.parametrize(("arguments", "message"), [
    (["small.tflite"], "Missing option '-o' / '--output'. Try 'tq-hw report --help'."),
    (["nope.tflite", "-o", "r.html"], "nope.tflite: cannot read the file: No such file or directory"),
    (["small.tflite", "-o", "no/r.html"], "-o no/r.html: the directory no does not exist"),
    (["small.tflite", "-o", "small.tflite"], "-o small.tflite: is an input of this command; choose another file"),
    (["small.tflite", "-o", "r.html", "--engine", "golden"], "Invalid value for '--engine': 'golden' is not one of "
     "'rtl', 'executor'. Try 'tq-hw report --help'."),
    (["small.tflite", "-o", "r.html", "--engine", "executor", "--stalls", "31"],
     "--stalls needs --engine rtl: the executor does not model time"),
    (["small.tflite", "-o", "r.html", "--engine", "executor", "--resident"],
     "--resident of a report needs --engine rtl: the executor does not model time"),
    (["small.tqm", "-o", "r.html"], "small.tqm: expected a .tflite model, found a compiled file, which does not say "
     "where tensors lie in memory"),
])
def test_bad_input_is_one_message(tq: Tq, model: Path, arguments: list[str], message: str) -> None:
    assert tq("compile", model.name, "--config", "tiny").code == 0
    outcome = tq("report", *arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"tq-hw: {message}\n")
    assert not Path("r.html").exists()


def test_a_missing_package_is_named(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bokeh" else real(name))
    outcome = tq("report", model.name, "-o", "r.html")
    assert (outcome.code, outcome.err) == (
        3, 'tq-hw: the Python package bokeh is not installed: pip install "tq-hw[report]"\n')


def test_a_browser_draws_it(tq: Tq, browser: Any) -> None:
    two_convolutions(Path("two.tflite"), NASTY)
    assert tq("report", "two.tflite", "-o", "r.html", "--config", "tiny", "--engine", "executor").code == 0
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.goto(Path("r.html").resolve().as_uri())
    page.wait_for_function("window.Bokeh && Bokeh.documents.length === 1 && Bokeh.documents[0].is_idle")
    assert requests == [Path("r.html").resolve().as_uri()]
    assert page.title() == "two on tiny"
    assert page.evaluate("Bokeh.documents[0].roots().map(root => root.name)") == [
        "roofline", "timeline", "traffic", "scratchpad", "image", "arena"]
    boxes = page.evaluate("Bokeh.index.roots.map(view => view.el.getBoundingClientRect().toJSON())")
    assert all(box["width"] > 500 and box["height"] > 200 for box in boxes[:6])
    assert page.locator("#layers tbody tr").count() == 2
    assert page.locator("#layers tbody tr td").nth(1).inner_text() == "CONV_2D"
    # The plots over time share their range.
    page.evaluate("Bokeh.documents[0].roots()[1].x_range.setv({start: 10, end: 50})")
    assert page.evaluate("Bokeh.documents[0].roots().slice(1).map(root => [root.x_range.start, root.x_range.end])") == [
        [10, 50]] * 5
    # A click sorts the layers in descending order, a second one in ascending order.
    for order in (sorted, lambda found: sorted(found, reverse=True)):
        page.locator("#layers thead th").nth(0).click()
        shown = [int(text) for text in page.locator("#layers tbody td:first-child").all_inner_texts()]
        assert shown == order(shown)[::-1] and len(shown) == 2
    # Only wide tables are wider than a phone.
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.documentElement.scrollWidth <= 390")
    # Figures with text are fully visible: their words wrap.
    cut = "tables => tables.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth).map(t => t.id)"
    assert page.locator(".words").evaluate_all(cut) == []
    assert problems == []
    context.close()
