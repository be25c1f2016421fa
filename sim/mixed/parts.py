"""The parts of a mixed model: programs, and models with the host's operators between them."""

from collections.abc import Iterable
from dataclasses import dataclass

from tq_hw.isa.config import Config
from tq_hw.isa.program import Port, Program
from tq_hw.isa.program_file import from_bytes
from tq_hw.isa.program_rules import ProgramError
from tq_hw.model.cut import cut
from tq_hw.model.errors import ModelError, OptionError, UnsupportedError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.mixed import CUSTOM_NAME, is_accelerated
from tq_hw.model.tflite.order import callees
from tq_hw.model.tflite.schema import LOST_OPTIONS

__all__ = ["AcceleratedPart", "HostPart", "check_written", "common_config", "split"]

_STATEFUL = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")


@dataclass(frozen=True, eq=False)
class AcceleratedPart:
    """One program.

    Members
    -------
    inputs, outputs : tensors of the mixed model, in the order of the program's ports
    """

    program: Program
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class HostPart:
    """Consecutive operators of the host, as a separate model whose tensors keep their indices."""

    model: Model

    @property
    def inputs(self) -> tuple[int, ...]:
        """Input tensors of the part, as tensors of the mixed model."""
        return self.model.main.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        """Output tensors of the part, as tensors of the mixed model."""
        return self.model.main.outputs

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Operators of the part."""
        return self.model.main.operators

    @property
    def is_stateful(self) -> bool:
        """Whether state passes from one inference to the next."""
        main = self.model.main
        return any(op.op in _STATEFUL or any(index >= 0 and main.tensors[index].is_variable for index in op.inputs)
                   for op in main.operators)


def common_config(parts: Iterable[AcceleratedPart | HostPart], wanted: Config | None, option: str) -> Config:
    """Return the configuration of all programs of a mixed model.

    Raises `OptionError` if they differ, or differ from the configuration `wanted` by the caller's `option`.
    """
    configs = [part.program.config for part in parts if isinstance(part, AcceleratedPart)]
    found = configs[0]
    for other in (*configs, *([wanted] if wanted is not None else [])):
        if other.fingerprint != found.fingerprint:
            raise OptionError(f"is compiled for configuration {found.name!r}, not for {other.name!r}; compile it again "
                              f"or leave {option} out")
    return found


def split(model: Model) -> list[AcceleratedPart | HostPart]:
    """Return the parts of a mixed model in order.

    Raises `ModelError` for an accelerated part without a program, or one whose inputs and outputs do not match its
    operator, `UnsupportedError` when several host parts share resource variables.
    """
    parts: list[AcceleratedPart | HostPart] = []
    waiting: list[Operator] = []

    def close() -> None:
        if waiting:
            parts.append(_host(model, list(waiting)))
            waiting.clear()

    for op in model.main.operators:
        if is_accelerated(op):
            close()
            parts.append(_accelerated(model, op))
        else:
            waiting.append(op)
    close()
    sharing = [next(op.index for op in part.operators if op.op in _STATEFUL) for part in parts
               if isinstance(part, HostPart) and any(op.op in _STATEFUL for op in part.operators)]
    if len(sharing) > 1:
        raise UnsupportedError(f"{model.name}: operators {sharing[0]} and {sharing[1]} use resource variables, and an "
                               "accelerated part lies between: the host would keep a separate state for each")
    return parts


def check_written(model: Model, operators: Iterable[Operator]) -> None:
    """Raise `UnsupportedError` for the host's operator that would lose options, also in a subgraph that one calls."""
    todo, seen = [("", op) for op in operators], set[int]()
    while todo:
        where, op = todo.pop(0)
        if op.op in LOST_OPTIONS:
            raise UnsupportedError(f"{model.name}: {where}operator {op.index} ({op.op}): stays with the host, but its "
                                   "options are not read, so it cannot be written for LiteRT")
        for callee in sorted(set(callees(op).values()) - seen):
            seen.add(callee)
            todo += [(f"subgraph {callee}, ", each) for each in model.subgraphs[callee].operators]


def _host(model: Model, operators: list[Operator]) -> HostPart:
    check_written(model, operators)
    own = {id(op) for op in operators}
    wanted = {index for op in model.main.operators if id(op) not in own for index in op.inputs} | set(
        model.main.outputs)
    return HostPart(cut(model, operators, wanted))


def _accelerated(model: Model, op: Operator) -> AcceleratedPart:
    where = f"{model.name}: operator {op.index} {CUSTOM_NAME}"
    try:
        program = from_bytes(op.custom_options)
    except ProgramError as error:
        raise ModelError(f"{where}: {error}") from error
    for side, indices, ports in (("input", op.inputs, program.inputs), ("output", op.outputs, program.outputs)):
        if len(indices) != len(ports):
            raise ModelError(f"{where}: has {len(indices)} {side}s, its program {len(ports)}")
        for position, (index, port) in enumerate(zip(indices, ports, strict=True)):
            _check_port(where, f"{side} {position}", model, index, port)
    return AcceleratedPart(program, op.inputs, op.outputs)


def _check_port(where: str, which: str, model: Model, index: int, port: Port) -> None:
    tensor = model.main.tensors[index] if index >= 0 else None
    if tensor is None or (tensor.dtype, tensor.shape) != (port.model_dtype, port.shape):
        found = "absent" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"
        raise ModelError(f"{where}: {which} is {found}, that of its program {port.model_dtype}{list(port.shape)}")
