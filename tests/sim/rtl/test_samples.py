"""Compiled random layers on the Verilated RTL equal golden, at two configurations, under random memory stalls.

In the small configurations nearly every layer crosses the edges of tiles, words, buffers and the scratchpad.
"""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.memory import Memory
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.golden import run
from tq_hw.sim.rtl.simulate import simulate

#: The second one is also used by tests/sim/test_random_streams.py, so its simulator is built once.
CONFIGS = {"tiny": PRESETS["tiny"],
           "odd": Config("odd", 4, 12, 4, 16 << 10, bus_bytes=4, acc_buffers=2, activation_lanes=2, acc_open=2)}


def _compare(kind: str, seed: int, config: Config) -> None:
    model = sample(kind, seed)
    program = compile_model(model, config).program
    inputs = random_inputs(program, seed)
    stalls = seed if seed % 2 else None
    found = simulate(program, inputs, Memory((1, 30, 7)[seed % 3], (8, 3)[seed % 2], stalls=stalls))
    for got, want in zip(found.outputs, run(model, inputs).outputs, strict=True):
        np.testing.assert_array_equal(got, want)


# One process builds and uses a configuration's library.
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CONFIGS])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_golden(kind: str, name: str) -> None:
    for seed in range(3):
        _compare(kind, seed, CONFIGS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n16", "n16x8", "n9x8", "n8", "tiny"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_layers_equal_golden(kind: str, name: str) -> None:
    for seed in range(40):
        _compare(kind, seed, PRESETS[name])
