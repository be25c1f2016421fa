"""Integers that become float32 inside a model, and float32 that ONE_HOT gives."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import codes, floats, int16, number
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

SHAPE = (4, 6)


def cast(b: ModelBuilder, shape: tuple[int, ...] = SHAPE, dtype: str = "int32") -> int:
    return b.add("CAST", [b.input(shape, dtype)], dtype="float32")


def hold(litert: Oracle, data: bytes, low: int, high: int) -> None:
    model = parse_model(data, "cast")
    program = compile_model(model, load_config("n8")).program
    for seed in range(3):
        rng, inputs = np.random.default_rng(seed), []
        for tensor in (model.main.tensors[index] for index in model.main.inputs):
            ends = (low, high) if tensor.dtype in ("int32", "int64") else (-(1 << 15), (1 << 15) - 1)
            inputs.append(rng.integers(*ends, tensor.shape, endpoint=True).astype(tensor.dtype))
        expected = litert.run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected, strict=True)


@pytest.mark.parametrize(("dtype", "scale", "point"), [("int8", 0.5, 3), ("int16", 0.01, 0), ("int16", 2.0**-15, 0)])
def test_codes_of_integers(litert: Oracle, dtype: str, scale: float, point: int) -> None:
    b = ModelBuilder("cast")
    hold(litert, b.build(codes(b, cast(b), scale, point, dtype)), -300, 300)


def test_a_mask(litert: Oracle) -> None:
    """As Keras and PyTorch mask attention: 0 where a number of int32 is 1, else far below all scores."""
    b = ModelBuilder("mask")
    far = b.add("MUL", [b.add("SUB", [floats(b, 1), cast(b, (1, 6))], shape=(1, 6)), floats(b, -1e9)], shape=(1, 6))
    scores = b.add("ADD", [int16(b, SHAPE, 1e-3), far], shape=SHAPE)
    hold(litert, b.build(codes(b, b.add("SOFTMAX", [scores]), 2.0**-15, 0, "int16")), 0, 1)


def every() -> np.ndarray:
    """Small numbers, ties and their neighbours of any size, both ends."""
    rng, around = np.random.default_rng(1), np.arange(-3, 4)
    powers = [sign * ((1 << power) + around) for power in range(32) for sign in (1, -1)]
    ties = (rng.integers(-(1 << 24), 1 << 24, (300, 1)) * 2 + 1 << rng.integers(0, 7, (300, 1))) + around
    found = np.concatenate([np.arange(-99, 100), *powers, ties.reshape(-1), rng.integers(-(1 << 31), 1 << 31, 700)])
    return np.clip(found, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def sums(count: int) -> bytes:
    b = ModelBuilder("sum")
    return b.build(b.add("ADD", [cast(b, (count,)), floats(b, 0)], shape=(count,)))


def test_every_integer_is_rounded(litert: Oracle) -> None:
    x = every()
    data = sums(len(x))
    model = parse_model(data, "sum")
    expected = litert.run(data, [x])[0]
    np.testing.assert_array_equal(run(model, [x]).outputs[0], expected, strict=True)
    np.testing.assert_array_equal(execute(compile_model(model, load_config("n8")).program, [x]).outputs[0], expected)


def test_in_rtl() -> None:
    x = every()[::97]
    program = compile_model(parse_model(sums(len(x)), "sum"), load_config("tiny")).program
    np.testing.assert_array_equal(simulate(program, [x]).outputs[0], execute(program, [x]).outputs[0])


def test_what_has_no_code_in_the_engines() -> None:
    b = ModelBuilder("far")
    model = parse_model(b.build(codes(b, cast(b), 0.01, 0, "int16")), "far")
    x = np.full(SHAPE, 1 << 30, np.int32)
    with pytest.raises(InputError, match="must be finite and below"):
        run(model, [x])
    made = execute(compile_model(model, load_config("n8")).program, [x]).outputs[0]
    assert (made == (1 << 15) - 1).all()


def test_int64_of_any_size_is_refused() -> None:
    b = ModelBuilder("long")
    made = b.add("ADD", [cast(b, dtype="int64"), int16(b, SHAPE, 1e-3)])
    with pytest.raises(UnsupportedError, match=r"is int64 and may exceed int32; a CAST to float32 must be of int32, "
                                               r"bool, or int64 that holds places or counts\)"):
        compile_model(parse_model(b.build(codes(b, made, 0.1)), "long"), load_config("n8"))


def place(b: ModelBuilder, x: int) -> int:
    """`tf.cast(tf.argmax(x, -1), tf.float32)`."""
    return b.add("ARG_MAX", [x, number(b, -1)], shape=SHAPE[:1], dtype="int64", options={"output_type": "int64"})


def count(b: ModelBuilder, x: int) -> int:
    """`tf.math.count_nonzero`."""
    same = b.add("GREATER", [x, b.constant(np.array(9, np.int8), scale=0.05, zero_point=3)])
    return b.add("SUM", [b.add("CAST", [same], dtype="int64"), number(b, [-1])], shape=SHAPE[:1], dtype="int64")


def moved(b: ModelBuilder, x: int) -> int:
    """Places of both kinds, one after the other, and sums of them."""
    last = b.add("ARG_MIN", [x, number(b, 1)], shape=SHAPE[:1], dtype="int32", options={"output_type": "int32"})
    both = b.add("CONCATENATION", [place(b, x), b.add("CAST", [last], dtype="int64")], shape=(8,), dtype="int64")
    return b.add("ADD", [both, b.constant(np.arange(8))], shape=(8,), dtype="int64")


@pytest.mark.parametrize("build", [place, count, moved])
@pytest.mark.parametrize("end", ["int8", "float32"])
def test_places_and_counts_of_int64(litert: Oracle, build: Callable[[ModelBuilder, int], int], end: str) -> None:
    b = ModelBuilder("places")
    made = b.add("CAST", [build(b, b.input(SHAPE, scale=0.05, zero_point=3))], dtype="float32")
    made = b.add("MUL", [made, floats(b, 0.3)])
    data = b.build(codes(b, made, 0.02, -128) if end == "int8" else made)
    model = parse_model(data, "places")
    program = compile_model(model, load_config("n8")).program
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-128, 128, SHAPE).astype(np.int8)
        expected = litert.run(data, [x])[0]
        np.testing.assert_array_equal(run(model, [x]).outputs[0], expected, strict=True)
        np.testing.assert_array_equal(execute(program, [x]).outputs[0], expected, strict=True)


def hot(b: ModelBuilder, on: float, off: float, axis: int = -1, dtype: str = "int32") -> int:
    shape = (5, *SHAPE) if axis == 0 else (*SHAPE, 5)
    return b.add("ONE_HOT", [b.input(SHAPE, dtype), number(b, 5), b.constant(np.array(on, np.float32)),
                             b.constant(np.array(off, np.float32))], shape=shape, dtype="float32",
                 options={"axis": axis})


@pytest.mark.parametrize(("on", "off", "axis", "dtype"), [
    (1, 0, -1, "int32"), (1, 0, 0, "int64"), (0.9, 0.025, -1, "int32"), (-2, 3, -1, "int32")])
@pytest.mark.parametrize("end", ["int8", "int16", "float32", "sum"])
def test_one_hot(litert: Oracle, on: float, off: float, axis: int, dtype: str, end: str) -> None:
    """With numbers that are out of range, as codes, as numbers of the model, and added to others."""
    b = ModelBuilder("hot")
    made = hot(b, on, off, axis, dtype)
    if end == "sum":
        made = b.add("ADD", [made, int16(b, (5, *SHAPE) if axis == 0 else (*SHAPE, 5), 1e-3)])
    elif end != "float32":
        made = codes(b, made, 0.03, 0, end)
    hold(litert, b.build(made), -1, 6)
