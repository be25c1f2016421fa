"""What stands in front of the units' engines: when the words of a command are there, and an engine may take it."""

from collections.abc import Mapping

from tq_hw.compiler.cost.bus_clock import BusClock
from tq_hw.compiler.cost.command_queues import CommandWords
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.latency import (
    OFFER_CYCLES,
    OPERATIONS_IN_FLIGHT,
    TAKE_CYCLES,
    TOKEN_CYCLES,
)
from tq_hw.isa.layout import Unit

__all__ = ["Controls"]


class Controls:
    """When each operation was taken by its engine and when it was done, in the order of its unit."""

    def __init__(self, words: Mapping[int, CommandWords], bus: BusClock) -> None:
        self._words, self._bus = words, bus
        self.began: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self._taken: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        self._ended: dict[Unit, list[int]] = {unit: [] for unit in Unit}

    def known(self, operation: Operation) -> bool:
        """Whether all that an operation waits for is worked out: tokens, its command, room among those in flight."""
        unit = operation.unit
        return (len(self._taken[unit]) - len(self._ended[unit]) < OPERATIONS_IN_FLIGHT
                and all(id(other) in self.done for other in operation.after)
                and self._bus.dealt(operation) is not None)

    def offered(self, operation: Operation) -> int:
        """Return when the engine of an operation may take it, as far as command, tokens and its unit tell."""
        unit, words = operation.unit, self._words[id(operation)]
        taken, ended = self._taken[unit], self._ended[unit]
        begins = taken[-1] if taken else 0
        if words.table and ended:  # tables are written when nothing is in flight
            begins = max(begins, ended[-1])
        offer = max(begins + words.table + words.own, self._bus.dealt(operation) or 0) + OFFER_CYCLES
        if len(taken) >= OPERATIONS_IN_FLIGHT:
            offer = max(offer, ended[len(taken) - OPERATIONS_IN_FLIGHT] + TOKEN_CYCLES)
        tokens = (self.done[id(other)] + TOKEN_CYCLES for other in operation.after if id(other) in self.done)
        return max(offer, max(tokens, default=0)) + TAKE_CYCLES.get(unit, 0)

    def take(self, operation: Operation, at: int) -> None:
        """Note that the engine takes an operation."""
        self.began[id(operation)] = at
        self._taken[operation.unit].append(at)
        self._bus.take(operation, at)

    def end(self, operation: Operation, at: int) -> None:
        """Note that an operation is done."""
        self.done[id(operation)] = at
        self._ended[operation.unit].append(at)
        self._bus.end(operation, at)
