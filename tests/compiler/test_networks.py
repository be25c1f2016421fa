"""Networks of common kinds, compiled, on the executor equal golden, with the race checker on."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _check(kind: str, seed: int, config_name: str) -> None:
    model = network(kind, seed)
    program = compile_model(model, load_config(config_name)).program
    for inputs in (random_inputs(model, seed, each) for each in ("random", "mix")):
        found = execute(program, inputs, seed=seed, check_races=True).outputs
        for got, want in zip(found, run(model, inputs).outputs, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("config_name", ["n16", "n8"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_equals_golden(kind: str, config_name: str) -> None:
    _check(kind, 1, config_name)


@pytest.mark.slow
@pytest.mark.parametrize("config_name", ["n16", "n8", "n9x8", "tiny"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_equals_golden_in_a_sweep(kind: str, config_name: str) -> None:
    for seed in range(2, 12):
        _check(kind, seed, config_name)
