"""Which layers use tables: sums and products of few words do not, and several functions share one."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Mac
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

#: Scales and zero points of both inputs: a larger first scale, a larger second, equal ones; extremes of the range.
OPERANDS = [((0.05, -7), (0.031, 12)), ((0.011, 127), (0.4, -128)), ((0.02, -128), (0.02, 127))]


def _pair(op: str, shape: tuple[int, ...], operands: tuple[tuple[float, int], ...], scale: float,
          other: tuple[int, ...] | None = None) -> Model:
    b = ModelBuilder(op)
    inputs = [b.input(size, scale=point[0], zero_point=point[1])
              for size, point in zip((shape, other or shape), operands, strict=True)]
    return parse_model(b.build(b.add(op, inputs, scale=scale, zero_point=-3)), op)


def _layers(model: Model, config: str, inputs: list[np.ndarray]) -> list[object]:
    compiled = compile_model(model, load_config(config))
    found = execute(compiled.program, inputs, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
    return list(compiled.emitter.graph.layers)


@pytest.mark.parametrize("operands", OPERANDS, ids=str)
@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"])
def test_every_pair_of_codes(op: str, operands: tuple[tuple[float, int], ...]) -> None:
    codes = np.arange(-128, 128)
    pairs = np.stack(np.meshgrid(codes, codes)).reshape(2, -1, 1, 16, 32).astype(np.int8)
    model = _pair(op, pairs.shape[2:], operands, 0.07)
    compiled = compile_model(model, load_config("n16"))
    assert [layer.tables for layer in compiled.emitter.graph.layers if isinstance(layer, Elementwise)] == [(None, None)]
    for inputs in zip(*pairs, strict=True):
        found = execute(compiled.program, list(inputs)).outputs[0]
        np.testing.assert_array_equal(found, run(model, list(inputs)).outputs[0], strict=True)


@pytest.mark.parametrize("config", ["n16", "n8", "tiny"])
def test_many_words_take_tables(config: str) -> None:
    shape = (1, 24, 24, 16)
    x = [np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8) for _ in range(2)]
    assert [layer.tables[0] is None for layer in _layers(_pair("ADD", shape, OPERANDS[0], 0.1), config, x)
            if isinstance(layer, Elementwise)] == [False]


@pytest.mark.parametrize("config", ["n16", "n8", "tiny"])
@pytest.mark.parametrize("channels", [3, 16, 40])
def test_a_byte_for_all_channels_goes_through_the_array(channels: int, config: str) -> None:
    shapes = (2, 5, 3, channels), (2, 5, 3, 1)
    x = [np.random.default_rng(channels).integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    layers = _layers(_pair("MUL", shapes[0], OPERANDS[0], 0.02, shapes[1]), config, x)
    assert [type(layer) for layer in layers] == [Mac, Elementwise]
    assert layers[0].macs == 0


def test_tables_of_bytes_share_entries() -> None:
    b = ModelBuilder("shared")
    x = b.input((1, 3, 5, 16), scale=0.05, zero_point=3)
    outputs = [b.add("LOGISTIC", [x], scale=1 / 256, zero_point=-128), b.add("TANH", [x], scale=1 / 128, zero_point=0),
               *(b.add("ELU", [x], scale=scale, zero_point=-7) for scale in (0.03, 0.05, 0.08))]
    outputs.append(b.add("LOGISTIC", [x], scale=1 / 256, zero_point=-128))
    model = parse_model(b.build(*outputs), "shared")
    compiled = compile_model(model, load_config("n16"))
    codes = np.resize(np.arange(-128, 128), (1, 3, 5, 16)).astype(np.int8)
    for inputs in ([codes], [codes[:, ::-1]]):
        for found, wanted in zip(execute(compiled.program, inputs).outputs, run(model, inputs).outputs, strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    kinds = [operation.fields.get("kind") for operation in compiled.emitter.stream.by_unit[Unit.VECTOR]]
    assert kinds.count(VectorKind.LOAD_TABLE) == 2
