"""The plots of an exploration: time over LUTs, parallel coordinates of the front, time by model. Needs Bokeh."""

from collections.abc import Sequence
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from tq_hw.cli.explore.front import Point

__all__ = ["front_plot", "models_plot", "parallel_plot"]

_FASTEST = 12
_FRONT, _OTHER, _PRESET = "#e15759", "#bab0ac", "#4e79a7"
#: Sizes shown as axes, in addition to the objectives.
_SIZES = ("rows", "cols", "requantize_lanes", "scratchpad_bytes", "acc_words")
Plot = figure


def _source(points: Sequence[Point]) -> ColumnDataSource:
    return ColumnDataSource({
        "x": [point.taken["luts"] for point in points], "y": [point.milliseconds for point in points],
        "name": [point.config.name for point in points],
        "multipliers": [point.taken["multipliers"] for point in points],
        "rams": [point.taken["block_rams"] for point in points], "bytes": [point.bytes for point in points],
        "by": [point.confirmation for point in points]})


def front_plot(points: Sequence[Point], front: Sequence[Point], preset: Point | None) -> Plot:
    """Return all machines, time over LUTs."""
    plot = figure(sizing_mode="stretch_width", height=460, x_axis_label="LUTs", y_axis_label="ms", y_axis_type="log",
                  tools="pan,wheel_zoom,box_zoom,reset", active_scroll="wheel_zoom", name="front")
    best = {id(point) for point in front}
    drawn: list[Any] = [plot.scatter("x", "y", size=5, color=_OTHER, alpha=0.6, legend_label="estimated",
                          source=_source([point for point in points if id(point) not in best]))]
    drawn.append(plot.scatter("x", "y", size=8, color=_FRONT, legend_label="front", source=_source(front)))
    if preset is not None:
        drawn.append(plot.scatter("x", "y", size=12, color=_PRESET, marker="square", legend_label="preset",
                                  source=_source([preset])))
    plot.add_tools(HoverTool(renderers=drawn, tooltips=[
        ("machine", "@name"), ("ms", "@y{0.000}"), ("LUTs", "@x{0,0}"), ("multipliers", "@multipliers"),
        ("block RAMs", "@rams"), ("bytes", "@bytes{0,0}"), ("confirmed by", "@by")]))
    plot.legend.click_policy = "hide"
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return plot


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def parallel_plot(front: Sequence[Point], objectives: Sequence[str]) -> Plot:
    """Return a line per machine over its objectives and sizes, each axis from its minimum to its maximum."""
    axes: dict[str, list[float]] = {name: [point.objectives[number] for point in front]
                                    for number, name in enumerate(objectives)}
    axes |= {name: [getattr(point.config, name) for point in front] for name in _SIZES}
    labels = [f"{name} {_short(min(values))}..{_short(max(values))}" if values else name
              for name, values in axes.items()]
    shares: list[list[float]] = []
    for number in range(len(front)):
        line = []
        for values in axes.values():
            low, high = min(values), max(values)
            line.append((values[number] - low) / (high - low) if high > low else 0.5)
        shares.append(line)
    plot = figure(sizing_mode="stretch_width", height=420, x_range=FactorRange(factors=labels), tools="",
                  toolbar_location=None, name="parallel")
    # The fastest is drawn last, above the others.
    order: list[Any] = list(range(len(front)))[::-1]
    source = ColumnDataSource({
        "xs": [labels for _ in order], "ys": [shares[number] for number in order],
        "name": [front[number].config.name for number in order],
        "color": [_FRONT if number == 0 else _PRESET for number in order],
        "alpha": [1.0 if number == 0 else 0.3 for number in order]})
    lines = plot.multi_line("xs", "ys", color="color", alpha="alpha", line_width=1.5, source=source)
    plot.add_tools(HoverTool(renderers=[lines], tooltips=[("machine", "@name")]))
    # Leaves room for each label on a phone, too.
    plot.xaxis.major_label_orientation = "vertical"
    plot.yaxis.visible = False
    return plot


def models_plot(front: Sequence[Point], names: Sequence[str]) -> Plot:
    """Return the time of each model on the fastest machines."""
    shown = front[:_FASTEST]
    factors = [(name, point.config.name) for name in names for point in shown]
    most = max((time for point in shown for time in point.milliseconds_by_model.values()), default=1.0)
    plot = figure(sizing_mode="stretch_width", height=420, x_range=FactorRange(factors=factors), y_axis_label="ms",
                  y_range=Range1d(start=0, end=1.05 * most), tools="pan,wheel_zoom,reset", name="models")
    source = ColumnDataSource({
        "x": factors, "top": [point.milliseconds_by_model[name] for name in names for point in shown],
        "bound": [point.models[name]["bound"] for name in names for point in shown]})
    bars = plot.vbar(x="x", top="top", width=0.8, color=_PRESET, source=source)
    plot.add_tools(HoverTool(renderers=[bars], tooltips=[("", "@x"), ("ms", "@top{0.000}"), ("bound", "@bound")]))
    plot.xaxis.major_label_orientation = 1.2
    return plot
