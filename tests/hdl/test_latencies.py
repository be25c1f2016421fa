"""The latencies of isa/latency.py from a slot to the requantized word, seen in the units around the scratchpad."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_hw.isa.config import Config, load_config
from tq_hw.isa.latency import (
    ARRAY_START_CYCLES,
    SLOT_TO_PORT_CYCLES,
    STAGE_RESULT,
    TAG_LEAD_CYCLES,
    WEIGHTS_ASKED_CYCLES,
    array_latency_cycles,
    feed_cycles,
    sums_delay_cycles,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "figures"))
tile_run: Any = importlib.import_module("tile_run")


@pytest.mark.parametrize("config", [
    pytest.param(replace(load_config("tiny"), name="one_lane", requantize_lanes=1), id="one_lane"),
    pytest.param(load_config("n8"), id="n8")])
def test_a_tile_takes_what_is_documented(config: Config) -> None:
    signals = tile_run.run_tile(config).signals
    seen = {name: [cycle for cycle, value in enumerate(values) if value] for name, values in signals.items()}
    taken = seen["taken"][0]
    assert seen["weights"][0] == taken + WEIGHTS_ASKED_CYCLES + 1
    assert seen["begin"][0] == taken + max(ARRAY_START_CYCLES, WEIGHTS_ASKED_CYCLES + config.rows)
    slot = seen["begin"][0] + 1  # the counter has its first slot in the cycle after
    sums = [cycle + TAG_LEAD_CYCLES for cycle in seen["keep"]]
    assert seen["read"][0] == slot + SLOT_TO_PORT_CYCLES
    assert sums[0] == seen["read"][0] + feed_cycles(config) + array_latency_cycles(config)
    assert len(sums) == tile_run.SLOTS * tile_run.STEPS
    last = slot + len(sums) - 1
    assert seen["full"][0] == seen["take"][0] == last + sums_delay_cycles(config)
    assert [cycle - seen["take"][0] for cycle in seen["out"]] == [
        config.beats_per_word * word + STAGE_RESULT + config.beats_per_word for word in range(tile_run.SLOTS)]
