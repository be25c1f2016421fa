"""compiler.specialize: the layers that a rewrite makes, with the same integers."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Mac, RowProgram
from tq_hw.compiler.ir.staged import Flat, Resize
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

Add = Callable[[ModelBuilder, int], int]


def made(shape: tuple[int, ...], add: Add, scale: float = 0.05) -> Model:
    builder = ModelBuilder("one")
    return parse_model(builder.build(add(builder, builder.input(shape, scale=scale, zero_point=3))), "one")


def kinds(model: Model, config: str) -> list[type]:
    """Compile, compare executor and golden model for extreme and random inputs, return the layers' types."""
    compiled = compile_model(model, PRESETS[config])
    shape = model.main.tensors[model.main.inputs[0]].shape
    rng = np.random.default_rng(5)
    for x in (rng.integers(-128, 128, shape).astype(np.int8), rng.choice([-128, 127], shape).astype(np.int8)):
        expected, found = golden.run(model, [x]).outputs[0], execute(compiled.program, [x]).outputs[0]
        assert np.array_equal(found, expected)
    return [type(layer) for layer in compiled.emitter.graph.layers]


def resize(scale: int, half_pixel: bool = True, align: bool = False) -> Add:
    def add(b: ModelBuilder, x: int) -> int:
        _, h, w, _ = b.tensors[x].shape
        return b.add("RESIZE_BILINEAR", [x, b.constant([scale * h, scale * w])], half_pixel_centers=half_pixel,
                     align_corners=align)
    return add


@pytest.mark.parametrize(("config", "shape", "scale", "half_pixel"), [
    ("n16", (1, 5, 16, 2), 2, True), ("n16", (1, 5, 16, 2), 2, False), ("n16", (1, 3, 24, 2), 4, True),
    ("n16", (1, 7, 32, 1), 2, True), ("n16", (1, 5, 8, 2), 2, True), ("n8", (1, 5, 16, 1), 2, True),
    ("n16x8", (1, 5, 16, 2), 2, False), ("n16", (1, 1, 16, 2), 2, True)])
def test_resize_of_few_channels_goes_by_words(config: str, shape: tuple[int, ...], scale: int,
                                              half_pixel: bool) -> None:
    model = made(shape, resize(scale, half_pixel))
    found = kinds(model, config)
    assert set(found) == {Mac}
    layers = compile_model(model, PRESETS[config]).emitter.graph.layers
    assert not any(layer.depthwise for layer in layers)
    # Each output uses at most two taps per axis, whatever else is in the matrices.
    _, height, width, channels = model.main.tensors[model.main.outputs[0]].shape
    assert height * width * channels <= sum(layer.macs for layer in layers) <= 4 * height * width * channels


@pytest.mark.parametrize(("shape", "scale", "depthwise"), [
    ((1, 5, 6, 16), 2, True),  # many channels
    ((1, 5, 12, 2), 2, True),  # rows are no whole words
    ((1, 5, 16, 3), 2, True),  # words are no whole pixels
])
def test_resize_by_phases(shape: tuple[int, ...], scale: int, depthwise: bool) -> None:
    model = made(shape, resize(scale))
    assert set(kinds(model, "n16")) == {Mac}
    assert all(layer.depthwise is depthwise for layer in compile_model(model, PRESETS["n16"]).emitter.graph.layers)


def test_resize_by_odd_ratios_stays_with_the_vector_unit() -> None:
    assert kinds(made((1, 3, 24, 2), resize(3)), "n16") == [Resize]
    assert kinds(made((1, 5, 16, 2), resize(2, half_pixel=False, align=True)), "n16") == [Resize]


def test_softmax_of_pairs_is_a_table_of_differences() -> None:
    assert kinds(made((1, 4, 5, 2), lambda b, x: b.add("SOFTMAX", [x], beta=1.0)), "n16") == [Flat]
    assert kinds(made((1, 1, 2, 3), lambda b, x: b.add("SOFTMAX", [x], beta=1.0)), "n16") == [RowProgram]


@pytest.mark.parametrize(("shape", "kind"), [((1, 64, 64, 2), Flat), ((1, 64, 64, 16), Elementwise),
                                            ((1, 8, 8, 2), Elementwise)])
def test_elementwise_on_mostly_empty_words_goes_by_dense_bytes(shape: tuple[int, ...], kind: type) -> None:
    def add(b: ModelBuilder, x: int) -> int:
        return b.add("LOGISTIC", [x], scale=1 / 256, zero_point=-128)

    assert kinds(made(shape, add), "n16") == [kind]
