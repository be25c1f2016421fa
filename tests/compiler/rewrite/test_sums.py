"""ADD_N and CUMSUM: for int32 as LiteRT's, for float32 between int8 as additions, or integers proved equal to them.

Sums and extremes of int64 by halves.
"""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle


def check(litert: Oracle, data: bytes, inputs: list[np.ndarray]) -> None:
    model = parse_model(data, "sums")
    expected = litert.run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("axis", "exclusive", "reverse"), [
    (1, False, False), (-1, True, False), (0, False, True), (1, True, True)])
def test_integers(litert: Oracle, axis: int, exclusive: bool, reverse: bool, dtype: str) -> None:
    """Sums wrap."""
    b = ModelBuilder("ints")
    x = b.input((3, 7, 2), dtype=dtype)
    made = b.add("CUMSUM", [x, b.constant(np.array(axis, np.int32))], shape=(3, 7, 2), dtype=dtype,
                 options={"exclusive": exclusive, "reverse": reverse})
    info = np.iinfo(dtype)
    value = np.random.default_rng(0).integers(info.min, info.max, (3, 7, 2), dtype, endpoint=True)
    check(litert, b.build(made), [value])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_of_one_element(litert: Oracle, dtype: str, exclusive: bool) -> None:
    """The element itself, or nothing."""
    b = ModelBuilder("one")
    made = b.add("CUMSUM", [b.input((4, 1), dtype=dtype), b.constant(np.array(1, np.int32))], exclusive=exclusive)
    info = np.iinfo(dtype)
    check(litert, b.build(made), [np.array([[info.min], [-1], [0], [info.max]], dtype)])


@pytest.mark.parametrize("op", ["SUM", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize(("shape", "axes", "keep_dims"), [
    ((3, 7, 2), [1], False), ((3, 7, 2), [2, 0], True), ((3, 1, 5), [0, 1, -1], False), ((2, 3), [], True),
    ((1,), [0], False), ((64,), [-1], True)])
def test_reductions_of_int64(litert: Oracle, op: str, shape: tuple[int, ...], axes: list[int], keep_dims: bool) -> None:
    """Sums wrap."""
    b, info = ModelBuilder("ints"), np.iinfo(np.int64)
    made = b.add(op, [b.input(shape, dtype="int64"), b.constant(np.array(axes, np.int32))], keep_dims=keep_dims)
    value = np.random.default_rng(0).integers(info.min, info.max, shape, np.int64, endpoint=True)
    check(litert, b.build(made), [value])


@pytest.mark.parametrize(("op", "inputs", "why"), [
    ("CUMSUM", 2, "CUMSUM is supported for int32 and int64 along a constant axis, and for float32 computed inside "
     "the model"),
    ("ADD_N", 1, "ADD_N is supported for two or more tensors of one shape, of int32, or of float32 between codes")])
def test_what_is_taken(op: str, inputs: int, why: str) -> None:
    b = ModelBuilder("left")
    terms = [b.input((4,), "int32"), b.input((), "int32")][:inputs]
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(b.add(op, terms, shape=(4,))), "left"), load_config("n8"))
    assert str(caught.value) == f"not supported: {op} (operator 0); `tq-hw ops` lists the operators that are; {why}"


def float_sums(terms: int, scale: float, out: float) -> bytes:
    b = ModelBuilder("floats")
    x = b.add("DEQUANTIZE", [b.input((40, terms), scale=scale, zero_point=-13)])
    made = b.add("CUMSUM", [x, b.constant(np.array(1, np.int32))], shape=(40, terms), dtype="float32",
                 options={"exclusive": False, "reverse": False})
    return b.build(b.add("QUANTIZE", [made], scale=out, zero_point=-17))


@pytest.mark.parametrize(("terms", "scale", "out"), [(8, 0.01245905, 0.07812873), (3, 0.5, 0.7), (1, 0.02, 0.019)])
def test_float32_between_int8(litert: Oracle, terms: int, scale: float, out: float) -> None:
    data = float_sums(terms, scale, out)
    operators = [op.op for op in rewrite(parse_model(data, "sums").main, LIBRARY).operators]
    assert operators[0] == "TABLE"
    assert operators[-1] == "SCALE"
    check(litert, data, [np.random.default_rng(1).integers(-128, 128, (40, terms)).astype(np.int8)])


@pytest.mark.parametrize("count", [2, 3, 5])
def test_add_n_of_int32(litert: Oracle, count: int) -> None:
    """Sums wrap."""
    b = ModelBuilder("ints")
    made = b.add("ADD_N", [b.input((50,), dtype="int32") for _ in range(count)])
    rng = np.random.default_rng(count)
    check(litert, b.build(made), [rng.integers(-2**31, 2**31, 50).astype(np.int32) for _ in range(count)])


@pytest.mark.parametrize("count", [2, 3, 5])
def test_add_n_of_float32(litert: Oracle, count: int) -> None:
    b = ModelBuilder("floats")
    terms = [b.add("DEQUANTIZE", [b.input((500,), scale=0.03 + 0.011 * at, zero_point=at)]) for at in range(count)]
    rng = np.random.default_rng(count)
    check(litert, b.build(b.add("QUANTIZE", [b.add("ADD_N", terms)], scale=0.06, zero_point=-7)),
          [rng.integers(-128, 128, 500).astype(np.int8) for _ in range(count)])


def test_add_n_of_different_shapes_is_refused() -> None:
    b = ModelBuilder("floats")
    terms = [b.add("DEQUANTIZE", [b.input((size,), scale=0.03)]) for size in (4, 5)]
    data = b.build(b.add("QUANTIZE", [b.add("ADD_N", terms, shape=(4,))], scale=0.06))
    with pytest.raises(UnsupportedError, match=r"^operator 2 \(ADD_N\): input 0, tensor 1 \('t1'\), is float32 "
                                               r"computed inside the model \(its tensors have different shapes\);"):
        compile_model(parse_model(data, "sums"), load_config("n8"))
