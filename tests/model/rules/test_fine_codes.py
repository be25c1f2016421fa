"""EQUAL of codes that are all equal, with which TensorFlow tests whether a maximum is finite: LiteRT's results."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: The scale that the converter gives to a tensor that is always 0.
LEAST = 7.84313708e-09


def finite(b: ModelBuilder, op: str = "EQUAL", batch: int = 2, is_given: bool = False,
           spread: bool = False) -> tuple[int, ...]:
    """What `tf.reduce_logsumexp` subtracts from its input: the maximum if that is finite, else 0."""
    x = b.input((batch, 5, 7), scale=0.0325, zero_point=-8)
    most = b.add("REDUCE_MAX", [x, b.constant(np.array([2], np.int32))], shape=(batch, 5, 1),
                 options={"keep_dims": True})
    apart = b.add("SUB", [most, most], scale=LEAST, zero_point=3)
    compared = apart
    if spread:
        shape = b.add("SHAPE", [apart], dtype="int32", options={"out_type": "int32"})
        compared = b.add("BROADCAST_TO", [apart, shape], shape=(batch, 5, 1), scale=LEAST, zero_point=3)
    same = b.add(op, [compared, b.constant(np.array(5, np.int8), scale=LEAST / 2, zero_point=0)])
    if spread:
        shape = b.add("SHAPE", [same], dtype="int32", options={"out_type": "int32"})
        same = b.add("BROADCAST_TO", [same, shape], shape=(batch, 5, 1), dtype="bool")
    zero = b.constant(np.array(-8, np.int8), scale=0.0325, zero_point=-8)
    chosen = b.add("SELECT_V2", [same, most, zero], shape=(batch, 5, 1))
    made = b.add("SUB", [x, chosen], scale=0.05, zero_point=100)
    return (made, apart) if is_given else (made,)


@pytest.mark.parametrize("op", ["EQUAL", "NOT_EQUAL"])
def test_equals_the_engine(op: str, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("finite")
    data = b.build(*finite(b, op))
    model = parse_model(data, "finite")
    assert [each.op for each in model.main.operators] == ["REDUCE_MAX", "SELECT_V2", "SUB"]
    inputs = [np.random.default_rng(0).integers(-128, 128, (2, 5, 7)).astype(np.int8)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, inputs).outputs[0], execute(program, inputs).outputs[0]):
        np.testing.assert_array_equal(found, expected, strict=True)


def infinite(scale: float = 0.0047, point: int = -120, *, size: float = 0.0046, zero: int | None = None,
             is_given: bool = False, op: str = "EQUAL", copied: bool = True) -> bytes:
    """What PyTorch's logsumexp takes off its numbers, as ai-edge-quantizer writes it."""
    b = ModelBuilder("infinite")
    x, like = b.input((256, 1), scale=scale, zero_point=point), {"scale": scale, "zero_point": point}
    most = b.add("REDUCE_MAX", [x, b.constant(np.array([1], np.int32))], shape=(256, 1), options={"keep_dims": True})
    magnitude = b.add("ABS", [b.add("DEQUANTIZE", [most])])
    codes = b.add("QUANTIZE", [magnitude], dtype="int8", scale=size, zero_point=-128)
    limit = b.constant(np.array(0, np.int8), scale=np.inf, zero_point=-128)
    same = b.add(op, [codes, limit], shape=(256, 1), dtype="bool")
    nought = b.constant(np.array(point if zero is None else zero, np.int8), **like)
    copy = b.add("QUANTIZE", [most], dtype="int8", **like) if copied else most
    chosen = b.add("SELECT_V2", [same, nought, copy], shape=(256, 1), **like)
    made = b.add("SUB", [x, chosen], scale=0.05, zero_point=100)
    return b.build(made, same) if is_given else b.build(made)


def infinite_float(scale: float, point: int, chosen_scale: float, nought: int = -128) -> bytes:
    """The same where the maximum itself is float32, which both readers quantize."""
    b = ModelBuilder("infinite")
    x, like = b.input((256, 1), scale=scale, zero_point=point), {"scale": chosen_scale, "zero_point": -128}
    most = b.add("REDUCE_MAX", [b.add("DEQUANTIZE", [x]), b.constant(np.array([1], np.int32))], shape=(256, 1),
                 options={"keep_dims": True})
    codes = b.add("QUANTIZE", [b.add("ABS", [most])], dtype="int8", scale=scale / 2, zero_point=-128)
    same = b.add("EQUAL", [codes, b.constant(np.array(0, np.int8), scale=np.inf, zero_point=-128)], shape=(256, 1),
                 dtype="bool")
    copy = b.add("QUANTIZE", [most], dtype="int8", **like)
    chosen = b.add("SELECT_V2", [same, b.constant(np.array(nought, np.int8), **like), copy], shape=(256, 1), **like)
    return b.build(b.add("SUB", [x, chosen], scale=0.05, zero_point=100))


@pytest.mark.parametrize(("scale", "point", "chosen"), [(0.0069, 2, 0.0034), (0.002, -100, 0.01), (0.5, 0, 0.5)])
def test_a_code_of_infinity_for_a_float32_maximum(scale: float, point: int, chosen: float,
                                                  oracles: Callable[[str], Oracle]) -> None:
    data = infinite_float(scale, point, chosen)
    model = parse_model(data, "infinite")
    assert "EQUAL" not in {op.op for op in model.main.operators}
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    found = execute(compile_model(model, load_config("n8")).program, [x]).outputs[0]
    np.testing.assert_array_equal(found, oracles("litert-ref").run(data, [x])[0], strict=True)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(("scale", "point", "size"), [(0.0047, -120, 0.0046), (0.00259, 3, 0.00259), (2.0, 0, 0.5)])
