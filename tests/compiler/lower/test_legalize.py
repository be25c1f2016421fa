"""Inputs of the model that nothing reads, and float32 inputs that are not quantized."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle


def test_float_inputs_that_nothing_reads(oracles: Callable[[str], Oracle]) -> None:
    """Before and after one that is read, and those read only by unused operators; positions and types do not change."""
    b = ModelBuilder("mask")
    mask = b.input((2, 7), "float32", name="mask")
    real = b.input((3, 5), "float32", name="x")
    b.input((), "float32", name="temperature")
    b.add("RELU", [mask])
    x = b.add("QUANTIZE", [real], scale=0.02, zero_point=4)
    data = b.build(b.add("DEQUANTIZE", [b.add("LOGISTIC", [x])]))
    program = compile_model(parse_model(data, "mask"), PRESETS["n8"]).program
    assert [(each.name, each.shape, each.model_dtype) for each in program.inputs] == [
        ("mask", (2, 7), "float32"), ("x", (3, 5), "float32"), ("temperature", (), "float32")]
    draw = np.random.default_rng(3).standard_normal
    inputs = [draw((2, 7), np.float32), draw((3, 5), np.float32), np.float32(0.5)]
    found = execute(program, inputs).outputs[0]
    np.testing.assert_array_equal(found, oracles("litert-ref").run(data, inputs)[0], strict=True)


def test_a_float_input_that_the_caller_gets_back() -> None:
    b = ModelBuilder("floats")
    data = b.build(b.input((3, 5), "float32", name="x"))
    with pytest.raises(UnsupportedError) as error:
        compile_model(parse_model(data, "floats"), PRESETS["n8"])
    assert str(error.value) == "model input 'x' (tensor 0) is float32 and must go through QUANTIZE first"
