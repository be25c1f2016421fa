"""Bounds of integers inside a model."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import number
from tq_hw.compiler.rewrite.integer_bounds import integer_bounds
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

SHAPE = (4, 6)
INT64 = (-(1 << 63), (1 << 63) - 1)
Build = Callable[[ModelBuilder], int]


def longs(b: ModelBuilder) -> int:
    return b.input(SHAPE, "int64")


def places(b: ModelBuilder) -> int:
    return b.add("ARG_MIN", [b.input(SHAPE), number(b, 0)], shape=SHAPE[1:], dtype="int64",
                 options={"output_type": "int64"})


def summed(b: ModelBuilder, x: int) -> int:
    return b.add("SUM", [x, number(b, [0, -1])], shape=(), dtype="int64")


def added(b: ModelBuilder, activation: str = "NONE") -> int:
    return b.add("ADD", [places(b), b.constant(np.array(-9))], shape=SHAPE[1:], dtype="int64",
                 options={"fused_activation_function": activation})


@pytest.mark.parametrize(("build", "expected"), [
    (longs, INT64), (places, (0, 3)),
    (lambda b: summed(b, b.add("CAST", [b.input(SHAPE, "bool")], dtype="int64")), (0, 24)),
    (lambda b: summed(b, b.add("CAST", [b.input(SHAPE)], dtype="int64")), (-128 * 24, 127 * 24)),
    (lambda b: summed(b, longs(b)), INT64), (added, (-9, -6)), (lambda b: added(b, "RELU"), INT64),
    (lambda b: b.add_many("TOPK_V2", [b.input(SHAPE), number(b, 2)], 2)[1], (0, 5)),
    (lambda b: b.add("CAST", [longs(b)], dtype="int32"), (-(1 << 31), (1 << 31) - 1)),
    (lambda b: b.add("PACK", [places(b), places(b)], shape=(2, 6), dtype="int64"), (0, 3))],
    ids=["input", "places", "count", "codes", "wraps", "sum", "activation", "top", "narrow", "joined"])
def test_bounds(build: Build, expected: tuple[int, int]) -> None:
    b = ModelBuilder("bounds")
    index = build(b)
    graph = Subject(parse_model(b.build(index), "bounds", check=False).main)
    assert integer_bounds(graph, graph.subgraph.outputs[0]) == expected
