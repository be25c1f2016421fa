"""`tq-hw report`: one self-contained page of a model's layers, roofline, timeline and memories."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from tq_hw.cli.mixed import check_options, check_whole, is_mixed_file, open_mixed
from tq_hw.cli.refusal import explained
from tq_hw.cli.report.compare import read_report
from tq_hw.cli.report.layers import CLOCK_HZ, Report, estimate_config, sim_report, warm_report
from tq_hw.cli.report.mixed import mixed_sim_report
from tq_hw.cli.report.page import need_plots, render
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, write, write_json
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import (
    debug_option,
    json_option,
    partition_option,
    patterns_option,
    profile_option,
    seed_option,
    shape_options,
)
from tq_hw.cli.subject import Subject, check_against_golden, check_engine, compile_all, is_compiled, patterns_of
from tq_hw.cli.target import Target, target_options
from tq_hw.compiler import Compiled
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.engines import Inference, make_engine
from tq_hw.sim.mixed import MixedEngine
from tq_hw.sim.rtl.simulate import layer_cycles

__all__ = ["Page", "make_page", "report_command"]


def _with_estimate(compiled: Compiled, inferences: Sequence[Inference]) -> Inference:
    """Return an inference of an engine without cycles, with the compiler's estimates."""
    times = compiled.timeline
    cycles = layer_cycles(compiled.program, times)
    return Inference(inferences[0].outputs, sum(cycles.values()), cycles, times)


@dataclass(frozen=True)
class Page:
    """A page, the first difference from the expected outputs or None, and the report as in `sim --json`."""

    html: bytes
    difference: str | None
    report: Report


def make_page(path: str, model: Model, compiled: Compiled, engine: str, memory: Memory,
              seed: int, clock_hz: int = CLOCK_HZ, before: Report | None = None, resident: bool = False) -> Page:
    """Run one inference of drawn inputs; `before` is the report of another run, for comparison.

    `resident`: also measure an inference whose weights stayed in the scratchpad.
    """
    need_plots()
    config = compiled.program.config
    subject = Subject(path, config, model, compiled.program)
    inputs, _ = subject.input_sets(None, 1, seed)
    warm = warm_program(compiled) if resident else None
    runner = make_engine(engine, model, compiled.program, memory, warm=warm)
    inferences = infer_all(runner, inputs, f"{engine} {model.name}")
    found = inferences[0] if engine == "rtl" else _with_estimate(compiled, inferences)
    difference = check_against_golden(subject, inputs, inferences)
    machine = config if engine == "rtl" else estimate_config(config)
    report = sim_report(path, machine, model, compiled.program, engine, [found], difference is None) | {
        "clock_hz": clock_hz}
    if warm is not None:
        report["resident"] = warm_report(config, model, warm, found)
    return Page(render(report, [(compiled, found)], memory, before).encode(), difference, report)


def _make_mixed_page(path: str, target: Target, engine: str, shapes: InputShapes, seed: int,
                     before: Report | None) -> Page:
    """As `make_page`, for a mixed model: its outputs are compared with those of the whole model in LiteRT."""
    subject = open_mixed(path, target.config, target.memory, shapes)
    if subject.made is None:
        raise OptionError(f"{path}: expected a whole model, found one with accelerated parts, which does not say where "
                          "tensors lie in memory")
    inputs, _ = subject.input_sets(None, 1, seed)
    found = infer_all(MixedEngine(subject.model, engine, target.memory), inputs, f"{engine} {subject.source.name}")
    exact, difference = check_whole(subject, shapes, inputs, found)
    parts = [(compiled, one if engine == "rtl" else _with_estimate(compiled, [one]))
             for compiled, one in zip(subject.made.parts, found[0].parts, strict=True)]
    whole = replace(found[0], cycles=sum(one.cycles or 0 for _, one in parts),
                    layer_cycles={index: count for _, one in parts for index, count in one.layer_cycles.items()})
    machine = subject.config if engine == "rtl" else estimate_config(subject.config)
    report = mixed_sim_report(path, machine, subject.model, subject.programs, engine, [whole],
                              exact) | {"clock_hz": target.clock_hz}
    return Page(render(report, parts, target.memory, before).encode(), difference, report)


@click.command("report")
@click.argument("model_file", metavar="MODEL.tflite")
@click.option("-o", "--output", metavar="OUT.html", required=True, help="The page to write.")
@click.option("--engine", type=click.Choice(["rtl", "executor"]), default="rtl", show_default=True,
              help="What runs the model: the Verilated RTL, which measures cycles, or the executor, with cycles as the "
              "compiler estimates.")
@partition_option
@target_options()
@profile_option
@shape_options
@seed_option
@patterns_option
@click.option("--resident", is_flag=True, help="Run a second inference with the weights left in the scratchpad, and "
              "show both.")
@click.option("--compare", "other_file", metavar="OTHER.json", help="Compare the run with another one: a report "
              "that sim, compile or report wrote with --json.")
@json_option
@debug_option
def report_command(model_file: str, output: str, engine: str, partitioned: bool, target: Target,
                   profile: str | None, shapes: InputShapes, seed: int, pattern_files: tuple[str, ...],
                   resident: bool, other_file: str | None, json_file: str | None) -> None:
    """Write one self-contained HTML page of a model's layers, roofline, timeline and memories.

    Runs one inference on random inputs and compares it with the golden model; exit code 1 if they differ.
    """
    need_plots()
    check_outputs({"-o": output, "--json": json_file},
                  [model_file, other_file, config_file(target.config), *pattern_files])
    before = None if other_file is None else read_report(other_file)
    if engine == "executor" and target.memory.stalls is not None:
        raise OptionError("--stalls needs --engine rtl: the executor does not model time")
    if engine == "executor" and resident:
        raise OptionError("--resident of a report needs --engine rtl: the executor does not model time")
    if is_compiled(model_file):
        raise OptionError(f"{model_file}: expected a .tflite model, found a compiled file, which does not say where "
                          "tensors lie in memory")
    if partitioned or is_mixed_file(model_file):
        check_options(profile, {"--patterns": pattern_files, "--resident": resident})
        page = _make_mixed_page(model_file, target, engine, shapes, seed, before)
    else:
        chosen = target.sizes
        with explained(model_file, shapes, profile):
            model = read_model(model_file, shapes=shapes).under(profile or "canon")
            check_engine(engine, chosen)
            compiled = compile_all(model, chosen, model_file, patterns_of(pattern_files), target.memory)
        page = make_page(model_file, model, compiled, engine, target.memory, seed, target.clock_hz, before,
                         resident)
    write(output, page.html)
    write_json(json_file, page.report)
    if page.difference is not None:
        raise MismatchError(page.difference)
