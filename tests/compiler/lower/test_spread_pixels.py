"""compiler.lower.spread: an elementwise layer reads one pixel for all pixels of an image instead of copies of it."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute


def inputs_of(op: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], *, constant: bool = False,
              config: str = "n16") -> list[tuple[int, ...]]:
    """Compile an operator on two shapes, compare with the golden model, return the shapes that its layer reads."""
    b, rng = ModelBuilder("m"), np.random.default_rng(1)
    x = b.input(shapes[0], scale=0.05, zero_point=3)
    data = rng.integers(-128, 128, shapes[1]).astype(np.int8)
    y = b.constant(data, scale=0.04, zero_point=-7) if constant else b.input(shapes[1], scale=0.04, zero_point=-7)
    model = parse_model(b.build(b.add(op, [x, y], shape=np.broadcast_shapes(*shapes), scale=0.09)), "m")
    compiled = compile_model(model, PRESETS[config])
    values = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes[:1 if constant else 2]]
    found = execute(compiled.program, values, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, golden.run(model, values).outputs[0], strict=True)
    layer = compiled.emitter.graph.layers[-1]
    assert isinstance(layer, Elementwise)
    return [value.shape for value in layer.inputs]


@pytest.mark.parametrize("config", ["n16", "n8", "n9x8", "n16x8", "tiny", "serial"])
@pytest.mark.parametrize("op", ["MUL", "SUB", "ADD", "GREATER"])
@pytest.mark.parametrize("constant", [False, True])
def test_one_pixel_for_all_of_an_image(op: str, constant: bool, config: str) -> None:
    for n, channels in ((1, 5), (1, 40), (2, 16)):
        found = inputs_of(op, ((n, 9, 7, channels), (n, 1, 1, channels)), constant=constant, config=config)
        assert sorted(found) == [(n, 1, 1, channels), (n, 9, 7, channels)]


def test_the_first_operand_may_be_the_pixel() -> None:
    assert inputs_of("SUB", ((1, 1, 1, 20), (1, 6, 5, 20))) == [(1, 1, 1, 20), (1, 6, 5, 20)]


def test_other_ranks() -> None:
    assert inputs_of("MUL", ((6, 8, 20), (20,)), constant=True) == [(1, 6, 8, 20), (1, 1, 1, 20)]
    assert inputs_of("MUL", ((40, 20), (1, 20))) == [(1, 40, 1, 20), (1, 1, 1, 20)]
    assert inputs_of("MUL", ((2, 3, 6, 8, 20), (1, 1, 1, 1, 20)), constant=True) == [(6, 6, 8, 20), (6, 1, 1, 20)]


def test_a_constant_for_all_images() -> None:
    assert inputs_of("ADD", ((3, 6, 8, 20), (1, 1, 1, 20)), constant=True) == [(3, 6, 8, 20), (3, 1, 1, 20)]


def test_what_is_spread() -> None:
    """One pixel for several images, rows or columns of pixels, a short line of pixels."""
    for shapes in (((3, 6, 8, 20), (1, 1, 1, 20)), ((1, 6, 8, 20), (1, 6, 1, 20)), ((1, 1, 8, 20), (1, 1, 1, 20))):
        assert set(inputs_of("MUL", shapes)) == {np.broadcast_shapes(*shapes)}


def test_a_byte_of_each_pixel_is_one_word() -> None:
    assert inputs_of("MUL", ((1, 6, 8, 20), (1, 6, 8, 1))) == [(1, 6, 8, 20), (1, 6, 8, 16)]


def test_one_pixel_and_a_byte_of_each() -> None:
    assert inputs_of("MUL", ((1, 6, 8, 1), (1, 1, 1, 20))) == [(1, 6, 8, 16), (1, 1, 1, 20)]
