"""Where commands wait: how much of them is fetched when a load begins, and which loads stand behind full queues."""

from collections import deque
from dataclasses import dataclass
from itertools import accumulate

from tq_hw.compiler.stream.stream import Commands, Operation, Stream
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.layout import FETCH_BYTES, QUEUE_WORDS, Unit

__all__ = ["CommandWords", "command_words", "held_up", "reaches"]


@dataclass(frozen=True)
class CommandWords:
    """Words of commands around an operation.

    Members
    -------
    table, own : of tables written before it, of its own command
    end : of all commands up to its own
    of_unit : of its unit, up to its own
    """

    table: int
    own: int
    end: int
    of_unit: int


def held_up(stream: Stream, commands: Commands) -> dict[int, list[Operation]]:
    """Return, by the id of each load, the operations of array and vector unit that begin before its command is read.

    Each of the two units holds QUEUE_WORDS words, and has taken one operation more than it has begun. A command that
    finds its queue full holds up all after it.
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
    """Return the words of each operation by its id."""
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
    """Return, by the id of each operation, the words up to which fetch reads when it begins, before a queue is full."""
    ends = list(accumulate(commands.words))
    return {id(item): ends[last] + FETCH_BYTES // WORD_BYTES
            for item, last in zip(stream.items, _ahead(stream, commands), strict=True) if isinstance(item, Operation)}


def _ahead(stream: Stream, commands: Commands) -> list[int]:
    """Return for each item up to which one words are dealt after it until a queue is full."""
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
