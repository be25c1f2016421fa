"""Float32 inputs read by casts, comparisons, BUCKETIZE and monotonic functions: LiteRT's results."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.rules.signatures import COMPARISONS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

INF, NAN = float("inf"), float("nan")
#: Neighbours of whole numbers, numbers of all exponents, and both signs of 0.
NUMBERS = np.array([0, -0.0, 1e-45, -1e-40, 0.5, 0.99999994, 1, -1, 1.0000001, -1.9999999, 2, 127.99999, -128.9, 99.5,
                    8388607.5, 8388608, 16777217, -16777218, 2147483520, -2147483648], np.float32)


def check(litert: Oracle, data: bytes, *inputs: np.ndarray) -> None:
    model, given = parse_model(data, "raw"), list(inputs)
    program = compile_model(model, load_config("n8")).program
    for expected, wanted, found in zip(litert.run(data, given), run(model, given).outputs,
                                       execute(program, given).outputs, strict=True):
        np.testing.assert_array_equal(wanted, expected, strict=True)
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize(("dtype", "most"), [
    ("int32", 2**31), ("int16", 2**15), ("int8", 2**7), ("uint8", 2**7), ("bool", 2**31)])
def test_casts(litert: Oracle, dtype: str, most: int) -> None:
    b = ModelBuilder("cast")
    least = 0 if dtype == "uint8" else -most
    values = np.array([number for number in NUMBERS if least <= number < most])
    x = b.input(values.shape, "float32")
    made = b.tensor(values.shape, dtype)
    b.operator("CAST", [x], [made], {"in_data_type": "float32", "out_data_type": dtype})
    check(litert, b.build(made), values)


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("constant", [0.0, -0.0, 1.0, -1e-45, INF, -INF])
def test_comparisons_with_a_constant(litert: Oracle, op: str, constant: float) -> None:
    """NaN is neither less nor greater than any number; both zeros are equal."""
    values = np.array([*NUMBERS, INF, -INF, NAN, -NAN], np.float32)
    b = ModelBuilder("compared")
    x, number = b.input(values.shape, "float32"), b.constant(np.array(constant, np.float32))
    made = [b.add(op, sides, shape=values.shape, dtype="bool") for sides in ([x, number], [number, x])]
    check(litert, b.build(*made), values)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_of_two_inputs(litert: Oracle, op: str) -> None:
    ends = np.array([1, 2, -1, 0, -0.0, INF, -INF, NAN, -NAN], np.float32)
    b, sides = ModelBuilder("compared"), np.meshgrid(ends, ends)
    inputs = [b.input(sides[0].shape, "float32") for _ in range(2)]
    check(litert, b.build(b.add(op, inputs, shape=sides[0].shape, dtype="bool")), *sides)


@pytest.mark.parametrize("boundaries", [(0.0,), (-1.0, -0.0, 0.5, 0.5, 2.0), tuple(range(-20, 20))])
def test_buckets(litert: Oracle, boundaries: tuple[float, ...]) -> None:
    """As in Keras' Discretization, whose results select rows of a table."""
    b = ModelBuilder("buckets")
    x, made = b.input((*NUMBERS.shape,), "float32"), b.tensor(NUMBERS.shape, "int32")
    b.operator("BUCKETIZE", [x], [made], {"boundaries": boundaries})
    check(litert, b.build(made), NUMBERS)


def functions(b: ModelBuilder, names: tuple[str, ...], dtype: str = "int8") -> int:
    x = b.input((4096,), "float32")
    for name in names:
        op, _, number = name.partition(" ")
        x = b.add(op, [x, b.constant(np.array(float(number), np.float32))] if number else [x], shape=(4096,))
    return b.add("QUANTIZE", [x], dtype=dtype, scale=0.03, zero_point=17)


