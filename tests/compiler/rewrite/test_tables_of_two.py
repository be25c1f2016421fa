"""Float32 functions of two tensors of bytes, or of one and constants: a table of all pairs that equals LiteRT's."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_float_islands import SUPPORTED
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.compiler.rewrite.tables_of_two import table_of_two
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

EVERY = np.arange(-128, 128).astype(np.int8)
Build = Callable[[ModelBuilder, int, int], int]


def number(b: ModelBuilder, *values: float) -> int:
    return b.constant(np.array(values if len(values) > 1 else values[0], np.float32))


def divided(b: ModelBuilder, x: int, y: int) -> int:
    return b.add("DIV", [x, b.add("ADD", [b.add("ABS", [y]), number(b, 0.5)])], shape=(256, 256))


def squared(b: ModelBuilder, x: int, y: int) -> int:
    return b.add("SQUARED_DIFFERENCE", [x, y], shape=(256, 256))


def gate(b: ModelBuilder, x: int, y: int) -> int:
    """As in PyTorch's channel attention: the logistic of a sum."""
    return b.add("LOGISTIC", [b.add("ADD", [y, x], shape=(256, 256))])


def halves(b: ModelBuilder, x: int, y: int) -> int:
    """Every fourth sum lies between two codes, so float32's rounding decides for each pair."""
    return b.add("MUL", [b.add("ADD", [x, b.add("MUL", [y, number(b, 2)])], shape=(256, 256)), number(b, 0.25)])


def angle(b: ModelBuilder, x: int, y: int) -> int:
    """The kernel requires equal shapes."""
    whole = b.constant(np.array([256, 256], np.int32))
    return b.add("ATAN2", [b.add("BROADCAST_TO", [each, whole]) for each in (x, y)])


def positive(b: ModelBuilder, y: int) -> int:
    """A divisor in codes, none of which is 0 after the addition."""
    size = b.add("QUANTIZE", [b.add("ABS", [y])], scale=0.06, zero_point=-128)
    more = b.add("ADD", [size, b.constant(np.array(127, np.int8), scale=0.002, zero_point=-128)], scale=0.06,
                 zero_point=-128)
    return b.add("DEQUANTIZE", [more])


def remainder(b: ModelBuilder, x: int, y: int) -> int:
    return b.add("FLOOR_MOD", [x, positive(b, y)], shape=(256, 256))


def floor(b: ModelBuilder, x: int, y: int) -> int:
    return b.add("FLOOR_DIV", [x, positive(b, y)], shape=(256, 256))


@pytest.mark.parametrize("build", [divided, squared, gate, halves, angle, remainder, floor])
def test_every_pair_of_codes(build: Build, litert: Oracle) -> None:
    b = ModelBuilder("two")
    x, y = (b.add("DEQUANTIZE", [b.input(shape, scale=0.1)]) for shape in ((256, 1), (1, 256)))
    data = b.build(b.add("QUANTIZE", [build(b, x, y)], scale=0.1, zero_point=-7))
    model = parse_model(data, "two")
    inputs = [EVERY[:, None], EVERY[None]]
    expected = litert.run(data, inputs)[0]
    rewritten = rewrite(model.main, LIBRARY)
    left = [op.op for op in rewritten.operators if op.op not in ("BROADCAST_TO", "ADD", "TABLE")]
    assert left == ["TABLE_OF_TWO"]
    for each in (model, Model(model.name, (rewritten,))):
        np.testing.assert_array_equal(run(each, inputs).outputs[0], expected, strict=True)


def slopes(b: ModelBuilder, x: int) -> int:
    """PRELU with a slope per channel."""
    return b.add("PRELU", [x, b.constant(np.array([[0.25, -0.5, 0.01, 0, 1.5]], np.float32))])


def scaled(b: ModelBuilder, x: int) -> int:
    return b.add("MUL", [x, number(b, 1, 2, 3, 2, 1)])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("build", [slopes, scaled])
def test_constants_for_each_channel(build: Callable[[ModelBuilder, int], int], dtype: str, litert: Oracle) -> None:
    b = ModelBuilder("channels")
    x = b.add("DEQUANTIZE", [b.input((256, 5), scale=0.031, zero_point=9)])
    point, scale = (-20, 0.05) if dtype == "int8" else (0, 0.001)
    data = b.build(b.add("QUANTIZE", [build(b, x)], dtype=dtype, scale=scale, zero_point=point))
    model, inputs = parse_model(data, "channels"), [np.repeat(EVERY[:, None], 5, 1)]
    expected = litert.run(data, inputs)[0]
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == ["TABLE_OF_TWO"]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    for config in ("n16", "tiny"):
        found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)


def test_two_tensors_on_the_executor() -> None:
    b = ModelBuilder("two")
    x, y = (b.add("DEQUANTIZE", [b.input(shape, scale=0.1)]) for shape in ((30, 7), (30, 1)))
    model = parse_model(b.build(b.add("QUANTIZE", [b.add("SQUARED_DIFFERENCE", [x, y])], scale=0.9)), "two")
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in ((30, 7), (30, 1))]
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def test_more_numbers_than_a_byte_are_no_table() -> None:
    b = ModelBuilder("many")
    x = b.add("DEQUANTIZE", [b.input((1, 300), scale=0.1)])
    numbers = b.constant(np.arange(300).astype(np.float32))
    main = parse_model(b.build(b.add("QUANTIZE", [b.add("MUL", [x, numbers])], scale=0.1)), "many").main
    with pytest.raises(UnsupportedError) as caught:
        table_of_two(Subject(main), main.operators[-1])
    assert str(caught.value) == "tensor 2 ('t2') holds 300 different values, more than a byte can distinguish"


def test_a_divisor_that_may_be_0() -> None:
    b = ModelBuilder("zero")
    x, y = (b.add("DEQUANTIZE", [b.input((3,), scale=0.1)]) for _ in range(2))
    out = b.add("QUANTIZE", [b.add("ABS", [b.add("FLOOR_MOD", [x, y])])], scale=0.1)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(out), "zero"), load_config("n8"))
    assert str(caught.value) == (
        "operator 2 (FLOOR_MOD): input 0, tensor 1 ('t1'), is float32 computed inside the model (tensor 3 ('t3'), the "
        "divisor of operator 2 (FLOOR_MOD), may be 0, which gives NaN)" + SUPPORTED)
