"""Steps that several commands share: open a model or a compiled file, compile it, check it against the golden model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tq_hw.cli.shared.arrays import draw_inputs, find_inputs, input_kinds, port_kinds
from tq_hw.cli.shared.files import read_npz
from tq_hw.cli.shared.images import is_image, read_image
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import check_resident
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.compiler import Compiled, compile_model
from tq_hw.compiler.passes import Observer, unobserved
from tq_hw.compiler.rewrite.own import load_patterns
from tq_hw.compiler.rewrite.rewrite import Pattern
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import load
from tq_hw.model.errors import OptionError, TqError
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.diagnose.compare import divergences
from tq_hw.sim.engines import Inference, InputSet, golden_engine
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic
from tq_hw.sim.rtl.build import ready
from tq_hw.sim.rtl.design import accelerator_with
from tq_hw.sim.rtl.waves import Waves

__all__ = [
    "DEFAULT_CONFIG", "Subject", "check_against_golden", "check_engine", "compile_all", "compile_program",
    "is_compiled", "open_for_board", "open_subject", "patterns_of",
]

DEFAULT_CONFIG = "n16"

_COMPILED = b"TQHM"


@dataclass(frozen=True)
class Subject:
    """The subject of a command: a model, compiled unless only the golden model runs it, or only a compiled file.

    `warm` is the program for inferences after the first one, if requested.
    """

    path: str
    config: Config
    model: Model | None
    program: Program | None
    warm: Program | None = None

    def input_sets(self, file: str | None, sets: int, seed: int) -> tuple[list[InputSet], bool]:
        """Return input sets from an `.npz`, a picture, or drawn ones, and whether outputs get an axis of sets."""
        if file is None:
            return self._drawn(sets, seed), sets > 1
        if is_image(file):
            if self.model is None:
                raise OptionError(f"{file}: a picture needs the model, not a compiled file; give an .npz")
            return [(read_image(file, self.model),)], False
        if self.model is not None:
            kinds = input_kinds(self.model)
        else:
            assert self.program is not None
            kinds = port_kinds(self.program.inputs)
        return find_inputs(read_npz(file), kinds, file)

    def _drawn(self, sets: int, seed: int) -> list[InputSet]:
        if self.model is None:
            raise OptionError(f"{self.path}: a compiled file needs --inputs; random inputs are for a model only")
        return draw_inputs(self.model, sets, seed)


def _load(path: str, profile: str | None) -> Program:
    """Read a compiled file; OptionError if it was compiled for another profile than the requested one."""
    program = load(path)
    if profile not in (None, program.profile):
        raise OptionError(f"{path}: is compiled for profile {program.profile}, not for {profile}; compile it again or "
                          "leave --profile out")
    return program


def _refuse_shapes(path: str, shapes: InputShapes | None) -> None:
    if shapes is not None and shapes != InputShapes():
        raise OptionError(f"{path}: the shapes of a compiled file are fixed; give --batch, --shape and "
                          "--signature to `tq-hw compile`")


def open_subject(path: str, config: str | Config | None, engine: str, memory: Memory, resident: bool = False,
                 profile: str | None = None, shapes: InputShapes | None = None, waves: Waves | None = None,
                 pattern_files: Sequence[str] = (), arithmetic: Arithmetic = RTL) -> Subject:
    """Read a model, and compile it for a memory unless `engine` is golden, or read a compiled file.

    Missing requirements of the RTL engine are reported before long work; `waves` and `arithmetic` are the RTL's.
    """
    check_resident(resident, engine)
    if pattern_files and (is_compiled(path) or engine == "golden"):
        raise OptionError(f"{path}: --patterns need a model to compile: a .tflite, with --engine rtl or "
                          "executor")
    if is_compiled(path):
        _refuse_shapes(path, shapes)
        program = _load(path, profile)
        if resident:
            raise OptionError(f"{path}: --resident needs the model, not a compiled file")
        if engine == "golden":
            raise OptionError(f"{path}: the golden model runs a .tflite model, not a compiled file")
        other = program.config if config is None else load_config(config)
        if other.fingerprint != program.fingerprint:
            raise OptionError(f"{path}: is compiled for configuration {program.config.name!r} (fingerprint "
                              f"{program.fingerprint:08x}), not for {other.name!r} ({other.fingerprint:08x}); compile "
                              "it again or leave --config and --board out")
        check_engine(engine, program.config, waves, arithmetic)
        return Subject(path, program.config, None, program)
    chosen = load_config(config or DEFAULT_CONFIG)
    model = read_model(path, shapes=shapes).under(profile or "canon")
    if engine == "golden":
        return Subject(path, chosen, model, None)
    check_engine(engine, chosen, waves, arithmetic)
    compiled = compile_all(model, chosen, path, patterns_of(pattern_files), memory)
    return Subject(path, chosen, model, compiled.program, warm_program(compiled) if resident else None)


def patterns_of(files: Sequence[str]) -> list[Pattern]:
    """Return the patterns of all files, in order."""
    return [each for path in files for each in load_patterns(path)]


def check_engine(engine: str, config: Config, waves: Waves | None = None, arithmetic: Arithmetic = RTL) -> None:
    """Raise errors of a simulator build now, not after minutes, if one has to be built."""
    if engine == "rtl":
        ready(config, trace="" if waves is None else waves.kind, design=accelerator_with(arithmetic, config))


def open_for_board(path: str, config: Config, memory: Memory | None = None, profile: str | None = None,
                   shapes: InputShapes | None = None) -> Subject:
    """Read a model and compile it for a board's configuration and a memory, or read a compiled file."""
    if is_compiled(path):
        _refuse_shapes(path, shapes)
        program = _load(path, profile)
        return Subject(path, program.config, None, program)
    model = read_model(path, shapes=shapes).under(profile or "canon")
    return Subject(path, config, model, compile_program(model, config, path, memory))


def is_compiled(path: str) -> bool:
    """Whether `path` is a compiled file."""
    try:
        if not Path(path).is_file():
            # A pipe would wait for a writer.
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_COMPILED)) == _COMPILED
    except OSError:
        return False


def check_against_golden(subject: Subject, inputs: list[InputSet], found: list[Inference]) -> str | None:
    """Return the first difference as a message, or None if every output of every set is equal."""
    assert subject.model is not None
    expected = infer_all(golden_engine(subject.model), inputs, "golden model")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        for how, inference in one.runs:
            if different := divergences(inference.outputs, other.outputs):
                return (f"{subject.path}: input set {number},{how} {different[0]} by the golden model"
                        + ("" if how else "; `tq-hw verify` finds the operator"))
    return None


def compile_all(model: Model, config: Config, path: str, patterns: Sequence[Pattern] = (),
                memory: Memory | None = None, observe: Observer = unobserved) -> Compiled:
    """Compile a model read from `path`, which every error names; `observe` as for `compile_model`."""
    try:
        with ProgressBar(f"compiling {model.name}"):
            return compile_model(model, config, patterns=patterns, memory=memory, observe=observe)
    except TqError as error:
        raise error.reworded(f"{path}: {error.reason}") from error


def compile_program(model: Model, config: Config, path: str, memory: Memory | None = None) -> Program:
    """Compile a model and return only its program."""
    return compile_all(model, config, path, memory=memory).program
