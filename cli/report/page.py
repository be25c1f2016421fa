"""`render`: the HTML page of one run."""

import importlib.util
import json
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from tq_hw.cli.report.coded import coded_text
from tq_hw.cli.report.compare import compared
from tq_hw.cli.report.layers import CLOCK_HZ, Report, bound_text, host_lines, time_text
from tq_hw.cli.report.tables import percent
from tq_hw.cli.report.waits import WAITS, most_waited, wait_rows
from tq_hw.cli.shared.text import printable
from tq_hw.compiler import Compiled
from tq_hw.compiler.memory_map import MEMORIES, memory_map, peak_words
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.errors import MissingToolError
from tq_hw.sim.diagnose.busy import REASONS
from tq_hw.sim.diagnose.trace import trace_events
from tq_hw.sim.engines import Inference
from tq_hw.sim.traffic import Traffic

__all__ = ["render"]

_COLUMNS = (("index", "number"), ("op", ""), ("unit", ""), ("cycles", "number"), ("estimate", "number"),
            ("error", "number"), ("MACs", "number"), ("utilization", "number"), ("bytes", "number"), ("bound", ""),
            ("tensor", "name"), ("share of the cycles", ""))
_BAR_PIXELS = 160
_HOW = {"rtl": "Cycles are those of one inference on the Verilated RTL, from a cold start; estimate is the compiler's "
               "figure before the run.",
        "executor": "Cycles are the compiler's estimate; the executor, which does not model time, ran the commands."}
_PLOTS = {
    "roofline": ("Roofline", "Layers that multiply, and the network (red). The line is the limit of memory (slope) "
                 "and multipliers (top). A layer's time is that of the array for it, or that of its bytes at the "
                 "memory's full rate, whichever is longer."),
    "timeline": ("Timeline", "One slice per operation and unit, in the color of its layer. Where a track is empty, its "
                 "unit waits. Drag to move, scroll to zoom; the plots below follow."),
    "traffic": ("Bytes per cycle over time", "Bytes read and written, including commands; where the engine does not "
                "model time, loads and stores as early as memory allows. The dashed line is the memory's peak rate."),
    "scratchpad": ("Scratchpad over time", "Each box spans the operations from the first that touches it to the last. "
                   "Click an entry of the legend to hide its boxes."),
    "image": ("System memory: the program's image", "Commands, weights, parameters and constants."),
    "arena": ("System memory: the arena", "Inputs, outputs, and what does not fit the scratchpad."),
    "state": ("System memory: the state", "What persists from one inference to the next."),
}


def need_plots() -> None:
    """Raise MissingToolError if the plotting package is not installed."""
    for module in ("bokeh", "jinja2"):
        if importlib.util.find_spec(module) is None:
            raise MissingToolError(f'the Python package {module} is not installed: pip install "tq-hw[report]"')


def _group(members: Sequence[Report], estimates: dict[int, int]) -> Report:
    """Return the row for layers that alternate, strip by strip."""
    macs, busy = sum(row["macs"] for row in members), sum(row["array_cycles"] or 0 for row in members)
    share = sum(row["utilization"] * row["array_cycles"] for row in members if row["utilization"])
    return {"index": f"{members[0]['index']}-{members[-1]['index']}", "op": f"{len(members)} alternating layers",
            "unit": "", "cycles": sum(row["cycles"] or 0 for row in members), "macs": macs,
            "utilization": share / busy if busy else None, "bytes": sum(row["bytes"] for row in members), "bound": "",
            "name": "", "estimate": sum(estimates.get(row["index"], 0) for row in members)}


