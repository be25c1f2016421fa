"""Begin and end of every operation, from a model of units, queues, tokens, accumulator buffers and bus, tile by tile.

The latencies are those of isa/latency.py; the memory is a parameter.
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

#: By unit, begin and end of each RUN in cycles: [runs, 2].
Timeline = dict[Unit, npt.NDArray[np.int64]]
#: Bank conflicts are known only after all times are computed, so these are computed this many times.
_PASSES = 2


class _Clock:
    """Advances every unit as far as the times that it waits for are known."""

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
        """Record the banks that a tile reads."""
        self.log.array.append((start, start + tile.last_slot, tile.stretch))

    def run(self) -> None:
        """Compute the times of all operations."""
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
        """Advance load, array and store; return whether one of them advanced."""
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
        """Return the numbers of operations, of all units, and of tiles whose times are not computed."""
        return sum(map(len, self._queues.values())), len(self._array)

    def _stuck(self, operation: Operation) -> UnsupportedError:
        """Return the error about an operation that never starts."""
        name = self._names[operation.layer] if self._names else f"layer {operation.layer}"
        return UnsupportedError(f"{name} has commands that wait for each other, a bug in the compiler; another "
                                "configuration may divide the layer differently")

    def _known(self, unit: Unit) -> bool:
        """Whether all times that the unit's next operation waits for are known."""
        queue = self._queues[unit]
        return bool(queue) and all(id(other) in self.controls.done for other in queue[0].after) and (
            unit is not Unit.LOAD or all(id(other) in self.controls.began for other in self._behind[id(queue[0])]))


def run_times(stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int = 0) -> Timeline:
    """Return begin and end of each RUN, from a cold start.

    `commands` is the assembled stream, `offset` its offset in the image in bytes.
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
    """Return by operator (`indices`: the operator of each layer) the time from the previous end to its own end.

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
