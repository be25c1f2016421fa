"""When every operation begins and ends: the units, their queues, tokens, accumulator buffers and the bus, tile by tile.

The figures are those of isa/latency.py; the memory is a parameter.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.cost.array_clock import ArrayClock
from tq_hw.compiler.cost.banks import BankLog
from tq_hw.compiler.cost.bus_clock import BusClock
from tq_hw.compiler.cost.command_queues import CommandQueues
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.cost.move_clock import LoadClock, StoreClock, WordClock
from tq_hw.compiler.cost.vector_clock import VectorClock
from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError

__all__ = ["Timeline", "layer_cycles", "run_times"]

#: By unit, the cycles in which each RUN begins and is done: [runs, 2].
Timeline = dict[Unit, npt.NDArray[np.int64]]
#: Later than any program ends.
_NEVER = 1 << 62


class _Unit(Protocol):
    """What goes on in the order of time."""

    def time(self) -> int | None:
        """Return when it does something next; None: not before another unit has gone on."""

    def go(self, horizon: int) -> None:
        """Go on from there; what the others do is known up to a cycle."""


class _Clock:
    """Lets the units go on in the order of time, so that each finds what those have done that it meets.

    The array waits for nobody at the banks: it is ahead of the others, as far as its tokens and buffers are known.
    """

    def __init__(self, stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int) -> None:
        self._names, self._operations = stream.names, stream.operations
        queues = CommandQueues(stream, commands)
        bus = BusClock(config, memory, queues, (offset, len(commands.data)))
        self.controls, log = Controls(queues.words, bus), BankLog()
        self._waiting = deque(stream.by_unit[Unit.ARRAY])
        self._array = ArrayClock(config, self.controls, log.array)
        written = WordClock(self.controls, log, bus)
        loads, stores = stream.by_unit[Unit.LOAD], stream.by_unit[Unit.STORE]
        self._units: tuple[_Unit, ...] = (
            bus, written, LoadClock(config, self.controls, bus, written, loads),
            VectorClock(config, self.controls, self._array, log, stream.by_unit[Unit.VECTOR]),
            StoreClock(config, memory, self.controls, bus, log, stores))

    def run(self) -> None:
        """Work out all operations."""
        while True:
            while self._waiting and self.controls.known(self._waiting[0]):
                self._array.add(self._waiting.popleft())
            self._array.run()
            times = [unit.time() for unit in self._units]
            found = [time for time in times if time is not None]
            if not found:
                break
            first = times.index(min(found))
            others = [time for number, time in enumerate(times) if time is not None and number != first]
            self._units[first].go(min(others, default=_NEVER))
        for operation in self._operations:
            if id(operation) not in self.controls.done:
                raise self._stuck(operation)

    def _stuck(self, operation: Operation) -> UnsupportedError:
        """Return the error about an operation that never starts."""
        name = self._names[operation.layer] if self._names else f"layer {operation.layer}"
        return UnsupportedError(f"{name} has commands that wait for others which wait for them, a fault of the "
                                "compiler; another configuration may cut the layer in another way")


def run_times(stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int = 0) -> Timeline:
    """Return when each RUN begins and is done, from a cold start.

    `commands` is what the stream assembles to, `offset` their place in the image in bytes.
    """
    clock = _Clock(stream, config, commands, memory, offset)
    clock.run()
    began, done = clock.controls.began, clock.controls.done
    return {unit: np.array([(began[id(operation)], done[id(operation)]) for operation in operations],
                           np.int64).reshape(-1, 2) for unit, operations in stream.by_unit.items()}


def layer_cycles(stream: Stream, times: Timeline, indices: Sequence[int]) -> dict[int, int]:
    """By operator (`indices` has it for each layer) the time from the end of what ended before to its own end.

    The operators are in the order of their ends.
    """
    ends: dict[int, int] = {}
    for unit, operations in stream.by_unit.items():
        for operation, done in zip(operations, times[unit][:, 1].tolist(), strict=True):
            index = indices[operation.layer]
            ends[index] = max(ends.get(index, 0), done)
    found, before = {}, 0
    for layer, end in sorted(ends.items(), key=lambda item: item[1]):
        found[layer] = end - before
        before = end
    return found
