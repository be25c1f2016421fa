"""Reshaped pixels stay in the scratchpad: layers that work on single pixels see the same rows and columns."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.value import Pitch
from tq_hw.compiler.specialize import one_shape
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.errors import DataflowError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIGS = ["n16", "n8", "tiny"]


class _Net:
    def __init__(self) -> None:
        self.b, self.rng = ModelBuilder(), np.random.default_rng(3)
        self.x = self.b.input((1, 4, 4, 24), scale=0.05, zero_point=3)

    def _weights(self, x: int, shape: tuple[int, ...]) -> list[int]:
        weights = self.b.constant(self.rng.integers(-127, 128, shape).astype(np.int8), scale=0.004)
        return [x, weights, self.b.bias(x, weights, self.rng.integers(-500, 500, shape[0]))]

    def dense(self, x: int) -> int:
        return self.b.add("FULLY_CONNECTED", self._weights(x, (24, 24)), scale=0.05, zero_point=-2)

    def conv(self, x: int) -> int:
        return self.b.add("CONV_2D", self._weights(x, (24, 3, 3, 24)), padding="SAME", scale=0.05, zero_point=1)

    def reshape(self, x: int, *shape: int) -> int:
        return self.b.add("RESHAPE", [x, self.b.constant(list(shape))], shape=shape)

    def sum(self, x: int, y: int) -> int:
        return self.b.add("ADD", [x, y], scale=0.09, zero_point=4)

    def compiled(self, config: str, *outputs: int) -> Compiled:
        model: Model = parse_model(self.b.build(*outputs), "reshaped")
        compiled = compile_model(model, load_config(config))
        image = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 24)).astype(np.int8)
        found = execute(compiled.program, [image], seed=1, check_races=True).outputs
        for one, wanted in zip(found, run(model, [image]).outputs, strict=True):
            np.testing.assert_array_equal(one, wanted)
        return compiled


def _stores(compiled: Compiled) -> int:
    """Number of layers that write to memory."""
    return len({operation.layer for operation in compiled.emitter.stream.by_unit[Unit.STORE]})


@pytest.mark.parametrize("config", CONFIGS)
def test_dense_layers_of_tokens_need_no_memory_between_them(config: str) -> None:
    net = _Net()
    tokens = net.reshape(net.conv(net.x), 1, 16, 24)
    for _ in range(2):
        flat = net.dense(net.reshape(tokens, 16, 24))
        tokens = net.sum(tokens, net.reshape(flat, 1, 16, 24))
    assert _stores(net.compiled(config, net.conv(net.reshape(tokens, 1, 4, 4, 24)))) == 1


@pytest.mark.parametrize("config", CONFIGS)
def test_who_goes_through_memory_sees_them_as_they_were(config: str) -> None:
    net = _Net()
    tokens = net.reshape(net.conv(net.x), 1, 16, 24)
    flat = net.dense(net.reshape(tokens, 16, 24))
    turned = net.b.add("TRANSPOSE", [flat, net.b.constant([1, 0])])
    total = net.sum(tokens, net.reshape(flat, 1, 16, 24))
    assert _stores(net.compiled(config, turned, net.conv(net.reshape(total, 1, 4, 4, 24)))) == 3


@pytest.mark.parametrize("config", CONFIGS)
def test_rows_and_columns_of_parts_stay(config: str) -> None:
    """A concatenation of rows has parts, whose places are given by rows and columns."""
    net = _Net()
    left, right = net.conv(net.x), net.conv(net.x)
    both = net.b.add("CONCATENATION", [left, right], axis=1)
    flat = net.dense(net.reshape(both, 32, 24))
    net.compiled(config, net.sum(net.reshape(both, 1, 32, 24), net.reshape(flat, 1, 32, 24)))


@pytest.mark.parametrize("config", CONFIGS)
def test_a_convolution_and_a_matrix_want_their_own(config: str) -> None:
    net = _Net()
    wide = net.reshape(net.conv(net.x), 1, 2, 8, 24)
    total = net.sum(wide, net.conv(wide))
    back = net.reshape(net.sum(total, wide), 1, 8, 2, 24)
    net.compiled(config, net.conv(back), net.reshape(total, 16, 24))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("other", [(4, 4, 24), (1, 16, 24), (8, 2, 24), (2, 8, 24), (16, 1, 24)])
def test_parts_without_gaps_get_other_rows_and_columns(config: str, other: tuple[int, int, int]) -> None:
    """As in heads of detectors: pixels become rows, are rescaled, and are concatenated with those of other heads."""
    net = _Net()
    heads = []
    for _ in range(3):
        rows = net.reshape(net.conv(net.x), 1, *other)
        heads.append(net.b.add("QUANTIZE", [rows], scale=0.11, zero_point=-7))
    flat = [net.reshape(head, 1, 16, 24) for head in heads]
    joined = net.b.add("CONCATENATION", flat, axis=1)
    net.compiled(config, net.b.add("QUANTIZE", [joined], scale=0.3, zero_point=1))


@pytest.mark.parametrize("config", CONFIGS)
def test_channels_of_a_part_keep_their_distances(config: str) -> None:
    """Pixels of a slice of channels are further apart than its own size, also if its rows and columns do not change.

    It was once read as if it had no gaps when others of its group got new rows and columns (Keras' focal modulation).
    """
    slices = [value for layer in _parts(config).emitter.graph.layers for value in layer.inputs
              if value.pitch is not None and value.shape[3] == 8]
    assert slices and all(value.place.pixel_bytes == 24 for value in slices)


def _parts(config: str) -> Compiled:
    net = _Net()
    wide = net.reshape(net.dense(net.reshape(net.x, 16, 24)), 1, 4, 4, 24)

    def part(first: int) -> int:
        ends = [net.b.constant(at) for at in ([0, 0, 0, first], [1, 4, 4, first + 8], [1, 1, 1, 1])]
        return net.b.add("STRIDED_SLICE", [wide, *ends], shape=(1, 4, 4, 8))
    weights = net.b.constant(net.rng.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8), scale=0.004)
    deep = net.b.add("DEPTHWISE_CONV_2D", [part(8), weights], padding="SAME", scale=0.05, zero_point=1)
    total = net.b.add("MUL", [part(0), deep], scale=0.02, zero_point=4)
    matrix = net.b.constant(net.rng.integers(-127, 128, (24, 8)).astype(np.int8), scale=0.004)
    out = net.b.add("FULLY_CONNECTED", [net.reshape(total, 16, 8), matrix], scale=0.05, zero_point=-2)
    return net.compiled(config, net.reshape(out, 1, 4, 4, 24))


def test_the_compiler_refuses_shapes_that_move_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    real = one_shape.one_shape

    def broken(graph: Graph, config: Config) -> Graph:
        found = real(graph, config)
        layers = []
        for layer in found.layers:
            inputs = tuple(replace(value, pitch=Pitch(value.pitch.offset_bytes, 32, 8))
                           if value.pitch is not None and value.shape == (1, 4, 4, 8) else value
                           for value in layer.inputs)
            layers.append(replace(layer, inputs=inputs))
        return replace(found, layers=tuple(layers))
    monkeypatch.setattr(importlib.import_module("tq_hw.compiler.compile"), "one_shape", broken)
    with pytest.raises(DataflowError, match="operator .* finds in .* byte 8, .*; with copies it is"):
        _parts("n16")
