"""The backends of an `Interpreter` for accelerated parts, one inference after the other: executor, RTL, or a board."""

from collections.abc import Sequence
from typing import Protocol

from tq_hw.boards.link.device import Device, MachineError
from tq_hw.boards.link.room import memory_bytes
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError, OptionError
from tq_hw.sim import edges
from tq_hw.sim.engines import Array, InputSet
from tq_hw.sim.executor import execute
from tq_hw.sim.faults import located
from tq_hw.sim.rtl.simulate import simulate

__all__ = ["Accelerator", "BoardAccelerator", "ExecutorAccelerator", "RtlAccelerator"]


class Accelerator(Protocol):
    """Runs programs and keeps the state of each between inferences."""

    def open(self, programs: Sequence[Program]) -> None:
        """Set the programs that are run from now on; `OptionError` if they cannot be used together."""

    def run(self, program: Program, inputs: InputSet) -> Sequence[Array]:
        """Run one inference of a program, starting from the state that its last inference left."""
        ...

    def reset(self) -> None:
        """Restore the initial state."""


class ExecutorAccelerator:
    """The executor of the command stream."""

    def __init__(self) -> None:
        self._states: dict[int, bytes] = {}

    def open(self, programs: Sequence[Program]) -> None:
        """Discard the previous programs."""
        self.reset()

    def run(self, program: Program, inputs: InputSet) -> Sequence[Array]:
        """Run one inference."""
        found = execute(program, inputs, state=self._states.get(id(program)))
        self._states[id(program)] = found.state
        return found.outputs

    def reset(self) -> None:
        """Restore the initial state."""
        self._states.clear()


class RtlAccelerator:
    """The Verilated RTL. The first inference builds the simulator.

    Attributes
    ----------
    cycles : total of all inferences since `open`
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._states: dict[int, bytes] = {}
        self.cycles = 0

    def open(self, programs: Sequence[Program]) -> None:
        """Discard the previous programs."""
        self.reset()
        self.cycles = 0

    def run(self, program: Program, inputs: InputSet) -> Sequence[Array]:
        """Run one inference."""
        found = simulate(program, inputs, self._memory, state=self._states.get(id(program)))
        self._states[id(program)], self.cycles = found.state, self.cycles + found.cycles
        return found.outputs

    def reset(self) -> None:
        """Restore the initial state."""
        self._states.clear()


class BoardAccelerator:
    """A board at the end of a link, which stores as many programs as fit into its memory."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._begun: set[int] = set()

    def open(self, programs: Sequence[Program]) -> None:
        """Refuse programs that do not fit into memory together, if one has a state that another would overwrite."""
        needed, most = memory_bytes(programs), self._device.identity.memory_bytes
        if len(programs) > 1 and needed > most and any(program.state for program in programs):
            raise OptionError(f"{programs[0].name}: has {len(programs)} accelerated parts, one of which keeps a state "
                              f"that another would overwrite: they need {needed} bytes of memory together, the "
                              f'board has {most}; use device="executor" or "rtl"')
        self.reset()

    def run(self, program: Program, inputs: InputSet) -> Sequence[Array]:
        """Load the program unless the board holds it already, and run one inference."""
        edges.check_inputs(program, inputs)
        begun = id(program) in self._begun
        if not self._device.select(program) and begun and program.state:
            raise DeviceError(f"{program.name}: the board has since run another program or been reset, so the "
                              "state of the model is lost: call reset_all_variables")
        stored = [edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)]
        try:
            found = self._device.run(stored, keep_state=begun)
        except MachineError as error:
            where = located(program, error.unit, error.run)
            raise DeviceError(f"{program.name}: {where}: {error.status.name}") from None
        self._begun.add(id(program))
        return [edges.from_port(port, data) for port, data in zip(program.outputs, found.outputs, strict=True)]

    def reset(self) -> None:
        """Let the next inference of each program start from its initial state."""
        self._begun.clear()
