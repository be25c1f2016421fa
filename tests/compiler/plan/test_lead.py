"""compiler.plan.lead: a first layer begins by slices of its channels, in accumulator buffers that stay open."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model, estimate_model, estimated_as
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.plan.lead import slices
from tq_hw.compiler.plan.places import Plan
from tq_hw.compiler.search import Choices, search
from tq_hw.compiler.stream.stream import Commands
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.rtl.simulate import simulate

#: Two blocks share a word; a word is two slices of the array; words of parameters are longer than those of weights.
CONFIGS = [PRESETS["n16"], Config("r16c8", 16, 8, 8, 64 << 10, acc_open=4), replace(PRESETS["n8"], acc_open=4),
           Config("r4c6", 4, 6, 2, 32 << 10, acc_words=64, acc_buffers=2, acc_open=2)]
#: The same as in tests/sim/test_random_streams.py.
SMALL = Config("r6c4a2o2", 6, 4, 4, 4096, acc_words=16, acc_buffers=2, bus_bytes=4, activation_lanes=2, acc_open=2)


def pixelwise(shape: tuple[int, ...], outputs: int, *, layers: int = 1, stride: int = 1) -> Model:
    """A sequence of 1x1 convolutions."""
    builder = ModelBuilder("pixelwise")
    at = builder.input(shape, scale=0.05, zero_point=3)
    rng = np.random.default_rng(0)
    channels = shape[3]
    for _ in range(layers):
        weights = builder.constant(rng.integers(-127, 128, (outputs, 1, 1, channels)).astype(np.int8),
                                   scale=rng.uniform(0.001, 0.01, outputs).tolist(), dimension=0)
        at = builder.add("CONV_2D", [at, weights, builder.bias(at, weights, rng.integers(-500, 500, outputs))],
                         stride_w=stride, stride_h=stride, padding="VALID", scale=0.05, zero_point=3)
        channels = outputs
    return parse_model(builder.build(at), "pixelwise")


def begun(made: Compiled) -> list[int]:
    """Input blocks of each operation that leaves its buffers open, or continues in open ones."""
    operations = made.emitter.stream.by_unit[Unit.ARRAY]
    return [o.fields["kernel_blocks"] for o in operations if not (o.fields["acc_first"] and o.fields["acc_last"])]


def only_other(graph: Graph, plans: Sequence[Plan], others: Sequence[Plan],
               emit: Callable[[Plan, Choices], Emitter]) -> tuple[Emitter, Commands]:
    """Replaces the search: the last of the plans, whatever it costs."""
    assert others
    return search(graph, others[-1:], (), emit)


def test_slices() -> None:
    assert slices(8) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 8)]
    assert slices(3) == [(0, 1), (1, 3)]


def test_a_layer_that_waits_for_memory_begins_by_slices() -> None:
    model, config = pixelwise((1, 12, 12, 128), 128), PRESETS["n16"]
    made, plain = compile_model(model, config), compile_model(model, replace(config, acc_open=0))
    assert begun(made) == [1, 1, 1, 1, 1, 1, 2] and not begun(plain)
    ends = [max(int(t[-1, 1]) for t in which.timeline.values()) for which in (made, plain)]
    assert ends[0] < ends[1]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_an_estimate_knows_of_no_slices(config: Config) -> None:
    """Machines with and without open buffers share an estimate."""
    model = pixelwise((1, 12, 12, 128), 128)
    assert estimated_as(model, config) == replace(config, acc_open=0, activation_lanes=0)
    assert estimate_model(model, config) == estimate_model(model, estimated_as(model, config))


def test_slices_are_for_memories_that_answer_soon() -> None:
    """Each run of 16 bytes waits for the memory, and only a few can be outstanding."""
    assert not begun(compile_model(pixelwise((1, 12, 12, 128), 128), PRESETS["n16"], memory=Memory(100)))


@pytest.mark.parametrize("model", [
    pixelwise((1, 12, 12, 128), 48), pixelwise((1, 12, 12, 32), 128), pixelwise((1, 24, 24, 128), 128, stride=2),
    pixelwise((1, 4, 200, 128), 128), pixelwise((1, 12, 12, 2048), 128)],
    ids=["three output blocks", "two input blocks", "stride", "wide rows", "many channels"])
def test_layers_that_cannot(model: Model) -> None:
    assert not begun(compile_model(model, PRESETS["n16"]))


def test_only_the_first_layer_waits() -> None:
    made = compile_model(pixelwise((1, 12, 12, 128), 128, layers=2), PRESETS["n16"])
    assert {o.layer for o in made.emitter.stream.by_unit[Unit.ARRAY]
            if not (o.fields["acc_first"] and o.fields["acc_last"])} == {0}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize(("shape", "outputs"), [
    ((1, 12, 12, 128), 128), ((2, 9, 7, 100), 70), ((1, 33, 2, 61), 90), ((1, 40, 1, 130), 130)])
def test_integers_and_order(monkeypatch: pytest.MonkeyPatch, config: Config, shape: tuple[int, ...],
                            outputs: int) -> None:
    """Slices are forced on layers, even where they do not pay."""
    monkeypatch.setattr("tq_hw.compiler.compile.search", only_other)
    model = pixelwise(shape, outputs)
    made = compile_model(model, config)
    assert begun(made)
    inputs = [np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)]
    right = golden.run(model, inputs).outputs
    for seed in (0, 1):
        found = execute(made.program, inputs, seed=seed, check_races=True).outputs
        assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


@pytest.mark.parametrize("stalls", [None, 1, 2])
def test_rtl(monkeypatch: pytest.MonkeyPatch, stalls: int | None) -> None:
    monkeypatch.setattr("tq_hw.compiler.compile.search", only_other)
    model = pixelwise((2, 5, 4, 27), 19)
    made = compile_model(model, SMALL)
    assert len(begun(made)) > 2
    inputs = [np.random.default_rng(1).integers(-128, 128, (2, 5, 4, 27)).astype(np.int8)]
    found = simulate(made.program, inputs, Memory(stalls=stalls)).outputs
    assert np.array_equal(found[0], golden.run(model, inputs).outputs[0])
