"""Which unit was busy, as read from a timeline."""

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Layer
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.diagnose.busy import REASONS, array_cycles, groups, lost_cycles, slices, windows

#: Reasons that only the hardware's counters distinguish.
COUNTED = ("shape", "weights", "sums")


def layer(index: int, *runs: tuple[int, int]) -> Layer:
    return Layer(index, "CONV_2D", f"t{index}", "array", 1, 1, 0, "compute", {"array": runs})


def test_an_operation_taken_early_begins_when_the_previous_one_ends() -> None:
    times = {Unit.ARRAY: np.array([[5, 20], [10, 30], [40, 50]])}
    assert slices(times, Unit.ARRAY).tolist() == [[5, 20], [20, 30], [40, 50]]


def test_layers_with_interleaved_runs_form_a_group() -> None:
    layers = (layer(0, (0, 1)), layer(1, (2, 3), (6, 7)), layer(2, (4, 5), (8, 8)), layer(3, (9, 9)))
    assert groups(layers) == [[0], [1, 2], [3]]


def test_every_cycle_has_exactly_one_reason() -> None:
    rng = np.random.default_rng(1)
    b = ModelBuilder("net")
    x = b.input((1, 12, 12, 16), scale=0.5, zero_point=-3)
    for _ in range(2):
        weights = b.constant(rng.integers(-127, 128, (16, 3, 3, 16)).astype(np.int8), scale=[0.01] * 16)
        x = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 16)], scale=0.9, zero_point=4, padding="SAME")
    compiled = compile_model(parse_model(b.build(b.add("LOGISTIC", [x], scale=1 / 256, zero_point=-128)), "net"),
                             PRESETS["n8"])
    cycles = sum(row.cycles for row in compiled.report)
    lost = lost_cycles(compiled.program, compiled.timeline, cycles, macs=compiled.program.config.macs)
    assert list(lost) == [name for name in REASONS if name not in COUNTED]
    assert sum(lost.values()) == cycles and min(lost.values()) >= 0
    assert lost["multiplying"] > cycles // 2
    busy, spans = array_cycles(compiled.program, compiled.timeline), windows(compiled.program, compiled.timeline)
    for row in compiled.report:
        if row.macs:
            assert row.macs <= busy[row.index] * PRESETS["n8"].macs
            assert busy[row.index] <= spans[row.index][1] - spans[row.index][0]
