"""Where commands wait: how much of them is fetched when a load begins, and which loads stand behind full queues."""

from collections import deque
from itertools import pairwise

from tq_hw.compiler.stream import Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import QUEUE_WORDS, UNITS, Unit

__all__ = ["beats_needed", "held_up", "uops_written"]

#: Bytes of commands that are fetched ahead of the load that is begun; they take turns with its data on the bus.
_AHEAD_BYTES = 800
#: Words of a micro-operation, of an entry of the folding table.
_UOP_WORDS, _FOLD_WORDS = 5, 4


def beats_needed(stream: Stream, config: Config, command_bytes: int) -> dict[int, int]:
    """Return, by the id of each load, the beats of commands that are fetched when it begins."""
    each = command_bytes / max(1, len(stream.items))
    return {id(item): int(min(command_bytes, (number + 1) * each + _AHEAD_BYTES)) // config.bus_bytes
            for number, (_, item) in enumerate(stream.items)
            if isinstance(item, Operation) and item.unit is Unit.LOAD}


def held_up(stream: Stream) -> dict[int, list[Operation]]:
    """Return, by the id of each load, the operations of array and vector unit that begin before its command is read.

    Each of the two units holds QUEUE_WORDS words, and has taken one operation more than it has begun. A command that
    finds its queue full holds up all behind it.
    """
    held: dict[Unit, deque[tuple[Operation, int]]] = {Unit.ARRAY: deque(), Unit.VECTOR: deque()}
    words, tables = dict.fromkeys(held, 0), dict.fromkeys(held, 0)
    before: dict[Unit, Operation] = {}
    taken: dict[Unit, Operation] = {}
    full: dict[Unit, Operation] = {}
    behind = {}
    for kind, item in stream.items:
        if not isinstance(item, Operation):
            unit, size = (Unit.VECTOR, _UOP_WORDS) if kind == "uop" else (Unit.ARRAY, _FOLD_WORDS)
            tables[unit] += size
        elif item.unit in held:
            unit = item.unit
            size = _command_words(before.get(unit), item) + tables[unit]
            before[unit], tables[unit] = item, 0
            held[unit].append((item, size))
            words[unit] += size
            while words[unit] > QUEUE_WORDS and len(held[unit]) > 1:
                if unit in taken:
                    full[unit] = taken[unit]
                taken[unit], size = held[unit].popleft()
                words[unit] -= size
        elif item.unit is Unit.LOAD:
            behind[id(item)] = list(full.values())
    return behind


def uops_written(stream: Stream) -> dict[int, int]:
    """Return, by the id of each operation of the vector unit, the micro-operations that are written before it."""
    writes, count = {}, 0
    for kind, item in stream.items:
        if kind == "uop":
            count += 1
        elif isinstance(item, Operation) and item.unit is Unit.VECTOR:
            writes[id(item)], count = count, 0
    return writes


def _command_words(before: Operation | None, operation: Operation) -> int:
    """Words of an operation's command: headers, registers that change, and one that lies between two of them."""
    registers = UNITS[operation.unit].fields
    old = before.fields if before is not None else {}
    changed = {registers[name][0].index for name, value in operation.fields.items() if old.get(name, 0) != value}
    changed |= {registers[name][0].index for name, value in old.items() if value and name not in operation.fields}
    if before is None or before.wait != operation.wait:
        changed.add(registers["wait_load"][0].index)
    if before is None or before.post != operation.post:
        changed.add(registers["post_load"][0].index)
    indices = sorted(changed)
    return len(indices) + 1 + sum(min(1, high - low - 1) for low, high in pairwise(indices))
