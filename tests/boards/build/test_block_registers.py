"""Which flip-flops go into multipliers and block RAMs, on handwritten netlists; test_netlist.py uses a real one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.build.block_registers import absorb_registers

CLOCK, ENABLE = 2, 3


def flip_flop(source: int, to: int, **changed: Any) -> dict[str, Any]:
    """Return a flip-flop as Yosys writes it. `changed` gives parameters, or pins as lists."""
    pins = {"CLK": [CLOCK], "DI": [source], "LSR": ["0"], "Q": [to]}
    parameters = {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"}
    pins |= {name: value for name, value in changed.items() if isinstance(value, list)}
    parameters |= {name: value for name, value in changed.items() if isinstance(value, str)}
    return {"type": "TRELLIS_FF", "parameters": parameters, "connections": pins,
            "port_directions": {name: "output" if name == "Q" else "input" for name in pins}}


def netlist(tmp_path: Path, bits: int = 3, *, extra: dict[str, Any] | None = None, read_outside: bool = False,
            mixed: bool = False, registered: bool = False, **changed: Any) -> Path:
    """Return a multiplier whose first products, nets 10, 11, ..., each feed a flip-flop; the others are unconnected."""
    products = {f"P{bit}": [10 + bit] for bit in range(36)}
    multiplier = {"type": "MULT18X18D", "parameters": {"REG_OUTPUT_CLK": "CLK1"} if registered else {},
                  "connections": {"A0": [5], **products},
                  "port_directions": {"A0": "input", **dict.fromkeys(products, "output")}}
    cells = {"multiplier": multiplier, **{f"ff{bit}": flip_flop(10 + bit, 60 + bit, **changed) for bit in range(bits)}}
    if mixed:
        cells["ff0"] = flip_flop(10, 60, CE=[ENABLE], CEMUX="CE")
    ports = {"out": {"direction": "output", "bits": [10 if read_outside else 60]}}
    file = tmp_path / "top.json"
    file.write_text(json.dumps({"modules": {"top": {"ports": ports, "cells": cells | (extra or {})}, "box": {}}}),
                    encoding="utf-8")
    return file


def cells_of(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))["modules"]["top"]["cells"]


@pytest.mark.parametrize(("changed", "enable"), [({}, "1"), ({"CE": [ENABLE], "CEMUX": "CE"}, ENABLE)])
def test_the_register_takes_clock_enable_and_outputs(changed: Any, enable: Any, tmp_path: Path) -> None:
    file = netlist(tmp_path, **changed)
    assert absorb_registers(file) == 3
    multiplier, = cells_of(file).values()
    assert multiplier["parameters"] == {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0", "REG_OUTPUT_RST": "RST0",
                                        "GSR": "DISABLED", "RESETMODE": "SYNC"}
    pins = multiplier["connections"]
    assert (pins["CLK0"], pins["CE0"], pins["RST0"]) == ([CLOCK], [enable], ["0"])
    assert [pins[f"P{bit}"] for bit in range(4)] == [[60], [61], [62], [13]]
    assert {name: multiplier["port_directions"][name] for name in ("CLK0", "CE0", "RST0")} == dict.fromkeys(
        ("CLK0", "CE0", "RST0"), "input")
    assert absorb_registers(file) == 0


READER = {"lut": {"type": "LUT4", "connections": {"A": [11]}, "port_directions": {"A": "input"}}}


@pytest.mark.parametrize("case", [
    {"LSR": [9]}, {"LSRMUX": "INV"}, {"REGSET": "SET"}, {"CLKMUX": "INV"}, {"GSR": "ENABLED"}, {"CEMUX": "INV"},
    {"mixed": True}, {"read_outside": True}, {"registered": True}, {"bits": 0}, {"extra": READER},
    {"extra": {"second": flip_flop(10, 90)}}, {"extra": {"third": flip_flop(13, 90, CLK=[4])}},
    {"extra": {"third": flip_flop(90, 91, CE=[13], CEMUX="CE")}},
], ids=str)
def test_others_stay(case: dict[str, Any], tmp_path: Path) -> None:
    """With a reset, an initial 1, another edge, flip-flops that differ, or a product with another reader."""
    file = netlist(tmp_path, **case)
    before = file.read_text(encoding="utf-8")
    assert absorb_registers(file) == 0 and file.read_text(encoding="utf-8") == before


def memory(tmp_path: Path, bits: int = 3, *, width: int = 18, parameters: dict[str, str] | None = None,
           pins: dict[str, list[Any]] | None = None, extra: dict[str, Any] | None = None, **changed: Any) -> Path:
    """Return a block RAM whose port B drives nets 10, 11, ..., each of which feeds a flip-flop."""
    words = {f"{port}{bit}": [base + bit] for port, base in (("DOA", 200), ("DOB", 10)) for bit in range(18)}
    connections = {"CLKB": [CLOCK], "OCEB": ["1"], "RSTB": ["0"], **words} | (pins or {})
    cell = {"type": "DP16KD", "connections": connections,
            "parameters": {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG", "CLKBMUX": "CLKB",
                           "DATA_WIDTH_B": f"{width:032b}"} | (parameters or {}),
            "port_directions": {name: "output" if name.startswith("DO") else "input" for name in connections}}
    cells = {"memory": cell, **{f"ff{bit}": flip_flop(10 + bit, 60 + bit, **changed) for bit in range(bits)}}
    file = tmp_path / "top.json"
    file.write_text(json.dumps({"modules": {"top": {"ports": {}, "cells": cells | (extra or {})}}}), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [1, 9, 18])
def test_the_output_register_of_a_memory(width: int, tmp_path: Path) -> None:
    file = memory(tmp_path, width=width)
    assert absorb_registers(file) == 3
    cell, = cells_of(file).values()
    assert (cell["parameters"]["REGMODE_A"], cell["parameters"]["REGMODE_B"]) == ("NOREG", "OUTREG")
    assert [cell["connections"][f"DOB{bit}"] for bit in range(4)] == [[60], [61], [62], [13]]
    assert absorb_registers(file) == 0


@pytest.mark.parametrize("case", [
    {"width": 36}, {"CLK": [4]}, {"CE": [ENABLE], "CEMUX": "CE"}, {"LSR": [9]}, {"bits": 0}, {"extra": READER},
    {"parameters": {"REGMODE_B": "OUTREG"}}, {"parameters": {"CLKBMUX": "INV"}}, {"pins": {"OCEB": ["0"]}},
    {"pins": {"RSTB": [8]}}], ids=str)
def test_other_memories_stay(case: dict[str, Any], tmp_path: Path) -> None:
    """A port that uses both ports' pins, another clock, an enable, a reset, a word with another reader."""
    file = memory(tmp_path, **case)
    before = file.read_text(encoding="utf-8")
    assert absorb_registers(file) == 0 and file.read_text(encoding="utf-8") == before
