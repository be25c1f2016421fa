"""A softmax that is written out: sums of exponentials of which one is 1, and choices that are known."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import codes, corners, hold, number, real
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.power_sums import adds_up_to_one, is_below_largest
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

SHAPE = (1, 4, 5, 6)
KEEP = {"keep_dims": True}


def top(b: ModelBuilder, x: int, axis: int = 3) -> int:
    return b.add("REDUCE_MAX", [x, number(b, [axis])], shape=SHAPE[:axis] + SHAPE[axis + 1:])


def turned(b: ModelBuilder, x: int) -> int:
    return b.add("TRANSPOSE", [x, number(b, [0, 3, 1, 2])], shape=(1, 6, 4, 5))


def column(b: ModelBuilder, x: int, shape: tuple[int, ...] = (1, 4, 5, 1)) -> int:
    return b.add("RESHAPE", [x, number(b, shape)], shape=shape)


def total(b: ModelBuilder, apart: int, axis: int, shape: tuple[int, ...]) -> int:
    return b.add("SUM", [b.add("EXP", [apart]), number(b, [axis])], shape=shape, options=KEEP)


def log_softmax(b: ModelBuilder) -> int:
    """As litert-torch lowers log_softmax over channels: codes have a largest one, and a maximum with the least."""
    source = b.input(SHAPE, scale=0.0135, zero_point=8)
    least = b.constant(np.array(-128, np.int8), scale=0.0135, zero_point=8)
    most = column(b, b.add("MAXIMUM", [top(b, source), least], shape=SHAPE[:3]))
    apart = b.add("SUB", [b.add("DEQUANTIZE", [source]), b.add("DEQUANTIZE", [most])])
    return b.add("SUB", [apart, b.add("LOG", [total(b, apart, 3, (1, 4, 5, 1))])])


def log_sum(b: ModelBuilder) -> int:
    """As it lowers logsumexp: across, with 0 in place of an infinite maximum."""
    source = b.input(SHAPE, scale=0.0088, zero_point=-12)
    most = column(b, top(b, source), (1, 1, 4, 5))
    infinite = b.add("EQUAL", [b.add("ABS", [b.add("DEQUANTIZE", [most])]), b.constant(np.array(np.inf, np.float32))],
                     shape=(1, 1, 4, 5), dtype="bool")
    zero = b.constant(np.array(-12, np.int8), scale=0.0088, zero_point=-12)
    most = b.add("DEQUANTIZE", [b.add("SELECT_V2", [infinite, zero, most], shape=(1, 1, 4, 5))])
    apart = b.add("SUB", [b.add("DEQUANTIZE", [turned(b, source)]), most])
    return b.add("ADD", [b.add("LOG", [total(b, apart, 1, (1, 1, 4, 5))]), most])


def computed(b: ModelBuilder) -> int:
    """Of float32, over two axes, the maxima spread."""
    x = b.add("ADD", [real(b, SHAPE, 0.02), b.add("ADD", [real(b, SHAPE, 0.002, 7), real(b, SHAPE, 0.01)])])
    most = b.add("REDUCE_MAX", [x, number(b, [1, -1])], shape=(1, 1, 5, 1), options=KEEP)
    apart = b.add("SUB", [x, b.add("BROADCAST_TO", [most, number(b, SHAPE)], shape=SHAPE)])
    powers = b.add("SUM", [b.add("EXP", [apart]), number(b, [1, 3])], shape=(1, 1, 5, 1), options=KEEP)
    return b.add("ADD", [b.add("LOG", [powers]), b.add("DIV", [b.add("EXP", [apart]), powers])])


def computed_log_sum(b: ModelBuilder) -> int:
    """As log_sum, and with JAX's maximum with minus infinity, of computed numbers."""
    x = b.add("ADD", [real(b, SHAPE, 0.02), b.add("ADD", [real(b, SHAPE, 0.002, 7), real(b, SHAPE, 0.01)])])
    infinity = b.constant(np.array(np.inf, np.float32))
    least = b.add("MAXIMUM", [top(b, x), b.constant(np.array(-np.inf, np.float32))], shape=SHAPE[:3])
    most = column(b, least)
    infinite = b.add("EQUAL", [b.add("ABS", [most]), infinity], shape=(1, 4, 5, 1), dtype="bool")
    most = b.add("SELECT_V2", [infinite, b.constant(np.array(0, np.float32)), most], shape=(1, 4, 5, 1))
    return b.add("ADD", [b.add("LOG", [total(b, b.add("SUB", [x, most]), 3, (1, 4, 5, 1))]), most])


def of_int16(b: ModelBuilder) -> int:
    source = b.input(SHAPE, "int16", scale=2.1e-4)
    apart = b.add("SUB", [b.add("DEQUANTIZE", [source]), b.add("DEQUANTIZE", [column(b, top(b, source))])])
    return b.add("SUB", [apart, b.add("LOG", [total(b, apart, 3, (1, 4, 5, 1))])])


