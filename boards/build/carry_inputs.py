"""Absorb LUTs in front of an ECP5's adders into the free inputs of the carry cells; Yosys leaves them outside.

Each half of a CCU2C has one table of 16 bits. As a LUT4 it says whether the carry propagates. Its first four bits, as
a LUT2, give the carry out otherwise. A and B are inputs of both, C and D of the LUT4 only.

Yosys' adders use A and B, and C for an optional subtraction; D is tied to 1. So a multiplexer or a mask in front of an
adder costs one LUT per bit, although the carry cell has room for it.

If C or D is tied to 1, the LUT4 never reads the first four bits of the table, and the LUT2 has them to itself.
Otherwise they are also the LUT4's outputs for C = D = 0. The LUT2 must then be right for each value of A and B with
which some value of C and D does not propagate the carry.
"""

import json
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from tq_hw.boards.build.block_registers import Cell, readers_of
from tq_hw.boards.build.lut_functions import (
    PINS,
    Function,
    Net,
    lut_function,
    of_pins,
    substituted,
    value_at,
    without_idle,
)

__all__ = ["pack_carry_inputs"]

_LUT2_BITS = 0xF
#: A carry cell and the number of its half, 0 or 1.
_Place = tuple[str, int]


class _Half(NamedTuple):
    """The functions of half a carry cell: `goes_on`, whether the carry propagates, and `comes`, the carry otherwise."""

    goes_on: Function
    comes: Function


class _Pins(NamedTuple):
    """Inputs of a half in the order of PINS, each the index of a net or a constant, and the half's table."""

    inputs: tuple[int | str, ...]
    table: int


def _half_function(cell: Cell, number: int) -> _Half:
    """Return the functions of half a CCU2C."""
    pins = cell["connections"]
    nets = [pins[f"{pin}{number}"][0] for pin in PINS]
    table = int(cell["parameters"][f"INIT{number}"], 2)
    return _Half(without_idle(of_pins(nets, table)), without_idle(of_pins(nets[:2], table & _LUT2_BITS)))


def _placed(half: _Half) -> tuple[list[Net], int] | None:
    """Return the nets of the four inputs and the table that implement a half; None if there are none."""
    nets = tuple(dict.fromkeys((*half.goes_on.nets, *half.comes.nets)))
    if len(nets) > len(PINS):
        return None
    place = {net: number for number, net in enumerate(nets)}
    found = _place(len(nets), *((tuple(place[net] for net in function.nets), function.table) for function in half))
    if found is None:
        return None
    return [each if isinstance(each, str) else nets[each] for each in found.inputs], found.table


@cache
def _place(count: int, goes_on: tuple[tuple[int, ...], int], comes: tuple[tuple[int, ...], int]) -> _Pins | None:
    """Do as `_placed` with nets 0 to count - 1: cached, so that equal halves of an adder are computed once."""
    half = _Half(Function(*goes_on), Function(*comes))
    for pins in permutations(range(len(PINS)), count):
        # Unused inputs are tied to 1, as Yosys ties them.
        inputs: list[int | str] = ["1"] * len(PINS)
        for net, pin in enumerate(pins):
            inputs[pin] = net
        table = _table(half, inputs)
        if table is not None:
            return _Pins(tuple(inputs), table)
    return None


def _table(half: _Half, inputs: list[int | str]) -> int | None:
    """Return the table that implements a half with these inputs; None if there is none."""
    goes_on = [_at(half.goes_on, inputs, index) for index in range(16)]
    apart = "1" in inputs[2:]
    low: list[int] = []
    for index in range(4):
        # Every value of C and D that does not propagate the carry, at this A and B, determines the carry out.
        wanted = {_at(half.comes, inputs, index | above << 2) for above in range(4)
                  if not goes_on[index | above << 2] and _is_possible(inputs, index | above << 2)}
        bit = next(iter(wanted), 0) if apart else goes_on[index]
        if wanted - {bit}:
            return None
        low.append(bit)
    return sum(bit << index for index, bit in enumerate(low + goes_on[4:]))


def _at(function: Function, inputs: list[int | str], index: int) -> int:
    return value_at(function, {net: index >> bit & 1 for bit, net in enumerate(inputs)})


def _is_possible(inputs: list[int | str], index: int) -> bool:
    """Whether the inputs can have these values: an input tied to 1 is always 1."""
    return all(net != "1" or index >> bit & 1 for bit, net in enumerate(inputs))


def pack_carry_inputs(netlist: Path) -> int:
    """Remove LUTs that feed only carry cells from a netlist that Yosys wrote as JSON; return how many were removed.

    Each half of a carry cell then computes the combined function of itself and the LUTs that it absorbed.
    """
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    gone = sum(_pack(module) for module in design["modules"].values() if "cells" in module)
    if gone:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return gone


def _pack(module: Any) -> int:
    gone = 0
    # A removed LUT may have been the only other reader of another one.
    while went := sum(_absorb(module["cells"], name, places) for name, places in _feeders(module)):
        gone += went
    return gone


def _feeders(module: Any) -> list[tuple[str, list[_Place]]]:
    """Return the LUTs that only halves of carry cells read, fewest inputs first, each with these halves."""
    cells, readers = module["cells"], readers_of(module)
    luts = [(name, cell["connections"]["Z"][0]) for name, cell in cells.items() if cell["type"] == "LUT4"]
    found = [(name, readers[net]) for name, net in luts if readers[net] and all(
        user and cells[user]["type"] == "CCU2C" and pin != "CIN" for user, pin in readers[net])]
    return [(name, sorted({(user, int(pin[-1])) for user, pin in uses})) for name, uses in
            sorted(found, key=lambda feeder: len(lut_function(cells[feeder[0]]).nets))]


def _absorb(cells: dict[str, Cell], name: str, places: list[_Place]) -> int:
    """Merge a LUT into all halves that read it; return 1, or 0 if one of them has no room."""
    lut = cells[name]
    net, inner = lut["connections"]["Z"][0], lut_function(lut)
    found = []
    for cell, number in places:
        half = _half_function(cells[cell], number)
        wider = _Half(*(without_idle(substituted(function, net, inner)) if net in function.nets else function
                       for function in half))
        way = _placed(wider)
        if way is None:
            return 0
        found.append((cells[cell], number, *way))
    for changed, number, nets, table in found:
        for pin, each in zip(PINS, nets, strict=True):
            changed["connections"][f"{pin}{number}"] = [each]
        changed["parameters"][f"INIT{number}"] = f"{table:016b}"
    del cells[name]
    return 1
