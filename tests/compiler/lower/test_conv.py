"""Exact division, regions of windows with the same taps, a long dot product, and groups of one channel."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.window import window_regions
from tq_hw.compiler.lower.conv import divide_params
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.arith import divide_toward_zero
from tq_hw.sim.golden.run import run


def _divide(total: np.ndarray, count: int) -> np.ndarray:
    """The vector unit's stages with the parameters that the compiler chooses."""
    rounding, multiplier, shift = divide_params(count)
    if rounding == "shift":
        half = (1 << -shift) >> 1
        return np.where(total >= 0, (total + half) >> -shift, -((-total + half) >> -shift))
    return (((total * multiplier) >> 31) + (1 << (-shift - 1))) >> -shift


@pytest.mark.parametrize("count", [*range(1, 300), 1000, 1023, 1024, 1025, 4095, 65025])
def test_division_equals_c(count: int) -> None:
    step = max(1, count // 64)
    totals = np.arange(-128 * count, 127 * count + 1, step, dtype=np.int64)
    halves = (2 * np.arange(-128, 127, dtype=np.int64) + 1) * count // 2
    totals = np.unique(np.clip(np.concatenate([totals, halves - 1, halves, halves + 1]), -128 * count, 127 * count))
    expected = divide_toward_zero(np.where(totals > 0, totals + count // 2, totals - count // 2), count)
    np.testing.assert_array_equal(_divide(totals, count), expected)


@pytest.mark.parametrize(("out_size", "in_size", "kernel", "stride", "pad"),
                         [(5, 5, 3, 1, 1), (3, 6, 3, 2, 0), (4, 7, 5, 2, 2), (1, 4, 4, 1, 0), (2, 2, 7, 1, 3)])
def test_regions_list_the_taps_inside_the_image(out_size: int, in_size: int, kernel: int, stride: int,
                                                pad: int) -> None:
    seen = {}
    for first, last, low, high in window_regions(out_size, in_size, kernel, stride, pad):
        for o in range(first, last):
            seen[o] = list(range(low, high))
    for o in range(out_size):
        assert seen[o] == [k for k in range(kernel) if 0 <= o * stride - pad + k < in_size]


def test_a_long_dot_product() -> None:
    """It has more words of weights than the step between blocks can express."""
    rng, b = np.random.default_rng(0), ModelBuilder("m")
    x = b.input((1, 40000), scale=0.05, zero_point=3)
    weights = b.constant(rng.integers(-127, 128, (5, 40000)).astype(np.int8), scale=0.01)
    model = parse_model(b.build(b.add("FULLY_CONNECTED", [x, weights, -1], scale=10.0)), "m")
    inputs = [rng.integers(-128, 128, (1, 40000)).astype(np.int8)]
    found = execute(compile_model(model, load_config("n16")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("config", ["tiny", "n16"])
@pytest.mark.parametrize("options", [{"padding": "SAME"}, {"padding": "SAME", "stride_h": 2, "stride_w": 2},
                                     {"padding": "VALID", "dilation_h_factor": 2, "dilation_w_factor": 2}])
def test_groups_of_one_channel_are_depthwise(dtype: str, config: str, options: dict[str, str | int]) -> None:
    rng, channels = np.random.default_rng(1), 35
    scales = rng.uniform(0.01, 0.02, channels).tolist()
    filters = rng.integers(-127, 128, (channels, 3, 3, 1)).astype(np.int8)
    added = rng.integers(-900, 900, channels)

    def made(op: str) -> Model:
        b = ModelBuilder("m")
        x = b.input((1, 9, 8, channels), dtype, scale=0.05, zero_point=3 if dtype == "int8" else 0)
        depthwise = op == "DEPTHWISE_CONV_2D"
        weights = b.constant(filters.transpose(3, 1, 2, 0) if depthwise else filters, scale=scales,
                             dimension=3 if depthwise else 0)
        return parse_model(b.build(b.add(op, [x, weights, b.bias(x, weights, added)], scale=0.1, **options)), "m")

    model = made("CONV_2D")
    program = compile_model(model, load_config(config)).program
    assert program.image == compile_model(made("DEPTHWISE_CONV_2D"), load_config(config)).program.image
    info = np.iinfo(dtype)
    inputs = [rng.integers(info.min, info.max + 1, (1, 9, 8, channels)).astype(dtype)]
    np.testing.assert_array_equal(execute(program, inputs).outputs[0], run(model, inputs).outputs[0])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("config", ["tiny", "n16"])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("channels", [1, 8])
def test_a_single_input_channel(channels: int, op: str, config: str, dtype: str) -> None:
    """Its filter has as many groups as channels, but may have more outputs than one."""
    rng, b = np.random.default_rng(2), ModelBuilder("m")
    x = b.input((1, 7, 8, 1), dtype, scale=0.05, zero_point=3 if dtype == "int8" else 0)
    depthwise = op == "DEPTHWISE_CONV_2D"
    shape = (1, 3, 3, channels) if depthwise else (channels, 3, 3, 1)
    weights = b.constant(rng.integers(-127, 128, shape).astype(np.int8), dimension=3 if depthwise else 0,
                         scale=rng.uniform(0.01, 0.02, channels).tolist())
    options = {"depth_multiplier": channels} if depthwise else {}
    bias = b.bias(x, weights, rng.integers(-900, 900, channels))
    model = parse_model(b.build(b.add(op, [x, weights, bias], scale=0.1, padding="SAME", **options)), "m")
    info = np.iinfo(dtype)
    inputs = [rng.integers(info.min, info.max + 1, (1, 7, 8, 1)).astype(dtype)]
    found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0])
