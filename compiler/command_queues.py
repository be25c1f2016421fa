"""Where commands wait: how much of them is fetched when a load begins, and which loads stand behind full queues."""

from collections import deque
from itertools import accumulate

from tq_hw.compiler.stream import Commands, Operation, Stream, UopWrite
from tq_hw.isa.config import Config
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.layout import QUEUE_WORDS, Unit

__all__ = ["beats_needed", "held_up", "uop_words"]

#: Bytes of commands that are fetched ahead of the load that is begun; they take turns with its data on the bus.
_AHEAD_BYTES = 800


def beats_needed(stream: Stream, config: Config, commands: Commands) -> dict[int, int]:
    """Return, by the id of each load, the beats of commands that are fetched when it begins."""
    size = len(commands.data)
    return {id(item): min(size, WORD_BYTES * end + _AHEAD_BYTES) // config.bus_bytes
            for item, end in zip(stream.items, accumulate(commands.words), strict=True)
            if isinstance(item, Operation) and item.unit is Unit.LOAD}


def held_up(stream: Stream, commands: Commands) -> dict[int, list[Operation]]:
    """Return, by the id of each load, the operations of array and vector unit that begin before its command is read.

    Each of the two units holds QUEUE_WORDS words, and has taken one operation more than it has begun. A command that
    finds its queue full holds up all behind it.
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


def uop_words(stream: Stream, commands: Commands) -> dict[int, int]:
    """Return, by the id of each operation behind micro-operations, the words of these and of its own command."""
    found, words = {}, 0
    for item, size in zip(stream.items, commands.words, strict=True):
        if isinstance(item, UopWrite):
            words += size
        elif words and item.unit is Unit.VECTOR:
            found[id(item)], words = words + size, 0
    return found
