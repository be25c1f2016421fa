"""Elementwise layers that go on with the results of a convolution, in its program."""

from dataclasses import replace

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.compiler.ir.meaning import Streams
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def _model(op: str = "ADD", channels: int = 40, *, swapped: bool = False, whole: bool = False, side: int = 9,
           depth: int = 24, kernel: int = 1) -> Model:
    """A convolution, and an operator with a constant of each channel, or of each element."""
    b, rng = ModelBuilder("after"), np.random.default_rng(11)
    x = b.input((1, side, side, depth), scale=0.05)
    weights = b.constant(rng.integers(-127, 128, (channels, kernel, kernel, depth), np.int8), scale=0.01)
    made = b.add("CONV_2D", [x, weights, b.bias(x, weights, rng.integers(-900, 900, channels))], padding="SAME",
                 scale=0.06, zero_point=-9)
    shape = (1, side, side, channels) if whole else (1, 1, 1, channels)
    other = b.constant(rng.integers(-128, 128, shape, np.int8), scale=0.02, zero_point=11)
    return parse_model(b.build(b.add(op, [other, made] if swapped else [made, other], scale=0.07, zero_point=4)),
                       "after")


def _layers(model: Model, config: str) -> tuple[Layer, ...]:
    return compared(model, config).emitter.graph.layers


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("config", ["n16", "n16x8", "n8", "tiny"])
def test_a_constant_of_each_channel(op: str, swapped: bool, config: str) -> None:
    layers = _layers(_model(op, swapped=swapped), config)
    assert [type(layer) for layer in layers] == [Mac]
    assert isinstance(layers[0], Mac) and layers[0].after is not None and layers[0].inputs[1].shape == (1, 1, 1, 40)


@pytest.mark.parametrize("config", ["n16", "n9x8"])
def test_a_constant_of_each_element(config: str) -> None:
    layers = _layers(_model(whole=True, side=12), config)
    assert [type(layer) for layer in layers] == [Mac] and layers[0].inputs[1].shape == (1, 12, 12, 40)


def test_the_longest_program_in_a_small_memory() -> None:
    """DIV has 21 micro-operations."""
    b = ModelBuilder("after")
    x = b.input((1, 9, 9, 24), scale=0.05)
    weights = b.constant(np.random.default_rng(1).integers(-127, 128, (40, 1, 1, 24), np.int8), scale=0.01)
    made = b.add("CONV_2D", [x, weights], padding="SAME", scale=0.06, zero_point=-9)
    quotient = b.add("DIV", [made, b.constant(np.arange(1, 41, dtype=np.int8), scale=0.06)], scale=0.07, zero_point=4)
    config = replace(PRESETS["n16"], name="few", uops=32)
    layers = compared(parse_model(b.build(quotient), "after"), config).emitter.graph.layers
    assert len(layers) == 1 and isinstance(layers[0], Mac)
    assert layers[0].after is not None and len(layers[0].after.uops) == 21


def test_large_images_in_strips() -> None:
    """The other operand comes in strips as the input and output do."""
    for whole in (False, True):
        layers = _layers(_model(whole=whole, side=64, channels=16, depth=8), "n9x8")
        assert [type(layer) for layer in layers] == [Mac]


def test_a_table_after_a_program_without_tables() -> None:
    b = ModelBuilder("after")
    x = b.input((1, 5, 5, 16), scale=0.05)
    weights = b.constant(np.random.default_rng(1).integers(-127, 128, (16, 1, 1, 16), np.int8), scale=0.01)
    made = b.add("CONV_2D", [x, weights], padding="SAME", scale=0.06, zero_point=-9)
    added = b.add("ADD", [made, b.constant(np.arange(-80, 80, 10, np.int8), scale=0.05)], scale=0.08, zero_point=4)
    layers = _layers(parse_model(b.build(b.add("LOGISTIC", [added])), "after"), "n16")
    assert len(layers) == 1 and isinstance(layers[0], Mac)
    assert layers[0].after is not None and layers[0].after.tables == (None, None)
    assert layers[0].output_table is not None


def test_windows_of_few_channels_and_another_operand() -> None:
    """Only the image has strips of windows."""
    layers = _layers(_model(whole=True, side=32, channels=40, depth=3), "tiny")
    assert [type(layer) for layer in layers] == [Mac]


def test_the_serial_machine() -> None:
    assert [type(layer) for layer in _layers(_model(side=12, channels=8, depth=6), "serial")] == [Mac]


def test_few_pixels_and_larger_kernels_have_a_layer_of_their_own() -> None:
    """With few beats, each micro-operation would wait for the one before it."""
    for model in (_model(side=3), _model(kernel=3)):
        assert [type(layer) for layer in _layers(model, "n16")] == [Mac, Elementwise]


@pytest.mark.parametrize(("whole", "changed"), [
    (False, {"start": 16}), (False, {"col": 40}), (False, {"block": 0}), (True, {"start": 40}), (True, {"row": 0})])
def test_the_check_reports_other_operands(whole: bool, changed: dict[str, int]) -> None:
    compiled = compile_model(_model(whole=whole), PRESETS["n16"])
    number, operation = next((number, each) for number, each in enumerate(
        compiled.emitter.stream.by_unit[Unit.VECTOR]) if isinstance(each.meaning, Streams))
    meaning = operation.meaning
    assert isinstance(meaning, Streams) and meaning.b is not None
    operation.meaning = replace(meaning, b=replace(meaning.b, **changed))
    with pytest.raises(DataflowError) as refused:
        Replay(compiled.emitter, compiled.emitter.stream).run()
    assert str(refused.value) == (f"RUN {number} of the vector unit for operator 0 (CONV_2D): it takes other elements "
                                  "of 't4' than its results need")
