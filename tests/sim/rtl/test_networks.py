"""Networks of common kinds on the Verilated RTL equal golden."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import Memory
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.golden import run
from tq_hw.sim.rtl.simulate import simulate


def _check(kind: str, seed: int, config_name: str) -> None:
    model = network(kind, seed)
    inputs = random_inputs(model, seed)
    memory = Memory(stalls=seed if seed % 2 else None)
    found = simulate(compile_model(model, PRESETS[config_name]).program, inputs, memory)
    for got, want in zip(found.outputs, run(model, inputs).outputs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


# With the samples' configuration, whose library is already built.
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group("tiny")) for kind in NETWORKS])
def test_equals_golden(kind: str) -> None:
    _check(kind, 1, "tiny")


@pytest.mark.slow
@pytest.mark.parametrize("config_name", ["n16", "n8"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_equals_golden_at_the_large_configurations(kind: str, config_name: str) -> None:
    for seed in range(6):
        _check(kind, seed, config_name)
