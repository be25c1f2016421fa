"""Reshaped pixels stay in the scratchpad: layers that look at one pixel at a time see the same rows and columns."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
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
    """Layers that write to memory."""
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
    """A concatenation of rows has parts, which are found by its rows and columns."""
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
    """As heads of detectors: pixels become rows, are scaled again, and joined behind those of another head."""
    net = _Net()
    heads = []
    for _ in range(3):
        rows = net.reshape(net.conv(net.x), 1, *other)
        heads.append(net.b.add("QUANTIZE", [rows], scale=0.11, zero_point=-7))
    flat = [net.reshape(head, 1, 16, 24) for head in heads]
    joined = net.b.add("CONCATENATION", flat, axis=1)
    net.compiled(config, net.b.add("QUANTIZE", [joined], scale=0.3, zero_point=1))
