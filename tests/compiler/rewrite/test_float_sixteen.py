"""Float32 between int16: moves, and functions of one tensor, become integers that equal LiteRT's."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle


def shuffled(b: ModelBuilder) -> int:
    """A pixel shuffle, for which LiteRT has no int16 kernel."""
    x = b.add("DEQUANTIZE", [b.input((1, 3, 4, 8), "int16", scale=3e-4)])
    x = b.add("DEPTH_TO_SPACE", [x], shape=(1, 6, 8, 2), options={"block_size": 2})
    return b.add("QUANTIZE", [x], dtype="int16", scale=3e-4, zero_point=0)


def of_one_tensor(b: ModelBuilder) -> int:
    """All codes; the result is 0 except for those of the highest pages."""
    x = b.add("DEQUANTIZE", [b.input((1 << 16,), "int16", scale=3e-4)])
    x = b.add("SUB", [x, b.constant(np.array([9.1], np.float32))], options={"fused_activation_function": "RELU"})
    return b.add("QUANTIZE", [b.add("SIN", [x])], dtype="int16", scale=3.1e-5, zero_point=0)


def of_what_is_not_below(b: ModelBuilder) -> int:
    """Roots of the codes from 40 on only, since the engines reject roots of negative numbers."""
    x = b.input((1 << 9,), "int16", scale=3e-4)
    least = b.constant(np.array([40], np.int16), scale=3e-4)
    x = b.add("DEQUANTIZE", [b.add("MAXIMUM", [x, least], shape=(1 << 9,), scale=3e-4)])
    return b.add("QUANTIZE", [b.add("SQRT", [x])], dtype="int16", scale=1e-4, zero_point=0)


def of_what_is_positive(b: ModelBuilder) -> int:
    """Logarithms of the result of RELU plus a constant."""
    x = b.input((1 << 9,), "int16", scale=3e-4)
    ones = b.constant(np.full(1 << 9, 1000, np.int16), scale=3e-4)
    x = b.add("SUB", [x, ones], scale=3e-4, options={"fused_activation_function": "RELU"})
    x = b.add("DEQUANTIZE", [b.add("ADD", [x, ones], scale=4e-4)])
    return b.add("QUANTIZE", [b.add("LOG", [x])], dtype="int16", scale=1e-4, zero_point=0)


@pytest.mark.parametrize(("build", "left"), [(shuffled, ["DEPTH_TO_SPACE", "RESHAPE"]), (of_one_tensor, ["TABLE"]),
                                               (of_what_is_not_below, ["MAXIMUM", "TABLE"]),
                                               (of_what_is_positive, ["SUB", "ADD", "TABLE"])])
def test_equals_litert(build: Callable[[ModelBuilder], int], left: list[str], litert: Oracle) -> None:
    b = ModelBuilder("floats")
    data = b.build(build(b))
    model = parse_model(data, "floats")
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == left
    shape = model.main.tensors[model.main.inputs[0]].shape
    count = int(np.prod(shape))
    inputs = [np.arange(-1 << 15, 1 << 15).astype(np.int16)[(1 << 16) // count // 2::(1 << 16) // count][-count:]
              .reshape(shape)]
    expected = litert.run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    found = execute(compile_model(model, load_config("n16")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


def test_largest(litert: Oracle) -> None:
    """As the converter leaves TOPK_V2 in 16x8 models; of equal numbers the first ones win."""
    b = ModelBuilder("largest")
    x = b.add("DEQUANTIZE", [b.input((3, 40), "int16", scale=3e-4)])
    data = b.build(*b.add_many("TOPK_V2", [x, b.constant(np.array(5, np.int32))], 2))
    model = parse_model(data, "largest")
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == ["TOPK_V2", "DEQUANTIZE"]
    inputs = [np.random.default_rng(0).integers(-9, 9, (3, 40)).astype(np.int16) * np.int16(3000)]
    found = execute(compile_model(model, load_config("n16")).program, inputs).outputs
    for ours, golden, theirs in zip(found, run(model, inputs).outputs, litert.run(data, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
        np.testing.assert_array_equal(golden, theirs, strict=True)
