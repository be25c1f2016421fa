"""Command queues: the words that are fetched when an operation begins, and the loads that full queues delay."""

from collections import deque
from dataclasses import dataclass
from itertools import accumulate

from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.layout import FETCH_BYTES, QUEUE_WORDS, Unit

__all__ = ["CommandWords", "command_words", "held_up", "reaches"]


@dataclass(frozen=True)
class CommandWords:
    """Command words before and of an operation.

    Members
    -------
    table, own : words of table writes just before it, and of its own command
    end : words of all commands up to its own
    of_unit : words of its unit's commands up to its own
    """

    table: int
    own: int
    end: int
    of_unit: int


def held_up(stream: Stream, commands: Commands) -> dict[int, list[Operation]]:
    """Return, by id of each load, the operations of array and vector unit that must begin before its command is read.

    The queue of each of these units has QUEUE_WORDS words, and a unit has taken one more command than it has begun. A
    command whose queue is full delays all commands after it.
    """
    held: dict[Unit, deque[tuple[Operation, int]]] = {Unit.ARRAY: deque(), Unit.VECTOR: deque()}
    words, tables = dict.fromkeys(held, 0), dict.fromkeys(held, 0)
    taken: dict[Unit, Operation] = {}
    full: dict[Unit, Operation] = {}
    behind = {}
    for item, size in zip(stream.items, commands.words, strict=True):
        if not isinstance(item, Operation):
            tables[item.unit] += size
        elif item.unit in held:
            unit = item.unit
            held[unit].append((item, tables[unit] + size))
            words[unit] += tables[unit] + size
            tables[unit] = 0
            while words[unit] > QUEUE_WORDS and len(held[unit]) > 1:
                if unit in taken:
                    full[unit] = taken[unit]
                taken[unit], gone = held[unit].popleft()
                words[unit] -= gone
        elif item.unit is Unit.LOAD:
            behind[id(item)] = list(full.values())
    return behind


def command_words(stream: Stream, commands: Commands) -> dict[int, CommandWords]:
    """Return the command words of each operation by id."""
    found, end = {}, 0
    tables, of_unit = dict.fromkeys(Unit, 0), dict.fromkeys(Unit, 0)
    for item, size in zip(stream.items, commands.words, strict=True):
        end += size
        of_unit[item.unit] += size
        if isinstance(item, Operation):
            found[id(item)] = CommandWords(tables[item.unit], size, end, of_unit[item.unit])
            tables[item.unit] = 0
        else:
            tables[item.unit] += size
    return found


def reaches(stream: Stream, commands: Commands) -> dict[int, int]:
    """Return, by id of each operation, the command words that fetch can read, until a queue is full, when it begins."""
    ends = list(accumulate(commands.words))
    return {id(item): ends[last] + FETCH_BYTES // WORD_BYTES
            for item, last in zip(stream.items, _ahead(stream, commands), strict=True) if isinstance(item, Operation)}


def _ahead(stream: Stream, commands: Commands) -> list[int]:
    """Return for each item the last item whose words can be dealt, until a queue is full, after it."""
    held = dict.fromkeys(Unit, 0)
    found, end = [], 0
    items = list(zip(stream.items, commands.words, strict=True))
    for number in range(len(items)):
        while end < len(items) - 1 and max(held.values()) <= QUEUE_WORDS:
            end += 1
            held[items[end][0].unit] += items[end][1]
        found.append(end)
        if number < len(items) - 1:
            held[items[number + 1][0].unit] -= items[number + 1][1]
    return found
