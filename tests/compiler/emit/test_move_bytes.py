"""Copies that transpose bytes are exact for all shapes, and take no more store cycles than stated."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.emit.move_bytes import byte_transpose
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_ARENA, REGION_IMAGE
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

SHAPES = [
    ((1, 64, 64, 16), (0, 3, 1, 2)), ((1, 16, 64, 64), (0, 2, 3, 1)), ((1, 7, 33, 21), (0, 3, 2, 1)),
    ((2, 5, 40, 70), (0, 1, 3, 2)), ((1, 1, 37, 300), (0, 1, 3, 2)), ((1, 1, 300, 37), (0, 1, 3, 2)),
    ((3, 20, 17, 2), (3, 1, 0, 2)), ((1, 20, 17, 5), (0, 3, 1, 2)), ((40, 3, 2, 24), (3, 2, 1, 0)),
    ((1, 9, 64, 5), (0, 3, 1, 2))]


@pytest.mark.parametrize("config", ["n16", "n8", "n16x8", "n9x8", "tiny"])
@pytest.mark.parametrize(("shape", "order"), SHAPES)
def test_transpose(config: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    if config == "tiny" and np.prod(shape) > 30_000:
        shape = (1, shape[1] // 4, *shape[2:])
    builder = ModelBuilder("transpose")
    x = builder.input(shape, scale=0.5)
    model = parse_model(builder.build(builder.add("TRANSPOSE", [x, builder.constant(list(order))])), "transpose")
    compiled = compile_model(model, PRESETS[config])
    data = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    assert np.array_equal(execute(compiled.program, [data]).outputs[0], np.transpose(data, order))
    assert np.array_equal(golden.run(model, [data]).outputs[0], np.transpose(data, order))


@pytest.mark.parametrize(("config", "take"), [("n16", 4), ("n8", 2)])
def test_stores_take_several_bytes_of_a_word(config: str, take: int) -> None:
    builder = ModelBuilder("transpose")
    x = builder.input((1, 32, 32, 16), scale=0.5)
    model = parse_model(builder.build(builder.add("TRANSPOSE", [x, builder.constant([0, 3, 1, 2])])), "transpose")
    stream = compile_model(model, PRESETS[config]).emitter.stream
    stores = [operation.fields for operation in stream.by_unit[Unit.STORE]]
    assert {fields["take_bytes"] for fields in stores} == {take}
    assert sum(fields["count0"] * fields["count2"] for fields in stores) * take == 32 * 32 * 16


def test_what_is_transposed() -> None:
    near, far, outer = (16, 1, 4096), (4096, 16, 1), (3, 65536, 65536)
    found = byte_transpose([near, far, outer])
    assert found is not None and (found.near, found.far, found.outer) == (near, far, (outer,))
    assert byte_transpose([(16, 1, 1), (4, 32, 16)]) is None  # a run of 16 bytes
    assert byte_transpose([near, (8, 16, 1)]) is None  # too few consecutive bytes
    assert byte_transpose([(2, 4, 1), (2, 1, 2)]) is None


def test_constants_do_not_wait_for_what_is_stored() -> None:
    """After a copy through memory, weights are loaded before the input that the copy stores."""
    builder = ModelBuilder("behind")
    source = builder.add("TRANSPOSE", [builder.input((1, 1, 8, 20), scale=0.05), builder.constant([0, 1, 3, 2])])
    weights = builder.constant(np.ones((16, 1, 1, 8), np.int8), scale=0.01)
    bias = builder.bias(source, weights, np.zeros(16))
    made = builder.add("CONV_2D", [source, weights, bias], padding="SAME", scale=0.05)
    compiled = compile_model(parse_model(builder.build(made), "behind"), PRESETS["n16"])
    loads = [operation.fields["region"] for operation in compiled.emitter.stream.by_unit[Unit.LOAD]
             if operation.layer == 1]
    assert loads[0] == REGION_IMAGE
    assert REGION_IMAGE not in loads[loads.index(REGION_ARENA):]
