"""`render`: the page of one run."""

import importlib.util
import json
from importlib.resources import files
from typing import Any

from tq_hw.cli.report.layers import CLOCK_HZ, Report
from tq_hw.cli.report.tables import percent
from tq_hw.compiler import Compiled
from tq_hw.compiler.memory_map import MEMORIES, memory_map
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MissingToolError
from tq_hw.sim.diagnose.trace import trace_events
from tq_hw.sim.engines import Inference

__all__ = ["render"]

_COLUMNS = (("index", "number"), ("op", ""), ("unit", ""), ("cycles", "number"), ("estimate", "number"),
            ("error", "number"), ("MACs", "number"), ("utilization", "number"), ("bytes", "number"), ("bound", ""),
            ("tensor", "name"), ("share of the cycles", ""))
_BAR_PIXELS = 160
_HOW = {"rtl": "Cycles are those of one inference on the Verilated RTL, from a cold start; estimate is the compiler's "
               "figure before anything ran.",
        "executor": "Cycles are the compiler's estimate; the executor, which knows no time, ran the commands."}
_PLOTS = {
    "roofline": ("Roofline", "Layers that multiply, and the network (red). The line is what memory (its slope) and "
                 "multipliers (its top) allow. A layer whose weights came in earlier may be above the slope."),
    "timeline": ("Timeline", "A slice per operation and unit, in the colors of the layers. Where a track is empty its "
                 "unit waits. Drag to move, turn the wheel to zoom; the plots below follow."),
    "scratchpad": ("Scratchpad over time", "Each box is there from the first operation that touches it to the last. "
                   "Click a word of the legend to hide its boxes."),
    "image": ("System memory: the program's image", "Commands, weights, parameters and constants."),
    "arena": ("System memory: the arena", "Inputs, outputs, and what does not fit the scratchpad."),
    "state": ("System memory: the state", "What lives on from one inference to the next."),
}


def need_plots() -> None:
    """Raise MissingToolError when the package that draws is not installed."""
    for module in ("bokeh", "jinja2"):
        if importlib.util.find_spec(module) is None:
            raise MissingToolError(f'the Python package {module} is not installed: pip install "tq-hw[report]"')


def _rows(report: Report, estimates: dict[int, int], engine: str) -> list[dict[str, Any]]:
    most = max((row["cycles"] or 0 for row in report["layers"]), default=0)
    found = []
    for row in report["layers"]:
        cycles, estimate = row["cycles"] or 0, estimates.get(row["index"], 0)
        measured = engine == "rtl" and cycles > 0
        cells = (row["index"], row["op"], row["unit"], f"{cycles:,}", f"{estimate:,}",
                 f"{estimate / cycles - 1:+.1%}" if measured else "", f"{row['macs']:,}",
                 percent(row["utilization"]), f"{row['bytes']:,}", row["bound"], row["name"])
        found.append({"cells": cells, "pixels": round(_BAR_PIXELS * cycles / most) if most else 0})
    return found


def _summary(report: Report, compiled: Compiled, memory: Memory) -> list[tuple[str, str]]:
    program, cycles = compiled.program, report["cycles"]
    config = program.config
    estimated = ", estimated" if report["engine"] == "executor" else ""
    stalls = "" if memory.stalls is None else f", random stalls of seed {memory.stalls}"
    return [
        ("model", report["model"]), ("configuration", f"{config.name}: {config.rows} x {config.cols} multipliers, "
         f"{config.requantize_lanes} lanes, scratchpad of {config.scratchpad_bytes:,} bytes"),
        ("engine", report["engine"]),
        ("memory", f"{memory.bytes_per_cycle:g} bytes per cycle, latency of {memory.latency_cycles} cycles{stalls}"),
        ("cycles", f"{cycles:,}{estimated} ({cycles / CLOCK_HZ * 1e6:,.1f} us at {CLOCK_HZ // 1_000_000} MHz)"),
        ("utilization", f"{percent(report['utilization']) or '0 %'} of the multipliers, {report['macs']:,} MACs"),
        ("memory traffic", f"{report['bytes']:,} bytes, and {program.command_bytes:,} of commands"),
        ("every integer equal to the golden model's", "yes" if report["bit_exact"] else "NO"),
    ]


def _escaped(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def render(report: Report, compiled: Compiled, found: Inference, memory: Memory) -> str:
    """Return the page: HTML that needs no other file.

    Parameters
    ----------
    report : of the inference, as `sim --json` has it
    found : with cycles, cycles by layer, and the timeline of the inference
    """
    from jinja2 import Environment, StrictUndefined

    from tq_hw.cli.report import plots as page_plots

    program = compiled.program
    assert found.cycles is not None
    events = trace_events(program, found.timeline, found.layer_cycles)["traceEvents"]
    timeline = page_plots.timeline_plot(events, found.cycles)
    plots = {"roofline": page_plots.roofline_plot(report, program.config, memory.bytes_per_cycle), "timeline": timeline}
    tenants = memory_map(compiled)
    sizes = {"scratchpad": program.config.scratchpad_words, "image": len(program.image), "arena": program.arena_bytes,
             "state": len(program.state)}
    for name in MEMORIES:
        plot = page_plots.memory_plot(name, tenants, found.timeline, found.cycles, sizes[name],
                                      "word" if name == "scratchpad" else "byte", timeline)
        if plot is not None:
            plots[name] = plot
    script, elements = page_plots.plot_parts(list(plots.values()))
    estimates = {layer.index: layer.estimated_cycles for layer in program.layers}
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files("tq_hw.cli.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        title=f"{program.name} on {program.config.name}", library=page_plots.library_script(), script=script,
        summary=_summary(report, compiled, memory), how=_HOW[report["engine"]], columns=_COLUMNS,
        rows=_rows(report, estimates, report["engine"]),
        total=("", "total", "", f"{report['cycles']:,}", f"{sum(estimates.values()):,}", "", f"{report['macs']:,}",
               percent(report["utilization"]), f"{report['bytes']:,}", "", ""),
        plots=[(*_PLOTS[name], element) for name, element in zip(plots, elements, strict=True)],
        data=_escaped(report))
