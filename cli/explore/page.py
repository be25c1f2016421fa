"""`render_front`: the page of an exploration, one self-contained HTML file. Needs the packages Bokeh and Jinja."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from tq_hw.boards.resources.record import KINDS
from tq_hw.cli.explore.exploration import Exploration
from tq_hw.cli.explore.front import OBJECTIVES, Aim, Point
from tq_hw.cli.explore.reports import Links
from tq_hw.cli.explore.target import Target
from tq_hw.cli.shared.configurations import to_toml

__all__ = ["render_front"]

_ROWS = 200
_ON_FRONT = {True: "on the front", False: "not on the front", None: "undecided"}
_PLOTS = {
    "front": ("Time and LUTs", "Every machine that was estimated; red ones are on the front, the square is the preset. "
              "Scroll to zoom, hover over a machine to read its sizes."),
    "parallel": ("The front in all its sizes", "One line per machine of the front, the fastest in red. Each axis goes "
                 "from its smallest value, at the bottom, to its largest."),
    "models": ("Time by model", "The fastest machines of the front."),
}


def _columns(aims: Sequence[Aim]) -> list[str]:
    return ["machine", "ms", *(aim.name for aim in aims), "LUTs", "flip-flops", "multipliers", "block RAMs", "bytes",
            "confirmed by"]


def _row(point: Point) -> list[str]:
    return [point.config.name, f"{point.milliseconds:.3f}",
            *(f"{values['cycles']:,} {values['bound']}" for values in point.models.values()),
            *(f"{point.taken[kind]:,.10g}" for kind in ("luts", "flip_flops", "multipliers", "block_rams")),
            f"{point.bytes:,}", point.confirmation]


def _summary(found: Exploration, aims: Sequence[Aim], target: Target) -> list[tuple[str, str]]:
    rows = [("target", f"{target.name} ({target.family})"), ("models", ", ".join(aim.name for aim in aims)),
            ("memory", f"{target.rate.bytes_per_cycle:g} bytes per cycle, latency of {target.rate.latency_cycles} "
             "cycles"),
            ("clock", f"{target.clock_hz / 1e6:g} MHz"),
            ("machines", f"{found.estimated:,} estimated of {found.space:,} that fit"
             + (": all of them" if found.exhaustive else ""))]
    if found.preset is not None:
        rows.append(("preset", f"{found.preset.config.name}: {found.preset.milliseconds:.3f} ms, "
                     + _ON_FRONT[found.preset_on_front]))
    return rows + found.sure


def _report(point: Point, target: Target, links: Links) -> Mapping[str, Any]:
    """Return the page's record of one machine."""
    units = target.resources(point.config).units
    return {
        "name": point.config.name, "toml": to_toml(point.config),
        "models": [(links.get((point.config, name), ""), name, f"{values['cycles']:,}",
                    f"{point.milliseconds_by_model[name]:.3f}", f"{values['bytes']:,}", values["bound"])
                   for name, values in point.models.items()],
        "units": [(unit, *(f"{cells[kind]:,.10g}" for kind in KINDS)) for unit, cells in units.items()]}


def render_front(found: Exploration, aims: Sequence[Aim], target: Target, data: Mapping[str, Any],
                 links: Links) -> str:
    """Return the page. `data` is the JSON of `--json`, `links` lead to reports."""
    from jinja2 import Environment, StrictUndefined

    from tq_hw.cli.explore import plots as drawn
    from tq_hw.cli.report.plots import library_script, plot_parts

    plots = {"front": drawn.front_plot(found.points, found.front, found.preset),
             "parallel": drawn.parallel_plot(found.front, OBJECTIVES),
             "models": drawn.models_plot(found.front, [aim.name for aim in aims])}
    script, elements = plot_parts(list(plots.values()))
    shown = list(found.front[:_ROWS])
    if found.preset is not None and found.preset not in shown:
        shown.append(found.preset)
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files("tq_hw.cli.explore").joinpath("front.html").read_text(encoding="utf-8"))
    return template.render(
        title=f"Machines for {', '.join(aim.name for aim in aims)} on {target.name}", library=library_script(),
        script=script, summary=_summary(found, aims, target), columns=_columns(aims),
        rows=[_row(point) for point in found.front[:_ROWS]],
        points=[{**_report(point, target, links), "what": ", the fastest" if point is found.chosen else
                 ", the preset" if point is found.preset else ""} for point in shown],
        units=["unit", *(kind.replace("_", " ") for kind in KINDS)],
        plots=[(*_PLOTS[name], element) for name, element in zip(plots, elements, strict=True)],
        data=json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"))
