"""Common interface of all engines, and seeded inputs for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Port, Program
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Tensor
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.golden import run as run_golden
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic
from tq_hw.sim.rtl.build import Progress
from tq_hw.sim.rtl.simulate import simulate, simulate_in_turn
from tq_hw.sim.rtl.waves import Waves
from tq_hw.sim.traffic import Traffic

__all__ = [
    "ENGINES", "KINDS", "ORACLES", "Engine", "Inference", "RunResult", "golden_engine", "make_engine",
    "random_inputs", "run",
]

Array = npt.NDArray[Any]

#: The inputs of one inference, in the model's order.
InputSet = tuple[Array, ...]

#: By `--oracle` option: the engine's name in `tq_hw.sim.oracles`, and its name in messages.
ORACLES = {"tflm": ("tflm", "TFLite Micro"), "litert": ("litert-ref", "LiteRT's reference kernels")}

ENGINES = ("golden", "executor", "rtl")
#: Kinds of input sets, as in the conformance cases. In "mix", one element in eight has an extreme value.
KINDS = ("random", "min", "max", "zero_point", "mix")


@dataclass(frozen=True, eq=False)
class RunResult:
    """Result of one inference: the outputs, and the cycles if the engine models time."""

    outputs: tuple[Array, ...]
    cycles: int | None = None


def run(subject: Model | Program, inputs: Sequence[Array], engine: str = "golden", *, seed: int = 0,
        check_races: bool = False, memory: Memory = YARDSTICK, waves: Waves | None = None,
        arithmetic: Arithmetic = RTL) -> RunResult:
    """Run one inference from the initial state.

    Parameters
    ----------
    subject : a model for "golden", a compiled program for "executor" and "rtl"
    seed, check_races : of the executor: the seed for undefined bytes and the order of the units; whether to detect
        races
    memory, waves, arithmetic : of the RTL, see sim/rtl/simulate.py
    """
    if engine not in ENGINES:
        raise OptionError(f"the engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if isinstance(subject, Model) != (engine == "golden"):
        raise OptionError("the golden model runs a model, the executor and the RTL a compiled program")
    if isinstance(subject, Model):
        return RunResult(tuple(run_golden(subject, inputs).outputs))
    if engine == "executor":
        return RunResult(execute(subject, inputs, seed=seed, check_races=check_races).outputs)
    result = simulate(subject, inputs, memory, waves=waves, arithmetic=arithmetic)
    return RunResult(result.outputs, result.cycles)


def random_inputs(subject: Model | Program | Sequence[Port], seed: int = 0, kind: str = "random",
                  index_limit: int = 1) -> tuple[Array, ...]:
    """Return one seeded input set of `kind`.

    Quantized tensors take their whole range, floats the range of the program's quantized edge (-1..1 without one), bool
    both values. int32 and int64 inputs are usually indices: 0..index_limit-1 whatever the kind.
    """
    if kind not in KINDS:
        raise OptionError(f"the kind of inputs must be one of {', '.join(KINDS)}, not {kind!r}")
    ports: Sequence[Port | Tensor]
    if isinstance(subject, Model):
        ports = [subject.main.tensors[index] for index in subject.main.inputs]
    else:
        ports = subject.inputs if isinstance(subject, Program) else subject
    return tuple(_draw(port, kind, index_limit, np.random.default_rng([seed, position]))
                 for position, port in enumerate(ports))


def _draw(port: Port | Tensor, kind: str, index_limit: int, rng: np.random.Generator) -> Array:
    scale, zero_point, edge = 1.0, 0, False
    if isinstance(port, Port):
        scale, zero_point, edge = port.scale, port.zero_point, port.edge != "none"
    elif port.quantization is not None and len(port.quantization.zero_point) == 1:
        zero_point = port.quantization.zero_point[0]
    if port.dtype == "bool":
        return rng.integers(0, 2, port.shape).astype(bool)
    if port.dtype in ("int32", "int64"):
        return rng.integers(0, index_limit, port.shape).astype(port.dtype)
    if port.dtype == "float32":
        unit = _values(kind, -(1 << 20), 1 << 20, 0, port.shape, rng)
        return (unit / float(1 << 20)).astype(np.float32)
    info = np.iinfo(port.dtype)
    values = _values(kind, int(info.min), int(info.max), zero_point, port.shape, rng)
    if edge:
        return ((values - zero_point) * scale).astype(np.float32)
    return values.astype(port.dtype)


def _values(kind: str, low: int, high: int, zero_point: int, shape: tuple[int, ...],
            rng: np.random.Generator) -> npt.NDArray[np.int64]:
    fixed = {"min": low, "max": high, "zero_point": zero_point}
    if kind in fixed:
        return np.full(shape, fixed[kind], np.int64)
    values = rng.integers(low, high + 1, shape)
    if kind == "mix":
        extremes = rng.choice([low, high, zero_point], shape)
        values = np.where(rng.integers(0, 8, shape) == 0, extremes, values)
    return values


@dataclass(frozen=True, eq=False)
class Inference:
    """One inference from the initial state.

    Members
    -------
    outputs : one array per model output
    cycles : from start to the last write response; None if the engine does not model time
    layer_cycles : cycles by operator index, as far as they were measured
    timeline : by unit, the cycles in which each operation was taken and done; {} if the engine does not model time
    traffic : bytes read from and written to memory over time; None if the engine does not model time
    counters : the hardware's own, by the names of isa/control.py; {} without hardware, or with few counters
    warm : a second inference, with the constants that the first one left in the scratchpad, if requested
    host_seconds : wall time of operators that stay with the host, None without a host
    crossing_bytes : bytes between host and accelerator in both directions in a mixed model, None in others
    parts : inferences of a mixed model's accelerated parts, in order
    """

    outputs: tuple[Array, ...]
    cycles: int | None = None
    layer_cycles: Mapping[int, int] = field(default_factory=dict)
    timeline: Mapping[Unit, Array] = field(default_factory=dict)
    traffic: Traffic | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    warm: "Inference | None" = None
    host_seconds: float | None = None
    crossing_bytes: int | None = None
    parts: "tuple[Inference, ...]" = ()

    @property
    def runs(self) -> "list[tuple[str, Inference]]":
        """The inference and its warm one, each with its name for messages."""
        return [("", self)] + ([(" with weights that stayed in the scratchpad,", self.warm)] if self.warm else [])


class Engine(Protocol):
    """Interface of an engine that runs input sets."""

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        """Run one inference from the initial state; `progress` is called during long preparations."""
        ...


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
    """The RTL engine. The first inference builds the simulator, and is the only one with waves."""

    def __init__(self, program: Program, warm: Program | None, memory: Memory, waves: Waves | None,
                 arithmetic: Arithmetic) -> None:
        self._programs = (program,) if warm is None else (program, warm)
        self._memory, self._waves, self._arithmetic = memory, waves, arithmetic

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        memory, waves, self._waves = self._memory, self._waves, None
        results = simulate_in_turn(
            self._programs, inputs, memory, waves=waves, progress=progress, arithmetic=self._arithmetic)
        config = self._programs[0].config
        first, *more = (
            Inference(r.outputs, r.cycles, r.layer_cycles, r.timeline,
                      Traffic.of_beats(r.spans, r.span_cycles, config.bus_bytes),
                      {} if config.few_counters else r.counters)
            for r in results)
        return replace(first, warm=more[0]) if more else first


def golden_engine(model: Model) -> Engine:
    """Return the golden model as an engine."""
    return _Golden(model)


def make_engine(name: str, model: Model | None, program: Program | None, memory: Memory,
                waves: Waves | None = None, warm: Program | None = None, arithmetic: Arithmetic = RTL) -> Engine:
    """Return the engine that `--engine` names: golden needs the model, the others the program.

    `waves` and `arithmetic` are the RTL's. `warm` is the program for an inference after the first; with it, each input
    set is run by both programs.
    """
    if name == "golden":
        assert model is not None
        return _Golden(model)
    assert program is not None
    if name == "executor":
        return _Executor(program, warm)
    return _Rtl(program, warm, memory, waves, arithmetic)
