"""Layers whose strips cascade through a small scratchpad equal golden, with the race checker on."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.plan.cascade import schedule
from tq_hw.compiler.plan.plan import make_plan
from tq_hw.compiler.specialize.specialize import specialize
from tq_hw.isa.config import Config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIGS = [Config("narrow", 4, 4, 2, 8 << 10, acc_words=64), Config("square", 16, 16, 16, 16 << 10),
           Config("wide", 9, 8, 8, 16 << 10), Config("short", 8, 8, 4, 16 << 10, acc_words=32)]


def _weights(b: ModelBuilder, rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> int:
    return b.constant(rng.integers(-127, 128, shape).astype(np.int8),
                      scale=rng.uniform(0.002, 0.01, shape[axis]).tolist(), dimension=axis)


def _pointwise(b: ModelBuilder, rng: np.random.Generator, x: int, channels: int, kernel: int = 1) -> int:
    weights = _weights(b, rng, (channels, kernel, kernel, b.tensors[x].shape[3]), 0)
    bias = b.bias(x, weights, rng.integers(-2000, 2000, channels))
    return b.add("CONV_2D", [x, weights, bias], padding="SAME", scale=0.05, zero_point=int(rng.integers(-128, 128)))


def _depthwise(b: ModelBuilder, rng: np.random.Generator, x: int, kernel: int, stride: int) -> int:
    channels = b.tensors[x].shape[3]
    weights = _weights(b, rng, (1, kernel, kernel, channels), 3)
    bias = b.bias(x, weights, rng.integers(-2000, 2000, channels))
    return b.add("DEPTHWISE_CONV_2D", [x, weights, bias], padding=str(rng.choice(("SAME", "VALID"))),
                 stride_h=stride, stride_w=stride, scale=0.04, zero_point=int(rng.integers(-128, 128)))


def _network(seed: int) -> Model:
    """One to three blocks of expansion, window, projection and, where shapes allow, the sum with the block's input."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder(f"cascade_{seed}")
    channels = int(rng.choice((3, 8, 12, 16)))
    x = b.input((1, int(rng.integers(15, 30)), int(rng.integers(15, 30)), channels), scale=0.05,
                zero_point=int(rng.integers(-128, 128)))
    for _ in range(int(rng.integers(1, 4))):
        before, stride = x, int(rng.integers(1, 3))
        x = _pointwise(b, rng, x, int(rng.choice((16, 24, 40))), int(rng.choice((1, 1, 3))))
        if rng.random() < 0.3:
            x = b.add("MAX_POOL_2D", [x], padding="SAME", filter_height=3, filter_width=2, stride_h=stride,
                      stride_w=stride)
        else:
            x = _depthwise(b, rng, x, int(rng.choice((3, 3, 5))), stride)
        x = _pointwise(b, rng, x, b.tensors[before].shape[3])
        if b.tensors[x].shape == b.tensors[before].shape:
            x = b.add("ADD", [before, x], scale=0.07, zero_point=3)
    return parse_model(b.build(x), b.name)


def _check(seed: int, config: Config) -> int:
    """Compare one inference; return the number of groups."""
    model = _network(seed)
    image = np.random.default_rng(seed).integers(-128, 128, model.main.tensors[0].shape).astype(np.int8)
    expected = run(model, [image]).outputs
    found = execute(compile_model(model, config).program, [image], seed=seed, check_races=True).outputs
    np.testing.assert_array_equal(found[0], expected[0])
    return len(make_plan(specialize(legalize(model), config), config).groups)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_cascades_equal_golden(config: Config) -> None:
    assert sum(_check(seed, config) for seed in range(3)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_many_cascades_equal_golden(config: Config) -> None:
    assert sum(_check(seed, config) for seed in range(100, 160)) >= 30


def test_a_group_keeps_a_few_rows() -> None:
    """3x3 windows at stride 1, strips of four rows: the buffer holds a strip and two rows."""
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    x = b.input((1, 32, 8, 16), scale=0.05)
    x = _pointwise(b, rng, x, 16)
    weights = _weights(b, rng, (1, 3, 3, 16), 3)
    x = b.add("DEPTHWISE_CONV_2D", [x, weights, b.bias(x, weights, np.zeros(16, int))], padding="SAME", scale=0.04)
    layers = legalize(parse_model(b.build(x), "rows")).layers
    group = schedule(layers, 0, {id(layers[0].output)}, 4, 0)
    assert group is not None
    assert group.cuts[1] == tuple((row, row + 4) for row in range(0, 32, 4))
    assert group.cuts[0][:3] == ((0, 5), (5, 9), (9, 13)) and group.cuts[0][-1] == (29, 32)
    rolling = group.rolling[id(layers[0].output)]
    assert rolling.rows == 6 and rolling.origins == {0: 0, 5: 3, 9: 7, 13: 11, 17: 15, 21: 19, 25: 23, 29: 27}
    assert group.order[:4] == ((0, 0), (1, 0), (0, 1), (1, 1))
