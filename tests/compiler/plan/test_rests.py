"""Words of the scratchpad rest after use, so that loads of a layer do not wait for the layers before it."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model, estimate_model
from tq_hw.compiler.compile import plan_model
from tq_hw.compiler.plan import plan
from tq_hw.compiler.plan.places import Item, Name, first_fit
from tq_hw.compiler.plan.plan import make_plan
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def steps(count: int) -> Model:
    """Dense layers on parts of the input, none of which depends on another."""
    rng, b = np.random.default_rng(5), ModelBuilder("steps")
    parts = b.add_many("SPLIT", [b.constant(1), b.input((1, 24 * count), scale=0.05, zero_point=3)], count)
    weights = b.constant(rng.integers(-127, 128, (16, 24)).astype(np.int8), scale=0.01)
    made = [b.add("FULLY_CONNECTED", [part, weights, b.bias(part, weights, np.arange(16, dtype=np.int32))],
                  scale=0.1 + 0.01 * number, zero_point=number) for number, part in enumerate(parts)]
    return parse_model(b.build(*made), "steps")


def test_what_was_needed_rests() -> None:
    """The third item has the words of the first one, or other words if they rest for a layer longer."""
    names: list[Name] = [("in", layer, 0, 0) for layer in range(3)]
    items = [Item(4, layer, layer, name) for layer, name in enumerate(names)]
    assert [[*first_fit(items, lambda name: [], rest)[0].values()] for rest in range(3)] == [
        [0, 0, 0], [0, 4, 0], [0, 4, 8]]


def test_small_layers_have_words_of_their_own() -> None:
    model, config = steps(4), PRESETS["n16"]
    graph, closely = plan_model(model, config)
    rested = make_plan(graph, config, rested=True)
    bases = [[layer.out_bases[0] for layer in made.layers] for made in (closely, rested)]
    assert len(set(bases[0])) == 1 and len(set(bases[1])) == 3
    compiled = compile_model(model, config)
    assert [layer.out_bases[0] for layer in compiled.emitter.plan.layers] == bases[1]
    assert estimate_model(model, config).cycles == sum(row.cycles for row in compiled.report)
    inputs = [np.random.default_rng(1).integers(-128, 128, (1, 96)).astype(np.int8)]
    for found, wanted in zip(execute(compiled.program, inputs, check_races=True).outputs, run(model, inputs).outputs,
                             strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_where_there_is_little_room_nothing_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PRESETS["n16"]
    graph, closely = plan_model(steps(4), config)
    monkeypatch.setattr(plan, "_REST_SHARE", 1 << 20)
    rested = make_plan(graph, config, rested=True)
    assert [layer.out_bases for layer in closely.layers] == [layer.out_bases for layer in rested.layers]
