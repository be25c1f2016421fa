"""Compiled random layers on the executor equal golden, at several configurations, with the race checker on."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.model.samples.operators import OPERATOR_LAYERS
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

ODD = Config("odd", 4, 12, 4, 16 << 10)
UNEVEN = Config("uneven", 12, 5, 5, 16 << 10, acc_words=32, acc_buffers=2, bus_bytes=16)
CONFIGS = [load_config("n16"), load_config("n9x8"), load_config("tiny"), ODD, UNEVEN]


def _compare(kind: str, seed: int, config: Config) -> None:
    model = sample(kind, seed)
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, model.main.tensors[i].shape).astype(np.int8) for i in model.main.inputs]
    expected = run(model, inputs).outputs
    found = execute(compile_model(model, config).program, inputs, seed=seed, check_races=True).outputs
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_golden(kind: str, config: Config) -> None:
    for seed in range(4 if kind in OPERATOR_LAYERS else 8):
        _compare(kind, seed, config)


@pytest.mark.slow
@pytest.mark.parametrize("config", [*CONFIGS, load_config("n8"), load_config("n16x8")], ids=lambda config: config.name)
@pytest.mark.parametrize("kind", KINDS)
def test_many_layers_equal_golden(kind: str, config: Config) -> None:
    for seed in range(100, 200):
        _compare(kind, seed, config)


@pytest.mark.parametrize("seed", [18])
def test_chains_that_once_differed(seed: int) -> None:
    _compare("chain", seed, load_config("n16"))
