"""Operators on integers with known results become constants, also in models without open dimensions."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run


def add(b: ModelBuilder, op: str, shape: tuple[int, ...], dtype: str, *inputs: object) -> int:
    """Add an operator on int32 constants, or on tensors given by their index."""
    made = b.tensor(shape, dtype)
    b.operator(op, [each if isinstance(each, int) else b.constant(np.array(each)) for each in inputs], [made])
    return made


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def gathered(b: ModelBuilder, x: int, indices: int) -> int:
    return b.add("GATHER", [x, indices], axis=0)


def ranged(b: ModelBuilder, x: int) -> int:
    return gathered(b, x, add(b, "RANGE", (3,), "int32", np.int32(0), np.int32(6), np.int32(2)))


def divided(b: ModelBuilder, x: int) -> int:
    quotient = add(b, "FLOOR_DIV", (2,), "int32", i32(11, -3), i32(2, -2))
    return gathered(b, x, add(b, "FLOOR_MOD", (2,), "int32", quotient, i32(4, 4)))


def raised(b: ModelBuilder, x: int) -> int:
    return gathered(b, x, add(b, "POW", (2,), "int32", i32(2, 1), i32(2, 5)))


def found(b: ModelBuilder, x: int) -> int:
    places = add(b, "WHERE", (2, 1), "int64", np.array([False, True, False, True, False, False]))
    return b.add("GATHER_ND", [x, places], scale=0.1, zero_point=0)


def spread(b: ModelBuilder, x: int) -> int:
    sizes = add(b, "BROADCAST_ARGS", (3,), "int32", i32(2, 1, 1), i32(1, 6, 4))
    return b.add("BROADCAST_TO", [x, sizes], shape=(2, 6, 4))


def compared(b: ModelBuilder, x: int) -> int:
    """Negative int64 indices, as `take_along_axis` makes them."""
    filled = add(b, "FILL", (2,), "int64", i32(2), np.int64(-2))
    less = add(b, "LESS", (2,), "bool", filled, np.int64(0))
    moved = add(b, "ADD", (2,), "int64", filled, np.int64(6))
    return gathered(b, x, add(b, "SELECT_V2", (2,), "int64", less, moved, filled))


@pytest.mark.parametrize(("build", "picked"), [
    (ranged, [0, 2, 4]), (divided, [1, 1]), (raised, [4, 1]), (found, [1, 3]), (compared, [4, 4]),
    (spread, [[0, 1, 2, 3, 4, 5]] * 2)])
def test_known_results(build: Callable[[ModelBuilder, int], int], picked: list[int]) -> None:
    b = ModelBuilder("known")
    x = b.input((6, 4), scale=0.1)
    model = parse_model(b.build(build(b, x)), "known")
    assert len(model.main.operators) == 1
    codes = np.arange(24, dtype=np.int8).reshape(6, 4)
    np.testing.assert_array_equal(run(model, [codes]).outputs[0], codes[picked])
    compile_model(model, load_config("n8"))


def test_heads_side_by_side() -> None:
    """As Keras' attention over an open number of tokens computes its shape."""
    b = ModelBuilder("heads")
    x = b.input((6, 4), scale=0.1)
    shape = b.add("SHAPE", [x], out_type="int32")
    sizes = add(b, "UNSORTED_SEGMENT_PROD", (2,), "int32", shape, i32(1, 1), np.int32(2))
    model = parse_model(b.build(b.add("RESHAPE", [x, sizes], shape=(1, 24))), "heads")
    assert [op.op for op in model.main.operators] == ["RESHAPE"]
    compile_model(model, load_config("n8"))


def test_results_that_are_not_known() -> None:
    b = ModelBuilder("unknown")
    x = b.input((4,), dtype="int32")
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(add(b, "BROADCAST_ARGS", (4,), "int32", x, i32(2, 2, 2, 2))), "unknown"),
                      load_config("n8"))
    assert str(caught.value) == ("not supported: BROADCAST_ARGS (operator 0); `tq-hw ops` lists the operators that are"
                                 "; BROADCAST_ARGS is supported where its results follow from shapes and constants")


def test_a_divisor_of_0() -> None:
    b = ModelBuilder("zero")
    with pytest.raises(ModelError) as caught:
        parse_model(b.build(add(b, "FLOOR_MOD", (1,), "int32", i32(3), i32(0))), "zero.tflite")
    assert str(caught.value) == "zero.tflite: subgraph 0, operator 0 FLOOR_MOD: divides by 0"