@pytest.mark.parametrize("builder", [log_softmax, log_sum, computed, computed_log_sum, of_int16],
                         ids=lambda each: each.__name__)
def test_written_out(litert: Oracle, builder: Callable[[ModelBuilder], int]) -> None:
    b = ModelBuilder("softmax")
    made = builder(b)
    data = b.build(codes(b, made, 1.7e-4, 0, "int16") if builder is of_int16 else codes(b, made, 0.041))
    subject = Subject(rewrite(parse_model(data, "softmax").main, LIBRARY))
    operators = subject.subgraph.operators
    assert builder is computed_log_sum or not {"EQUAL", "SELECT_V2"} & {op.op for op in operators}
    assert sum(is_below_largest(subject, op) for op in operators) == 1
    assert sum(adds_up_to_one(subject, op) for op in operators) == 1
    hold(litert, data, "n8")


def test_a_float_result(litert: Oracle) -> None:
    b = ModelBuilder("softmax")
    hold(litert, b.build(log_sum(b)), "n8", sets=2)


def above(b: ModelBuilder) -> int:
    source = b.input(SHAPE, scale=0.0135, zero_point=8)
    more = b.constant(np.array(-20, np.int8), scale=0.0135, zero_point=8)
    most = column(b, b.add("MAXIMUM", [top(b, source), more], shape=SHAPE[:3]))
    return b.add("SUB", [b.add("DEQUANTIZE", [source]), b.add("DEQUANTIZE", [most])])


def of_another(b: ModelBuilder) -> int:
    return b.add("SUB", [real(b, SHAPE, 0.01), column(b, top(b, real(b, SHAPE, 0.01)))])


def of_columns(b: ModelBuilder) -> int:
    x = real(b, SHAPE, 0.01)
    return b.add("SUB", [x, column(b, top(b, x, 1), (1, 1, 5, 6))])


def of_another_choice(b: ModelBuilder) -> int:
    """Whether a number is infinite that may be, because the model reads it."""
    x = real(b, SHAPE, 0.01)
    most, given = column(b, top(b, x)), b.input((1, 4, 5, 1), "float32")
    infinite = b.add("EQUAL", [b.add("ABS", [given]), b.constant(np.array(np.inf, np.float32))], shape=(1, 4, 5, 1),
                     dtype="bool")
    return b.add("SUB", [x, b.add("SELECT_V2", [infinite, b.constant(np.array(0, np.float32)), most],
                                  shape=(1, 4, 5, 1))])


def with_relu(b: ModelBuilder) -> int:
    x = real(b, SHAPE, 0.01)
    return b.add("SUB", [x, column(b, top(b, x))], options={"fused_activation_function": "RELU"})


@pytest.mark.parametrize(("builder", "below"), [
    (above, False), (of_another, False), (of_another_choice, False), (with_relu, False), (of_columns, True)],
    ids=lambda each: getattr(each, "__name__", None))
def test_what_does_not_add_up_to_one(builder: Callable[[ModelBuilder], int], below: bool) -> None:
    b = ModelBuilder("other")
    data = b.build(total(b, builder(b), 3, (1, 4, 5, 1)))
    subject = Subject(rewrite(parse_model(data, "other").main, LIBRARY))
    assert [op.op for op in subject.subgraph.operators if adds_up_to_one(subject, op)] == []
    assert any(is_below_largest(subject, op) for op in subject.subgraph.operators) is below


def logarithm_of_sum() -> bytes:
    """Of eight codes that are at least 12, so that no sum is 0."""
    b = ModelBuilder("sum")
    power = b.add("QUANTIZE", [b.add("EXP", [real(b, (3, 8), 0.012, 127)])], dtype="int8", scale=1 / 255,
                  zero_point=-128)
    added = b.add("SUM", [power, number(b, [1])], shape=(3,), dtype="int8", scale=0.0231, zero_point=-128)
    return b.build(codes(b, b.add("LOG", [b.add("DEQUANTIZE", [added])]), 0.0081, 0))


@pytest.mark.parametrize(("profile", "engine"), [("canon", "tflm"), ("litert", "litert-ref")])
def test_a_logarithm_of_sums_of_codes(profile: str, engine: str, oracles: Callable[[str], Oracle]) -> None:
    """Sums that LiteRT reads as uint8 may be 0, whose logarithm, minus infinity, has a code."""
    data = logarithm_of_sum()
    model = parse_model(data, "sum").under(profile)
    assert "LOG" not in {op.op for op in rewrite(model.main, LIBRARY).operators}
    program = compile_model(model, load_config("n8")).program
    for seed in range(3):
        inputs = corners(model, seed)
        expected = oracles(engine).run(data, inputs)[0]
        for outputs in (run(model, inputs).outputs, execute(program, inputs).outputs):
            np.testing.assert_array_equal(outputs[0], expected, strict=True)