def _rows(report: Report, estimates: dict[int, int], engine: str) -> list[dict[str, Any]]:
    members: dict[int, list[Report]] = {}
    for row in report["layers"]:
        if row.get("group") is not None:
            members.setdefault(row["group"], []).append(row)
    shown = [row for row in report["layers"] for row in (
        [_group(members[row["index"]], estimates), row] if row["index"] in members else [row])]
    most = max((row["cycles"] or 0 for row in shown), default=0)
    found = []
    for row in shown:
        cycles, index = row["cycles"] or 0, row["index"]
        estimate = estimates[index] if index in estimates else row.get("estimate", 0)
        measured = engine == "rtl" and cycles > 0
        inside = row.get("group") is not None
        if inside:
            # The split of a group's cycles between alternating layers has no meaning.
            found.append({"cells": (row["index"], row["op"], row["unit"], "", "", "", f"{row['macs']:,}",
                                    percent(row["utilization"]), f"{row['bytes']:,}", row["bound"], row["name"]),
                          "pixels": 0, "inside": True})
            continue
        cells = (row["index"], row["op"], row["unit"], f"{cycles:,}", f"{estimate:,}",
                 f"{estimate / cycles - 1:+.1%}" if measured else "", f"{row['macs']:,}",
                 percent(row["utilization"]), f"{row['bytes']:,}", row["bound"], row["name"])
        found.append({"cells": cells, "pixels": round(_BAR_PIXELS * cycles / most) if most else 0, "inside": False})
    return found


def _summary(report: Report, programs: Sequence[Program], memory: Memory,
             peaks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    cycles, config = report["cycles"], programs[0].config
    commands = sum(program.command_bytes for program in programs)
    estimated = ", estimated" if report["engine"] == "executor" else ""
    stalls = "" if memory.stalls is None else f", random stalls of seed {memory.stalls}"
    lost = [("bound by", bound_text(report["lost"]))] if report.get("lost") else []
    if report.get("counters"):
        lost.append(("longest wait", most_waited(report["counters"])))
    return [
        *lost,
        ("model", report["model"]), ("configuration", f"{config.name}: {config.rows} x {config.cols} multipliers, "
         f"{config.requantize_lanes} lanes, scratchpad of {config.scratchpad_bytes:,} bytes"),
        ("engine", report["engine"]),
        ("memory", f"{memory.bytes_per_cycle:g} bytes per cycle, latency of {memory.latency_cycles} cycles{stalls}"),
        ("cycles", f"{cycles:,}{estimated} ({time_text(cycles, report.get('clock_hz', CLOCK_HZ))})"),
        ("utilization", f"{percent(report['utilization']) or '0 %'} of the multipliers, {report['macs']:,} MACs"),
        ("memory traffic", f"{report['bytes']:,} bytes, and {commands:,} of commands"),
        *coded_text(report),
        *peaks,
        *(host_lines(report) if "host" in report else ()),
        ("every number equal to the whole model's in LiteRT" if "host" in report else
         "every integer equal to the golden model's", "yes" if report["bit_exact"] else "NO"),
        ("made by", f"tq-hw {version('tq-hw')}: {_command_line()}"),
    ]


def _command_line() -> str:
    """Return the command line of this program, as text for a page."""
    return printable(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))


def _lost(report: Report) -> list[tuple[str, str, str]]:
    """Return where the cycles went, largest share first: words, cycles, share."""
    lost, cycles = report.get("lost") or {}, report["cycles"]
    return [(REASONS[reason][0], f"{count:,}", percent(count / max(cycles, 1)) or "0 %")
            for reason, count in sorted(lost.items(), key=lambda item: -item[1])]


def _waits(report: Report) -> list[tuple[str, ...]]:
    """Return the hardware's wait counters, longest first: unit, reason, cycles, share."""
    return [(unit, what, f"{cycles:,}", percent(share) or "0 %")
            for unit, what, cycles, share in wait_rows(report["counters"])] if report.get("counters") else []


def _warm(report: Report) -> list[tuple[str, ...]]:
    """Return figures of the cold and of the warm inference: name, cold, warm."""
    warm = report.get("resident")
    if not warm:
        return []
    rows = [("cycles", report["cycles"], warm["cycles"]), ("bytes of loads and stores", report["bytes"], warm["bytes"])]
    rows += [(f"cycles of {REASONS[name][0]}", report["lost"][name], warm["lost"][name])
             for name in REASONS if name in report["lost"]]
    rows += [(f"{unit} waited for {what}", report["counters"][name], warm["counters"][name])
             for name, (unit, what) in WAITS.items()]
    return [(what, f"{cold:,}", f"{after:,}") for what, cold, after in rows if cold or after]


