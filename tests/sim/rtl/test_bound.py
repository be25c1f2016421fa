"""The bound of a run on the RTL is positive and finite for any values of fields."""

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Program
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.rtl.bound import cycle_bound, quiet_bound
from tq_hw.sim.rtl.simulate import simulate

CONFIGS = ["tiny", "n16", "serial"]


def program(config: str, unit: Unit, values: dict[str, int]) -> Program:
    assembler = Assembler(PRESETS[config])
    assembler.run(unit, values)
    assembler.end()
    commands = assembler.to_bytes()
    return Program("net", PRESETS[config], commands, 0, len(commands), 16)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("unit", UNITS)
def test_any_fields_give_a_positive_and_finite_bound(config: str, unit: Unit) -> None:
    rng = np.random.default_rng(unit)
    largest = 0
    for _ in range(500):
        values = {name: int(rng.choice((field.low, field.high, 0, 1))) for name, (_, field) in
                  UNITS[unit].fields.items()}
        for stalls in (None, 5):
            bound = cycle_bound(program(config, unit, values), Memory(30, 0.01, stalls=stalls))
            assert 20_000 <= bound <= 1 << 32
            largest = max(largest, bound)
    assert largest == 1 << 32


def test_a_program_that_waits_forever_is_stopped() -> None:
    """Micro-operations from 200 to 1, with the most words: they add nothing to the bound, and wait for a token."""
    values = {"wait_load": 1, "first": 200, "body_first": 201, "last": 1, "slots": (1 << 24) - 1, "out_blocks": 60,
              "chunk_slots": 1, "tile_slots": 1, "repeat1": 1, "repeat2": 1, "cols": 1}
    one = program("tiny", Unit.VECTOR, values)
    assert cycle_bound(one, YARDSTICK) < 100_000
    with pytest.raises(SimulationError) as found:
        simulate(one, [])
    waits = "; ".join(f"{unit} did 0 RUNs and waits" for unit in ("load", "array", "vector", "store"))
    assert str(found.value) == f"net: not finished after {cycle_bound(one, YARDSTICK)} cycles: {waits}"


def test_a_machine_without_progress_is_stopped_early() -> None:
    """Many long programs, the first of which waits for a token: their common bound is far away."""
    values = {"slots": 4096, "out_blocks": 1, "chunk_slots": 16, "tile_slots": 4096, "cols": 1, "body_first": 1,
              "repeat1": 1, "repeat2": 1}
    assembler = Assembler(PRESETS["tiny"])
    assembler.run(Unit.VECTOR, {**values, "wait_load": 1})
    for _ in range(200):
        assembler.run(Unit.VECTOR, values)
    assembler.end()
    commands = assembler.to_bytes()
    one = Program("net", PRESETS["tiny"], commands, 0, len(commands), 16)
    assert cycle_bound(one, YARDSTICK) > 20 * quiet_bound(one, YARDSTICK)
    with pytest.raises(SimulationError, match=r"^net: no activity after \d{6} cycles: load did 0 RUNs"):
        simulate(one, [])
