"""The reports of mixed models: rows of accelerated parts and of the host's operators, in the order of execution."""

from collections.abc import Mapping, Sequence

from tq_hw.cli.report.layers import Report, estimate_config, figures, idle_row, layer_rows
from tq_hw.cli.shared.text import printable
from tq_hw.compiler import Compiled
from tq_hw.isa.config import Config
from tq_hw.isa.program import Program
from tq_hw.model.graph import Model
from tq_hw.model.mixed import is_accelerated
from tq_hw.sim.diagnose.busy import Timeline
from tq_hw.sim.engines import Inference

__all__ = ["mixed_compile_report", "mixed_sim_report"]


def mixed_compile_report(config: Config, model: Model, parts: Sequence[Compiled], path: str, output: str,
                         output_bytes: int) -> Report:
    """Return the JSON of `compile --json` for a mixed model. Cycles are the compiler's estimate for all parts."""
    programs, machine = [compiled.program for compiled in parts], estimate_config(config)
    estimates = {layer.index: layer.estimated_cycles for program in programs for layer in program.layers}
    rows = _rows(machine, model, programs, estimates, [compiled.timeline for compiled in parts])
    return {
        "model": printable(path), "config": config.name, "design": config.design,
        "fingerprint": f"{config.fingerprint:08x}", "profile": programs[0].profile,
        "output": printable(output), "output_bytes": output_bytes,
        "command_bytes": sum(program.command_bytes for program in programs),
        "image_bytes": sum(len(program.image) for program in programs),
        "arena_bytes": sum(program.arena_bytes for program in programs),
        "state_bytes": sum(len(program.state) for program in programs), "estimated": True,
        **figures(rows, sum(estimates.values()), machine), **_host(model, None), "parts": _parts(model, programs)}


def mixed_sim_report(path: str, config: Config, model: Model, programs: Sequence[Program], engine: str,
                     found: Sequence[Inference], exact: bool | None) -> Report:
    """Return the JSON of `sim --json` for a mixed model. Cycles are those of all parts in the first inference."""
    first = found[0]
    rows = _rows(config, model, programs, first.layer_cycles, [one.timeline for one in first.parts])
    return {"model": printable(path), "config": config.name, "profile": programs[0].profile, "engine": engine,
            "bit_exact": exact, "sets": len(found), **figures(rows, first.cycles, config), **_host(model, first),
            "parts": _parts(model, programs)}


def _rows(config: Config, model: Model, programs: Sequence[Program], cycles: Mapping[int, int],
          timelines: Sequence[Timeline]) -> list[Report]:
    """Return the rows of all operators; those of a part are at the position where the part runs."""
    rows: list[Report] = []
    waiting = iter(zip(programs, timelines, strict=True))
    for op in model.main.operators:
        if is_accelerated(op):
            program, timeline = next(waiting)
            rows += [row | {"tensor": None} for row in layer_rows(program, config, cycles, timeline)]
        else:
            rows.append(idle_row(model, op) | {"unit": "host", "cycles": None})
    return rows


def _host(model: Model, found: Inference | None) -> Report:
    """Return the host's operators, and of an inference their seconds and the bytes between host and accelerator."""
    count = sum(not is_accelerated(op) for op in model.main.operators)
    if found is None:
        return {"host": {"operators": count}}
    return {"host": {"operators": count, "seconds": found.host_seconds}, "crossing_bytes": found.crossing_bytes}


def _parts(model: Model, programs: Sequence[Program]) -> list[Report]:
    """Return one entry per accelerated part: tensor names, commands and image."""
    accelerated = [op for op in model.main.operators if is_accelerated(op)]
    names = [tensor.name for tensor in model.main.tensors]
    return [{"inputs": [names[index] for index in op.inputs], "outputs": [names[index] for index in op.outputs],
             "macs": sum(layer.macs for layer in program.layers), "command_bytes": program.command_bytes,
             "image_bytes": len(program.image)} for op, program in zip(accelerated, programs, strict=True)]
