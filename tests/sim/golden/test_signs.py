"""Bounds of numbers, derived from the operators that make them, and roots of numbers that are not negative."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.golden.signs import is_never_positive, least_number
from tq_hw.sim.oracles import Oracle


def test_numbers_that_are_not_negative() -> None:
    """Numbers of int16, whose codes alone do not show it."""
    b = ModelBuilder("least")
    x = b.input((1, 9), "int16", scale=1e-4)
    square = b.add("QUANTIZE", [b.add("SQUARE", [b.add("DEQUANTIZE", [x])])], dtype="int16", scale=1e-3)
    axes = b.constant(np.array([1], np.int32))
    total = b.add("SUM", [square, axes], shape=(1, 1), scale=2e-3, options={"keep_dims": True})
    one = b.constant(np.array(1000, np.int16), scale=1e-3)
    more = b.add("ADD", [total, one], scale=2e-3)
    small = b.add("ADD", [total, one], scale=2e-6)
    less = b.add("ADD", [total, b.constant(np.array(-1000, np.int16), scale=1e-3)], scale=2e-3)
    kept = b.add("ADD", [total, one], scale=2e-3, options={"fused_activation_function": "RELU_N1_TO_1"})
    half = b.add_many("SPLIT", [b.constant(np.array(1, np.int32)), b.add("ABS", [x])], 3)[0]
    main = parse_model(b.build(more, small, less, kept, half), "least").main
    assert least_number(main, half) == -math.inf
    assert [least_number(main, index) for index in (x, square, total, less)] == [-math.inf, 0, 0, -math.inf]
    assert 0.98 < least_number(main, more) < 1
    # The largest code is 0.0655.
    assert 0.05 < least_number(main, small) < 32767 * 2e-6
    assert least_number(main, kept) == 0


def test_the_search_ends_in_a_long_chain() -> None:
    b = ModelBuilder("deep")
    x = b.add("ABS", [b.input((2,), scale=0.1)], scale=0.1)
    for _ in range(200):
        x = b.add("ADD", [x, x], scale=0.1)
    main = parse_model(b.build(x), "deep").main
    assert [least_number(main, index) for index in (40, x)] == [0, -math.inf]


def test_numbers_with_a_lower_bound() -> None:
    b = ModelBuilder("clamped")
    x, same = b.input((1, 4, 4, 2), scale=0.5, zero_point=-10), {"scale": 0.5, "zero_point": -10}
    four = b.constant(np.array(-2, np.int8), **same)
    most = b.add("MAXIMUM", [x, four], **same)
    pool = {"stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2, "padding": "SAME"}
    turned = b.add("TRANSPOSE", [b.add("MAX_POOL_2D", [most], options=pool, **same),
                                 b.constant(np.array([0, 3, 1, 2], np.int32))], shape=(1, 2, 4, 4), **same)
    relu = b.add("ADD", [x, x], options={"fused_activation_function": "RELU6"}, **same)
    mean = b.add("AVERAGE_POOL_2D", [relu], options=pool, **same)
    both = b.add("MAXIMUM", [most, x], **same)
    main = parse_model(b.build(turned, mean, both), "clamped").main
    assert [least_number(main, index) for index in (x, most, turned, relu, mean, both)] == [-math.inf, 4, 4, 0, 0, 4]


def test_products_of_numbers_that_are_not_negative() -> None:
    """Only of int16, since sums of int8 products may wrap."""
    for dtype, least in (("int16", 0.0), ("int8", -math.inf)):
        b = ModelBuilder("products")
        x = b.add("ABS", [b.input((2, 2), dtype, scale=0.1)], scale=0.1)
        main = b.model(b.add("BATCH_MATMUL", [x, x], scale=0.1)).main
        assert least_number(main, main.outputs[0]) == least


def test_maxima_of_float32_may_be_nan() -> None:
    b = ModelBuilder("floats")
    x = b.add("DEQUANTIZE", [b.input((3,), scale=0.1)])
    most = b.add("MAXIMUM", [x, b.constant(np.array([1], np.float32))])
    kept = b.add("SUB", [most, x], options={"fused_activation_function": "RELU"})
    main = b.model(kept).main
    assert [least_number(main, index) for index in (most, kept)] == [-math.inf, -math.inf]


def test_squares_of_int32_wrap() -> None:
    b = ModelBuilder("wraps")
    x = b.input((3,), "int32")
    main = b.model(b.add("MUL", [x, x]), b.add("ABS", [x])).main
    assert [least_number(main, index) for index in main.outputs] == [-math.inf, -math.inf]


@pytest.mark.parametrize("op", ["SQRT", "RSQRT"])
def test_roots_of_deviations_with_the_zero_point_of_a_mean(oracles: Callable[[str], Oracle], op: str) -> None:
    """As in statistics pooling: mean and deviation are concatenated, so they share scale and zero point."""
    b = ModelBuilder("statistics")
    x = b.input((1, 6, 8), scale=0.02, zero_point=-90)
    axes, same = b.constant(np.array([1], np.int32)), {"scale": 0.016, "zero_point": -90}
    mean = b.add("MEAN", [x, axes], shape=(1, 8), **same)
    wide = b.add("MEAN", [x, axes], shape=(1, 1, 8), options={"keep_dims": True}, **same)
    apart = b.add("SQUARED_DIFFERENCE", [x, wide], scale=0.05, zero_point=-128)
    root = b.add(op, [b.add("MEAN", [apart, axes], shape=(1, 8), **same)], **same)
    data = b.build(b.add("CONCATENATION", [mean, root], axis=1))
    model = parse_model(data, "statistics")
    program = compile_model(model, load_config("n8")).program
    for seed in range(4):
        inputs = [np.random.default_rng(seed).integers(-128, 128 - 40 * seed, (1, 6, 8)).astype(np.int8)]
        expected = oracles("litert-ref").run(data, inputs)[0]
        for outputs in (run(model, inputs).outputs, execute(program, inputs).outputs):
            np.testing.assert_array_equal(outputs[0], expected, strict=True)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_sums_of_exponentials_are_above_0(dtype: str) -> None:
    """The bound of a sum is near its least result; LiteRT's of int8 are of uint8, of which only the codes are known."""
    b = ModelBuilder("powers")
    low = np.iinfo(dtype).min
    point = low if dtype == "int8" else 0
    x = b.input((2, 9), dtype, scale=2.0 / -low, zero_point=0)
    power = b.add("EXP", [x], scale=7.5 / (127 - point) if dtype == "int8" else 7.5 / 32767, zero_point=point)
    total = b.add("SUM", [power, b.constant(np.array([1], np.int32))], shape=(2,),
                  scale=2.0**-7 if dtype == "int8" else 2.0**-9, zero_point=point)
    model = parse_model(b.build(total), "powers")
    least = least_number(model.main, total)
    assert least_number(model.under("litert").main, total) == (0 if dtype == "int8" else least)
    codes = run(model, [np.full((2, 9), low, dtype)]).outputs[0].astype(np.int64)
    found = (codes.min() - point) * model.main.tensors[total].scale
    assert 0 < least <= found < least + 6 * model.main.tensors[total].scale


