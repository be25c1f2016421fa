"""Float32 between tensors of every type: the engine's results, or a message with the reason; never a traceback."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

SHAPE = (2, 3, 4)
Step = Callable[[ModelBuilder, int], int]


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def real(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.float32))


def source(b: ModelBuilder, dtype: str) -> int:
    if dtype in ("bool", "int32"):
        return b.add("CAST", [b.input(SHAPE, dtype)], in_data_type=dtype, out_data_type="float32")
    scale, point = (0.003, 0) if dtype == "int16" else (0.05, 3)
    return b.add("DEQUANTIZE", [b.input(SHAPE, dtype, scale=scale, zero_point=point)])


STEPS: dict[str, Step] = {
    "as it is": lambda b, x: x, "squares": lambda b, x: b.add("MUL", [x, x]),
    "exponentials": lambda b, x: b.add("EXP", [b.add("MUL", [x, real(b, 4)])]),
    "whole quotients": lambda b, x: b.add("FLOOR_DIV", [x, real(b, 0.3)]),
    "means": lambda b, x: b.add("MEAN", [x, number(b, [1])], options={"keep_dims": True}),
    "differences": lambda b, x: b.add("SUB", [x, b.add("MEAN", [x, number(b, [2])], options={"keep_dims": True})]),
    "softmax": lambda b, x: b.add("SOFTMAX", [x], beta=1.0),
    "largest": lambda b, x: b.add("REDUCE_MAX", [b.add("SQUARE", [x]), number(b, [1])], options={"keep_dims": True}),
    "padded": lambda b, x: b.add("PAD", [x, number(b, [[0, 0], [1, 0], [0, 2]])]),
    "channels": lambda b, x: b.add("ADD", [b.add("MUL", [x, real(b, [1, -2, 0.5, 0])]), real(b, [0.1, 0.2, 0.3, 0.4])]),
    "chosen": lambda b, x: b.add("SELECT_V2", [b.add("GREATER", [x, real(b, 0.2)]), x, real(b, 0)]),
    "joined": lambda b, x: b.add("PACK", [x, b.add("NEG", [x])], options={"axis": 1}),
    "larger": lambda b, x: b.add("ADD", [x, real(b, np.zeros((5, 1, 1, 1)))]),
    "resized": lambda b, x: b.add(
        "RESIZE_BILINEAR", [b.add("RESHAPE", [x, number(b, [1, 2, 3, 4])]), number(b, [4, 6])])}
ENDS: dict[str, Step] = {
    "int8": lambda b, x: b.add("QUANTIZE", [x], scale=0.07, zero_point=-40),
    "int16": lambda b, x: b.add("QUANTIZE", [x], dtype="int16", scale=0.01),
    "uint8": lambda b, x: b.add("QUANTIZE", [x], dtype="uint8", scale=0.07, zero_point=40),
    "place": lambda b, x: b.add("ARG_MAX", [x, number(b, 1)], output_type="int32"),
    "truth": lambda b, x: b.add("LESS_EQUAL", [x, real(b, 0.3)]),
    "int32": lambda b, x: b.add("CAST", [x], in_data_type="float32", out_data_type="int32")}


def values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    if dtype == "bool":
        return rng.random(SHAPE) < 0.5
    low, high = (-300, 300) if dtype == "int32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return rng.integers(low, high, SHAPE, endpoint=True).astype(dtype)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool", "int32"])
def test_types(litert: Oracle, dtype: str, step: str) -> None:
    refusals = list[str]()
    for end, ends in ENDS.items():
        b = ModelBuilder(f"{step} to {end}")
        data = b.build(ends(b, STEPS[step](b, source(b, dtype))))
        try:
            program = compile_model(parse_model(data, b.name), load_config("n16")).program
        except UnsupportedError as error:
            refusals.append(str(error))
            continue
        inputs = [values(dtype)]
        found, expected = execute(program, inputs).outputs[0], litert.run(data, inputs)[0]
        np.testing.assert_array_equal(found, expected, err_msg=b.name, strict=True)
    silent = [text for text in refusals if "is float32 computed inside the model (" not in text]
    assert not silent or dtype == "int32"