@pytest.mark.parametrize("names", [
    ("SQUARE",), ("NEG",), ("ABS",), ("FLOOR",), ("MUL -1.7", "ADD 0.3", "SQUARE"), ("SQUARE", "SUB 0.5", "ABS"),
    ("MINIMUM 0.4", "SQUARE", "NEG"), ("RELU", "MUL 0", "ADD 1"), ("SQUARE", "MAXIMUM 0.2"),
    ("NEG", "RELU6", "SQUARE", "SUB 4", "SQUARE")])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions_are_steps(litert: Oracle, names: tuple[str, ...], dtype: str) -> None:
    """At all numbers where the code changes, and their predecessors."""
    b = ModelBuilder("steps")
    data = b.build(functions(b, names, dtype))
    operators = rewrite(parse_model(data, "steps").main, LIBRARY)
    places = operators.tensors[operators.operators[1].inputs[1]].data
    assert [op.op for op in operators.operators] == ["FLOAT_ORDER", "STEPS"]
    assert places is not None
    near = np.concatenate([places, places - 1]).astype(np.int64)
    near = near[np.abs(near) < 0x7F000000]
    values = np.random.default_rng(3).uniform(-6, 6, 4096).astype(np.float32)
    values[:len(near)] = np.where(near < 0, -2**31 - near, near).astype(np.int32).view(np.float32)
    check(litert, data, np.clip(values, -1e4, 1e4))


def test_an_input_is_read_in_several_ways(litert: Oracle) -> None:
    """RMSNorm of the input, and a threshold: both quantizations are computed from the same bits."""
    b = ModelBuilder("several")
    x = b.input((2, 60), "float32")
    codes = b.add("QUANTIZE", [x], dtype="int8", scale=0.05, zero_point=-3)
    squares = b.add("QUANTIZE", [b.add("SQUARE", [x])], dtype="int8", scale=0.2, zero_point=-128)
    is_more = b.add("GREATER", [x, b.constant(np.array(0.3, np.float32))], shape=(2, 60), dtype="bool")
    check(litert, b.build(codes, squares, is_more),
          np.random.default_rng(4).uniform(-7, 7, (2, 60)).astype(np.float32))


def test_the_hardware_computes_it() -> None:
    """A cast, a comparison and steps of one input."""
    b = ModelBuilder("hardware")
    x, made = b.input(NUMBERS.shape, "float32"), b.tensor(NUMBERS.shape, "int32")
    b.operator("CAST", [x], [made], {"in_data_type": "float32", "out_data_type": "int32"})
    is_less = b.add("LESS", [x, b.constant(np.array(1, np.float32))], shape=NUMBERS.shape, dtype="bool")
    squares = b.add("QUANTIZE", [b.add("SQUARE", [b.add("MINIMUM", [x, b.constant(np.array(9, np.float32))])])],
                    dtype="int8", scale=0.7, zero_point=-128)
    model, values = parse_model(b.build(made, is_less, squares), "hardware"), np.clip(NUMBERS, -1e4, 2**31 - 128)
    found = simulate(compile_model(model, load_config("tiny")).program, [values]).outputs
    for ours, wanted in zip(found, run(model, [values]).outputs, strict=True):
        np.testing.assert_array_equal(ours, wanted, strict=True)


def test_an_input_that_is_int16_too_is_refused() -> None:
    b = ModelBuilder("wide")
    x = b.input((8,), "float32")
    codes = b.add("QUANTIZE", [x], dtype="int16", scale=1e-4)
    is_more = b.add("GREATER", [x, b.constant(np.array(0.3, np.float32))], shape=(8,), dtype="bool")
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(codes, is_more), "wide"), load_config("n8"))
    assert str(caught.value) == ("operator 0 (QUANTIZE): float32 input 't0' (tensor 0) is quantized to int16, and "
                                 "others read it as it is; quantize it to int8, or give it twice")


def test_a_function_that_turns_is_refused() -> None:
    """So is a function that is NaN where a square overflows."""
    b = ModelBuilder("none")
    square = b.add("SQUARE", [b.input((8,), "float32")])
    nothing = b.add("MUL", [square, b.constant(np.array(0, np.float32))], shape=(8,))
    operators = parse_model(b.build(b.add("QUANTIZE", [nothing], dtype="int8", scale=0.01)), "none").main
    assert "STEPS" not in [op.op for op in rewrite(operators, LIBRARY).operators]
    b = ModelBuilder("sine")
    made = b.add("QUANTIZE", [b.add("SIN", [b.input((8,), "float32")])], dtype="int8", scale=0.01)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(made), "sine"), load_config("n8"))
    assert str(caught.value) == (
        "operator 0 (SIN): computes in float32 from the model's input, tensor 0 ('t0'), which is not quantized; have "
        "the exporter quantize the input (ai-edge-quantizer does, PyTorch's PT2E does not); `tq-hw compile "
        "--partition` leaves what is in float32 to LiteRT on the host")
