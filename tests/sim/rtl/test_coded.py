"""Coded weights on the Verilated RTL: networks == golden, and damaged ones == executor."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.operations import operations
from tq_hw.model.samples.layers import sample
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden import run
from tq_hw.sim.rtl.simulate import simulate

CONFIGS = {"tiny": replace(PRESETS["tiny"], compressed_weights=1), "n8": replace(PRESETS["n8"], compressed_weights=1),
           "odd": Config("odd", 12, 12, 4, 32 << 10, compressed_weights=1)}

#: Each configuration is a simulator of its own.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_equal_golden(kind: str, name: str) -> None:
    model = network(kind, 1)
    inputs = random_inputs(model, 1)
    for memory in (Memory(30, 1.45), Memory(stalls=1)):
        found = simulate(compile_model(model, CONFIGS[name], memory=memory).program, inputs, memory)
        for got, want in zip(found.outputs, run(model, inputs).outputs, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", CONFIGS)
def test_damaged_rows_equal_the_executor(name: str) -> None:
    """Whatever a coded run holds, both decode the same."""
    rng = np.random.default_rng(7)
    damaged = 0
    for seed in range(6):
        program = compile_model(sample("fully_connected", seed), CONFIGS[name], memory=Memory(30, 1.45)).program
        image = np.frombuffer(program.image, np.uint8).copy()
        for load in operations(program.commands, program.config)[Unit.LOAD]:
            if load.fields["coded"]:
                first, size = load.fields["memory_offset_bytes"], load.fields["run_bytes"]
                at = first + rng.integers(0, size, 1 + size // 20)
                image[at] = rng.integers(0, 256, len(at))
                damaged += 1
        broken = replace(program, image=image.tobytes())
        inputs = random_inputs(broken, seed)
        for got, want in zip(simulate(broken, inputs).outputs, execute(broken, inputs).outputs, strict=True):
            np.testing.assert_array_equal(got, want)
    assert damaged
