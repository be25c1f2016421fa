"""Float32 with constants per channel between int8: a depthwise convolution that equals LiteRT for all codes."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_comparisons import EVERY, floats, hold
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

SCALE = 0.0313


def normalized(b: ModelBuilder, x: int, relu: bool, seed: int = 0, dims: int = 4) -> int:
    """As PyTorch writes a batch normalization; one channel has the same code everywhere."""
    rng, count = np.random.default_rng(seed), b.tensors[x].shape[-1]
    mean, factor = (b.constant(numbers.astype(np.float32).reshape((1,) * (dims - 1) + (count,))) for numbers in (
        rng.normal(0, 1, count), rng.normal(0, 1, count) * (np.arange(count) != 3)))
    return b.add("MUL", [b.add("SUB", [x, mean]), factor],
                 options={"fused_activation_function": "RELU" if relu else "NONE"})


def codes(b: ModelBuilder, x: int, point: int = 3, scale: float = SCALE) -> int:
    return b.add("QUANTIZE", [x], scale=scale, zero_point=point)


def every(count: int) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(EVERY[None, :, None, None], (1, 256, 1, count)))


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("count", [5, 64, 500])
def test_batch_normalization(count: int, relu: bool, litert: Oracle) -> None:
    b = ModelBuilder("norm")
    made = normalized(b, floats(b, (1, 256, 1, count), "int8", SCALE, 7), relu, count)
    left = hold(b.build(codes(b, made, -128 if relu else 3)), [every(count)], litert)
    assert left[0] == "CHANNEL_SCALE"


def test_other_shapes(litert: Oracle) -> None:
    """Two axes and five, with constants along one axis."""
    b = ModelBuilder("norm")
    two = normalized(b, floats(b, (256, 9), "int8", SCALE, -7), True, 1, 1)
    five = normalized(b, floats(b, (1, 2, 64, 2, 9), "int8", SCALE, -7), False, 2, 5)
    inputs = [np.ascontiguousarray(np.broadcast_to(EVERY[:, None], (256, 9))),
              np.ascontiguousarray(np.broadcast_to(EVERY.reshape(1, 2, 64, 2, 1), (1, 2, 64, 2, 9)))]
    left = hold(b.build(codes(b, two), codes(b, five)), inputs, litert)
    assert [op for op in left if op == "CHANNEL_SCALE"] == ["CHANNEL_SCALE"] * 2


def test_a_channel_that_no_weight_fits_has_a_table(litert: Oracle) -> None:
    """Steps between codes are at halves: float32 rounds some of them up and others down."""
    b = ModelBuilder("norm")
    factors = np.linspace(0.4, 0.9, 16).astype(np.float32)
    factors[[5, 15]] = 0.5
    made = b.add("MUL", [floats(b, (1, 256, 1, 16), "int8", SCALE, 7), b.constant(factors)])
    left = hold(b.build(codes(b, made)), [every(16)], litert)
    assert (left[0], left[-1]) == ("CHANNEL_SCALE", "CONCATENATION")
    assert 0 < left.count("TABLE") <= 4


def test_two_steps_are_a_table_of_two(litert: Oracle) -> None:
    b = ModelBuilder("prelu")
    alpha = np.random.default_rng(0).uniform(-0.5, 0.5, (1, 1, 12)).astype(np.float32)
    made = b.add("PRELU", [normalized(b, floats(b, (1, 256, 1, 12), "int8", SCALE, 7), False), b.constant(alpha)])
    assert hold(b.build(codes(b, made)), [every(12)], litert) == ["TABLE_OF_TWO"]


def test_sums_and_means_of_channels(litert: Oracle) -> None:
    """As before the last pooling of a DenseNet, and a residual with a scale per channel."""
    b = ModelBuilder("norm")
    x, y = (floats(b, (1, 16, 16, 7), "int8", SCALE, point) for point in (7, -20))
    scaled = normalized(b, x, True)
    mean = b.add("MEAN", [scaled, b.constant(np.array([1, 2], np.int32))], options={"keep_dims": True})
    outputs = [codes(b, mean, -128, 0.01), codes(b, b.add("ADD", [y, scaled]), 3, 0.05),
               codes(b, b.add("SUB", [y, normalized(b, x, False, 1)]), 3, 0.07)]
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, (1, 16, 16, 7)).astype(np.int8) for _ in range(2)]
    left = hold(b.build(*outputs), inputs, litert)
    assert sorted(left) == sorted(["TABLE_OF_TWO"] * 3 + ["FLOAT_SUM"] * 2 + ["FLOAT_CODES"] * 3 + ["FLOAT_REDUCE"])


def test_the_circuit_gives_the_same() -> None:
    b = ModelBuilder("norm")
    data = b.build(codes(b, normalized(b, floats(b, (1, 16, 16, 9), "int8", SCALE, 7), True), -128))
    model = parse_model(data, "norm")
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == ["CHANNEL_SCALE"]
    inputs = [np.random.default_rng(0).integers(-128, 128, (1, 16, 16, 9)).astype(np.int8)]
    found = simulate(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
