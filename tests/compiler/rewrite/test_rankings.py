"""ARG_MAX, ARG_MIN and TOPK_V2 of float32 between codes become those of bytes that equal LiteRT's, also for ties."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_comparisons import floats, hold
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

SHAPE = (1, 6, 5, 7)
Build = Callable[[ModelBuilder], int]


def image(b: ModelBuilder, dtype: str = "int8", channels: int = 7, point: int = 3) -> int:
    return floats(b, (*SHAPE[:3], channels), dtype, 0.05, point)


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def falling(b: ModelBuilder) -> int:
    return b.add("NEG", [image(b)])


def with_ties(b: ModelBuilder) -> int:
    return b.add("SQUARE", [image(b)])


def transposed(b: ModelBuilder) -> int:
    return b.add("TRANSPOSE", [b.add("TANH", [image(b)]), number(b, [0, 3, 1, 2])], shape=(1, 7, 6, 5))


def with_zeros(b: ModelBuilder) -> int:
    made = b.add("MINIMUM", [image(b), b.constant(np.array(-0.4, np.float32))], shape=SHAPE)
    return b.add("PAD", [made, number(b, [[0, 0], [1, 2], [0, 1], [0, 0]])], shape=(1, 9, 6, 7))


def joined(b: ModelBuilder) -> int:
    parts = [b.add("FLOOR", [image(b)]), b.add("FLOOR", [image(b, "int8", 3, -7)]),
             b.constant(np.full((1, 6, 5, 1), 2.5, np.float32))]
    return b.add("CONCATENATION", parts, shape=(1, 6, 5, 11), options={"axis": 3})


def read_twice(b: ModelBuilder) -> int:
    """A moved tensor is read by a move and by another move of that one: producers must come first."""
    parts = b.add_many("SPLIT", [number(b, 3), b.add("COS", [image(b, "int8", 8)])], 2)
    turned = b.add("REVERSE_V2", [parts[1], number(b, [1])], shape=(1, 6, 5, 4))
    return b.add("CONCATENATION", [parts[1], turned, parts[0]], shape=(1, 6, 5, 12), options={"axis": 3})


def chosen(b: ModelBuilder) -> int:
    x, y = b.add("FLOOR", [image(b)]), b.add("FLOOR", [image(b, "int8", 7, 9)])
    return b.add("SELECT_V2", [b.input(SHAPE, "bool"), x, y])


def of_uint8(b: ModelBuilder) -> int:
    return b.add("ABS", [image(b, "uint8", point=100)])


def of_int16(b: ModelBuilder) -> int:
    return b.add("SIGN", [image(b, "int16", point=0)])


@pytest.mark.parametrize(("build", "left"), [
    (image, []), (falling, []), (with_ties, ["TABLE"]), (transposed, ["TABLE", "TRANSPOSE"]),
    (with_zeros, ["TABLE", "PAD"]), (joined, ["TABLE"] * 2 + ["CONCATENATION"]),
    (read_twice, ["TABLE", "SPLIT", "REVERSE_V2", "CONCATENATION"]), (chosen, ["TABLE"] * 2 + ["SELECT_V2"]),
    (of_uint8, ["TABLE"]), (of_int16, ["TABLE"])], ids=lambda each: getattr(each, "__name__", ""))
def test_rankings_equal_litert(build: Build, left: list[str], litert: Oracle) -> None:
    """Both extremes, over the last and another axis, with indices of both types."""
    for op, axis, dtype in (("ARG_MAX", -1, "int64"), ("ARG_MIN", 1, "int32")):
        b = ModelBuilder(op)
        data = b.build(b.add(op, [build(b), number(b, axis)], options={"output_type": dtype}))
        rng = np.random.default_rng(0)
        inputs = [rng.integers(0, 2, tensor.shape).astype(bool) if tensor.dtype == "bool" else
                  rng.integers(np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape,
                               endpoint=True).astype(tensor.dtype)
                  for tensor in (b.tensors[index] for index in b.inputs)]
        *before, last = hold(data, inputs, litert)
        assert before == left
        assert last == ({"ARG_MAX": "ARG_MIN", "ARG_MIN": "ARG_MAX"}[op] if build is falling else op)


@pytest.mark.parametrize(("build", "left"), [
    (falling, ["TABLE"]), (with_ties, ["TABLE"]), (joined, ["TABLE", "TABLE", "CONCATENATION"]),
    (of_uint8, ["TABLE"]), (of_int16, ["TABLE"])],
    ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("count", [1, 4])
def test_places_equal_litert(build: Build, left: list[str], count: int, litert: Oracle) -> None:
    """As `tf.argsort` finds them: the largest numbers themselves are not read."""
    b = ModelBuilder("places")
    data = b.build(b.add_many("TOPK_V2", [build(b), number(b, count)], 2)[1])
    rng = np.random.default_rng(0)
    inputs = [rng.integers(*((0, 256) if tensor.dtype == "uint8" else (-128, 128)), tensor.shape).astype(tensor.dtype)
              for tensor in (b.tensors[index] for index in b.inputs)]
    assert hold(data, inputs, litert) == [*left, "TOPK_V2"]


def distance(b: ModelBuilder) -> int:
    return b.add("ABS", [b.add("SUB", [image(b), b.constant(np.array(0.3, np.float32))])])


def turned(b: ModelBuilder) -> int:
    """Numbers that are moved before the largest ones are taken, with zeros of the moves."""
    padded = b.add("PAD", [distance(b), number(b, [[0, 0], [0, 1], [0, 0], [1, 0]])], shape=(1, 7, 5, 8))
    return b.add("TRANSPOSE", [padded, number(b, [0, 3, 1, 2])], shape=(1, 8, 7, 5))


@pytest.mark.parametrize("build", [falling, with_ties, distance, turned])
@pytest.mark.parametrize("end", ["int8", "float32", "itself", "with another"])
def test_largest_numbers_equal_litert(build: Build, end: str, litert: Oracle) -> None:
    """The places of nearest neighbours, and their distances."""
    b = ModelBuilder("nearest")
    largest, places = b.add_many("TOPK_V2", [build(b), number(b, 3)], 2)
    made = largest if end == "itself" else b.add("NEG", [largest])
    if end == "int8":
        made = b.add("QUANTIZE", [made], dtype="int8", scale=0.06, zero_point=-5)
    if end == "with another":
        other = b.add("EXP", [b.add("DEQUANTIZE", [b.input(b.tensors[largest].shape, scale=0.02)])])
        made = b.add("QUANTIZE", [b.add("MUL", [made, other])], dtype="int8", scale=0.06, zero_point=-5)
    inputs = [np.random.default_rng(0).integers(-128, 128, b.tensors[index].shape).astype(np.int8)
              for index in b.inputs]
    assert "TOPK_V2" in hold(b.build(made, places), inputs, litert)


def of_two_functions(b: ModelBuilder) -> int:
    """511 different numbers."""
    return b.add("CONCATENATION", [image(b), b.add("SIN", [image(b)])], shape=(1, 6, 5, 14), options={"axis": 3})


def with_zeros_between(b: ModelBuilder) -> int:
    return b.add("PAD", [of_two_functions(b), number(b, [[0, 0], [1, 2], [0, 1], [0, 0]])], shape=(1, 9, 6, 14))


def wide(b: ModelBuilder) -> int:
    return image(b, "int16", point=0)


def wide_moved(b: ModelBuilder) -> int:
    return b.add("TRANSPOSE", [wide(b), number(b, [0, 3, 1, 2])], shape=(1, 7, 6, 5))


def wide_with_ties(b: ModelBuilder) -> int:
    return b.add("ABS", [wide(b)])


@pytest.mark.parametrize(("build", "left"), [
    (of_two_functions, ["TABLE"] * 2 + ["CONCATENATION"]),
    (with_zeros_between, ["TABLE"] * 2 + ["CONCATENATION", "PAD"]),
    (wide, ["CAST"]), (wide_moved, ["CAST", "TRANSPOSE"]), (wide_with_ties, ["TABLE"])],
    ids=lambda each: getattr(each, "__name__", ""))
def test_more_numbers_than_a_byte_has(build: Build, left: list[str], litert: Oracle) -> None:
    """Indices are int32."""
    b = ModelBuilder("many")
    data = b.build(b.add("ARG_MIN", [build(b), number(b, -1)]))
    rng = np.random.default_rng(1)
    inputs = [rng.integers(np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape,
                           endpoint=True).astype(tensor.dtype) for tensor in (b.tensors[index] for index in b.inputs)]
    assert sorted(hold(data, inputs, litert)) == sorted([*left, "ARG_MIN"])


def test_many_numbers_of_a_larger_image(litert: Oracle) -> None:
    b, rng = ModelBuilder("many"), np.random.default_rng(2)
    larger = b.add("RESIZE_NEAREST_NEIGHBOR", [of_two_functions(b), number(b, [7, 8])], options={
        "align_corners": False, "half_pixel_centers": False})
    data = b.build(b.add("ARG_MAX", [larger, number(b, 3)]))
    inputs = [rng.integers(-128, 128, b.tensors[index].shape).astype(np.int8) for index in b.inputs]
    found = execute(compile_model(parse_model(data, "many"), load_config("n16")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


def test_what_is_no_number_is_refused() -> None:
    b = ModelBuilder("roots")
    data = b.build(b.add("ARG_MAX", [b.add("SQRT", [image(b)]), number(b, 3)]))
    with pytest.raises(UnsupportedError, match=r"\(tensor 2 \('t2'\) is NaN for some codes\)"):
        compile_model(parse_model(data, "roots"), load_config("n16"))
    with pytest.raises(UnsupportedError, match="operator 2 .*: a float input must not be NaN"):
        run(parse_model(data, "roots"), [np.full(SHAPE, -128, np.int8)])
