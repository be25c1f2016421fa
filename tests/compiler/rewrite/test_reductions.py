"""MEAN and SUM of float32 between int8 tensors: additions in LiteRT's order, and its single division."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.chains import add_reduction
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

SHAPE = (1, 5, 6, 7)


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def real(b: ModelBuilder, scale: float = 0.0313, point: int = -9) -> int:
    return b.add("DEQUANTIZE", [b.input(SHAPE, scale=scale, zero_point=point)])


def reduced(b: ModelBuilder, x: int, op: str, axes: list[int], shape: tuple[int, ...], scale: float) -> int:
    made = b.add(op, [x, number(b, axes)], shape=shape, options={"keep_dims": len(shape) == len(SHAPE)})
    return b.add("QUANTIZE", [made], scale=scale, zero_point=-4)


def gated(b: ModelBuilder) -> int:
    """As in PyTorch's squeeze and excitation: a function of one byte."""
    x = real(b)
    return reduced(b, b.add("MUL", [x, b.add("LOGISTIC", [x])]), "MEAN", [1, 2], (1, 1, 1, 7), 0.004)


def residual(b: ModelBuilder) -> int:
    """As at the end of PyTorch's ResNet: a sum of three, with channels first."""
    x = b.add("ADD", [real(b), real(b, 0.07)], options={"fused_activation_function": "RELU"})
    x = b.add("ADD", [x, real(b, 0.0021, 100)], options={"fused_activation_function": "RELU"})
    x = b.add("TRANSPOSE", [x, number(b, [0, 3, 1, 2])], shape=(1, 7, 5, 6))
    return reduced(b, x, "MEAN", [2, 3], (1, 7), 0.013)


def along_rows(b: ModelBuilder) -> int:
    return reduced(b, real(b, 0.1, -128), "SUM", [-1], (1, 5, 6), 0.3)


def along_rows_of_sums(b: ModelBuilder) -> int:
    """Words of four bytes, which are transposed."""
    return reduced(b, b.add("ADD", [real(b, 0.1, -128), real(b, 0.04)]), "SUM", [-1], (1, 5, 6), 0.3)


def of_axes_apart(b: ModelBuilder) -> int:
    return reduced(b, real(b, 0.1, 127), "MEAN", [3, 1], (1, 6), 0.02)


def pooled(b: ModelBuilder) -> int:
    """As in PyTorch's pooling along one axis: with a view of one more axis in between."""
    x = b.add("ADD", [real(b), real(b, 0.07)], options={"fused_activation_function": "RELU"})
    x = b.add("RESHAPE", [x, number(b, [1, 5, 1, 42])], shape=(1, 5, 1, 42))
    return b.add("QUANTIZE", [b.add("MEAN", [x, number(b, [3])], shape=(1, 5, 1))], scale=0.01, zero_point=3)


def pooled_bytes(b: ModelBuilder) -> int:
    x = b.add("RESHAPE", [b.add("NEG", [real(b)]), number(b, [5, 42])], shape=(5, 42))
    return b.add("QUANTIZE", [b.add("MEAN", [x, number(b, [1])], shape=(5,))], scale=0.01, zero_point=3)


@pytest.mark.parametrize("build", [gated, residual, along_rows, along_rows_of_sums, of_axes_apart, pooled,
                                   pooled_bytes])
def test_equals_the_engine(litert: Oracle, build: Callable[[ModelBuilder], int]) -> None:
    b = ModelBuilder("mean")
    data = b.build(build(b))
    model = parse_model(data, "mean")
    assert not {"MEAN", "SUM", "ADD"} & {op.op for op in rewrite(model.main, LIBRARY).operators}
    rng = np.random.default_rng(0)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in model.main.inputs]
        expected = litert.run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected)
        for config in ("n8", "serial"):
            found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
            np.testing.assert_array_equal(found, expected)


def test_on_the_rtl() -> None:
    b = ModelBuilder("mean")
    model = parse_model(b.build(gated(b)), "mean")
    program = compile_model(model, load_config("tiny")).program
    inputs = [np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)]
    np.testing.assert_array_equal(simulate(program, inputs).outputs[0], run(model, inputs).outputs[0])


def test_a_transpose_that_changes_the_order_is_made(litert: Oracle) -> None:
    """Then every addition is one of packed numbers."""
    b = ModelBuilder("order")
    x = b.add("ADD", [b.add("ADD", [real(b), real(b, 0.07)]), real(b, 0.0021)])
    x = b.add("TRANSPOSE", [x, number(b, [0, 2, 1, 3])], shape=(1, 6, 5, 7))
    data = b.build(reduced(b, x, "MEAN", [1, 2], (1, 7), 0.01))
    model = parse_model(data, "order")
    with pytest.raises(UnsupportedError, match=r"^a TRANSPOSE before it changes the order of additions$"):
        add_reduction(Subject(model.main), model.main.operators[-1], model.main.operators[-2])
    inputs = [np.random.default_rng(at).integers(-128, 128, SHAPE).astype(np.int8) for at in range(3)]
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0])
@pytest.mark.parametrize("scale", [0.1, 0.2, 0.25, 0.05, 1.0, 0.125 * (1 + 2**-9), 0.125 * (1 + 2**-8), 0.12499999])
def test_any_count_and_scale_is_taken(litert: Oracle, scale: float) -> None:
    """Output scales by counts near a power of two, where fixed point is least exact."""
    for count in (1, 4, 5, 10, 12):
        b = ModelBuilder("scales")
        x = b.add("DEQUANTIZE", [b.input((400, count), scale=scale, zero_point=3)])
        data = b.build(reduced(b, x, "MEAN", [1], (400,), scale))
        model, inputs = parse_model(data, "scales"), [
            np.random.default_rng(count).integers(-128, 128, (400, count)).astype(np.int8)]
        found = execute(compile_model(model, load_config("n16")).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, litert.run(data, inputs)[0])
