"""The reports of `compile` and `sim`, as JSON values and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from tq_hw.cli.report.coded import coded_figures, coded_text
from tq_hw.cli.report.tables import Column, percent, print_pairs, print_table
from tq_hw.cli.shared.text import printable
from tq_hw.compiler import Compiled
from tq_hw.isa.config import Config
from tq_hw.isa.program import Program
from tq_hw.model.graph import Model, Operator
from tq_hw.sim.diagnose.busy import REASONS, Timeline, array_cycles, groups, lost_cycles
from tq_hw.sim.engines import Inference
from tq_hw.sim.rtl.arithmetic import Arithmetic

__all__ = ["CLOCK_HZ", "Report", "bound_text", "compile_report", "estimate_config", "figures", "host_lines", "idle_row",
           "layer_rows", "print_layers", "print_summary", "sim_report", "time_text", "utilization", "warm_report"]

Report = dict[str, Any]
#: Clock at which cycles are converted to time.
CLOCK_HZ = 100_000_000
#: Suffix of estimated cycles, by the configuration's design.
_ESTIMATED = {"parallel": " (estimated)", "serial": " (estimated for a parallel machine of this size)"}
_COLUMNS = (
    Column("#", number=True), Column("op", least=8, gives_way=1), Column("unit", least=6, gives_way=4),
    Column("cycles", number=True), Column("MACs", number=True), Column("util", number=True),
    Column("bytes", number=True), Column("bound", least=7, gives_way=3), Column("tensor", least=12, gives_way=5))


def estimate_config(config: Config) -> Config:
    """Return the machine whose cycles the compiler estimates: the parallel one, also for the slower serial design."""
    return replace(config, design="parallel")


def utilization(macs: int, cycles: int | None, config: Config) -> float | None:
    """Share of the multipliers' cycles that did work; None if the cycles are unknown."""
    return round(macs / (cycles * config.macs), 4) if cycles else None


def layer_rows(program: Program, config: Config, cycles: Mapping[int, int], timeline: Timeline,
               model: Model | None = None) -> list[Report]:
    """Return one row per layer. `cycles` is by operator index, without the unknown ones.

    A layer's utilization is its share of the multipliers' cycles while the array worked for it; None without a
    timeline. Layers that alternate have one `group`, the index of the first of them.

    With the model, operators without commands have a row too: unit "host" for the conversion of float32 inputs and
    outputs, "none" for another view of the same bytes, or for an operator that was merged into a neighbour.
    """
    busy = array_cycles(program, timeline) if timeline else {}
    group = {index: members[0] for members in groups(program.layers) if len(members) > 1 for index in members}
    rows: list[Report] = [{"index": layer.index, "op": layer.op, "name": layer.name, "unit": layer.unit,
             "cycles": cycles.get(layer.index), "array_cycles": busy.get(layer.index), "macs": layer.macs,
             "utilization": utilization(layer.macs, busy.get(layer.index), config), "bytes": layer.bytes_moved,
             "bound": layer.bound, "group": group.get(layer.index)} for layer in program.layers]
    if model is not None:
        outputs = {op.index: _output(model, op) for op in model.main.operators}
        for row in rows:
            row["tensor"] = outputs.get(row["index"])
        seen = {row["index"] for row in rows}
        rows += [idle_row(model, op) for op in model.main.operators if op.index not in seen]
        rows.sort(key=lambda row: row["index"])
    return rows


def idle_row(model: Model, op: Operator) -> Report:
    """Return the row of an operator without commands."""
    tensors = [model.main.tensors[index] for index in (*op.inputs[:1], *op.outputs) if index >= 0]
    edge = op.op in ("QUANTIZE", "DEQUANTIZE") and any(tensor.dtype == "float32" for tensor in tensors)
    return {"index": op.index, "op": op.op, "name": _output_name(model, op), "unit": "host" if edge else "none",
            "cycles": 0, "array_cycles": None, "macs": 0, "utilization": None, "bytes": 0, "bound": "", "group": None,
            "tensor": _output(model, op)}


def _output(model: Model, op: Operator) -> int | None:
    """Return the index of an operator's last output; CALL_ONCE and ASSIGN_VARIABLE have none."""
    return op.outputs[-1] if op.outputs else None


def _output_name(model: Model, op: Operator) -> str:
    """Return the name of an operator's last output; CALL_ONCE and ASSIGN_VARIABLE have none."""
    return model.main.tensors[op.outputs[-1]].name if op.outputs else ""


def compile_report(compiled: Compiled, model: Model, path: str, output: str, output_bytes: int) -> Report:
    """Return the JSON of `compile --json`. Cycles are the compiler's estimate."""
    program = compiled.program
    config, layers = estimate_config(program.config), program.layers
    cycles, macs = sum(layer.estimated_cycles for layer in layers), sum(layer.macs for layer in layers)
    return {
        "model": printable(path), "config": config.name, "design": program.config.design,
        "fingerprint": f"{config.fingerprint:08x}", "profile": program.profile,
        "output": printable(output), "output_bytes": output_bytes,
        "command_bytes": program.command_bytes, "image_bytes": len(program.image),
        "arena_bytes": program.arena_bytes, "state_bytes": len(program.state),
        "estimated": True, "cycles": cycles, "macs": macs, "utilization": utilization(macs, cycles, config),
        "bytes": sum(layer.bytes_moved for layer in layers), **coded_figures(program),
        "lost": lost_cycles(program, compiled.timeline, cycles, macs=config.macs),
        "layers": layer_rows(program, config, {layer.index: layer.estimated_cycles for layer in layers},
                             compiled.timeline, model)}


