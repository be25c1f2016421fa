"""Coded weights on the Verilated RTL: networks equal golden, and damaged ones the executor."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.operations import operations
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.model.tflite.reader import parse_model
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


def dense(seed: int) -> bytes:
    """Return a dense layer of small weights whose inputs are whole words of all machines: lanes after the last channel
    would be undefined, and damage would give them weights."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder("dense")
    x = b.input((1, 96), scale=0.05, zero_point=3)
    weights = b.constant(rng.integers(-1, 2, (40, 96)).astype(np.int8), scale=0.004)
    bias = b.bias(x, weights, rng.integers(-20000, 20000, 40))
    return b.build(b.add("FULLY_CONNECTED", [x, weights, bias], scale=0.1, zero_point=-5))


@pytest.mark.parametrize("name", CONFIGS)
def test_damaged_rows_equal_the_executor(name: str) -> None:
    """RTL and executor decode any contents of a coded run alike."""
    rng = np.random.default_rng(7)
    for seed in range(6):
        model = parse_model(dense(seed), "dense")
        program = compile_model(model, CONFIGS[name], memory=Memory(30, 1.45)).program
        image = np.frombuffer(program.image, np.uint8).copy()
        runs = [load.fields for load in operations(program.commands, program.config)[Unit.LOAD] if load.fields["coded"]]
        assert runs
        for fields in runs:
            first, size = fields["memory_offset_bytes"], fields["run_bytes"]
            at = first + rng.integers(0, size, 1 + size // 20)
            image[at] = rng.integers(0, 256, len(at))
        broken = replace(program, image=image.tobytes())
        inputs = random_inputs(broken, seed)
        for got, want in zip(simulate(broken, inputs).outputs, execute(broken, inputs).outputs, strict=True):
            np.testing.assert_array_equal(got, want)
