"""compiler.search: trials do not change any integer, and the best one is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile as compile_module
from tq_hw.compiler import compile_model, search
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.plan.layout import row_cuts
from tq_hw.compiler.plan.places import Choice
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"


def convolutions(size: int, channels: tuple[int, ...], kernel: int) -> Model:
    builder = ModelBuilder("convolutions")
    at = builder.input((1, size, size, channels[0]), scale=0.05, zero_point=3)
    rng = np.random.default_rng(0)
    for before, outputs in zip(channels, channels[1:], strict=False):
        weights = builder.constant(rng.integers(-127, 128, (outputs, kernel, kernel, before)).astype(np.int8),
                                   scale=rng.uniform(0.001, 0.01, outputs).tolist(), dimension=0)
        bias = builder.bias(at, weights, rng.integers(-500, 500, outputs))
        at = builder.add("CONV_2D", [at, weights, bias], padding="SAME", scale=0.05, zero_point=3)
    return parse_model(builder.build(at), "convolutions")


def cycles(model: Model, config: str) -> int:
    return max(int(times[:, 1].max()) for times in compile_model(model, PRESETS[config]).timeline.values())


def test_rows_that_dip() -> None:
    """The array waits for the second rectangle after all weights, so that one is small."""
    assert row_cuts(0, 12, 3, 3, dips=True) == [(0, 3), (3, 5), (5, 8), (8, 10), (10, 12)]
    assert row_cuts(0, 12, 3, 3) == [(0, 3), (3, 6), (6, 9), (9, 12)]
    assert row_cuts(0, 2, 3, 3, dips=True) == [(0, 2)]


def test_a_streamed_layer_becomes_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = convolutions(12, (128, 128), 1), replace(PRESETS["n16"], acc_open=0)
    found = compile_model(model, config)
    assert found.emitter.choices == {0: Choice(dips=True)}
    with monkeypatch.context() as patch:
        patch.setattr(search, "_MOVES", ())
        plain = compile_model(model, config)
    assert plain.emitter.choices == {}
    assert max(t[-1, 1] for t in found.timeline.values()) < max(t[-1, 1] for t in plain.timeline.values())


@pytest.mark.parametrize("move", [
    {"parts": 4}, {"parts": 1}, {"operation_cycles": 16}, {"dips": True}, {"tile_slots": 7}, {"tile_slots": 40}])
@pytest.mark.parametrize("config", ["n16", "n8"])
def test_every_move_leaves_the_integers(monkeypatch: pytest.MonkeyPatch, config: str, move: dict[str, int]) -> None:
    """Moves are applied to all layers, even where they do not pay."""
    monkeypatch.setattr(search, "_MOVES", (move,))
    monkeypatch.setattr(search, "_LEAST_CYCLES", -1 << 40)
    monkeypatch.setattr(search, "_LEAST_SHARE", -1e-9)
    for model in (read_model(DIGITS), convolutions(12, (32, 16, 16, 16), 3)):
        shape = model.main.tensors[model.main.inputs[0]].shape
        x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
        compiled = compile_model(model, PRESETS[config])
        assert compiled.emitter.choices or "dips" in move
        found, right = execute(compiled.program, [x]).outputs, golden.run(model, [x]).outputs
        assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


def test_the_best_trial_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that makes everything slower is not applied."""
    model = convolutions(24, (16, 16, 16), 3)
    best = cycles(model, "n16")
    monkeypatch.setattr(search, "_MOVES", (*search._MOVES, {"parts": 24}))
    assert cycles(model, "n16") <= best


@pytest.mark.parametrize("refused", [1, 2])
def test_a_trial_that_is_too_large_is_passed_over(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    """A move is tried on all layers that it concerns, then on those that it makes faster, here layer 3 only."""
    tried = []

    class Trial(search._Trial):
        def __init__(self, emitter: Emitter) -> None:
            tried.append(sorted(emitter.choices))
            if len(tried) == refused + 1:
                raise UnsupportedError("too large")
            super().__init__(emitter)

        def spent(self, number: int) -> int:
            return 0 if number == 3 and self.emitter.choices else 100

    monkeypatch.setattr(search, "_Trial", Trial)
    monkeypatch.setattr(search, "_MOVES", ({"parts": 3},))
    monkeypatch.setattr(compile_module, "rested_plans", lambda *_: [])
    assert compile_model(read_model(DIGITS), PRESETS["n16"]).emitter.choices == {}
    assert tried == [[], [1, 2, 3, 4, 5], [3]][:refused + 1]


def test_slow_memory_is_read_once() -> None:
    """Windows of two words load their bytes twice; if that costs more than steps, channels stay in words."""
    model = convolutions(40, (3, 8), 3)
    inputs = [np.random.default_rng(1).integers(-128, 128, (1, 40, 40, 3)).astype(np.int8)]
    moved = {}
    for rate in (8.0, 1.0):
        compiled = compile_model(model, PRESETS["n9x8"], memory=Memory(30, rate))
        folded = compiled.emitter.plan.layers[0].fold is not None
        moved[folded] = compiled.program.layers[0].bytes_moved
        assert folded == (rate == 8.0)
        np.testing.assert_array_equal(execute(compiled.program, inputs).outputs[0],
                                      golden.run(model, inputs).outputs[0])
    assert moved[True] > moved[False] + 4000
