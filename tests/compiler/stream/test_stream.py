"""Tokens never overflow a unit's counter, whichever unit runs ahead."""

import pytest

from tq_hw.compiler.stream.stream import Access, Stream
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit

LIMIT = 255


def _most_tokens(stream: Stream, ahead: Unit) -> int:
    """Run the operations, those of `ahead` as early as possible; return the most tokens of a kind that a unit held."""
    held: dict[tuple[Unit, Unit], int] = {}
    at = dict.fromkeys(stream.by_unit, 0)
    most = 0
    while any(at[unit] < len(operations) for unit, operations in stream.by_unit.items()):
        for unit in sorted(at, key=lambda unit: unit is not ahead):
            if at[unit] == len(stream.by_unit[unit]):
                continue
            operation = stream.by_unit[unit][at[unit]]
            if all(held.get((other, unit), 0) >= count for other, count in operation.wait.items()):
                break
        else:
            raise AssertionError("no unit can go on")
        at[unit] += 1
        for other, count in operation.wait.items():
            held[other, unit] -= count
        for other, count in operation.post.items():
            held[unit, other] = held.get((unit, other), 0) + count
            most = max(most, held[unit, other])
    assert not any(held.values())
    return most


def _word(number: int) -> tuple[Access, ...]:
    return (Access("pad", number, number + 1),)


@pytest.mark.parametrize("ahead", [Unit.LOAD, Unit.VECTOR, Unit.STORE])
def test_results_that_are_stored_much_later(ahead: Unit) -> None:
    stream = Stream(load_config("n16"))
    for number in range(700):
        stream.add(Unit.VECTOR, {}, (), _word(number), 0)
        stream.add(Unit.STORE, {}, _word(number), (), 0)
    assert _most_tokens(stream, ahead) <= LIMIT


@pytest.mark.parametrize("ahead", [Unit.LOAD, Unit.VECTOR, Unit.STORE])
def test_words_that_are_loaded_again_much_later(ahead: Unit) -> None:
    stream = Stream(load_config("n16"))
    for turn in range(2):
        for number in range(700):
            stream.add(Unit.LOAD, {}, (), _word(number), turn)
            stream.add(Unit.VECTOR, {}, _word(number), (), turn)
    assert _most_tokens(stream, ahead) <= LIMIT


def test_few_tokens_are_one_for_each_operation() -> None:
    stream = Stream(load_config("n16"))
    for number in range(100):
        stream.add(Unit.VECTOR, {}, (), _word(number), 0)
        stream.add(Unit.STORE, {}, _word(number), (), 0)
    assert [operation.wait for operation in stream.by_unit[Unit.STORE]] == [{Unit.VECTOR: 1}] * 100
    assert [operation.wait for operation in stream.by_unit[Unit.VECTOR]] == [{}] * 100
