"""`tq-hw sim`: run a model or a compiled file on an engine."""

from collections.abc import Mapping
from pathlib import Path

import click

from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.cli.emulation.soc import print_console, run_soc, soc_report
from tq_hw.cli.mixed import MixedSubject, check_options, check_whole, is_mixed_file, open_mixed
from tq_hw.cli.refusal import explained
from tq_hw.cli.report.layers import Report, print_layers, print_summary, sim_report, warm_report
from tq_hw.cli.report.mixed import mixed_sim_report
from tq_hw.cli.shared.arrays import output_arrays
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.files import check_outputs, npz_bytes, write, write_json
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import (
    check_drawn,
    debug_option,
    draw_options,
    engine_option,
    json_option,
    partition_option,
    patterns_option,
    profile_option,
    resident_option,
    shape_options,
    wide_option,
)
from tq_hw.cli.subject import (
    Subject,
    check_against_golden,
    compile_program,
    open_for_board,
    open_subject,
)
from tq_hw.cli.target import Target, target_options
from tq_hw.cli.waves import arithmetic_options, check_arithmetic_options, waves_files, waves_options, write_layout
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.sim.diagnose.tensors import find_tensor, with_outputs
from tq_hw.sim.diagnose.trace import timed, trace_events
from tq_hw.sim.engines import Array, Engine, Inference, InputSet, make_engine
from tq_hw.sim.mixed import MixedEngine
from tq_hw.sim.rtl.arithmetic import Arithmetic
from tq_hw.sim.rtl.waves import Waves

__all__ = ["sim_command"]


def _wanted(subject: Subject, names: tuple[str, ...], outputs_file: str | None) -> list[int]:
    """Return the indices of the tensors to dump."""
    if not names:
        return []
    if outputs_file is None:
        raise OptionError("--dump needs --outputs, the file that the tensor goes to")
    if subject.model is None:
        raise OptionError(f"{subject.path}: --dump needs the model, not a compiled file")
    return [find_tensor(subject.model, name) for name in names]


def _dump(subject: Subject, indices: list[int], engine: str, memory: Memory,
          inputs: list[InputSet]) -> dict[str, list[Array]]:
    """Return intermediate tensors by name, one array per input set."""
    assert subject.model is not None
    model = with_outputs(subject.model, indices)
    program = None if engine == "golden" else compile_program(model, subject.config, subject.path, memory)
    found = infer_all(make_engine(engine, model, program, memory), inputs, "dump")
    first = len(subject.model.main.outputs)
    return {subject.model.main.tensors[index].name: [one.outputs[first + position] for one in found]
            for position, index in enumerate(indices)}


def _soc_board(soc: bool, target: Target, others: Mapping[str, object]) -> Board | None:
    """Return the board of --soc. `others` maps options that --soc excludes to whether they were given."""
    if not soc:
        return None
    if target.board is None:
        raise OptionError("--soc needs --board")
    if isinstance(target.config, str):
        others = {"--config": True, **others}
    for option, given in others.items():
        if given:
            raise OptionError(f"--soc runs the firmware of a board: {option} does not go with it")
    return find_board(target.board)


def _finish_mixed(mixed: MixedSubject, shapes: InputShapes, inputs: list[InputSet], found: list[Inference],
                  engine: str, clock_hz: int, arithmetic: Arithmetic, stacked: bool, outputs_file: str | None,
                  json_file: str | None, wide: bool) -> None:
    """Hold what was made of a whole model against that, and write what was asked for."""
    exact, difference = check_whole(mixed, shapes, inputs, found)
    report = mixed_sim_report(mixed.path, mixed.config, mixed.model, mixed.programs, engine, found, exact) | {
        name: choice if engine == "rtl" else None for name, choice in arithmetic._asdict().items()} | {
        "clock_hz": clock_hz}
    if outputs_file is not None:
        write(outputs_file, npz_bytes(output_arrays([one.outputs for one in found], stacked)))
    write_json(json_file, report)
    if "-" not in (json_file, outputs_file):
        print_summary(report)
        print_layers(report, wide)
    if difference is not None:
        raise MismatchError(difference)


@click.command("sim")
@click.argument("path", metavar="MODEL.tflite|OUT")
@click.option("--inputs", "inputs_file", metavar="IN.npz|PICTURE", help="Input arrays, named by tensor or input_0, "
              "input_1, ...; one more axis in front holds several sets. Or a picture (PNG, JPEG, ...), which is "
              "resized and quantized.  [default: random]")
@click.option("--outputs", "outputs_file", metavar="OUT.npz", help="Write the outputs as output_0, output_1, ...")
@engine_option
@partition_option
@target_options()
@profile_option
@shape_options
@draw_options(1)
@resident_option
@patterns_option
@click.option("--dump", "dumped", metavar="TENSOR", multiple=True, help="Also write an intermediate tensor, given "
              "by name or index, to --outputs under its name. May be repeated.")
