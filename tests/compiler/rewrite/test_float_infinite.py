"""Minus infinity, the logarithm of 0, as a code: both engines convert it to the least int32, and a sum wraps."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

EVERY = np.arange(-128, 128, dtype=np.int8).reshape(1, 8, 32)


def hold(data: bytes, oracles: Callable[[str], Oracle], engines: tuple[str, ...] = ("litert-ref", "tflm")) -> None:
    model = parse_model(data, "infinite")
    ours = execute(compile_model(model, load_config("n8")).program, [EVERY]).outputs[0]
    np.testing.assert_array_equal(run(model, [EVERY]).outputs[0], ours, strict=True)
    for engine in engines:
        np.testing.assert_array_equal(ours, oracles(engine).run(data, [EVERY])[0], err_msg=engine)


def logarithm(b: ModelBuilder) -> int:
    """As ai-edge-quantizer leaves LogSoftmax: the least code means 0, and a LOG between int8 stays in float32."""
    return b.add("LOG", [b.add("DEQUANTIZE", [b.input(EVERY.shape, scale=0.0341, zero_point=-128)])])


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 127), ("int8", 0), ("int8", -1), ("int8", -128),
                                                   ("int16", 0)])
def test_the_code_of_an_element(dtype: str, zero_point: int, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("infinite")
    hold(b.build(b.add("QUANTIZE", [logarithm(b)], dtype=dtype, scale=0.02, zero_point=zero_point)), oracles)


@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("zero_point", [3, -3])
@pytest.mark.parametrize("moved", [False, True])
def test_extremes_are_of_numbers(op: str, zero_point: int, moved: bool, oracles: Callable[[str], Oracle]) -> None:
    """The largest code of a row is not that of its largest number if minus infinity has the last code."""
    b = ModelBuilder("extremes")
    x, shape = logarithm(b), (1, 8)
    if moved:
        x, shape = b.add("RESHAPE", [x, b.constant([8, 32])], shape=(8, 32)), (8,)
    made = b.add(op, [x, b.constant(np.array([len(shape)], np.int32))], shape=shape, options={"keep_dims": False})
    data = b.build(b.add("QUANTIZE", [made], dtype="int8", scale=0.02, zero_point=zero_point))
    if zero_point >= 0:
        hold(data, oracles, ("litert-ref",))
        return
    with pytest.raises(UnsupportedError, match="may be inf, more than float32 operators support"):
        compile_model(parse_model(data, "extremes"), load_config("n8"))


def test_a_constant(oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("constant")
    x = b.input(EVERY.shape, scale=0.02, zero_point=5)
    code = b.add("QUANTIZE", [b.constant(np.array([[[-np.inf]]], np.float32))], dtype="int8", scale=0.02, zero_point=5)
    hold(b.build(b.add("MAXIMUM", [x, code], scale=0.02, zero_point=5)), oracles, ("litert-ref",))


def test_finite_numbers_below_int32_are_refused() -> None:
    b = ModelBuilder("far")
    model = b.model(b.add("QUANTIZE", [b.input((2,), "float32")], scale=1.0))
    with pytest.raises(InputError, match="must be finite and below"):
        run(model, [np.array([0.0, -3e9], np.float32)])
