"""Bytes over time: as counted by the memory at the bus, in longer spans, and never above the memory's rate."""

from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Program
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.engines import make_engine
from tq_hw.sim.rtl.simulate import simulate
from tq_hw.sim.traffic import Traffic

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def digits() -> Program:
    return compile_model(read_model(DIGITS), PRESETS["tiny"]).program


def zeros(program: Program) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(port.shape, np.int8) for port in program.inputs)


@pytest.mark.parametrize("bytes_per_cycle", [8.0, 1.45])
def test_spans_hold_every_beat_and_none_above_the_rate(digits: Program, bytes_per_cycle: float) -> None:
    found = simulate(digits, zeros(digits), Memory(bytes_per_cycle=bytes_per_cycle))
    assert found.spans.sum(axis=0).tolist() == [found.beats["read_beats"], found.beats["write_beats"]]
    assert 0 <= found.cycles - len(found.spans) * found.span_cycles + found.span_cycles <= 2 * found.span_cycles
    bus_bytes = digits.config.bus_bytes
    # A beat offered in the previous span may be taken in this one.
    assert found.spans.sum(axis=1).max() * bus_bytes <= bytes_per_cycle * found.span_cycles + 2 * bus_bytes


def test_traffic_of_the_rtl_is_that_of_the_bus(digits: Program) -> None:
    model = read_model(DIGITS)
    found = make_engine("rtl", model, digits, YARDSTICK).infer(zeros(digits)).traffic
    assert found is not None and found.measured
    beats = simulate(digits, zeros(digits)).beats
    assert found.read.sum() == digits.config.bus_bytes * beats["read_beats"]
    assert found.written.sum() == digits.config.bus_bytes * beats["write_beats"]
    assert make_engine("executor", model, digits, YARDSTICK).infer(zeros(digits)).traffic is None


def test_no_beat_is_a_span_of_nothing() -> None:
    found = Traffic.of_beats(np.zeros((0, 2), np.int64), 64, 8)
    assert (found.read.tolist(), found.written.tolist()) == ([0], [0])


@pytest.mark.parametrize(("spans", "most"), [(1, 3), (3, 3), (7, 3), (1000, 240)])
def test_coarser_keeps_every_byte(spans: int, most: int) -> None:
    fine = Traffic(64, np.arange(spans), np.arange(spans) * 2, True)
    coarse = fine.coarser(most)
    assert len(coarse.read) <= most and coarse.cycles_each % 64 == 0
    each = coarse.cycles_each // 64
    assert coarse.read.tolist() == [sum(range(at, min(at + each, spans))) for at in range(0, spans, each)]
    assert coarse.written.sum() == 2 * fine.read.sum()
