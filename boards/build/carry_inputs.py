"""LUTs in front of an ECP5's adders go into the free inputs of the carry cells; Yosys leaves them outside.

Half of a CCU2C is a LUT4 of its own table, which says whether a carry goes on, and a LUT2 of the table's first four
bits, which says what carry comes else: A and B are its inputs, and those of the LUT4 with C and D. Yosys' adders use A
and B, C where they subtract at will, and tie D to 1. So a choice of two words in front of an adder, or a word that is
masked, takes a LUT a bit and need not.

Where C or D is tied to 1, the first four bits of the table are the LUT2's alone. Else they are the LUT4's as well,
where C and D are 0; then it has to be right, for each value of A and B, wherever no carry goes on.
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
#: Cell and number of a half, 0 or 1.
_Place = tuple[str, int]


class _Half(NamedTuple):
    """What half a carry cell does: `goes_on` says whether the carry goes on, and `comes` what comes else."""

    goes_on: Function
    comes: Function


class _Pins(NamedTuple):
    """Inputs of a half, in the order of PINS, each a place among nets or a constant; and its table."""

    inputs: tuple[int | str, ...]
    table: int


def _half_function(cell: Cell, number: int) -> _Half:
    """Return what half of a CCU2C does."""
    pins = cell["connections"]
    nets = [pins[f"{pin}{number}"][0] for pin in PINS]
    table = int(cell["parameters"][f"INIT{number}"], 2)
    return _Half(without_idle(of_pins(nets, table)), without_idle(of_pins(nets[:2], table & _LUT2_BITS)))


def _placed(half: _Half) -> tuple[list[Net], int] | None:
    """Return nets for the four inputs and the table of a half that does this; None where there are none."""
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
    """As `_placed`, of nets 0 to count - 1: so the halves of an adder are worked out once."""
    half = _Half(Function(*goes_on), Function(*comes))
    for pins in permutations(range(len(PINS)), count):
        # What is not used is tied to 1, as Yosys ties it.
        inputs: list[int | str] = ["1"] * len(PINS)
        for net, pin in enumerate(pins):
            inputs[pin] = net
        table = _table(half, inputs)
        if table is not None:
            return _Pins(tuple(inputs), table)
    return None


def _table(half: _Half, inputs: list[int | str]) -> int | None:
    """Return the table with which these inputs do it; None where there is none."""
    goes_on = [_at(half.goes_on, inputs, index) for index in range(16)]
    apart = "1" in inputs[2:]
    low: list[int] = []
    for index in range(4):
        # Each value of C and D with these of A and B, in which no carry goes on, asks for a bit that comes.
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
    """Whether the inputs can have these values: those that are tied to 1 have it."""
    return all(net != "1" or index >> bit & 1 for bit, net in enumerate(inputs))


def pack_carry_inputs(netlist: Path) -> int:
    """Take LUTs that feed carry cells alone out of a netlist that Yosys wrote as JSON; return how many went.

    Each half of a carry cell then does to what came to it and to these LUTs what it did with them.
    """
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    gone = sum(_pack(module) for module in design["modules"].values() if "cells" in module)
    if gone:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return gone


def _pack(module: Any) -> int:
    gone = 0
    # What went may have uncovered others.
    while went := sum(_absorb(module["cells"], name, places) for name, places in _feeders(module)):
        gone += went
    return gone


def _feeders(module: Any) -> list[tuple[str, list[_Place]]]:
    """Return the LUTs that only halves of carry cells read, those of the fewest inputs first, and these halves."""
    cells, readers = module["cells"], readers_of(module)
    luts = [(name, cell["connections"]["Z"][0]) for name, cell in cells.items() if cell["type"] == "LUT4"]
    found = [(name, readers[net]) for name, net in luts if readers[net] and all(
        user and cells[user]["type"] == "CCU2C" and pin != "CIN" for user, pin in readers[net])]
    return [(name, sorted({(user, int(pin[-1])) for user, pin in uses})) for name, uses in
            sorted(found, key=lambda feeder: len(lut_function(cells[feeder[0]]).nets))]


def _absorb(cells: dict[str, Cell], name: str, places: list[_Place]) -> int:
    """Put a LUT into the halves that read it, if there is room in all of them; return 1 then, else 0."""
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
