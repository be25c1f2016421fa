"""compiler.verify.whole: the passes of a pool over few taps take all of them, each at its place."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tq_hw.compiler import Compiled, compile_model
from tq_hw.compiler.ir.meaning import Streams, Walk
from tq_hw.compiler.stream.stream import Operation
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def _pool(padding: str, size: int) -> Compiled:
    b = ModelBuilder("m")
    made = b.add("MAX_POOL_2D", [b.input((1, size, size, 4), scale=0.1)], filter_height=2, filter_width=2, stride_h=2,
                 stride_w=2, padding=padding)
    return compile_model(parse_model(b.build(made), "m"), load_config("tiny"))


def _passes(compiled: Compiled) -> list[Operation]:
    return [each for each in compiled.emitter.stream.by_unit[Unit.VECTOR] if isinstance(each.meaning, Streams)]


def _meaning(operation: Operation) -> Streams:
    assert isinstance(operation.meaning, Streams)
    return operation.meaning


def _walk(walk: Walk | None) -> Walk:
    assert walk is not None
    return walk


def _moved(walk: Walk | None, elements: int) -> Walk:
    return replace(_walk(walk), start=_walk(walk).start + elements)


def _refused(compiled: Compiled, number: int, message: str, fields: Mapping[str, int], **meaning: Any) -> None:
    """Change an operation and its meaning; the check must report it."""
    operation = _passes(compiled)[number]
    operation.fields.update(fields)
    operation.meaning = replace(_meaning(operation), **meaning)
    with pytest.raises(DataflowError) as refused:
        Replay(compiled.emitter, compiled.emitter.stream).run()
    assert str(refused.value) == f"RUN {number} of the vector unit for operator 0 (MAX_POOL_2D): {message}"


def test_three_passes_for_four_taps() -> None:
    compiled = _pool("VALID", 4)
    Replay(compiled.emitter, compiled.emitter.stream).run()
    # There are two rectangles of one row.
    assert [len(_meaning(each).code.uops) for each in _passes(compiled)] == 6 * [1]
    assert all(each.fields["repeat1"] == each.fields["repeat2"] == 1 for each in _passes(compiled))


def test_a_tap_that_is_missing() -> None:
    compiled = _pool("VALID", 4)
    second = _passes(compiled)[1]
    _refused(compiled, 2, "its results are the maxima of 3 of 4 taps", {"a_base": second.fields["a_base"]},
             a=_meaning(second).a)


def test_a_tap_of_another_window() -> None:
    compiled = _pool("VALID", 6)
    first = _passes(compiled)[0]
    _refused(compiled, 0, "its slots are not a tap of its windows", {"a_base": first.fields["a_base"] + 1},
             a=_moved(_meaning(first).a, 4))


def test_maxima_of_other_pixels() -> None:
    compiled = _pool("VALID", 6)
    second = _passes(compiled)[1]
    _refused(compiled, 1, "it continues other maxima than it writes", {"b_base": second.fields["b_base"] + 1},
             b=_moved(_meaning(second).b, 4))


def test_maxima_of_other_taps() -> None:
    compiled = _pool("VALID", 16)
    first, second, *_, begin, _, _ = _passes(compiled)
    assert _walk(_meaning(first).out).of is _walk(_meaning(begin).out).of
    number = len(_passes(compiled)) - 3
    distance = second.fields["a_base"] - first.fields["a_base"]
    moved = _walk(_meaning(second).a).start - _walk(_meaning(first).a).start
    _refused(compiled, number, "other maxima of its layer have other taps",
             {"a_base": begin.fields["a_base"] + distance}, a=_moved(_meaning(begin).a, moved))


def test_windows_beyond_the_image_have_fewer_taps() -> None:
    """The last column of windows has one column of taps: it has passes of its own."""
    compiled = _pool("SAME", 5)
    Replay(compiled.emitter, compiled.emitter.stream).run()
    assert [_meaning(each).b is not None for each in _passes(compiled)] == [*8 * [True], True, False]
    first = _passes(compiled)[0]
    assert first.fields["cols"] == first.fields["slots"] == 2
    _refused(compiled, 0, "its windows do not have the same taps", {"cols": 3, "slots": 3})