def test_a_code_of_infinity(scale: float, point: int, size: float, copied: bool,
                            oracles: Callable[[str], Oracle]) -> None:
    data = infinite(scale, point, size=size, copied=copied)
    model = parse_model(data, "infinite")
    assert "EQUAL" not in {op.op for op in model.main.operators}
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    expected = oracles("litert-ref").run(data, [x])[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, [x]).outputs[0], execute(program, [x]).outputs[0]):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("data", [
    infinite(0.0013, size=0.0013), infinite(0.004, size=0.009), infinite(zero=5), infinite(is_given=True),
    infinite(op="LESS"), infinite_float(0.0069, 2, 0.0034, -127)],
    ids=["fine", "coarse", "not 0", "given", "another comparison", "float32 and not 0"])
def test_a_code_of_infinity_that_matters(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"scale is inf, expected a finite normal float32 above 0$"):
        parse_model(data, "infinite")


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_an_open_batch(batch: int, spread: bool, oracles: Callable[[str], Oracle]) -> None:
    """The constant has the requested size; with `spread`, as Keras' attention over two axes is exported."""
    b = ModelBuilder("finite")
    model = b.model(*finite(b, batch=1, spread=spread))
    tensors = tuple(tensor if tensor.data is not None else replace(tensor, shape_signature=(-1, *tensor.shape[1:]))
                    for tensor in model.main.tensors)
    data = write_model(replace(model, subgraphs=(replace(model.main, tensors=tensors),)))
    inputs = [np.random.default_rng(0).integers(-128, 128, (batch, 5, 7)).astype(np.int8)]
    model = parse_model(data, "finite", shapes=InputShapes(batch))
    assert not {"EQUAL", "SHAPE"} & {op.op for op in model.main.operators}
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, oracles("litert-ref").run(data, inputs)[0], strict=True)


def given(b: ModelBuilder) -> tuple[int, ...]:
    """The difference is an output of the model."""
    return finite(b, is_given=True)


def coarse(b: ModelBuilder) -> tuple[int, ...]:
    """The codes that EQUAL compares differ."""
    x = b.input((2, 5), scale=6.0, zero_point=-8)
    apart = b.add("SUB", [x, x], scale=2.0**-18, zero_point=3)
    same = b.add("EQUAL", [apart, b.constant(np.array(5, np.int8), scale=LEAST, zero_point=0)])
    return (b.add("SELECT_V2", [same, x, x], shape=(2, 5)),)


@pytest.mark.parametrize("build", [given, coarse])
def test_a_difference_that_matters_has_no_result(build: Callable[[ModelBuilder], tuple[int, ...]]) -> None:
    b = ModelBuilder("finite")
    data = b.build(*build(b))
    with pytest.raises(ModelError, match="LiteRT's result is undefined"):
        parse_model(data, "finite")


def copied(b: ModelBuilder, dtype: str, scale: float) -> int:
    """The same as ai-edge-quantizer writes it: a copy in float32 for the shape alone, another in codes to compare."""
    like = {"scale": 0.0325 * (1 if dtype == "int8" else 2**-8), "zero_point": -8 if dtype == "int8" else 0}
    x = b.input((2, 5, 7), dtype, **like)
    most = b.add("REDUCE_MAX", [x, b.constant(np.array([2], np.int32))], shape=(2, 5, 1),
                 options={"keep_dims": True})
    apart = b.add("SUB", [most, most], scale=scale)
    shape = b.add("SHAPE", [b.add("DEQUANTIZE", [apart])], dtype="int32", options={"out_type": "int32"})
    compared = b.add("BROADCAST_TO", [apart, shape], shape=(2, 5, 1), scale=scale)
    other = b.add("QUANTIZE", [apart], dtype=dtype, scale=1.001 * scale)
    same = b.add("EQUAL", [compared, other], shape=(2, 5, 1), dtype="bool")
    zero = b.constant(np.array(like["zero_point"], dtype), **like)
    chosen = b.add("SELECT_V2", [same, most, zero], shape=(2, 5, 1))
    return b.add("SUB", [x, chosen], dtype=dtype, scale=like["scale"])


@pytest.mark.parametrize(("dtype", "scale"), [("int8", 3.92157e-12), ("int8", 2.0**-18.1), ("int16", 3.05185e-14),
                                              ("int16", 2.0**-26.1)])
def test_copies_in_float32_and_codes_of_16_bits(dtype: str, scale: float, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("finite")
    data = b.build(copied(b, dtype, scale))
    model = parse_model(data, "finite")
    assert [each.op for each in model.main.operators] == ["REDUCE_MAX", "SELECT_V2", "SUB"]
    limits = np.iinfo(dtype)
    inputs = [np.random.default_rng(0).integers(limits.min, limits.max + 1, (2, 5, 7)).astype(dtype)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, inputs).outputs[0], execute(program, inputs).outputs[0]):
        np.testing.assert_array_equal(found, expected, strict=True)
