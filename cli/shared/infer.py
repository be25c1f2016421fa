"""The engines behind one face: golden model, executor and Verilated RTL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy.typing as npt

from tq_hw.cli.shared.arrays import InputSet
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.graph import Model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.rtl.build import Progress
from tq_hw.sim.rtl.simulate import simulate_in_turn

__all__ = ["ORACLES", "Array", "Engine", "Inference", "golden_engine", "infer_all", "make_engine"]

Array = npt.NDArray[Any]

#: `--oracle` -> the engine's name in `tq_hw.sim.oracles`, and what a message calls it.
ORACLES = {"tflm": ("tflm", "TFLite Micro"), "litert": ("litert-ref", "LiteRT's reference kernels")}


@dataclass(frozen=True, eq=False)
class Inference:
    """One inference from the initial state.

    Members
    -------
    outputs : one array per model output
    cycles : from start to the last write response; None where the engine knows no time
    layer_cycles : cycles by operator index, as far as they were measured
    timeline : cycles in which each operation was taken and done, by unit; {} where the engine knows no time
    warm : the same once more, with the constants that the first one left in the scratchpad, where it was asked for
    """

    outputs: tuple[Array, ...]
    cycles: int | None = None
    layer_cycles: Mapping[int, int] = field(default_factory=dict)
    timeline: Mapping[Unit, Array] = field(default_factory=dict)
    warm: "Inference | None" = None

    @property
    def runs(self) -> "list[tuple[str, Inference]]":
        """Itself and the warm one, each behind what a message says of it."""
        return [("", self)] + ([(" with weights that stayed in the scratchpad,", self.warm)] if self.warm else [])


class Engine(Protocol):
    """What runs input sets."""

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        """Run one inference from the initial state; `progress` is told of preparations that take long."""


@dataclass(frozen=True)
class _Golden:
    model: Model

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        return Inference(golden.run(self.model, inputs).outputs)


@dataclass(frozen=True)
class _Executor:
    program: Program
    warm: Program | None

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        if self.warm is None:
            return Inference(execute(self.program, inputs).outputs)
        first = execute(self.program, inputs, keep=True)
        return Inference(first.outputs,
                         warm=Inference(execute(self.warm, inputs, scratchpad=first.scratchpad).outputs))


class _Rtl:
    """The RTL; the simulator is built on the first inference, waves are written of that one alone."""

    def __init__(self, program: Program, warm: Program | None, memory: Memory, waves: str | None) -> None:
        self._programs = (program,) if warm is None else (program, warm)
        self._memory, self._waves = memory, waves

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        memory, waves, self._waves = self._memory, self._waves, None
        results = simulate_in_turn(
            self._programs, inputs, memory, waves=waves, progress=progress)
        first, *more = (Inference(r.outputs, r.cycles, r.layer_cycles, r.timeline) for r in results)
        return replace(first, warm=more[0]) if more else first


def golden_engine(model: Model) -> Engine:
    """Return the golden model as an engine."""
    return _Golden(model)


def make_engine(name: str, model: Model | None, program: Program | None, memory: Memory,
                waves: str | None = None, warm: Program | None = None) -> Engine:
    """Return the engine that `--engine` names: golden needs the model, the others the program.

    With `warm`, the program for what comes behind a first inference, each input set is run by both.
    """
    if name == "golden":
        assert model is not None
        return _Golden(model)
    assert program is not None
    if name == "executor":
        return _Executor(program, warm)
    return _Rtl(program, warm, memory, waves)


def infer_all(engine: Engine, inputs: Sequence[InputSet], text: str) -> list[Inference]:
    """Run every input set, with a progress bar called `text`."""
    found = []
    with ProgressBar(text) as bar:
        for number, one in enumerate(inputs):
            found.append(engine.infer(one, lambda what, done: bar.update(done, 1.0, f"RTL simulator: {what}")))
            bar.update(number + 1, len(inputs), text)
    return found
