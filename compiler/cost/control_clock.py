"""Command arrival at the units: when the words of a command have arrived, and when an engine may take it."""

from collections.abc import Mapping

from tq_hw.compiler.cost.command_queues import CommandWords
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.latency import (
    FETCH_TO_WORD_CYCLES,
    OFFER_CYCLES,
    OPERATIONS_IN_FLIGHT,
    TAKE_CYCLES,
    TOKEN_CYCLES,
)
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory

__all__ = ["Controls"]

_WORD_BYTES = 4


class Controls:
    """The times at which each operation was taken by its engine and done, in the order of its unit."""

    def __init__(self, words: Mapping[int, CommandWords], memory: Memory) -> None:
        self._words, self._memory = words, memory
        self.began: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self._taken: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        self._ended: dict[Unit, list[int]] = {unit: [] for unit in Unit}

    def offered(self, operation: Operation) -> int:
        """Return when the engine of an operation may take it, considering command, tokens and its unit."""
        unit, words = operation.unit, self._words[id(operation)]
        taken, ended = self._taken[unit], self._ended[unit]
        begins = taken[-1] if taken else 0
        if words.table and ended:  # tables are written when the unit is idle
            begins = max(begins, ended[-1])
        offer = max(begins + words.table + words.own, self._arrival(operation)) + OFFER_CYCLES
        if len(taken) >= OPERATIONS_IN_FLIGHT:
            offer = max(offer, ended[len(taken) - OPERATIONS_IN_FLIGHT] + TOKEN_CYCLES)
        done = self.done
        for other in operation.after:
            if id(other) in done:
                offer = max(offer, done[id(other)] + TOKEN_CYCLES)
        return offer + TAKE_CYCLES.get(unit, 0)

    def behind(self, operation: Operation, others: list[Operation]) -> int:
        """Return when an operation may be taken whose command is behind those of others in full queues."""
        words = self._words[id(operation)]
        ready = max((self.began[id(other)] for other in others), default=0)
        return ready + words.own + OFFER_CYCLES if others else 0

    def _arrival(self, operation: Operation) -> int:
        """Return when the last word of a command is dealt if fetch never waits: one a cycle, or at memory's rate."""
        each = max(1.0, _WORD_BYTES / self._memory.bytes_per_cycle)
        return self._memory.latency_cycles + FETCH_TO_WORD_CYCLES + round(each * self._words[id(operation)].end)

    def take(self, operation: Operation, at: int) -> None:
        """Record that the engine takes an operation."""
        self.began[id(operation)] = at
        self._taken[operation.unit].append(at)

    def end(self, operation: Operation, at: int) -> None:
        """Record that an operation is done."""
        self.done[id(operation)] = at
        self._ended[operation.unit].append(at)
