"""The plots of the report page: roofline, timeline, contents of the memories. Needs the package Bokeh."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from bokeh.embed import components
from bokeh.models import ColumnDataSource, CustomJS, FactorRange, HoverTool, Model, NumeralTickFormatter, Range1d
from bokeh.palettes import Category20_20
from bokeh.plotting import figure
from bokeh.resources import Resources

from tq_hw.cli.report.layers import Report
from tq_hw.compiler.memory_map import Tenant
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.sim.traffic import Traffic

__all__ = ["Timeline", "library_script", "memory_plot", "plot_parts", "roofline_plot", "timeline_plot",
           "traffic_plot"]

Timeline = Mapping[Unit, npt.NDArray[Any]]
_TOOLS = "xpan,xwheel_zoom,box_zoom,reset"
_KINDS = {"tensor": "#4e79a7", "rolling": "#76b7b2", "strip": "#f28e2b", "constants": "#b07aa1", "commands": "#9c755f"}
Plot = figure


def library_script() -> str:
    """Return the common head of all pages: Bokeh's script, the script that sorts tables, and the style."""
    folder = Path(__file__).parent
    style, sort = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "sort.js"))
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    return f"{library}\n<script>\n{sort}</script>\n<style>\n{style}</style>"


def plot_parts(plots: Sequence[Plot]) -> tuple[str, tuple[str, ...]]:
    """Return the script that draws the plots, and each plot's element."""
    models: tuple[Model, ...] = tuple(plots)
    script, parts = components(models)
    return str(script), tuple(str(part) for part in parts)


def roofline_plot(report: Report, config: Config, bytes_per_cycle: float) -> Plot:
    """Return the layers with MACs below both roofs: MACs per cycle over MACs per byte of memory traffic.

    A layer's cycles are those in which the array worked for it, or those of its bytes at the memory's rate if they are
    more: its weights may have been loaded while another layer ran.
    """
    rows = [row for row in report["layers"] if row["macs"] and row["cycles"] and row["bytes"]]
    rows.append({"index": "", "op": "network", "name": report["model"], "macs": report["macs"],
                 "cycles": report["cycles"], "bytes": report["bytes"], "bound": ""})
    rows = [row for row in rows if row["macs"] and row["cycles"] and row["bytes"]]
    intensity = [row["macs"] / row["bytes"] for row in rows]
    took = [max(row.get("array_cycles") or row["cycles"], row["bytes"] / bytes_per_cycle) for row in rows]
    rate = [row["macs"] / cycles for row, cycles in zip(rows, took, strict=True)]
    ridge = config.macs / bytes_per_cycle
    low, high = min([ridge, *intensity]) / 2, max([ridge, *intensity]) * 2
    plot = figure(sizing_mode="stretch_width", height=420, x_axis_type="log", y_axis_type="log",
                  tools="pan,wheel_zoom,reset", x_axis_label="MACs per byte moved", y_axis_label="MACs per cycle",
                  name="roofline", x_range=Range1d(start=low, end=high),
                  y_range=Range1d(start=min([config.macs / 64, *rate]) / 2, end=config.macs * 2))
    plot.line([low, ridge, high], [low * bytes_per_cycle, config.macs, config.macs], color="#444444", line_width=2)
    source = ColumnDataSource({
        "x": intensity, "y": rate, "layer": [f"{row['index']} {row['op']}".strip() for row in rows],
        "name": [row["name"] for row in rows], "cycles": [row["cycles"] for row in rows],
        "bound": [row["bound"] for row in rows],
        "color": ["#e15759" if row["index"] == "" else "#4e79a7" for row in rows],
        "size": [14 if row["index"] == "" else 9 for row in rows]})
    points = plot.scatter("x", "y", size="size", color="color", alpha=0.8, source=source)
    plot.add_tools(HoverTool(renderers=[points], tooltips=[
        ("layer", "@layer"), ("tensor", "@name"), ("MACs per cycle", "@y{0.0}"), ("MACs per byte", "@x{0.0}"),
        ("cycles", "@cycles{0,0}"), ("bound", "@bound")]))
    return plot


def timeline_plot(events: Iterable[Mapping[str, Any]], cycles: int) -> Plot:
    """Return the tracks of a trace (`tq_hw.sim.diagnose.trace`): layers above, units below."""
    events = list(events)
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    slices = [event for event in events if event["ph"] == "X"]
    plot = figure(sizing_mode="stretch_width", height=260, y_range=FactorRange(factors=list(tracks.values())[::-1]),
                  x_range=Range1d(start=0, end=cycles), tools=_TOOLS, active_scroll="xwheel_zoom",
                  x_axis_label="cycle", name="timeline")
    source = ColumnDataSource({
        "y": [tracks[event["tid"]] for event in slices], "left": [event["ts"] for event in slices],
        "right": [event["ts"] + event["dur"] for event in slices], "what": [event["name"] for event in slices],
        "run": [event["args"].get("run", "") for event in slices],
        "color": [_color(event["name"]) for event in slices]})
    bars = plot.hbar(y="y", left="left", right="right", height=0.8, color="color", line_color="white", line_width=0.3,
                     source=source)
    plot.add_tools(HoverTool(renderers=[bars], tooltips=[
        ("", "@what"), ("run", "@run"), ("cycles", "@left{0,0} to @right{0,0}")]))
    above = next(iter(tracks.values()), "")
    _name_layers(plot, above, [event for event in slices if tracks[event["tid"]] == above])
    return _with_thousands(plot)


