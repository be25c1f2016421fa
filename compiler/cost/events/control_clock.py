"""Command arrival at the units, with fetch dealing words as they arrive from the bus."""

from collections.abc import Mapping

from tq_hw.compiler.cost.command_queues import CommandWords
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.cost.events.bus_clock import BusClock
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.latency import OPERATIONS_IN_FLIGHT
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory

__all__ = ["EventControls"]


class EventControls(Controls):
    """Reports taken and done operations to the bus, because they make room for more commands."""

    def __init__(self, words: Mapping[int, CommandWords], memory: Memory, bus: BusClock) -> None:
        super().__init__(words, memory)
        self._bus = bus
        #: By unit, the amount known (operations and words) when its next operation still had to wait.
        self._waited = dict.fromkeys(Unit, -1)

    def known(self, operation: Operation) -> bool:
        """Whether all times that an operation waits for are known: tokens, its command, room among those in flight."""
        unit, found = operation.unit, len(self.done) + self._bus.fetch.words
        if self._waited[unit] == found:
            return False
        known = (len(self._taken[unit]) - len(self._ended[unit]) < OPERATIONS_IN_FLIGHT
                 and all(id(other) in self.done for other in operation.after)
                 and self._bus.dealt(operation) is not None)
        if not known:
            self._waited[unit] = found
        return known

    def _arrival(self, operation: Operation) -> int:
        """Return when the last word of a command is dealt."""
        return self._bus.dealt(operation) or 0

    def take(self, operation: Operation, at: int) -> None:
        """Record that the engine takes an operation."""
        super().take(operation, at)
        self._bus.take(operation, at)

    def end(self, operation: Operation, at: int) -> None:
        """Record that an operation is done."""
        super().end(operation, at)
        self._bus.end(operation, at)
