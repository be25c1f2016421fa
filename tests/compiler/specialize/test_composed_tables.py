"""Tables before sums and products are parts of their tables, where nothing else reads the result."""

from collections.abc import Callable

import numpy as np
import pytest
from compared import compared

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

IMAGE = (1, 24, 24, 16)


def _table(b: ModelBuilder, x: int, op: str = "TANH") -> int:
    return b.add(op, [x], scale=1 / 128 if op == "TANH" else 1 / 256, zero_point=0 if op == "TANH" else -128)


def _one_operand(b: ModelBuilder, x: int, y: int) -> list[int]:
    return [b.add("ADD", [y, _table(b, x)], scale=0.03, zero_point=-3)]


def _both_operands(b: ModelBuilder, x: int, y: int) -> list[int]:
    return [b.add("MUL", [_table(b, x), _table(b, y, "LOGISTIC")], scale=0.01, zero_point=4)]


def _two_readers(b: ModelBuilder, x: int, y: int) -> list[int]:
    made = _table(b, x)
    return [b.add(op, [made, y], scale=0.03, zero_point=-3) for op in ("SUB", "SQUARED_DIFFERENCE")]


def _a_chain_of_two(b: ModelBuilder, x: int, y: int) -> list[int]:
    made = b.add("QUANTIZE", [_table(b, x)], scale=0.02, zero_point=9)
    return [b.add("SUB", [y, made], scale=0.03, zero_point=-3)]


def _one_pixel(b: ModelBuilder, x: int, _: int) -> list[int]:
    z = b.input((1, 1, 1, 16), scale=0.04, zero_point=5)
    return [b.add("MUL", [x, _table(b, z, "LOGISTIC")], scale=0.03, zero_point=-3)]


def _as_a_view(b: ModelBuilder, x: int, _: int) -> list[int]:
    made = b.add("RESHAPE", [_table(b, x), b.constant(np.array([1, 48, 12, 16], np.int32))], shape=(1, 48, 12, 16))
    z = b.input((1, 48, 12, 16), scale=0.04, zero_point=5)
    return [b.add("ADD", [made, z], scale=0.03, zero_point=-3)]


@pytest.mark.parametrize("config", ["n16", "n8", "tiny"])
@pytest.mark.parametrize("make", [_one_operand, _both_operands, _two_readers, _a_chain_of_two, _one_pixel,
                                  _as_a_view], ids=lambda make: make.__name__)
def test_composed(make: Callable[[ModelBuilder, int, int], list[int]], config: str) -> None:
    b = ModelBuilder("m")
    x, y = b.input(IMAGE, scale=0.02, zero_point=-7), b.input(IMAGE, scale=0.031, zero_point=12)
    outputs = make(b, x, y)
    layers = compared(parse_model(b.build(*outputs), "m"), config).emitter.graph.layers
    assert [layer.op for layer in layers] == [b.operators[-len(outputs) + at].op for at in range(len(outputs))]


def _as_output(b: ModelBuilder, x: int, y: int) -> list[int]:
    made = _table(b, x)
    return [b.add("ADD", [made, y], scale=0.03, zero_point=-3), made]


def _for_the_array(b: ModelBuilder, x: int, y: int) -> list[int]:
    made = _table(b, x)
    pool = b.add("AVERAGE_POOL_2D", [made], scale=1 / 128, zero_point=0, filter_width=2, filter_height=2, stride_w=2,
                 stride_h=2, padding="VALID")
    return [b.add("ADD", [made, y], scale=0.03, zero_point=-3), pool]


def _few_words(b: ModelBuilder, x: int, y: int) -> list[int]:
    x, y = (b.input((1, 2, 2, 16), scale=0.02 * place, zero_point=place) for place in (1, 2))
    return [b.add("MUL", [_table(b, x), y], scale=0.01, zero_point=4)]


@pytest.mark.parametrize("make", [_as_output, _for_the_array, _few_words], ids=lambda make: make.__name__)
def test_not_composed(make: Callable[[ModelBuilder, int, int], list[int]]) -> None:
    """Others read the result, or sums of few words, which need no tables."""
    b = ModelBuilder("m")
    x, y = b.input(IMAGE, scale=0.02, zero_point=-7), b.input(IMAGE, scale=0.031, zero_point=12)
    layers = compared(parse_model(b.build(*make(b, x, y)), "m"), "n16").emitter.graph.layers
    assert [layer.op for layer in layers][0] == "TANH"
