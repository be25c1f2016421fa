"""Command queues: how far fetch can deal command words before the queue of a unit is full."""

from bisect import bisect_right

from tq_hw.compiler.cost.command_queues import command_words
from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.layout import FEW_WORDS, QUEUE_WORDS, Unit

__all__ = ["CommandQueues"]

#: Words of a queue that have left its RAM, between it and the unit.
_WORDS_AHEAD = 1
#: Units for whose short queues fetch gets priority.
_HURRIES = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR)


class CommandQueues:
    """A unit reads the command of its next operation as soon as it has taken one; later commands wait in its queue.

    Table writes before an operation are read when the unit is idle; the commands after them wait until then.
    """

    def __init__(self, stream: Stream, commands: Commands) -> None:
        self.words = command_words(stream, commands)
        #: By unit: the end of each of its commands and table writes, in words of the unit and in words of all.
        self._ends: dict[Unit, tuple[list[int], list[int]]] = {unit: ([0], [0]) for unit in stream.by_unit}
        #: By unit: its words that are read, or are read as soon as they arrive.
        self._read = dict.fromkeys(stream.by_unit, 0)
        self._total = sum(commands.words) + 1
        end = 0
        for item, size in zip(stream.items, commands.words, strict=True):
            of_unit, of_all = self._ends[item.unit]
            end += size
            of_unit.append(of_unit[-1] + size)
            of_all.append(end)
        for unit, operations in stream.by_unit.items():
            if operations:
                self._read[unit] = self.words[id(operations[0])].of_unit
        #: The operation that follows each one on its unit.
        self._after = {id(one): other for operations in stream.by_unit.values()
                       for one, other in zip(operations, operations[1:], strict=False)}
        self._room = {unit: self._reach(unit) for unit in stream.by_unit}

    def taken(self, operation: Operation) -> int | None:
        """Record that an operation is taken; return the words that have room now, None if it first waits for tables."""
        return self._go_on(operation, tables=False)

    def ended(self, operation: Operation) -> int | None:
        """Record that an operation has ended; return the words that have room now, None if that is unchanged."""
        return self._go_on(operation, tables=True)

    def _go_on(self, operation: Operation, *, tables: bool) -> int | None:
        after = self._after.get(id(operation))
        if after is None or (self.words[id(after)].table > 0) != tables:
            return None
        self._read[operation.unit] = self.words[id(after)].of_unit
        self._room[operation.unit] = self._reach(operation.unit)
        return self.room

    @property
    def room(self) -> int:
        """Return the words of all commands up to which no queue is full."""
        return min(self._room.values())

    def _reach(self, unit: Unit) -> int:
        """Return the words of all commands up to which the queue of a unit is not full."""
        of_unit, of_all = self._ends[unit]
        limit = self._read[unit] + QUEUE_WORDS + _WORDS_AHEAD
        number = bisect_right(of_unit, limit)
        return self._total if number == len(of_unit) else of_all[number] - (of_unit[number] - limit)

    def short(self, dealt: int) -> bool:
        """Whether a queue that gives fetch priority has few words when `dealt` words of all are dealt."""
        for unit in _HURRIES:
            of_unit, of_all = self._ends[unit]
            number = bisect_right(of_all, dealt) - 1
            if of_unit[number] - self._read[unit] < FEW_WORDS:
                return True
        return False
