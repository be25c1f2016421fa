"""Constants for LiteRT's FULLY_CONNECTED, which rescales in double: for every accumulator, and in whole layers."""

from collections.abc import Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.lower import doubles
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, quantize_multipliers
from tq_hw.sim.golden.mac import MacParams, requantize
from tq_hw.sim.rtl.simulate import simulate


def params(real: Sequence[float], zero_point: int = 3, limits: tuple[int, int] = (-128, 127)) -> MacParams:
    return MacParams(*quantize_multipliers(real), 0, zero_point, *limits, real=np.array(real))


def dense(biases: np.ndarray, input_scale: float, scales: float | list[float], out: float) -> Model:
    """A FULLY_CONNECTED whose accumulators are the biases plus a little."""
    b = ModelBuilder("dense")
    x = b.input((2, 1), scale=input_scale)
    weights = b.constant(np.ones((len(biases), 1), np.int8), scale=scales)
    bias = b.bias(x, weights, biases)
    y = b.add("FULLY_CONNECTED", [x, weights, bias], scale=out, zero_point=3)
    return parse_model(b.build(y), "m").under("litert")


def halves(real: float | np.ndarray, count: int = 300) -> np.ndarray:
    """Accumulators whose products are near halves between two results."""
    return np.round((np.arange(count) % 260 - 130 + 0.5) / real).astype(np.int32)


def check(model: Model, rounding: str, config: str) -> None:
    compiled = compile_model(model, PRESETS[config])
    layers = [layer for layer in compiled.emitter.graph.layers if isinstance(layer, Mac | MatMul)]
    assert [layer.rounding for layer in layers] == [rounding]
    for low in range(-12, 12, 4):
        x = np.array([[low], [low + 2]], np.int8)
        assert np.array_equal(execute(compiled.program, [x]).outputs[0], golden.run(model, [x]).outputs[0])


def without(monkeypatch: pytest.MonkeyPatch, rounding: str) -> None:
    """Disable the methods that are tried before `rounding`."""
    if rounding != "tflite":
        monkeypatch.setattr(doubles, "_is_tflite", lambda *_: False)
    if rounding in ("steps", "wide"):
        monkeypatch.setattr(doubles, "_single", lambda *_: None)


@pytest.mark.parametrize("config", ["tiny", "n16"])
@pytest.mark.parametrize("scales, out, rounding", [
    (0.7, 0.9, "tflite"), (0.5, 64.0, "divide"), (0.3, 37.0, "divide"), (0.3, 37.0, "steps"), (3e-7, 0.1, "steps"),
    (0.5, 1.0, "steps"), (0.7, 0.9, "steps"), (1.7, 0.2, "steps")])
def test_one_factor(scales: float, out: float, rounding: str, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, rounding)
    real = float(np.float32(scales)) / float(np.float32(out))
    check(dense(halves(real), 1.0, scales, out), rounding, config)


@pytest.mark.parametrize("config", ["tiny", "n8", "n16"])
@pytest.mark.parametrize("limits", [(1e-7, 3e-6), (0.2, 0.9), (0.1, 3.0)])
def test_factors_by_channel(limits: tuple[float, float], config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "wide")
    scales = np.random.default_rng(1).uniform(*limits, 300).astype(np.float32)
    check(dense(halves(scales.astype(np.float64)), 1.0, scales.tolist(), 1.0), "wide", config)


@pytest.mark.parametrize("rounding", ["divide", "steps", "wide"])
def test_the_hardware_computes_them(rounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, rounding)
    channels = np.random.default_rng(1).uniform(0.1, 3.0, 30).astype(np.float32)
    scales = channels if rounding == "wide" else np.array([0.5])
    model = dense(halves(scales.astype(np.float64) / 64, 30), 1.0, scales.tolist(), 64.0)
    compiled = compile_model(model, PRESETS["tiny"])
    assert [layer.rounding for layer in compiled.emitter.graph.layers if isinstance(layer, Mac)] == [rounding]
    x = np.array([[-12], [3]], np.int8)
    assert np.array_equal(simulate(compiled.program, [x]).outputs[0], golden.run(model, [x]).outputs[0])


def test_the_kernel_differs_from_fixed_point() -> None:
    model = dense(halves(0.3 / 37.0), 1.0, 0.3, 37.0)
    x = np.zeros((2, 1), np.int8)
    assert not np.array_equal(golden.run(model, [x]).outputs[0], golden.run(model.under("canon"), [x]).outputs[0])


@pytest.mark.parametrize("real", [0.013, 1 / 96, 3.0, 0.75, 2.0 ** -20, 1e-12])
def test_every_accumulator(real: float) -> None:
    p, bound = params([real]), 40000
    found = doubles.double_scaling(p, np.array([-bound]), np.array([bound]))
    every = np.arange(-bound, bound + 1)
    expected = requantize(every, p).astype(np.int64)
    multiplier, shift = int(found.multiplier[0]), -int(found.shift[0])
    if found.rounding == "divide":
        product = every * multiplier >> 31
        results = np.clip((product + (1 << shift >> 1) >> shift) + 3, -128, 127)
    elif found.rounding == "steps":
        assert found.steps is not None
        s = found.steps
        x = every if s.limit is None else np.clip(every, -s.limit, s.limit)
        product = (x << s.left_shift) * s.multiplier >> 31
        about = (product + (1 << s.right_shift >> 1) >> s.right_shift) + 3 + (s.right_shift == 0)
        about = np.clip(about, -128, 127)
        results = about - (every < s.table[about & 0xFF])
    else:
        results = requantize(every, MacParams(found.multiplier, found.shift, 0, 3, -128, 127)).astype(np.int64)
    assert np.array_equal(results, expected)


@pytest.mark.parametrize("limits", [(-128, 127), (-128, -127), (126, 127)])
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("exponent", [-36, -31, -30, -29, -24])
def test_one_word_for_all_of_int32(exponent: int, zero_point: int, limits: tuple[int, int]) -> None:
    """The bounds of a multiplier have up to 70 bits where accumulators do not reach all results."""
    real = 2.0 ** exponent * np.array([0.6, 0.3, 0.15])
    p = params(real.tolist(), zero_point, limits)
    steps = doubles._steps(real, p, np.full(3, INT32_MIN), np.full(3, INT32_MAX))
    found = doubles._single(steps, real)
    assert found is not None
    for channel, factor in enumerate(real):
        near = np.round((np.arange(-300, 300) + 0.5) / factor)
        acc = np.unique((near[:, None] + np.arange(-3, 4)).clip(INT32_MIN, INT32_MAX)).astype(np.int64)
        shift = -int(found.shift[channel])
        product = acc * int(found.multiplier[channel]) >> 31
        results = np.clip((product + (1 << shift - 1) >> shift) + zero_point, *limits)
        assert np.array_equal(results, requantize(acc.astype(np.int32), params([factor], zero_point, limits)))


def test_accumulators_that_leave_int32_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="overflow int32: LiteRT's reference kernel is undefined there"):
        doubles.double_scaling(params([1e6]), np.array([-9999]), np.array([9999]))
    model = dense(np.array([9999, -9999], np.int32), 1.0, 1.0, 1e-6)
    with pytest.raises(UnsupportedError, match="an accumulator times 1e.06 overflows int32"):
        golden.run(model, [np.zeros((2, 1), np.int8)])


def test_reachable_accumulators() -> None:
    least, most = doubles.reachable(np.array([[1, -2], [0, 3]], np.int8), np.array([10, 0]))
    assert least.tolist() == [10 - 128 - 254, -384] and most.tolist() == [10 + 127 + 256, 381]
