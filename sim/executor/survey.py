"""All possible outcomes of a program: the reference for the hardware on streams that no compiler emits.

Units work concurrently and the first error ends the run. A stream with several errors may therefore end in any one that
a unit can reach. A survey lets every unit continue until it has stopped or waits forever. Each unit stops only by its
own faults, so it gets as far as in any order of the units. Addresses do not depend on data, so neither do faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import NO_RUN, Status
from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation
from tq_hw.isa.program import Program
from tq_hw.sim.executor.core import Executor
from tq_hw.sim.executor.machine import Bytes, Fault, Index
from tq_hw.sim.executor.queues import MAX_TOKENS, Queue
from tq_hw.sim.executor.unknown import Flags, Unknown

__all__ = ["End", "Outcome", "survey"]

Array = npt.NDArray[Any]
#: Operations of a unit that may be under way together: an error in one may come before an error in an earlier one.
_IN_FLIGHT = 4


@dataclass(frozen=True, order=True)
class End:
    """The end of a run: the status, the unit that stopped, and its RUN, or NO_RUN."""

    status: Status
    unit: Unit
    run: int

    def __str__(self) -> str:
        where = "" if self.run == NO_RUN else f" RUN {self.run}"
        return f"{self.status.name} of {self.unit.name.lower()}{where}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Possible outcomes of a run.

    Members
    -------
    ends : errors, one of which ends the run; if empty, it completes
    possible : errors that may end it instead, or not occur, depending on the units' timing
    memory, unknown : contents of each region after a completed run, and which bytes are unknown
    why : why the memory is unknown although the end is known; empty if the memory is known
    unclear : why nothing is known at all
    undefined : a violation that no machine detects and that makes results undefined; empty if there is none
    """

    ends: frozenset[End]
    possible: frozenset[End]
    memory: tuple[Bytes, ...]
    unknown: tuple[Flags, ...]
    why: str
    unclear: str
    undefined: str


def survey(program: Program, inputs: Sequence[Array], arena: bytes | None = None) -> Outcome:
    """Return the possible outcomes of a program for these inputs and initial contents of the arena.

    By default the arena is undefined.
    """
    return _Survey(program, arena).run_survey(inputs)


class _Survey(Executor):
    def __init__(self, program: Program, arena: bytes | None) -> None:
        super().__init__(program, check_races=True)
        machine = self.machine
        if arena is not None:
            machine.memory[1][:] = np.frombuffer(arena, np.uint8)
        machine.noted = set()
        machine.unknown = Unknown.of(program.config, [
            np.full(region.size, number == 1 and arena is None) for number, region in enumerate(machine.memory)])
        self._ends: set[End] = set()
        self._possible: set[End] = set()
        #: operations that may still begin in a unit with a recorded fault: those that follow it closely
        self._left: dict[Unit, int] = {}
        self._given = dict.fromkeys(self._tokens, 0)
        #: writes before the current array operation
        self._writes_before = 0

    def run_survey(self, inputs: Sequence[Array]) -> Outcome:
        """Run all units to their ends."""
        self._place_inputs(inputs)
        for port in self.program.inputs:
            self._unknown.memory[port.region][port.region_offset_bytes:port.region_offset_bytes + port.size_bytes] = 0
        self._run_all()
        self._end_of_units()
        self._end_of_stream()
        if any(queue.waiting or queue.active for queue in self._queues.values()):
            deadlock = End(Status.DEADLOCK, *self._first_to_wait())
            array = self._queues[Unit.ARRAY]
            if not self._ends:
                self._ends.add(deadlock)
            elif array.active is not None and array.blocked_by and Unit.ARRAY in self._left:
                # Faults are recorded when an operation begins; those of tiles that never get a buffer do not occur.
                self._possible.add(deadlock)
        return Outcome(frozenset(self._ends), frozenset(self._possible - self._ends), tuple(self.machine.memory),
                       tuple(self._unknown.memory), self._unknown.why, self._unclear(),
                       self.machine.undefined)

    def _unclear(self) -> str:
        program = self.program
        commands = slice(program.command_offset, program.command_offset + program.command_bytes)
        if self.machine.memory[0][commands].tobytes() != program.commands:
            return "the program writes its own commands"
        return "a queue is full" if self._to_deal else ""

    @property
    def _unknown(self) -> Unknown:
        assert self.machine.unknown is not None
        return self.machine.unknown

    def _end_of_units(self) -> None:
        """A unit reaches a register that does not exist when all its earlier commands are done."""
        for unit in self._stream.refused:
            queue = self._queues[unit]
            if not queue.waiting and queue.active is None and unit not in self._left:
                self._ends.add(End(Status.BAD_COMMAND, unit, len(self._operations[unit])))

    def _end_of_stream(self) -> None:
        """The end of the stream is reached once all commands are dealt and, in the serial machine, a unit is idle."""
        serial = self.program.config.design == "serial"
        through = any(not queue.waiting and queue.active is None for queue in self._queues.values())
        if self._stream.end is not None and not self._to_deal and (through or not serial):
            self._ends.add(End(self._stream.end.status, Unit.CONTROL, NO_RUN))

    def _start(self, queue: Queue) -> bool:
        if queue.unit in self._left:
            if not self._left[queue.unit]:
                return False
            self._left[queue.unit] -= 1
        began = super()._start(queue)
        if began and queue.unit is Unit.VECTOR:
            self._unknown.written[:] = False
        if began and queue.unit is Unit.ARRAY:
            self._writes_before = self._unknown.writes
        return began

    def _read_tile(self, words: Index) -> None:
        """Give up results if words changed after the operation began: the executor read them all at its beginning."""
        super()._read_tile(words)
        if (self._unknown.stamps[words] > self._writes_before).any():
            self._unknown.give_up("words change while an array operation reads them")

    def _step(self, queue: Queue) -> bool:
        machine = self.machine
        machine.noted = set()
        went_on = super()._step(queue)
        if machine.noted:
            assert queue.active is not None
            self._ends |= {End(status, queue.unit, queue.active.run) for status in machine.noted}
            self._left.setdefault(queue.unit, _IN_FLIGHT - 1)
        return went_on

    def _stop(self, queue: Queue, operation: Operation, fault: Fault) -> None:
        """Refuse an operation: its unit ends here, or with an error that it had before."""
        assert fault.status is not None
        if queue.unit not in self._left:
            self._ends.add(End(fault.status, queue.unit, operation.run))
        self._left[queue.unit] = 0
        queue.active = queue.progress = None
        queue.waiting.clear()

    def _finish(self, queue: Queue, operation: Operation) -> None:
        if queue.unit in self._left:
            # Operations after a fault never finish.
            queue.active = queue.progress = queue.blocked_by = None
            return
        super()._finish(queue, operation)

    def _give(self, queue: Queue, operation: Operation, taker: Unit, count: int) -> None:
        """Count without a limit: whether a counter overflows depends on when the taker takes."""
        super()._give(queue, operation, taker, count)
        self._given[queue.unit, taker] += count
        if self._given[queue.unit, taker] > MAX_TOKENS:
            self._possible.add(End(Status.TOKEN_OVERFLOW, queue.unit, operation.run))

    def _overflow(self, queue: Queue, operation: Operation, taker: Unit, count: int) -> None:
        """Ignore the overflow, which `_give` records as possible."""
