"""`estimate_model`: the cost model without the search for schedules and without the check."""

from dataclasses import replace
from pathlib import Path

import pytest

from tq_hw.compiler import compile_model, estimate_model, estimated_as
from tq_hw.isa.config import PRESETS, load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.graph import Model
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.reader import read_model

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.mark.parametrize("config", ["tiny", "n8", "n16"])
def test_the_estimate_is_at_most_a_few_percent_over_that_of_a_compile(config: str) -> None:
    model = read_model(DIGITS)
    found = estimate_model(model, load_config(config))
    compiled = compile_model(model, load_config(config))
    cycles = sum(row.cycles for row in compiled.report)
    assert cycles <= found.cycles <= 1.1 * cycles
    assert found.macs == sum(row.macs for row in compiled.report)
    program = compiled.program
    size = len(program.image) + program.arena_bytes + len(program.state)
    assert found.memory_bytes == pytest.approx(size, rel=0.1)
    assert sum(found.bounds.values()) == found.cycles
    assert found.bound in found.bounds


def test_a_slow_memory_takes_longer() -> None:
    model = read_model(DIGITS)
    slow, fast = (estimate_model(model, load_config("n8"), Memory(30, rate)) for rate in (1, 8))
    assert slow.cycles > 1.5 * fast.cycles
    assert slow.macs == fast.macs


@pytest.mark.parametrize("model", [read_model(DIGITS), typical("CONV_2D"), typical("SVDF"), typical("TANH")],
                         ids=lambda model: model.name)
@pytest.mark.parametrize("config", ["n16", "n8"])
def test_options_without_a_part_in_an_estimate_do_not_change_it(model: Model, config: str) -> None:
    every = replace(PRESETS[config], acc_open=4, activation_lanes=2)
    assert estimated_as(model, every) == replace(every, acc_open=0, activation_lanes=0)
    assert estimate_model(model, every) == estimate_model(model, estimated_as(model, every))


def test_lanes_that_serve_an_lstm_have_an_estimate_of_their_own() -> None:
    model, plain = typical("UNIDIRECTIONAL_SEQUENCE_LSTM"), PRESETS["n8"]
    some = replace(plain, acc_open=4, activation_lanes=2)
    assert estimated_as(model, some) == replace(plain, activation_lanes=2)
    assert estimate_model(model, some) == estimate_model(model, estimated_as(model, some))
    assert estimate_model(model, some).cycles < estimate_model(model, plain).cycles
