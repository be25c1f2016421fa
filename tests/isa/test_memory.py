"""isa.memory: what the cost model assumes about a memory."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import Memory
from tq_hw.model.samples.networks import network
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

CONFIG = PRESETS["n16"]


def ends(made: Compiled) -> int:
    return max(int(times[:, 1].max()) for times in made.timeline.values())


@pytest.mark.parametrize(("memory", "cycles"), [
    (Memory(), 96), (Memory(bytes_per_cycle=16), 96), (Memory(bytes_per_cycle=4), 192),
    (Memory(bytes_per_cycle=1.5), 512), (Memory(100), 96)])
def test_beats_come_at_the_rate_of_bus_and_memory(memory: Memory, cycles: int) -> None:
    assert memory.cycles(CONFIG, 96) == cycles


@pytest.mark.parametrize(("rate", "lost"), [(8, 100), (4, 100), (1.45, 100), (12, 33), (16, 0), (64, 0)])
def test_both_directions_share_the_rate_of_the_memory(rate: float, lost: int) -> None:
    assert Memory(bytes_per_cycle=rate).slowed(CONFIG, 100) == lost


def test_estimates_follow_the_memory_and_integers_do_not() -> None:
    model = network("unet", 1)
    memories = [Memory(10), Memory(), Memory(100), replace(Memory(), bytes_per_cycle=2.0)]
    made = [compile_model(model, CONFIG, memory=memory) for memory in memories]
    assert [ends(one) for one in made] == sorted({ends(one) for one in made})
    shape = model.main.tensors[model.main.inputs[0]].shape
    x = [np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)]
    right = golden.run(model, x).outputs
    for one in made:
        found = execute(one.program, x).outputs
        assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))
    assert compile_model(model, CONFIG).program.image == made[1].program.image


def test_only_latency_and_rate_are_positional() -> None:
    with pytest.raises(TypeError):
        Memory(30, 8.0, 3)  # type: ignore[misc]  # a third positional argument
