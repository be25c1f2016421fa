"""Logistic and tanh of 16 bits: a lane against the golden model, and their way through the vector unit."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pipeline_bench import rtl
from vector_bench import check
from vector_reference import VECTOR_CONFIGS, Operation, Scenario, Uop, operation, uop

from tq_hw.hdl.lane.activation import ActivationLane
from tq_hw.isa.config import Config, ConfigError, load_config
from tq_hw.isa.uop import Activation, Alu, Destination, Source
from tq_hw.sim.executor.uop import activate
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN
from tq_hw.sim.golden.fixedpoint import logistic, tanh

CONFIGS = [config for config in VECTOR_CONFIGS.values() if config.activation_lanes]
CORNERS = [0, 1, -1, 2, 1024, 1025, -1024, *(sign << bit for bit in range(10, 18) for sign in (1, -1)), 65535, 65537,
           -65535, -65537, 32767, -32769, INT32_MAX, INT32_MIN]


def found(cases: Sequence[tuple[Activation, int]]) -> list[int]:
    """Return the lane's results."""
    return rtl(ActivationLane(), [{"x": x, "tanh": function == Activation.TANH} for function, x in cases])


def ref(cases: Sequence[tuple[Activation, int]]) -> list[int]:
    return [int(activate(function, np.array(x))) for function, x in cases]


def test_corners_and_random_arguments() -> None:
    rng = random.Random(1)
    spread = [rng.randint(-70_000, 70_000) for _ in range(1500)]
    cases = [(function, x) for x in (*CORNERS, *spread) for function in Activation]
    assert found(cases) == ref(cases)


@pytest.mark.slow
def test_every_int16() -> None:
    every = np.arange(-(1 << 15), 1 << 15)
    cases = [(function, int(x)) for x in every for function in Activation]
    results = np.array(found(cases)).reshape(-1, 2)
    assert np.array_equal(results[:, 0], logistic(every, 3))
    assert np.array_equal(results[:, 1], tanh(every, 2))


def activated(function: Activation, **fields: Any) -> Uop:
    return uop(Source.STREAM, destination=Destination.ACTIVATION, reduce=int(function), **fields)


def over_streams(number: int, **fields: int) -> Operation:
    """An operation over int16 with room for its output."""
    return operation(**({"a_type": 1, "out_type": 1, "a_base": 20, "out_base": 200 + 100 * number, "slots": 5,
                         "tile_slots": 5, "a_col_step": 4, "out_col_step": 4, "first": number} | fields))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("refuse", [0, 0.5])
def test_operations_keep_their_order_and_their_functions(config: Config, refuse: float) -> None:
    """Functions in turn; outputs, a reduction and a table that must not overtake them; reads of what they made."""
    uops = [activated(Activation.LOGISTIC), activated(Activation.TANH), activated(Activation.LOGISTIC),
            uop(Source.STREAM, Source.IMMEDIATE, Alu.ADD, immediate=7),
            uop(Source.STREAM, destination=Destination.REDUCE, d_register=1),
            uop(Source.REGISTER, a_register=1, a_hold=1), uop(immediate=77)]
    operations = [
        over_streams(0), over_streams(1), over_streams(2, a_base=200), over_streams(3, a_base=300),
        over_streams(1, a_base=50, out_base=700, chunk_slots=1), over_streams(4, last=5, out_base=800, a_base=700),
        over_streams(0, out_base=900), operation(kind=1, a_base=900, slots=3), over_streams(3, a_base=60, out_base=950),
        over_streams(0, out_base=1000), over_streams(6, slots=9, tile_slots=9, out_base=1000),
        over_streams(1, out_base=1050), over_streams(6, first=6, slots=1, tile_slots=1, out_base=1046)]
    check(Scenario(config, uops, operations, refuse=refuse))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_outputs_of_one_program_follow_each_other(config: Config) -> None:
    """Two functions, and a plain output over the last one's, of every chunk; then what reads it."""
    uops = [activated(Activation.TANH), activated(Activation.LOGISTIC), uop(Source.STREAM, Source.STREAM, Alu.ADD),
            activated(Activation.TANH)]
    whole = over_streams(0, last=2, chunk_slots=2, b_type=1, b_base=200, b_col_step=4, slots=8, tile_slots=4)
    check(Scenario(config, uops, [whole, whole | {"last": 3, "body_first": 4, "body_last": 3}]))


def test_takes_a_beat_in_as_many_cycles_as_it_has_elements_for_each_lane() -> None:
    config = VECTOR_CONFIGS["n8a2"]
    few, many = (check(Scenario(config, [activated(Activation.TANH)], [over_streams(0, slots=n, tile_slots=n)]))
                 for n in (4, 12))
    assert many.done[0] - few.done[0] == 8 * config.beats_per_word * config.activation_steps


def test_configurations() -> None:
    n16 = load_config("n16")
    assert (n16.activation_lanes, n16.activation_steps) == (2, 8)
    assert load_config("n8").activation_steps == 0
    assert len({replace(n16, activation_lanes=lanes).fingerprint for lanes in (0, 1, 2, 4)}) == 4
    for lanes in (-1, 3):
        with pytest.raises(ConfigError, match=(
                r"^configuration 'n16': activation_lanes must be 0 or divide requantize_lanes, not -?\d; the nearest "
                r"legal value is [02]$")):
            replace(n16, activation_lanes=lanes)
