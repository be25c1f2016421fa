"""`tq-hw sim`: run a model or a compiled file on an engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from tq_hw.boards.board import Board
from tq_hw.boards.catalog import find_board
from tq_hw.cli.arrays import InputSet, draw_inputs, find_inputs, output_arrays
from tq_hw.cli.compile import DEFAULT_CONFIG, compile_all, compile_program
from tq_hw.cli.engines import Array, Engine, Inference, golden_engine, infer_all, make_engine
from tq_hw.cli.files import check_outputs, npz_bytes, read_npz, write, write_json
from tq_hw.cli.options import (
    check_resident,
    config_option,
    debug_option,
    draw_options,
    engine_option,
    json_option,
    memory_options,
    profile_option,
    resident_option,
)
from tq_hw.cli.report import Report, print_layers, print_summary, sim_report, warm_report
from tq_hw.cli.soc import print_console, run_soc, soc_report
from tq_hw.cli.tensors import find_tensor, with_outputs
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import load
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.graph import Model
from tq_hw.model.reader import read_model
from tq_hw.sim.compare import divergences
from tq_hw.sim.trace import trace_events

__all__ = ["Subject", "check_against_golden", "is_compiled", "open_for_board", "open_subject", "sim_command"]

_COMPILED = b"TQHM"


@dataclass(frozen=True)
class Subject:
    """What is run: a model, compiled unless the golden model alone is to run it, or a compiled file alone.

    `warm` is the program for inferences behind the first one, where it was asked for.
    """

    path: str
    config: Config
    model: Model | None
    program: Program | None
    warm: Program | None = None

    def input_sets(self, file: str | None, sets: int, seed: int) -> tuple[list[InputSet], bool]:
        """Return the input sets of an `.npz`, or drawn ones, and whether outputs get an axis of sets."""
        if file is None:
            return self._drawn(sets, seed), sets > 1
        if self.model is not None:
            tensors = [self.model.main.tensors[index] for index in self.model.main.inputs]
            names, kinds = [t.name for t in tensors], [(t.dtype, t.shape) for t in tensors]
        else:
            assert self.program is not None
            names = [port.name for port in self.program.inputs]
            kinds = [(port.model_dtype, port.shape) for port in self.program.inputs]
        return find_inputs(read_npz(file), names, kinds, file)

    def _drawn(self, sets: int, seed: int) -> list[InputSet]:
        if self.model is None:
            raise OptionError(f"{self.path}: a compiled file needs --inputs; inputs are drawn for a model only")
        return draw_inputs(self.model, sets, seed)


def open_subject(path: str, config: str | None, engine: str, memory: Memory, resident: bool = False,
                 profile: str | None = None) -> Subject:
    """Read a model, and compile it for a memory unless `engine` is golden, or read a compiled file."""
    check_resident(resident, engine)
    if is_compiled(path):
        program = _load(path, profile)
        if resident:
            raise OptionError(f"{path}: --resident needs the model, not a compiled file")
        if engine == "golden":
            raise OptionError(f"{path}: the golden model runs a .tflite model, not a compiled file")
        wanted = program.fingerprint if config is None else load_config(config).fingerprint
        if wanted != program.fingerprint:
            raise OptionError(f"{path}: is compiled for configuration {program.config.name!r} (fingerprint "
                              f"{program.fingerprint:08x}), not for {config!r} ({wanted:08x}); compile it again or "
                              "leave --config out")
        return Subject(path, program.config, None, program)
    chosen = load_config(config or DEFAULT_CONFIG)
    model = read_model(path).under(profile or "canon")
    if engine == "golden":
        return Subject(path, chosen, model, None)
    compiled = compile_all(model, chosen, path, memory=memory)
    return Subject(path, chosen, model, compiled.program, warm_program(compiled) if resident else None)


def open_for_board(path: str, board: Board, memory: Memory | None = None, profile: str | None = None) -> Subject:
    """Read a model and compile it for a board's configuration and a memory, or read a compiled file."""
    if is_compiled(path):
        program = _load(path, profile)
        return Subject(path, program.config, None, program)
    model = read_model(path).under(profile or "canon")
    return Subject(path, board.config, model, compile_program(model, board.config, path, memory))


def _load(path: str, profile: str | None) -> Program:
    """Read a compiled file; OptionError if it was compiled for another profile than one that was asked for."""
    program = load(path)
    if profile not in (None, program.profile):
        raise OptionError(f"{path}: is compiled for profile {program.profile}, not for {profile}; compile it again or "
                          "leave --profile out")
    return program


