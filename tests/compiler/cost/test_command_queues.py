"""compiler.command_queues: words of commands are those of the encoded stream."""

import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.cost.command_queues import CommandQueues, CommandWords
from tq_hw.compiler.stream.stream import Access, Commands, FoldWrite, Operation, Stream, UopWrite
from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import decode
from tq_hw.isa.layout import FOLD_BASE, UNITS, UOP_BASE, UOP_WORDS, Unit
from tq_hw.model.samples.layers import sample

CONFIG = PRESETS["n16"]
FEEDS: tuple[dict[str, int], ...] = ({"address": 1}, {"address": 2}, {"address": 3})


def mixed() -> Stream:
    """Two loads, an operation of the array and two of the vector unit, with tables between them."""
    stream = Stream(CONFIG)
    written = Access("pad", 0, 1)
    stream.add(Unit.LOAD, {"count0": 1}, (), (written,), 0)
    stream.fold(0, FEEDS)
    stream.uop(0, {"a_source": 3})
    stream.add(Unit.ARRAY, {"slots": 1}, (written,), (), 0)
    stream.add(Unit.VECTOR, {"slots": 1}, (), (), 0)
    stream.add(Unit.VECTOR, {"slots": 1}, (), (), 0)
    stream.uop(0, {"a_source": 2})
    stream.add(Unit.LOAD, {"count0": 2}, (), (), 0)
    stream.add(Unit.VECTOR, {"slots": 2}, (), (), 0)
    return stream


def registers(item: Operation | FoldWrite | UopWrite) -> range:
    """What an item may write."""
    match item:
        case Operation():
            return range(len(UNITS[item.unit].registers))
        case FoldWrite():
            return range(FOLD_BASE + 3 * item.step, FOLD_BASE + 3 * item.step + 3)
        case UopWrite():
            return range(UOP_BASE + UOP_WORDS * item.index, UOP_BASE + UOP_WORDS * (item.index + 1))


@pytest.mark.parametrize("stream", [mixed(), compile_model(sample("chain", 0), CONFIG).emitter.stream],
                         ids=["mixed", "chain"])
def test_words_of_each_item_are_those_of_the_encoded_commands(stream: Stream) -> None:
    """What `decode` finds in the bytes: commands up to a RUN, or those that write one entry of a table."""
    commands = stream.assemble()
    *found, end = decode(commands.data, CONFIG)
    assert sum(commands.words) == end.word_index and len(commands.data) == 4 * (end.word_index + 1)
    at = 0
    for item, words in zip(stream.items, commands.words, strict=True):
        mine = []
        while sum(1 + len(command.values) for command in mine) < words:
            mine.append(found[at])
            at += 1
        assert sum(1 + len(command.values) for command in mine) == words
        runs = [False] * (len(mine) - 1) + [isinstance(item, Operation)]
        assert [command.run for command in mine] == (runs if mine else [])
        assert all(command.unit is item.unit for command in mine)
        written = [command.first + n for command in mine for n in range(len(command.values))]
        assert set(written) <= set(registers(item))
    assert at == len(found)


def test_words_of_what_changes() -> None:
    """A first command has every register, later ones what changed: tokens too, and at the end two apart."""
    assert mixed().assemble().words == (1 + 13, 1 + 3, 1 + 4, 1 + 16, 1 + 17, 1, 1 + 1, 2 * (1 + 1), 1 + 1)


def test_words_of_each_operation_and_of_tables_before_it() -> None:
    """Tables of an operation's own unit."""
    stream = mixed()
    queues = CommandQueues(stream, stream.assemble())
    assert [queues.words[id(operation)] for operation in stream.operations] == [
        CommandWords(0, 14, 14, 14), CommandWords(4, 17, 40, 21), CommandWords(5, 18, 58, 23),
        CommandWords(0, 1, 59, 24), CommandWords(0, 4, 65, 18), CommandWords(2, 2, 67, 28)]
    assert queues.room == 67 + 1


@pytest.mark.parametrize(("words", "room"), [((14, 9, 510, 2, 7), 543), ((14, 9, 510, 3, 7), 535),
                                             ((14, 9, 600, 1, 7), 535)])
def test_words_wait_behind_a_full_queue(words: tuple[int, ...], room: int) -> None:
    """The array reads its first command: 512 words more have room; once it has taken it, those of the second."""
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
    assert queues.room == 18 + 512
    assert queues.taken(first) is None
    assert queues.ended(first) == sum(words) + 1


def test_queues_that_hold_few_words() -> None:
    """Load, array and vector unit count, and what they have read does not."""
    stream = Stream(CONFIG)
    operations = [stream.add(unit, {}, (), (), 0) for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR) for _ in range(2)]
    words = (14, 64, 14, 64, 14, 64)
    queues = CommandQueues(stream, Commands(bytes(4 * sum(words)), words))
    assert queues.short(sum(words) - 64) and not queues.short(sum(words))
    queues.taken(operations[0])
    assert queues.short(sum(words))
