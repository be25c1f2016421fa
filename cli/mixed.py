"""Models of which a part runs on the host, for several commands: open, write, compare with LiteRT."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.cli.subject import DEFAULT_CONFIG, Subject
from tq_hw.compiler.partition import Partition, partition
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.cut import compact
from tq_hw.model.errors import OptionError, ToolError, TqError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.mixed import ACCELERATED, CUSTOM_NAME, is_accelerated, is_mixed
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.diagnose.compare import divergences
from tq_hw.sim.engines import Array, Inference, InputSet
from tq_hw.sim.mixed import AcceleratedPart, check_written, common_config, split
from tq_hw.sim.oracles import Oracle

__all__ = ["PROFILE", "MixedSubject", "check_options", "check_whole", "is_mixed_file", "mixed_bytes", "open_mixed",
           "whole_model", "wrapped"]

#: The arithmetic of LiteRT on the host, and therefore of the accelerated parts.
PROFILE = "litert"


@dataclass(frozen=True)
class MixedSubject:
    """A mixed model to run. If it was made here, also the whole model and the compiled parts.

    Members
    -------
    source : the model that inputs are drawn for: the whole model, or the mixed one if it was read from a file
    """

    path: str
    config: Config
    source: Model
    model: Model
    programs: tuple[Program, ...]
    made: Partition | None = None

    @property
    def summary(self) -> str:
        """How the model is divided, in a few words."""
        parts, host = len(self.programs), sum(not is_accelerated(op) for op in self.model.main.operators)
        return (f"{parts} accelerated part{'' if parts == 1 else 's'}, {host} operator{'' if host == 1 else 's'} on "
                "the host")

    def input_sets(self, file: str | None, sets: int, seed: int) -> tuple[list[InputSet], bool]:
        """Return input sets and whether outputs get an axis of sets, as for any other model."""
        return Subject(self.path, self.config, self.source, None).input_sets(file, sets, seed)


def is_mixed_file(path: str) -> bool:
    """Whether `path` is a `.tflite` with accelerated parts; False for a file that cannot be read."""
    try:
        # Others are refused later: reading a pipe takes its contents away, and some devices never end.
        if not Path(path).is_file() or CUSTOM_NAME.encode() not in Path(path).read_bytes():
            return False
        return is_mixed(read_model(path, check=False))
    except (OSError, TqError):
        return False


def check_options(profile: str | None, others: Mapping[str, object]) -> None:
    """Raise OptionError for options that mixed models exclude; `others` says which were given."""
    if profile not in (None, PROFILE):
        raise OptionError(f"--profile {profile}: LiteRT computes the operators on the host, and the accelerated ones "
                          f"follow it: leave --profile out, or name {PROFILE}")
    for option, given in others.items():
        if given:
            raise OptionError(f"{option} does not work with a model that leaves operators to the host")


def open_mixed(path: str, config: Config | str | None, memory: Memory | None,
               shapes: InputShapes | None = None) -> MixedSubject:
    """Read a model and compile the operators that the accelerator supports, or read a mixed model."""
    if not is_mixed_file(path):
        chosen = config if isinstance(config, Config) else load_config(config or DEFAULT_CONFIG)
        source = read_model(path, rules=False, shapes=shapes)
        try:
            with ProgressBar(f"compiling {source.name}"):
                made = partition(source, chosen, memory)
        except TqError as error:
            raise error.reworded(f"{path}: {error.reason}") from error
        return MixedSubject(path, chosen, source, made.model, tuple(part.program for part in made.parts), made)
    if shapes is not None and shapes != InputShapes():
        raise OptionError(f"{path}: the shapes of a file with accelerated parts are fixed; give --batch, --shape and "
                          "--signature to `tq-hw compile`")
    model = read_model(path, rules=False)
    parts = split(model)
    wanted = load_config(config) if isinstance(config, str) else config
    try:
        found = common_config(parts, wanted, "--config")
    except OptionError as error:
        raise error.reworded(f"{path}: {error.reason}") from None
    return MixedSubject(path, found, model, model,
                        tuple(part.program for part in parts if isinstance(part, AcceleratedPart)))


def mixed_bytes(model: Model) -> bytes:
    """Return the `.tflite` of a mixed model; raise `UnsupportedError` if an operator would lose its options."""
    check_written(model, (op for op in model.main.operators if not is_accelerated(op)))
    return write_model(compact(model))


def wrapped(model: Model, program: Program) -> Model:
    """Return a mixed model whose only part is a model that was compiled whole."""
    main = model.main
    tensors = [replace(tensor, data=None) for tensor in main.tensors]
    outputs: list[int] = []
    for index in main.outputs:
        if index in outputs or index in main.inputs:
            # An operator may not output a tensor twice, nor one that is an input of the model.
            tensors.append(replace(tensors[index], index=len(tensors)))
            index = tensors[-1].index
        outputs.append(index)
    given = dict(zip(main.outputs, outputs, strict=True))
    only = Operator(0, ACCELERATED, main.inputs, tuple(outputs), custom_options=to_bytes(program))
    signatures = tuple(each if each.subgraph else replace(
        each, outputs={name: given.get(index, index) for name, index in each.outputs.items()})
        for each in model.signatures)
    return replace(model, signatures=signatures, subgraphs=(
        replace(main, operators=(only,), tensors=tuple(tensors), outputs=tuple(outputs)),))


def whole_model(path: str, source: Model, shapes: InputShapes | None,
                inputs: Sequence[InputSet]) -> list[tuple[Array, ...]]:
    """Return LiteRT's outputs of the whole model; ToolError if its reference kernels do not run it."""
    contents = write_model(source) if shapes is not None and shapes.signature else Path(path).read_bytes()
    with Oracle("litert-ref") as oracle:
        return oracle.run_sets(contents, inputs)


def check_whole(subject: MixedSubject, shapes: InputShapes | None, inputs: Sequence[InputSet],
                found: Sequence[Inference]) -> tuple[bool | None, str | None]:
    """Return whether the outputs equal those of the whole model in LiteRT, and the first difference as a message.

    None if there is no whole model, or if LiteRT does not run it; the latter is printed.
    """
    if subject.made is None:
        return None, None
    try:
        expected = whole_model(subject.path, subject.source, shapes, inputs)
    except ToolError as error:
        click.echo(f"tq-hw: {subject.path}: not compared with the whole model: {error}", err=True)
        return None, None
    for number, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        if different := divergences(one.outputs, wanted):
            return False, f"{subject.path}: input set {number}, {different[0]} by LiteRT's reference kernels"
    return True, None
