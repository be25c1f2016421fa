"""Netlists as Yosys writes them, by hand, and the values of their nets."""

import json
from pathlib import Path
from typing import Any

PINS = "ABCD"
#: Inputs of the multiplexers of a slice: if the select is 0, if it is 1, the select.
MUX_PINS = {"PFUMX": ("BLUT", "ALUT", "C0"), "L6MUX21": ("D0", "D1", "SD")}


def table_of(function: Any, inputs: int = 4) -> int:
    """Return the table of a LUT4 that computes a function of its first inputs."""
    return sum(int(bool(function(*(index >> bit & 1 for bit in range(inputs))))) << index for index in range(16))


def lut(out: int, table: int, *nets: Any) -> dict[str, Any]:
    pins = dict(zip(PINS, [*nets, *["0"] * (4 - len(nets))], strict=True))
    return {"type": "LUT4", "parameters": {"INIT": f"{table:016b}"},
            "connections": {pin: [net] for pin, net in pins.items()} | {"Z": [out]},
            "port_directions": dict.fromkeys(PINS, "input") | {"Z": "output"}}


def mux(out: int, kind: str, zero: int, one: int, select: int) -> dict[str, Any]:
    """Return a multiplexer of a slice."""
    pins = dict(zip(MUX_PINS[kind], (zero, one, select), strict=True))
    return {"type": kind, "parameters": {}, "connections": {pin: [net] for pin, net in pins.items()} | {"Z": [out]},
            "port_directions": dict.fromkeys(pins, "input") | {"Z": "output"}}


def write(tmp_path: Path, cells: dict[str, Any], ports: dict[str, Any] | None = None) -> Path:
    file = tmp_path / "top.json"
    file.write_text(json.dumps({"modules": {"top": {"ports": ports or {}, "cells": cells}, "box": {}}}),
                    encoding="utf-8")
    return file


def cells_of(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))["modules"]["top"]["cells"]


def net_values(cells: dict[str, Any], nets: dict[Any, int]) -> dict[Any, int]:
    """Return the values of all nets for given values of those that neither a LUT nor a multiplexer drives."""
    values = {"0": 0, "1": 1, "x": 0} | nets
    waiting = [cell for cell in cells.values() if cell["type"] in ("LUT4", *MUX_PINS)]
    while waiting:
        ready = [cell for cell in waiting
                 if all(nets[0] in values for pin, nets in cell["connections"].items() if pin != "Z")]
        assert ready
        for cell in ready:
            pins = {pin: values[nets[0]] for pin, nets in cell["connections"].items() if pin != "Z"}
            if cell["type"] == "LUT4":
                at = sum(pins[pin] << bit for bit, pin in enumerate(PINS))
                value = int(cell["parameters"]["INIT"], 2) >> at & 1
            else:
                zero, one, select = MUX_PINS[cell["type"]]
                value = pins[one] if pins[select] else pins[zero]
            values[cell["connections"]["Z"][0]] = value
        waiting = [cell for cell in waiting if cell not in ready]
    return values


def free_nets(cells: dict[str, Any]) -> list[int]:
    """Return the nets that cells read and no LUT or multiplexer drives."""
    driven = {cell["connections"]["Z"][0] for cell in cells.values() if "Z" in cell["connections"]}
    return sorted({nets[0] for cell in cells.values() for pin, nets in cell["connections"].items()
                   if cell["port_directions"][pin] == "input" and not isinstance(nets[0], str)} - driven)