def is_compiled(path: str) -> bool:
    """Whether `path` is a file that `compile` made."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_COMPILED)) == _COMPILED
    except OSError:
        return False


def check_against_golden(subject: Subject, inputs: list[InputSet], found: list[Inference]) -> str | None:
    """Return the first difference as a message, or None when every output of every set is equal."""
    assert subject.model is not None
    expected = infer_all(golden_engine(subject.model), inputs, "golden model")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        for how, inference in one.runs:
            if different := divergences(inference.outputs, other.outputs):
                return (f"{subject.path}: input set {number},{how} {different[0]} by the golden model"
                        + ("" if how else "; `tq-hw verify` finds the operator"))
    return None


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


def _soc_board(soc: bool, name: str | None, others: Mapping[str, object]) -> Board | None:
    """Return the board of --soc; `others` are options that do not go with it, and whether they were given."""
    if not soc:
        if name is not None:
            raise OptionError("--board needs --soc; without it the accelerator runs alone, see --config")
        return None
    if name is None:
        raise OptionError("--soc needs --board")
    for option, given in others.items():
        if given:
            raise OptionError(f"--soc runs the firmware of a board: {option} does not go with it")
    return find_board(name)


@click.command("sim")
@click.argument("path", metavar="MODEL.tflite|OUT")
@click.option("--inputs", "inputs_file", metavar="IN.npz", help="Input arrays, named by tensor or input_0, input_1, "
              "...; one more axis in front holds several sets.  [default: drawn]")
@click.option("--outputs", "outputs_file", metavar="OUT.npz", help="Write the outputs as output_0, output_1, ...")
@engine_option
@config_option
@profile_option
@memory_options
@draw_options(1)
@resident_option
@click.option("--dump", "dumped", metavar="TENSOR", multiple=True, help="Put an intermediate tensor into --outputs "
              "too, under its name; by name or index, may be repeated.")
@click.option("--waves", metavar="OUT.fst", help="Write the waves of the first inference (--engine rtl).")
@click.option("--trace", "trace_file", metavar="OUT.json", help="Write the first inference's timeline, for Perfetto or "
              "Chrome's tracing page (--engine rtl).")
@click.option("--soc", is_flag=True, help="Run the firmware on the soft core of a Verilated --board, with the model in "
              "its flash.")
@click.option("--board", "board_name", metavar="BOARD", help="Board of --soc; `tq-hw boards` lists them.")
@json_option
@debug_option
def sim_command(path: str, inputs_file: str | None, outputs_file: str | None, engine: str, config: str | None,
                profile: str | None, latency: int, bytes_per_cycle: float, stalls: int | None, seed: int, sets: int,
                resident: bool, dumped: tuple[str, ...], waves: str | None, trace_file: str | None, soc: bool,
                board_name: str | None, json_file: str | None) -> None:
    """Run a model, or a file that `compile` made, and report cycles and utilization per layer.

    A model's outputs are held against the golden model; a difference is exit code 1. With --soc they are those that the
    firmware prints.
    """
    check_outputs({"--outputs": outputs_file, "--waves": waves, "--trace": trace_file, "--json": json_file},
                  [path, inputs_file])
    for option, file in (("--waves", waves), ("--trace", trace_file)):
        if file is not None and engine != "rtl":
            raise OptionError(f"{option} needs --engine rtl, not {engine}")
    board = _soc_board(soc, board_name, {"--engine": engine != "rtl", "--config": config, "--dump": dumped,
                                         "--waves": waves, "--trace": trace_file, "--resident": resident})
    memory = Memory(latency, bytes_per_cycle, stalls=stalls)
    subject = (open_subject(path, config, engine, memory, resident, profile) if board is None
               else open_for_board(path, board, memory, profile))
    wanted = _wanted(subject, dumped, outputs_file)
    inputs, stacked = subject.input_sets(inputs_file, sets, seed)
    more: Report = {}
    if board is None:
        runner: Engine = make_engine(engine, subject.model, subject.program, memory, waves, subject.warm)
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
    if subject.warm is not None:
        report["resident"] = warm_report(subject.config, subject.model, subject.warm, found[0])
    if outputs_file is not None:
        arrays = output_arrays([one.outputs for one in found], stacked)
        for name, tensors in _dump(subject, wanted, engine, memory, inputs).items() if wanted else ():
            arrays[name] = output_arrays([(tensor,) for tensor in tensors], stacked)["output_0"]
        write(outputs_file, npz_bytes(arrays))
    if trace_file is not None:
        assert subject.program is not None
        write_json(trace_file, trace_events(subject.program, found[0].timeline, found[0].layer_cycles))
    if "-" not in (json_file, outputs_file, trace_file):
        print_summary(report)
        if board is None:
            print_layers(report)
        else:
            print_console(report)
    write_json(json_file, report)
    if difference is not None:
        raise MismatchError(difference)
