"""When every operation begins and ends: the units, their queues, tokens, accumulator buffers and the bus, tile by tile.

The figures are those of isa/latency.py; the memory is a parameter.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.cost.array_clock import ArrayClock
from tq_hw.compiler.cost.array_cycles import ArrayTile
from tq_hw.compiler.cost.banks import BankLog
from tq_hw.compiler.cost.command_queues import CommandWords, command_words, held_up, reaches
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.cost.move_clock import Mover
from tq_hw.compiler.cost.read_bus import ReadBus
from tq_hw.compiler.cost.vector_clock import VectorClock
from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError

__all__ = ["Timeline", "layer_cycles", "run_times"]

#: By unit, the cycles in which each RUN begins and is done: [runs, 2].
Timeline = dict[Unit, npt.NDArray[np.int64]]
#: Who meets whom at the banks is known when all is worked out, so it is worked out this many times.
_PASSES = 2


class _Clock:
    """Lets every unit go on as far as what it waits for is known."""

    def __init__(self, stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int,
                 words: Mapping[int, CommandWords], reach: Mapping[int, int], waits: Mapping[int, int]) -> None:
        self._names = stream.names
        self._queues = {unit: deque(operations) for unit, operations in stream.by_unit.items()}
        self._behind = held_up(stream, commands)
        self.controls, self.log = Controls(words, memory), BankLog()
        self._array = ArrayClock(config, self.controls, self._reads)
        self._vector = VectorClock(config, self.controls, self._array, self.log, waits)
        self._mover = Mover(config, memory, self.controls, ReadBus(config, memory, reach, (offset, len(commands.data))),
                            self.log, waits)

    def _reads(self, tile: ArrayTile, start: int) -> None:
        """Note the banks that a tile reads."""
        self.log.array.append((start, start + tile.last_slot, tile.stretch))

    def run(self) -> None:
        """Work out all operations."""
        while any(self._queues.values()):
            moved = self._advance()
            if self._known(Unit.VECTOR):
                operation = self._queues[Unit.VECTOR].popleft()
                self._vector.run(operation, partial(self._wait_for_sums, operation))
            elif not moved:
                raise self._stuck(next(queue for queue in self._queues.values() if queue)[0])

    def _wait_for_sums(self, operation: Operation) -> None:
        while not self._array.sums:
            if not self._advance():
                raise self._stuck(operation)

    def _advance(self) -> bool:
        """Let load, array and store go on; whether one of them did."""
        before = self._waiting()
        while self._known(Unit.LOAD):
            operation = self._queues[Unit.LOAD].popleft()
            self._mover.load(operation, self.controls.behind(operation, self._behind[id(operation)]))
        while self._known(Unit.ARRAY):
            self._array.add(self._queues[Unit.ARRAY].popleft())
        self._array.run()
        while self._known(Unit.STORE):
            self._mover.store(self._queues[Unit.STORE].popleft())
        return self._waiting() != before

    def _waiting(self) -> tuple[int, int]:
        """Operations, of all units, and tiles that have not been worked out."""
        return sum(map(len, self._queues.values())), len(self._array)

    def _stuck(self, operation: Operation) -> UnsupportedError:
        """Return the error about an operation that never starts."""
        name = self._names[operation.layer] if self._names else f"layer {operation.layer}"
        return UnsupportedError(f"{name} has commands that wait for others which wait for them, a fault of the "
                                "compiler; another configuration may cut the layer in another way")

    def _known(self, unit: Unit) -> bool:
        """Whether all that the unit's next operation waits for has been worked out."""
        queue = self._queues[unit]
        return bool(queue) and all(id(other) in self.controls.done for other in queue[0].after) and (
            unit is not Unit.LOAD or all(id(other) in self.controls.began for other in self._behind[id(queue[0])]))


def run_times(stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int = 0) -> Timeline:
    """Return when each RUN begins and is done, from a cold start.

    `commands` is what the stream assembles to, `offset` their place in the image in bytes.
    """
    words, reach = command_words(stream, commands), reaches(stream, commands)
    waits: Mapping[int, int] = {}
    for _ in range(_PASSES):
        clock = _Clock(stream, config, commands, memory, offset, words, reach, waits)
        clock.run()
        waits = clock.log.waits()
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