@waves_options
@arithmetic_options
@click.option("--trace", "trace_file", metavar="OUT.json", help="Write the first inference's timeline, for Perfetto or "
              "Chrome's tracing page (--engine rtl).")
@click.option("--soc", is_flag=True, help="Run the firmware on the soft core of a Verilated --board, with the model in "
              "its flash.")
@json_option
@wide_option
@debug_option
def sim_command(path: str, inputs_file: str | None, outputs_file: str | None, engine: str, partitioned: bool,
                target: Target, profile: str | None, shapes: InputShapes, seed: int, sets: int, resident: bool,
                pattern_files: tuple[str, ...], dumped: tuple[str, ...], waves: Waves | None,
                arithmetic: Arithmetic, trace_file: str | None, soc: bool, json_file: str | None, wide: bool) -> None:
    """Run a model, or a file that `compile` made, and report cycles and utilization per layer.

    A model's outputs are compared with the golden model's (with --partition, with LiteRT's); exit code 1 if they
    differ. With --soc they are the ones that the firmware prints.
    """
    check_drawn(inputs_file)
    waves_file = None if waves is None else str(waves.path)
    check_outputs({"--outputs": outputs_file, **waves_files(waves), "--trace": trace_file, "--json": json_file},
                  [path, inputs_file, config_file(target.config), *pattern_files])
    for option, file in (("--waves", waves_file), ("--trace", trace_file)):
        if file is not None and engine != "rtl":
            raise OptionError(f"{option} needs --engine rtl, not {engine}")
    check_arithmetic_options(arithmetic, engine, waves)
    board = _soc_board(soc, target, {"--engine": engine != "rtl", "--dump": dumped, "--waves": waves,
                                     "--array": arithmetic.array != "rtl", "--lanes": arithmetic.lanes != "rtl",
                                     "--trace": trace_file, "--resident": resident, "--patterns": pattern_files})
    memory = target.memory if board is None else target.plain
    if partitioned or is_mixed_file(path):
        check_options(profile, {"--soc": soc, "--resident": resident, "--dump": dumped, "--trace": trace_file,
                                "--patterns": pattern_files})
        mixed = open_mixed(path, target.config, memory, shapes)
        inputs, stacked = mixed.input_sets(inputs_file, sets, seed)
        mixed_engine = MixedEngine(mixed.model, engine, memory, waves, arithmetic)
        found = infer_all(mixed_engine, inputs, f"{engine} {Path(path).stem}")
        _finish_mixed(mixed, shapes, inputs, found, engine, target.clock_hz, arithmetic, stacked, outputs_file,
                      json_file, wide)
        return
    with explained(path, shapes, profile):
        subject = (open_for_board(path, board.config, memory, profile, shapes) if board is not None else
                   open_subject(path, target.config, engine, memory, resident, profile, shapes, waves, pattern_files,
                                arithmetic))
    wanted = _wanted(subject, dumped, outputs_file)
    inputs, stacked = subject.input_sets(inputs_file, sets, seed)
    more: Report = {}
    if board is None:
        runner: Engine = make_engine(engine, subject.model, subject.program, memory, waves, subject.warm, arithmetic)
        found = infer_all(runner, inputs, f"{engine} {Path(path).stem}")
    else:
        assert subject.program is not None
        run = run_soc(board, subject.program, inputs, memory)
        found, more, engine = run.inferences, soc_report(board, run), "soc"
    difference = None
    if subject.model is not None and engine != "golden":
        difference = check_against_golden(subject, inputs, found)
    exact = None if subject.model is None or engine == "golden" else difference is None
    report = sim_report(subject.path, subject.config, subject.model, subject.program, engine, found, exact) | more
    if engine == "rtl":
        report |= arithmetic._asdict()
    report["clock_hz"] = target.clock_hz if board is None else board.core_clock_hz
    if subject.warm is not None:
        report["resident"] = warm_report(subject.config, subject.model, subject.warm, found[0])
    if outputs_file is not None:
        arrays = output_arrays([one.outputs for one in found], stacked)
        for name, tensors in _dump(subject, wanted, engine, memory, inputs).items() if wanted else ():
            arrays[name] = output_arrays([(tensor,) for tensor in tensors], stacked)["output_0"]
        write(outputs_file, npz_bytes(arrays))
    if waves is not None:
        assert subject.program is not None
        write_layout(subject.program, waves, sum(one.cycles or 0 for one in found))
    if trace_file is not None:
        assert subject.program is not None
        trace = trace_events(subject.program, found[0].timeline, found[0].layer_cycles)
        write_json(trace_file, timed(trace, target.clock_hz))
    write_json(json_file, report)
    if "-" not in (json_file, outputs_file, trace_file):
        print_summary(report)
        if board is None:
            print_layers(report, wide)
        else:
            print_console(report)
    if difference is not None:
        raise MismatchError(difference)
