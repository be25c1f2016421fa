"""compiler.cost.events.command_queues: up to which word the queues have room."""

import pytest

from tq_hw.compiler.cost.events.command_queues import CommandQueues
from tq_hw.compiler.stream.stream import Commands, Stream
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit

CONFIG = PRESETS["n16"]
FEEDS: tuple[dict[str, int], ...] = ({"address": 1}, {"address": 2}, {"address": 3})


@pytest.mark.parametrize(("words", "room"), [((14, 9, 509, 4, 7), 544), ((14, 9, 509, 5, 7), 536),
                                             ((14, 9, 600, 1, 7), 536)])
def test_words_wait_behind_a_full_queue(words: tuple[int, ...], room: int) -> None:
    """While the array reads its first command, 513 more words have room; later also those of the second command."""
    stream = Stream(CONFIG)
    stream.add(Unit.LOAD, {}, (), (), 0)
    first, *_ = [stream.add(Unit.ARRAY, {}, (), (), 0) for _ in range(3)]
    stream.add(Unit.STORE, {}, (), (), 0)
    queues = CommandQueues(stream, Commands(bytes(4 * sum(words)), words))
    assert queues.room == room
    assert queues.taken(first) == sum(words) + 1 and queues.ended(first) is None


@pytest.mark.parametrize(("kind", "unit"), [("uop", Unit.VECTOR), ("fold", Unit.ARRAY)])
def test_tables_wait_until_nothing_is_in_flight(kind: str, unit: Unit) -> None:
    stream = Stream(CONFIG)
    first = stream.add(unit, {}, (), (), 0)
    if kind == "uop":
        stream.uop(0, {})
    else:
        stream.fold(0, FEEDS)
    stream.add(unit, {}, (), (), 0)
    stream.add(Unit.LOAD, {}, (), (), 0)
    words = (18, 600, 1, 14)
    queues = CommandQueues(stream, Commands(bytes(4 * sum(words)), words))
    assert queues.room == 18 + 513
    assert queues.taken(first) is None
    assert queues.ended(first) == sum(words) + 1


def test_queues_that_hold_few_words() -> None:
    """Those of load, array and vector unit; commands that a unit has taken no longer count."""
    stream = Stream(CONFIG)
    operations = [stream.add(unit, {}, (), (), 0) for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR) for _ in range(2)]
    words = (14, 64, 14, 64, 14, 64)
    queues = CommandQueues(stream, Commands(bytes(4 * sum(words)), words))
    assert queues.short(sum(words) - 64) and not queues.short(sum(words))
    queues.taken(operations[0])
    assert queues.short(sum(words))