def _peaks(parts: Sequence[tuple[Compiled, Inference]]) -> list[tuple[str, str]]:
    """Return the peak use of the scratchpad and the arena's size, of the largest program."""
    words = max(peak_words(memory_map(compiled), found.timeline) for compiled, found in parts)
    config = parts[0][0].program.config
    arena = max(compiled.program.arena_bytes for compiled, _ in parts)
    return [("scratchpad in use, at most", f"{words * config.word_bytes:,} of {config.scratchpad_bytes:,} bytes "
             f"({words / config.scratchpad_words:.0%})"), ("arena", f"{arena:,} bytes")]


def _escaped(value: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _plots(compiled: Compiled, found: Inference, memory: Memory) -> dict[str, Any]:
    """Return the plots of one program: timeline, traffic and memories."""
    from tq_hw.cli.report import plots as page_plots

    program = compiled.program
    assert found.cycles is not None
    events = trace_events(program, found.timeline, found.layer_cycles)["traceEvents"]
    timeline = page_plots.timeline_plot(events, found.cycles)
    moved = found.traffic or Traffic.of_operations(program, found.timeline, found.cycles, memory.bytes_per_cycle)
    plots = {"timeline": timeline,
             "traffic": page_plots.traffic_plot(moved.coarser(), memory.bytes_per_cycle, timeline)}
    tenants = memory_map(compiled)
    sizes = {"scratchpad": program.config.scratchpad_words, "image": len(program.image), "arena": program.arena_bytes,
             "state": len(program.state)}
    for name in MEMORIES:
        plot = page_plots.memory_plot(name, tenants, found.timeline, found.cycles, sizes[name],
                                      "word" if name == "scratchpad" else "byte", timeline)
        if plot is not None:
            plots[name] = plot
    return plots


def render(report: Report, parts: Sequence[tuple[Compiled, Inference]], memory: Memory,
           before: Report | None = None) -> str:
    """Return the page as self-contained HTML.

    Parameters
    ----------
    report : of the inference, as `sim --json` has it
    parts : what was compiled, one program unless a part of the model stays with the host, and of each the inference
        with cycles, cycles by layer, and the timeline
    before : the report of another run, for comparison
    """
    from jinja2 import Environment, StrictUndefined

    from tq_hw.cli.report import plots as page_plots

    programs = [compiled.program for compiled, _ in parts]
    plots = [(*_PLOTS["roofline"], page_plots.roofline_plot(report, programs[0].config, memory.bytes_per_cycle))]
    for number, (compiled, found) in enumerate(parts, 1):
        prefix = f"Part {number}: " if len(parts) > 1 else ""
        plots += [(prefix + _PLOTS[name][0], _PLOTS[name][1], plot)
                  for name, plot in _plots(compiled, found, memory).items()]
    script, elements = page_plots.plot_parts([plot for *_, plot in plots])
    estimates = {layer.index: layer.estimated_cycles for program in programs for layer in program.layers}
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files("tq_hw.cli.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        title=f"{programs[0].name} on {programs[0].config.name}", library=page_plots.library_script(), script=script,
        summary=_summary(report, programs, memory, _peaks(parts)), lost=_lost(report),
        waits=_waits(report), warm=_warm(report),
        before=compared(before, report) if before is not None else [],
        other=f"{before['model']} on {before['config']}" if before is not None else "",
        how=_HOW[report["engine"]], columns=_COLUMNS,
        rows=_rows(report, estimates, report["engine"]),
        total=("", "total", "", f"{report['cycles']:,}", f"{sum(estimates.values()):,}", "", f"{report['macs']:,}",
               percent(report["utilization"]), f"{report['bytes']:,}", "", ""),
        plots=[(heading, text, element) for (heading, text, _), element in zip(plots, elements, strict=True)],
        data=_escaped(report))
