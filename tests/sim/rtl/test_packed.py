"""Machines with two products per multiplier: networks, graphs and operators on the Verilated RTL equal golden."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.graphs import graph
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.golden import run
from tq_hw.sim.rtl.simulate import simulate

#: Sizes of presets, and rows of which two groups share a cell, with words that hold three blocks of four channels.
CONFIGS = (Config("tiny_packed", 4, 4, 2, 8 << 10, acc_words=16, dsp_packing=2),
           Config("n8_packed", 8, 8, 4, 64 << 10, dsp_packing=2, few_luts=1),
           Config("r9c3_packed", 9, 3, 3, 32 << 10, acc_words=32, bus_bytes=4, dsp_packing=2))


def check(model: Model, config: Config, seed: int) -> None:
    try:
        program = compile_model(model, config).program
    except UnsupportedError:
        return
    inputs = random_inputs(model, seed)
    found = simulate(program, inputs, Memory(stalls=seed if seed % 2 else None))
    for got, want in zip(found.outputs, run(model, inputs).outputs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


def test_programs_are_those_of_the_unpacked_machine() -> None:
    packed = CONFIGS[0]
    assert packed.fingerprint == PRESETS["tiny"].fingerprint
    assert packed.values == {**PRESETS["tiny"].values, "name": "tiny_packed", "dsp_packing": 2}
    assert "dsp_packing" not in PRESETS["tiny"].values


@pytest.mark.slow  # builds simulators of its own
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("kind", NETWORKS)
def test_networks(kind: str, config: Config) -> None:
    check(network(kind, 1), config, 1)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_graphs_and_operators(config: Config) -> None:
    for seed in range(20):
        check(graph(seed), config, seed)
    for kind in KINDS:
        for seed in range(2):
            check(sample(kind, seed), config, seed)
