"""Comparisons of float32 between codes become comparisons of integers that equal LiteRT's, choices by them tables."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.rules.signatures import COMPARISONS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

EVERY = np.arange(-128, 128).astype(np.int8)


def floats(b: ModelBuilder, shape: tuple[int, ...], dtype: str, scale: float, point: int = 0) -> int:
    return b.add("DEQUANTIZE", [b.input(shape, dtype, scale=scale, zero_point=point)])


def hold(data: bytes, inputs: list[np.ndarray], litert: Oracle, executed: bool = True) -> list[str]:
    """Compare golden model (before and after the rewrite) and executor with LiteRT; return the remaining operators."""
    model = parse_model(data, "floats")
    expected, rewritten = litert.run(data, inputs), rewrite(model.main, LIBRARY)
    made = [run(model, inputs).outputs, run(Model(model.name, (rewritten,)), inputs).outputs]
    if executed:
        made.append(execute(compile_model(model, load_config("n16")).program, inputs).outputs)
    for found in made:
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
    return [op.op for op in rewritten.operators]


@pytest.mark.parametrize("op", COMPARISONS)
def test_bytes_and_constants(op: str, litert: Oracle) -> None:
    """Every pair of codes of two scales; a function that is not monotonic compared with numbers, including -0."""
    b = ModelBuilder(op)
    x, y = floats(b, (256, 1), "int8", 0.03, 5), floats(b, (1, 256), "int8", 0.06, -7)
    numbers = b.constant(np.array([0.18, -0.0, -1e30, 1.0], np.float32).reshape(4, 1, 1))
    square = b.add("SQUARE", [x])
    outputs = [b.add(op, [x, y], dtype="bool"), b.add(op, [numbers, square], dtype="bool", shape=(4, 256, 1))]
    left = hold(b.build(*outputs), [EVERY[:, None], EVERY[None]], litert, op in ("EQUAL", "GREATER"))
    assert sorted(left) == sorted(["TABLE"] * 3 + [op] * 2)


@pytest.mark.parametrize("op", COMPARISONS)
def test_int16(op: str, litert: Oracle) -> None:
    """With one scale, with two, and for a decreasing function and a number."""
    rng = np.random.default_rng(0)
    b = ModelBuilder(op)
    codes = np.concatenate([[-32768, 32767, 0, 1, -1, 32766], rng.integers(-32768, 32768, 94)]).astype(np.int16)
    near = np.clip(np.round(codes * 0.7) + rng.integers(-1, 2, 100), -32768, 32767).astype(np.int16)
    x, y = floats(b, (100,), "int16", 0.7e-3), floats(b, (100,), "int16", 1e-3)
    falling = b.add("NEG", [y])
    number = b.constant(np.array(codes[7] * np.float32(1e-3), np.float32))
    pairs = [x, x], [x, y], [x, falling]
    hold(b.build(*(b.add(op, pair, dtype="bool") for pair in pairs),
                 b.add(op, [falling, number], dtype="bool", shape=(100,))), [codes, near], litert, op == "LESS")


def test_a_choice_of_one_tensor_is_a_table(litert: Oracle) -> None:
    """As PyTorch writes a leaky ReLU: x where x > 0, else x times a constant."""
    b = ModelBuilder("choice")
    x = floats(b, (256,), "int8", 0.03, 5)
    condition = b.add("GREATER", [x, b.constant(np.array(0, np.float32))], dtype="bool", shape=(256,))
    scaled = b.add("MUL", [x, b.constant(np.array(0.25, np.float32))], shape=(256,))
    chosen = b.add("SELECT_V2", [condition, x, scaled])
    assert hold(b.build(b.add("QUANTIZE", [chosen], scale=0.02)), [EVERY], litert) == ["TABLE"]


def test_a_choice_between_two_tensors_of_int16(litert: Oracle) -> None:
    b = ModelBuilder("choice")
    x, y = (floats(b, (1, 50), "int16", 1e-3) for _ in range(2))
    chosen = b.add("SELECT_V2", [b.add("GREATER", [x, y], dtype="bool"), x, y])
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-32768, 32768, (1, 50)).astype(np.int16) for _ in range(2)]
    left = hold(b.build(b.add("QUANTIZE", [chosen], dtype="int16", scale=1e-3, zero_point=0)), inputs, litert)
    assert "GREATER_EQUAL" in left or "GREATER" in left


@pytest.mark.parametrize(("op", "number", "left"), [
    ("LESS", 5.1, ["TABLE"]), ("EQUAL", 3, ["TABLE"]), ("GREATER", None, ["TABLE", "LESS_EQUAL"])])
def test_int16_that_neither_rises_nor_falls(op: str, number: float | None, left: list[str], litert: Oracle) -> None:
    """Compared with a number the result is a table, while the tensor itself is compared with positions in it."""
    b = ModelBuilder(op)
    x = floats(b, (300,), "int16", 1e-3)
    other = x if number is None else b.constant(np.array(number, np.float32))
    data = b.build(b.add(op, [b.add("ABS", [b.add("FLOOR", [x])]), other], dtype="bool",
                         shape=(300,)))
    assert hold(data, [np.random.default_rng(0).integers(-32768, 32768, 300).astype(np.int16)], litert) == left


def test_bytes_of_one_tensor_are_a_table(litert: Oracle) -> None:
    b = ModelBuilder("one")
    x = floats(b, (256,), "int8", 0.03, 5)
    assert hold(b.build(b.add("LESS", [x, b.add("SIN", [x])], dtype="bool")), [EVERY], litert) == ["TABLE"]




@pytest.mark.parametrize("is_float", [False, True])
def test_a_choice_that_hides_a_number_that_is_none(is_float: bool, litert: Oracle) -> None:
    """`torch.sinc`: sin(x) / x, 1 at 0, in codes or as a float32 output."""
    b = ModelBuilder("sinc")
    x = b.add("MUL", [floats(b, (256,), "int8", 0.05, 9), b.constant(np.array(np.pi, np.float32))], shape=(256,))
    is_zero = b.add("EQUAL", [x, b.constant(np.array(0, np.float32))], dtype="bool", shape=(256,))
    ratio = b.add("DIV", [b.add("SIN", [x]), x])
    made = b.add("SELECT_V2", [is_zero, b.constant(np.array(1, np.float32)), ratio], shape=(256,))
    data = b.build(made if is_float else b.add("QUANTIZE", [made], scale=0.01, zero_point=-20))
    left = hold(data, [EVERY], litert)
    assert is_float or left == ["TABLE"]


def test_a_choice_by_codes(litert: Oracle) -> None:
    """The converter leaves the comparison in int8 and the other operators in float32; logical operators join two."""
    b = ModelBuilder("choice")
    codes = b.input((1, 256), scale=0.03, zero_point=5)
    x = b.add("DEQUANTIZE", [codes])
    low = b.add("LESS", [codes, b.constant(np.array(-40, np.int8), scale=0.05)], dtype="bool", shape=(1, 256))
    high = b.add("GREATER_EQUAL", [codes, b.constant(np.array(17, np.int8), scale=0.11, zero_point=3)], dtype="bool",
                 shape=(1, 256))
    chosen = b.add("SELECT_V2", [b.add("LOGICAL_OR", [low, high]), b.add("SIN", [x]), b.add("FLOOR", [x])])
    left = hold(b.build(b.add("QUANTIZE", [chosen], scale=0.02)), [EVERY[None]], litert)
    assert left == ["TABLE"]


def test_a_choice_by_codes_of_another_shape(litert: Oracle) -> None:
    """A table of one byte has no place for a column that is compared for all rows."""
    b = ModelBuilder("choice")
    column = b.input((8, 1), scale=0.03, zero_point=5)
    x = floats(b, (1, 256), "int8", 0.02)
    high = b.add("GREATER", [column, b.constant(np.array(3, np.int8), scale=0.03)], dtype="bool", shape=(8, 1))
    chosen = b.add("SELECT_V2", [high, b.add("EXP", [x]), b.add("ABS", [x])], shape=(8, 256))
    data = b.build(b.add("QUANTIZE", [chosen], scale=0.06))
    assert "SELECT_V2" in hold(data, [np.linspace(-128, 127, 8).astype(np.int8)[:, None], EVERY[None]], litert)
