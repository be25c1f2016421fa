"""Begin and end of every operation, from an event-driven model of bursts, words at the banks, and tiles.

The latencies are those of isa/latency.py; the memory is a parameter.
"""

from collections import deque
from typing import Protocol

import numpy as np

from tq_hw.compiler.cost.array_clock import ArrayClock
from tq_hw.compiler.cost.events.banks import BankLog
from tq_hw.compiler.cost.events.bus_clock import BusClock
from tq_hw.compiler.cost.events.command_queues import CommandQueues
from tq_hw.compiler.cost.events.control_clock import EventControls
from tq_hw.compiler.cost.events.move_clock import LoadClock, StoreClock, WordClock
from tq_hw.compiler.cost.events.vector_clock import VectorClock
from tq_hw.compiler.cost.operation_cycles import moved_bytes
from tq_hw.compiler.cost.timing import Timeline, run_times
from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES, Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["event_times", "program_times"]

#: Later than the end of any program.
_NEVER = 1 << 62
#: Most bursts and tiles of a program that is simulated event by event.
_MOST_EVENTS = 400_000


class _Unit(Protocol):
    """A unit that is advanced in order of time."""

    def time(self) -> int | None:
        """Return the time of its next event; None: not before another unit advances."""

    def go(self, horizon: int) -> None:
        """Advance from that time; the other units are known up to a cycle."""


class _Clock:
    """Advances the units in order of time, so that each sees the accesses of those that it conflicts with.

    The array has the highest priority at the banks. It therefore runs ahead of the others, as far as its tokens and
    buffers are known.
    """

    def __init__(self, stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int) -> None:
        self._names, self._operations = stream.names, stream.operations
        queues = CommandQueues(stream, commands)
        bus = BusClock(config, memory, queues, (offset, len(commands.data)))
        self.controls, log = EventControls(queues.words, memory, bus), BankLog()
        self._waiting = deque(stream.by_unit[Unit.ARRAY])
        self._array = ArrayClock(config, self.controls, log.put_tile)
        written = WordClock(config, self.controls, log, bus)
        loads, stores = stream.by_unit[Unit.LOAD], stream.by_unit[Unit.STORE]
        self._units: tuple[_Unit, ...] = (
            bus, written, LoadClock(config, self.controls, bus, written, loads),
            VectorClock(config, self.controls, self._array, log, stream.by_unit[Unit.VECTOR]),
            StoreClock(config, memory, self.controls, bus, log, stores))

    def run(self) -> None:
        """Compute the times of all operations."""
        waiting, known, array, units = self._waiting, self.controls.known, self._array, self._units
        while True:
            while waiting and known(waiting[0]):
                array.add(waiting.popleft())
            array.run()
            first, others, next_unit = _NEVER, _NEVER, None
            for unit in units:
                at = unit.time()
                if at is not None and at < first:
                    first, others, next_unit = at, first, unit
                elif at is not None and at < others:
                    others = at
            if next_unit is None:
                break
            next_unit.go(others)
        for operation in self._operations:
            if id(operation) not in self.controls.done:
                raise self._stuck(operation)

    def _stuck(self, operation: Operation) -> UnsupportedError:
        """Return the error about an operation that never starts."""
        name = self._names[operation.layer] if self._names else f"layer {operation.layer}"
        return UnsupportedError(f"{name} has commands that wait for each other, a bug in the compiler; another "
                                "configuration may divide the layer differently")


def program_times(stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int) -> Timeline:
    """Return begin and end of each RUN: `event_times`, or `run_times` for long programs."""
    quick = events(stream) > _MOST_EVENTS
    return (run_times if quick else event_times)(stream, config, commands, memory, offset)


def events(stream: Stream) -> int:
    """Least number of bursts of loads and stores, plus the number of tiles."""
    found = 0
    for operation in stream.operations:
        f = operation.fields
        if operation.unit in (Unit.LOAD, Unit.STORE):
            runs = f["count2"] * f["count3"]
            found += runs * ceil_div(moved_bytes(operation) // runs, BURST_BYTES)
        elif "tile_slots" in f:
            found += ceil_div(f["slots"], f["tile_slots"]) * f["out_blocks"]
    return found


def event_times(stream: Stream, config: Config, commands: Commands, memory: Memory, offset: int) -> Timeline:
    """Return begin and end of each RUN, from a cold start.

    `commands` is the assembled stream, `offset` its offset in the image in bytes.
    """
    clock = _Clock(stream, config, commands, memory, offset)
    clock.run()
    began, done = clock.controls.began, clock.controls.done
    return {unit: np.array([(began[id(operation)], done[id(operation)]) for operation in operations],
                           np.int64).reshape(-1, 2) for unit, operations in stream.by_unit.items()}
