"""Convolutions convert few planes to pixels and back: exact for all shapes, on machines of all word sizes."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Transpose
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

TO_PIXELS, TO_PLANES = (0, 2, 3, 1), (0, 3, 1, 2)
JOINED = [((1, 3, 32, 32), TO_PIXELS), ((1, 2, 25, 40), TO_PIXELS), ((1, 3, 15, 25), TO_PIXELS),
          ((5, 3, 20, 16), TO_PIXELS), ((1, 3, 512), (0, 2, 1)), ((3, 600), (1, 0))]
PARTED = [((1, 32, 32, 3), TO_PLANES), ((1, 25, 40, 2), TO_PLANES), ((1, 30, 21, 3), TO_PLANES), ((600, 3), (1, 0))]


def transpose(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "int8") -> Model:
    builder = ModelBuilder("transpose")
    x = builder.input(shape, dtype, scale=0.5)
    return parse_model(builder.build(builder.add("TRANSPOSE", [x, builder.constant(list(order))])), "transpose")


def layers_of(model: Model, config: Config) -> list[type]:
    """Types of the layers of a compiled model; its output is checked."""
    compiled = compile_model(model, config)
    tensor = model.main.tensors[model.main.inputs[0]]
    data = np.random.default_rng(1).integers(-128, 128, tensor.shape).astype(np.int8).view(tensor.dtype)
    assert np.array_equal(execute(compiled.program, [data]).outputs[0], golden.run(model, [data]).outputs[0])
    return [type(layer) for layer in compiled.emitter.graph.layers]


@pytest.mark.parametrize(("shape", "order"), JOINED)
@pytest.mark.parametrize("name", ["n16", "n8", "n9x8"])
def test_planes_become_pixels(name: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert layers_of(transpose(shape, order), PRESETS[name]) == [Mac]


@pytest.mark.parametrize(("shape", "order"), PARTED)
@pytest.mark.parametrize("name", ["n16", "n8", "n9x8"])
def test_pixels_become_planes(name: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert layers_of(transpose(shape, order), PRESETS[name]) == [Mac] * shape[-1]


@pytest.mark.parametrize(("shape", "order"), [JOINED[1], PARTED[1]])
def test_words_of_four(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert set(layers_of(transpose(shape, order), PRESETS["tiny"])) == {Mac}


@pytest.mark.parametrize(("shape", "order"), [((1, 3, 480, 320), TO_PIXELS), ((1, 480, 320, 2), TO_PLANES)])
def test_large_images_come_in_stretches(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert layers_of(transpose(shape, order), PRESETS["n16"]) == [Mac] * 2 * (1 if order == TO_PIXELS else shape[-1])


def test_unsigned_bytes() -> None:
    assert layers_of(transpose((1, 3, 32, 32), TO_PIXELS, "uint8"), PRESETS["n8"]) == [Mac]


@pytest.mark.parametrize(("shape", "order"), [
    ((1, 3, 12, 12), TO_PIXELS),  # few bytes
    ((1, 3, 37, 37), TO_PIXELS),  # pixels of which no group fills half a word
    ((1, 12, 32, 32), TO_PIXELS),  # many channels
    ((2, 20, 30, 3), TO_PLANES),  # images whose planes would not be consecutive
    ((3, 1, 20, 30), (1, 0, 2, 3)),  # nothing moves
    ((1, 3, 20, 30), (0, 1, 3, 2))])  # transposed planes
def test_what_stays(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert Mac not in layers_of(transpose(shape, order), PRESETS["n8"])


def test_weights_have_their_price() -> None:
    assert layers_of(transpose((1, 8, 16, 16), TO_PIXELS), PRESETS["n16"]) == [Transpose]
    assert layers_of(transpose((1, 8, 32, 32), TO_PIXELS), PRESETS["n16"]) == [Mac]


def test_odd_machines() -> None:
    odd = replace(PRESETS["n8"], name="odd", rows=7, cols=5, requantize_lanes=5)
    assert Mac in layers_of(transpose((1, 2, 30, 35), TO_PIXELS), odd)
    layers_of(transpose((1, 3, 30, 35), TO_PLANES), odd)
