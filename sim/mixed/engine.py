"""Run mixed models part by part, and pass tensors from one part to the next."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model
from tq_hw.sim.engines import Engine, Inference, InputSet, make_engine
from tq_hw.sim.golden.run import check_inputs
from tq_hw.sim.mixed.host import HostRunner
from tq_hw.sim.mixed.parts import AcceleratedPart, HostPart, split
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic
from tq_hw.sim.rtl.build import Progress
from tq_hw.sim.rtl.waves import Waves

__all__ = ["MixedEngine", "run_parts"]

Array = npt.NDArray[Any]
Accelerate = Callable[[AcceleratedPart, InputSet], Sequence[Array]]


def run_parts(model: Model, parts: Sequence[AcceleratedPart | HostPart], hosts: Sequence[HostRunner],
              inputs: InputSet, accelerate: Accelerate) -> tuple[tuple[Array, ...], float, int]:
    """Run one inference; return the outputs, the seconds of the host's parts, and the bytes to and from programs.

    `hosts` are the runners of the host parts in order; `accelerate` runs a program.
    """
    main = model.main
    values: dict[int, Array] = {tensor.index: tensor.data for tensor in main.tensors if tensor.data is not None}
    values |= dict(zip(main.inputs, inputs, strict=True))
    runners = iter(hosts)
    seconds, crossing = 0.0, 0
    for part in parts:
        given = tuple(values[index] for index in part.inputs)
        if isinstance(part, AcceleratedPart):
            found = accelerate(part, given)
            crossing += sum(array.nbytes for array in (*given, *found))
        else:
            runner = next(runners)
            found = runner.run(given)
            seconds += runner.seconds
        values |= dict(zip(part.outputs, found, strict=True))
    return tuple(values[index] for index in main.outputs), seconds, crossing


class MixedEngine:
    """Runs input sets through a mixed model, each from the initial state.

    Parameters
    ----------
    model : a mixed model
    engine : of the accelerated parts, "executor" or "rtl", or a function that returns the engine of a program
    memory : of the RTL
    waves : waves of the first accelerated part
    arithmetic : of the RTL, see sim/rtl/arithmetic.py

    Raises `OptionError` for another engine, and as `split` and `HostRunner`.
    """

    def __init__(self, model: Model, engine: str | Callable[[Program], Engine], memory: Memory = YARDSTICK,
                 waves: Waves | None = None, arithmetic: Arithmetic = RTL):
        if engine == "golden":
            raise OptionError(f"{model.name}: the golden model does not run the operators that stay with the host; "
                              "name --engine executor or rtl")
        self.model, self.parts = model, split(model)
        self.hosts = [HostRunner(part) for part in self.parts if isinstance(part, HostPart)]
        self._engines: dict[AcceleratedPart, Engine] = {}
        for part in self.programs:
            self._engines[part] = (make_engine(engine, None, part.program, memory, waves, arithmetic=arithmetic)
                                   if isinstance(engine, str) else engine(part.program))
            waves = None

    @property
    def programs(self) -> list[AcceleratedPart]:
        """The accelerated parts in order."""
        return [part for part in self.parts if isinstance(part, AcceleratedPart)]

    def infer(self, inputs: InputSet, progress: Progress | None = None) -> Inference:
        """Run one inference; cycles are those of all accelerated parts."""
        check_inputs(self.model, inputs)
        found: list[Inference] = []

        def accelerate(part: AcceleratedPart, given: InputSet) -> Sequence[Array]:
            found.append(self._engines[part].infer(given, progress))
            return found[-1].outputs

        for host in self.hosts:
            host.reset()
        outputs, seconds, crossing = run_parts(self.model, self.parts, self.hosts, inputs, accelerate)
        cycles = [one.cycles for one in found]
        total = sum(each for each in cycles if each is not None) if None not in cycles else None
        layers = {index: count for one in found for index, count in one.layer_cycles.items()}
        return Inference(outputs, total, layers, host_seconds=seconds, crossing_bytes=crossing, parts=tuple(found))
