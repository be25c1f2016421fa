"""compiler.cost.command_queues: the words of commands are those of the encoded stream."""

import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.cost.command_queues import CommandWords, command_words, held_up, reaches
from tq_hw.compiler.stream.stream import Access, Commands, FoldWrite, Operation, Stream, UopWrite
from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import decode
from tq_hw.isa.layout import FOLD_BASE, UNITS, UOP_BASE, UOP_WORDS, Unit
from tq_hw.model.samples.layers import sample

CONFIG = PRESETS["n16"]
FEEDS: tuple[dict[str, int], ...] = ({"address": 1}, {"address": 2}, {"address": 3})


def mixed() -> Stream:
    """Two loads, an operation of the array and two of the vector unit, with tables in between."""
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
    """The registers that an item may write."""
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
    """`decode` finds the same in the bytes: the commands up to a RUN, or those that write one entry of a table."""
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
    """A first command has every register, later ones only changed registers; the last change is in two places."""
    assert mixed().assemble().words == (1 + 13, 1 + 3, 1 + 4, 1 + 16, 1 + 17, 1, 1 + 1, 2 * (1 + 1), 1 + 1)


def test_words_of_each_operation_and_of_tables_before_it() -> None:
    """Tables count for an operation of their own unit; fetch reads 1024 bytes beyond the last word in a queue."""
    stream = mixed()
    words = command_words(stream, stream.assemble())
    assert [words[id(operation)] for operation in stream.operations] == [
        CommandWords(0, 14, 14, 14), CommandWords(4, 17, 40, 21), CommandWords(5, 18, 58, 23),
        CommandWords(0, 1, 59, 24), CommandWords(0, 4, 65, 18), CommandWords(2, 2, 67, 28)]
    assert set(reaches(stream, stream.assemble()).values()) == {67 + 256}


@pytest.mark.parametrize(("words", "reach"), [
    ((14, 510, 2, 1, 9), 536), ((14, 510, 3, 1, 9), 527), ((14, 1, 1, 1, 9), 26)])
def test_commands_reach_as_far_as_a_queue_takes_them(words: tuple[int, ...], reach: int) -> None:
    stream = Stream(CONFIG)
    first = stream.add(Unit.LOAD, {}, (), (), 0)
    for unit in (Unit.ARRAY, Unit.ARRAY, Unit.VECTOR, Unit.STORE):
        stream.add(unit, {}, (), (), 0)
    found = reaches(stream, Commands(bytes(4 * sum(words)), words))
    assert found[id(first)] == reach + 256


@pytest.mark.parametrize(("kind", "unit"), [("uop", Unit.VECTOR), ("fold", Unit.ARRAY)])
@pytest.mark.parametrize(("table", "held"), [(0, 0), (510, 0), (511, 1), (600, 1)])
def test_words_of_tables_fill_a_queue(kind: str, unit: Unit, table: int, held: int) -> None:
    """Operations of 1 and `table` + 1 words wait after one that was taken, if they fit a queue of 512 words."""
    stream = Stream(CONFIG)
    operations = [stream.add(unit, {}, (), (), 0) for _ in range(2)]
    if kind == "uop":
        stream.uop(0, {})
    else:
        stream.fold(0, FEEDS)
    stream.add(unit, {}, (), (), 0)
    load = stream.add(Unit.LOAD, {}, (), (), 0)
    words = (18, 1, table, 1, 14)
    assert held_up(stream, Commands(bytes(4 * sum(words)), words)) == {id(load): operations[:held]}