def sim_report(path: str, config: Config, model: Model | None, program: Program | None, engine: str,
               found: Sequence[Inference], exact: bool | None) -> Report:
    """Return the JSON of `sim --json`. Cycles are those of the first inference, from a cold start."""
    first = found[0]
    if program is not None:
        layers = layer_rows(program, config, first.layer_cycles, first.timeline, model)
    else:
        assert model is not None
        layers = [{"index": op.index, "op": op.op, "name": _output_name(model, op), "unit": engine, "cycles": None,
                   "array_cycles": None, "macs": None, "utilization": None, "bytes": None, "group": None, "bound": "",
                   "tensor": _output(model, op)}
                  for op in model.main.operators]
    profile = program.profile if program is not None else model.profile if model is not None else None
    return {"model": printable(path), "config": config.name, "profile": profile, "engine": engine,
            **dict.fromkeys(Arithmetic._fields, "rtl" if engine == "rtl" else None), "bit_exact": exact,
            "sets": len(found), "lost": _lost(program, first, config),
            "counters": dict(first.counters) or None, **({} if program is None else coded_figures(program)),
            **figures(layers, first.cycles, config)}


def _lost(program: Program | None, found: Inference, config: Config) -> dict[str, int] | None:
    """Return where the cycles went; None if the engine does not model time, or gives no times of operations."""
    if program is None or not found.timeline or found.cycles is None:
        return None
    return lost_cycles(program, found.timeline, found.cycles, found.counters, macs=config.macs)


def warm_report(config: Config, model: Model | None, program: Program, found: Inference) -> Report:
    """Return the part of `sim --resident --json` about the warm inference."""
    assert found.warm is not None
    rows = layer_rows(program, config, found.warm.layer_cycles, found.warm.timeline, model)
    return {"lost": _lost(program, found.warm, config), "counters": dict(found.warm.counters) or None,
            **figures(rows, found.warm.cycles, config)}


def figures(layers: list[Report], cycles: int | None, config: Config) -> Report:
    """Return the rows of a report and their sums."""
    macs = sum(row["macs"] or 0 for row in layers)
    return {"cycles": cycles, "macs": macs, "utilization": utilization(macs, cycles, config),
            "bytes": sum(row["bytes"] or 0 for row in layers), "layers": layers}


def print_summary(report: Report) -> None:
    """Print the figures of the whole network, one per line."""
    cycles, estimated = report["cycles"], _ESTIMATED[report.get("design", "parallel")] if report.get(
        "estimated") else ""
    lines = [("model", report["model"]), ("config", report["config"]), ("profile", report["profile"])]
    lines += [(key, report[key]) for key in ("output", "engine") if key in report]
    modelled = [name for name in Arithmetic._fields if report.get(name) == "model"]
    if modelled:
        lines.append(("models", f"{' and '.join(modelled)}, in C++, tested against the RTL; the rest is RTL"))
    if cycles is not None:
        time = time_text(cycles, report.get("clock_hz", CLOCK_HZ))
        lines += [("cycles", f"{cycles:,}{estimated}, {time}"),
                  ("utilization", f"{percent(report['utilization']) or '0 %'} of the multipliers, "
                                  f"{report['macs']:,} MACs")]
    if report.get("lost"):
        lines.append(("bound by", bound_text(report["lost"])))
    lines += coded_text(report)
    if "host" in report:
        lines += host_lines(report)
    if "resident" in report and report["resident"]["cycles"] is not None:
        warm = report["resident"]
        lines.append(("resident", f"{warm['cycles']:,} cycles with the weights left in the scratchpad, "
                                  f"{warm['bytes']:,} of {report['bytes']:,} bytes moved"))
    if report.get("bit_exact") is not None:
        lines.append(("bit exact", "yes" if report["bit_exact"] else "no"))
    print_pairs(lines)


def time_text(cycles: int, clock_hz: int) -> str:
    """Return cycles as a time at a clock."""
    seconds = cycles / clock_hz
    amount = f"{seconds * 1e3:,.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
    return f"{amount} at {clock_hz / 1e6:g} MHz"


def bound_text(lost: Mapping[str, int]) -> str:
    """Return what takes most of an inference's cycles, and what would help, in words."""
    reason = max(lost, key=lambda name: lost[name])
    what, remedy = REASONS[reason]
    return f"{what}, {lost[reason] / max(sum(lost.values()), 1):.0%} of the cycles; would help: {remedy}"


def host_lines(report: Report) -> list[tuple[str, str]]:
    """Return the summary's lines about operators on the host."""
    host, parts = report["host"], len(report["parts"])
    took = f", {host['seconds'] * 1e3:,.2f} ms in LiteRT" if "seconds" in host else ""
    lines = [("host", f"{host['operators']} operator{'' if host['operators'] == 1 else 's'}{took}; {parts} accelerated "
                      f"part{'' if parts == 1 else 's'}")]
    if "crossing_bytes" in report:
        lines.append(("crossing", f"{report['crossing_bytes']:,} bytes between host and accelerator"))
    return lines


def short_name(row: Report, wide: bool = False) -> str:
    """Return a tensor's index, for `--dump`, and its name; of a fused name the first part, unless `wide`."""
    first, *others = row["name"].split(";")
    index = f"{row['tensor']}: " if row.get("tensor") is not None else ""
    return index + (f"{first};.." if others and not wide else row["name"])


def print_layers(report: Report, wide: bool = False) -> None:
    """Print one line per layer. `wide` prints names in full, whatever the terminal's width."""
    click.echo()
    print_table(
        _COLUMNS,
        [(row["index"], row["op"], row["unit"], row["cycles"], row["macs"],
          percent(row["utilization"]), row["bytes"], row["bound"], short_name(row, wide))
         for row in report["layers"]],
        ("", "total", "", report["cycles"], report["macs"],
         percent(report["utilization"]), report["bytes"], "", ""), wide)
