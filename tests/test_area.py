"""benches/area.py: configurations by their sizes, modules of RTLIL, hashes that are blind to numbers."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.resources.record import boards, families, machines
from tq_hw.isa.config import PRESETS, ConfigError

sys.path.insert(0, str(Path(__file__).parents[1] / "benches"))
area: Any = importlib.import_module("area")
RTLIL = """\
attribute \\top 1
module \\top
  wire width 4 input 0 \\clk
end
attribute \\generator "x"
module \\top.array
  wire width 4 input 0  \\units_clk
  wire input 1  \\start
  wire width 8 output 2  \\result
  cell \\top.array.grid$12 \\grid
end
module \\top.array.grid$12
  wire width 2 $3
end
"""


def test_configurations_by_their_sizes() -> None:
    assert area.parse_config("n8") is PRESETS["n8"]
    config = area.parse_config("9x8x4,bus_bytes=4,scratchpad_bytes=32768")
    assert (config.rows, config.cols, config.requantize_lanes, config.bus_bytes) == (9, 8, 4, 4)
    assert area.parse_config("8x8x4").fingerprint == PRESETS["n8"].fingerprint
    with pytest.raises(ConfigError):
        area.parse_config("9x8x5")


def test_machines_are_drawn_by_number() -> None:
    draws: Any = importlib.import_module("draws")
    assert draws.drawn(2) == draws.drawn(2)
    assert draws.drawn(4).dsp_packing == 2
    assert len({draws.drawn(number).fingerprint for number in range(24)}) == 24
    odd = {draws.drawn(number).fingerprint for number in range(1, 24, 2)}
    for family in families():
        held = {machine.config.fingerprint for machine in machines(family)
                if machine.held and machine.config.design == "parallel"}
        listed = {area.parse_config(text).fingerprint for text in draws.KEPT_OUT.get(family, ())}
        assert held <= odd | listed
        assert not listed & {machine.config.fingerprint for machine in machines(family) if not machine.held}


def test_units_are_the_modules_below_the_top() -> None:
    parts = area.modules(RTLIL)
    assert list(parts) == ["\\top", "\\top.array", "\\top.array.grid$12"]
    assert [(name, module) for name, module, _ in area.units(parts, "parallel", "ecp5")] == [
        ("array", "\\top.array"), ("top", "\\top")]
    assert [name for name, _, _ in area.units(parts, "serial", "ecp5")] == ["serial"]


def test_a_hash_is_blind_to_numbers_alone() -> None:
    first = area.digest(area.modules(RTLIL), "\\top.array", "synth")
    assert area.digest(area.modules(RTLIL.replace("$12", "$77").replace("$3", "$9")), "\\top.array", "synth") == first
    assert area.digest(area.modules(RTLIL.replace("width 2", "width 3")), "\\top.array", "synth") != first
    assert area.digest(area.modules(RTLIL), "\\top.array", "synth -noshare") != first


def test_registers_stand_at_every_port_but_the_clock() -> None:
    text, count = area.registered(area.modules(RTLIL)["\\top.array"], "\\top.array")
    assert count == 1 + 8
    assert text.count("cell $dff ") == 2
    assert "connect \\units_clk \\clk" in text


def test_a_record_is_written_as_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = area._RECORD.read_text(encoding="utf-8")
    monkeypatch.setattr(area, "_RECORD", tmp_path / "record.json")
    area.write(json.loads(text))
    assert area._RECORD.read_text(encoding="utf-8") == text
    assert all(machines(family) for family in families())
    assert boards()


def test_what_a_board_takes_more_than_recorded_is_named() -> None:
    boards_bench: Any = importlib.import_module("boards")
    known = boards_bench.recorded("arty_a7", "DDR3")
    assert known["multipliers"] == 80 and boards_bench.recorded("arty_a7", "tape") == {}
    assert boards_bench.grown({"multipliers": 80, "luts": 1.02 * known["luts"]}, known) == []
    assert boards_bench.grown({"multipliers": 90}, known) == ["multipliers 80 -> 90"]