def _name_layers(plot: Plot, track: str, slices: Sequence[Mapping[str, Any]]) -> None:
    """Write the names of layers into their boxes, cut to the space there is at any zoom."""
    if not slices:
        return
    names = [f"{event['name']} {event['args'].get('tensor', '')}".strip() for event in slices]
    source = ColumnDataSource({
        "left": [event["ts"] for event in slices], "right": [event["ts"] + event["dur"] for event in slices],
        "x": [event["ts"] for event in slices], "y": [track] * len(slices),
        "name": names, "shown": [""] * len(slices)})
    plot.text(x="x", y="y", text="shown", x_offset=4, text_baseline="middle", text_font_size="11px", source=source)
    fit = CustomJS(args={"plot": plot, "source": source}, code=(Path(__file__).parent / "names.js").read_text("utf-8"))
    plot.x_range.js_on_change("start", fit)
    plot.x_range.js_on_change("end", fit)
    plot.js_on_change("inner_width", fit)


def traffic_plot(moved: Traffic, bytes_per_cycle: float, with_range: Plot) -> Plot:
    """Return bytes per cycle read and written over time, stacked, and the memory's maximum."""
    plot = figure(sizing_mode="stretch_width", height=240, x_range=with_range.x_range, tools=_TOOLS,
                  active_scroll="xwheel_zoom", x_axis_label="cycle", y_axis_label="bytes per cycle", name="traffic")
    left = [moved.cycles_each * span for span in range(len(moved.read))]
    source = ColumnDataSource({
        "left": left, "right": [at + moved.cycles_each for at in left], "read": moved.read / moved.cycles_each,
        "both": (moved.read + moved.written) / moved.cycles_each, "written": moved.written / moved.cycles_each})
    boxes: list[Any] = [
        plot.quad(left="left", right="right", bottom=low, top=high, color=color, source=source, legend_label=name)
        for low, high, color, name in ((0, "read", "#4e79a7", "read"), ("read", "both", "#f28e2b", "written"))]
    plot.line([0, left[-1] + moved.cycles_each], [bytes_per_cycle] * 2, color="#444444", line_dash="dashed")
    plot.add_tools(HoverTool(renderers=boxes, tooltips=[
        ("cycles", "@left{0,0} to @right{0,0}"), ("read", "@read{0.00} bytes per cycle"),
        ("written", "@written{0.00} bytes per cycle")]))
    return _with_thousands(plot)


def memory_plot(name: str, tenants: Iterable[Tenant], timeline: Timeline, cycles: int, size: int, unit: str,
                with_range: Plot) -> Plot | None:
    """Return a memory over time: each tenant from its first RUN to its last. None if nothing lies in the memory.

    `size` is that of the memory in `unit`. The plot shares its range of cycles with `with_range`.
    """
    shown = [tenant for tenant in tenants if tenant.memory == name]
    if not shown or not size:
        return None
    spans = [_span(tenant, timeline, cycles) for tenant in shown]
    plot = figure(sizing_mode="stretch_width", height=340, x_range=with_range.x_range,
                  y_range=Range1d(start=0, end=size), tools=_TOOLS, active_scroll="xwheel_zoom",
                  x_axis_label="cycle", y_axis_label=unit, name=name)
    for kind, color in _KINDS.items():
        chosen = [(tenant, span) for tenant, span in zip(shown, spans, strict=True) if tenant.kind == kind]
        if not chosen:
            continue
        source = ColumnDataSource({
            "left": [span[0] for _, span in chosen], "right": [span[1] for _, span in chosen],
            "bottom": [tenant.low for tenant, _ in chosen], "top": [tenant.high for tenant, _ in chosen],
            "what": [tenant.name for tenant, _ in chosen]})
        boxes = plot.quad(left="left", right="right", bottom="bottom", top="top", color=color, alpha=0.75,
                          line_color="white", line_width=0.3, source=source, legend_label=kind)
        plot.add_tools(HoverTool(renderers=[boxes], tooltips=[
            (kind, "@what"), (unit, "@bottom{0,0} to @top{0,0}"), ("cycles", "@left{0,0} to @right{0,0}")]))
    plot.legend.location = "top_right"
    plot.legend.click_policy = "hide"
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    return _with_thousands(plot)


def _span(tenant: Tenant, timeline: Timeline, cycles: int) -> tuple[int, int]:
    """Return a tenant's first and last cycle. A tenant without RUNs is there all the time."""
    if not tenant.runs:
        return 0, cycles
    return (min(int(timeline[unit][first, 0]) for unit, (first, _) in tenant.runs.items()),
            max(int(timeline[unit][last, 1]) for unit, (_, last) in tenant.runs.items()))


def _color(name: str) -> str:
    """Return a color by operator index. Neighbouring layers differ."""
    index = name.partition(" ")[0]
    return str(Category20_20[int(index) % 20]) if index.isdigit() else "#bab0ac"


def _with_thousands(plot: Plot) -> Plot:
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return plot