def test_codes_above_the_least(oracles: Callable[[str], Oracle]) -> None:
    """A local response normalization by hand: a power that is infinite at 0 of 1 plus a product from 0 on."""
    b = ModelBuilder("response")
    x = b.input((256,), scale=0.017, zero_point=23)
    small = b.add("MUL", [x, b.constant(np.array(127, np.int8), scale=0.0008, zero_point=-128)], scale=0.0073,
                  zero_point=-57)
    square = b.add("MUL", [small, x], scale=0.0092, zero_point=-128)
    more = b.add("ADD", [square, b.constant(np.array(127, np.int8), scale=1 / 255, zero_point=-128)], scale=0.0092,
                 zero_point=-128)
    power = b.add("POW", [b.add("DEQUANTIZE", [more]), b.constant(np.array(-0.75, np.float32))], shape=(256,))
    data = b.build(b.add("QUANTIZE", [power], scale=1 / 255, zero_point=-128))
    model = parse_model(data, "response")
    assert [least_number(model.main, index) for index in (x, small, square)] == [-math.inf, -math.inf, 0]
    assert 0.95 < least_number(model.main, more) < 1
    inputs = [np.arange(-128, 128).astype(np.int8)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    for outputs in (run(model, inputs).outputs, execute(compile_model(model, load_config("n8")).program,
                                                        inputs).outputs):
        np.testing.assert_array_equal(outputs[0], expected, strict=True)


def test_powers_of_numbers_with_a_bound() -> None:
    """The bound of a power is that of the least exponent or of the largest one, or 0; a huge one is finite."""
    b = ModelBuilder("powers")
    x = b.input((2,), "int16", scale=1e-3)
    most = b.add("MAXIMUM", [x, b.constant(np.array(500, np.int16), scale=1e-3)], scale=1e-3)
    some, any_ = b.add("DEQUANTIZE", [most]), b.add("DEQUANTIZE", [x])
    more = b.add("EXP", [b.add("ADD", [any_, any_])])
    made = [b.add("POW", [base, b.constant(np.array(power, np.float32))], shape=(2,)) for base, power in (
        (some, [3, 0.5]), (some, [2]), (some, [-2]), (any_, [2]), (more, [0.3]))]
    huge = b.add("POW", [b.add("POW", [b.add("ADD", [b.add("DEQUANTIZE", [b.add(
        "MAXIMUM", [x, b.constant(np.array(3000, np.int16), scale=1e-3)], scale=1e-3)]), some]),
        b.constant(np.array([60], np.float32))], shape=(2,)), b.constant(np.array([60], np.float32))], shape=(2,))
    main = b.model(*made, huge).main
    first, square, inverse, unknown, zero, largest = (least_number(main, index) for index in (*made, huge))
    assert [round(first, 5), round(square, 5), inverse, unknown, zero] == [0.125, 0.25, 0, -math.inf, 0]
    assert 3.4e38 < largest < math.inf


def test_entries_for_codes_that_occur(oracles: Callable[[str], Oracle]) -> None:
    """Generalized mean in 16x8: the mean of third powers from a limit on is not negative, so it has a third root."""
    b = ModelBuilder("mean")
    x = b.input((3, 40), "int16", scale=3e-5)
    kept = b.add("MAXIMUM", [x, b.constant(np.array(34, np.int16), scale=3e-5)], scale=3e-5)
    cube = b.add("POW", [b.add("DEQUANTIZE", [kept]), b.constant(np.array(3, np.float32))], shape=(3, 40))
    mean = b.add("MEAN", [b.add("QUANTIZE", [cube], dtype="int16", scale=2.7e-5, zero_point=0),
                          b.constant(np.array([1], np.int32))], shape=(3,), scale=5e-6)
    root = b.add("POW", [b.add("DEQUANTIZE", [mean]), b.constant(np.array(1 / 3, np.float32))], shape=(3,))
    data = b.build(b.add("QUANTIZE", [root], dtype="int16", scale=3e-5, zero_point=0))
    model = parse_model(data, "mean")
    program = compile_model(model, load_config("n8")).program
    inputs = [np.random.default_rng(0).integers(-2**15, 2**15, (3, 40)).astype(np.int16)]
    inputs[0][1] = -5
    expected = oracles("litert-ref").run(data, inputs)[0]
    for outputs in (run(model, inputs).outputs, execute(program, inputs).outputs):
        np.testing.assert_array_equal(outputs[0], expected, strict=True)


def test_numbers_that_are_not_positive() -> None:
    b = ModelBuilder("most")
    x = b.input((1, 9), "int16", scale=1e-4)
    square = b.add("MUL", [x, x], scale=1e-3)
    signed = b.constant(np.array([[-3, 0, 3, -3, 0, 0, 0, 0, 0]], np.int16), scale=1e-2)
    below = b.constant(np.array(-3, np.int16), scale=1e-2)
    made = [b.add("MUL", [square, below]), b.add("MUL", [below, square]), b.add("MUL", [x, below]),
            b.add("MUL", [square, signed]), b.add("MUL", [square, below], fused_activation_function="RELU_N1_TO_1"),
            b.add("NEG", [b.add("DEQUANTIZE", [square])]), b.add("NEG", [b.add("DEQUANTIZE", [x])]), square, x]
    made.append(b.add("RESHAPE", [made[0], b.constant([3, 3])], shape=(3, 3)))
    main = b.model(*made[:-3], made[-1]).main
    found = [is_never_positive(main, each) for each in made]
    assert found == [True, True, False, False, False, True, False, False, False, True]


def test_exponentials_of_codes_that_occur(oracles: Callable[[str], Oracle]) -> None:
    """Radial basis functions in 16x8: e^x of codes above 0, which minus a square never has, would leave int32."""
    b = ModelBuilder("rbf")
    x = b.input((2, 50), "int16", scale=6e-5)
    distance = b.add("SUB", [x, b.constant(np.array(9000, np.int16), scale=3e-5)], scale=6e-5)
    exponent = b.add("MUL", [b.add("MUL", [distance, distance], scale=5e-4),
                             b.constant(np.array(-32767, np.int16), scale=3e-5)], scale=5e-4)
    power = b.add("EXP", [b.add("DEQUANTIZE", [exponent])])
    data = b.build(b.add("QUANTIZE", [power], dtype="int16", scale=3e-5, zero_point=0))
    model = parse_model(data, "rbf")
    inputs = [np.random.default_rng(0).integers(-2**15, 2**15, (2, 50)).astype(np.int16)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    for outputs in (run(model, inputs).outputs, execute(compile_model(model, load_config("n8")).program,
                                                        inputs).outputs):
        np.testing.assert_array_equal(outputs[0], expected, strict=True)
