"""Compute in two LUTs of an ECP5 what Yosys computes in three or more.

A choice of four bits has six inputs. Yosys needs three LUT4, or four that the multiplexers of a slice join. Two are
enough: the first chooses between two bits, or passes one select on; the second takes what it gives, or chooses by it
between the other two bits. In general a function of up to seven inputs takes two LUTs, one behind the other, if for
each value of the inputs that both read, one bit tells all that matters of those that only the first reads
(J. P. Roth, R. M. Karp, "Minimization over Boolean graphs", IBM Journal, 1962).

A bit that passed one level may then pass two. A pair is made only if the longest way through it gets no longer.
"""

import json
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from tq_hw.boards.build.block_registers import Cell
from tq_hw.boards.build.lut_depths import LUT_DEPTH, Depths
from tq_hw.boards.build.lut_functions import PINS, Net, lut_function

__all__ = ["pair_luts"]

#: Inputs of two LUT4 of which one reads the other.
_MOST_INPUTS = 7


class _Pair(NamedTuple):
    """Two LUTs: the inputs of the first, and of the second after its output; tables of as many inputs."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    first_table: int
    second_table: int


class _Cone(NamedTuple):
    """Cells that compute one net, of which nothing else reads an inner net; `luts` of them are LUTs."""

    out: Net
    cells: tuple[str, ...]
    inputs: tuple[Net, ...]
    table: int
    luts: int


def pair_luts(netlist: Path) -> int:
    """Replace cones of LUTs by pairs in a netlist that Yosys wrote as JSON; return how many LUTs fewer there are."""
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    gone = sum(_Module(module).pair() for module in design["modules"].values() if "cells" in module)
    if gone:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return gone


class _Module:
    """A module whose cones are replaced."""

    def __init__(self, module: Any) -> None:
        self._cells: dict[str, Cell] = module["cells"]
        self._depths = Depths(module)

    def pair(self) -> int:
        """Replace what can be replaced; return how many LUTs fewer there are."""
        gone = 0
        for name in [name for name, cell in self._cells.items() if cell["type"] in ("L6MUX21", "PFUMX", "LUT4")]:
            if name in self._cells:
                gone += next((saved for cone in self._cones(name) if (saved := self._replace(cone))), 0)
        return gone

    def _cones(self, root: str) -> Iterator[_Cone]:
        """Yield the cones of a root that have three LUTs or more and few inputs, those with most LUTs first."""
        whole = self._joined(root)
        # A slice joins its LUTs by PFUMX, and these by L6MUX21, which a LUT cannot drive.
        if whole is None or any(pin in ("D0", "D1") and self._cells[name]["type"] == "L6MUX21"
                                for name, pin in self._depths.readers[self._out(root)] if name):
            return
        leaves = [leaf for net in self._inputs(whole) if (leaf := self._leaf(net, whole)) is not None]
        for count in (2, 1, 0):
            for some in combinations(leaves, count):
                cells = (*whole, *(name for leaf in some for name in leaf))
                inputs = self._inputs(cells)
                luts = sum(self._cells[name]["type"] == "LUT4" for name in cells)
                if luts > 2 and len(inputs) <= _MOST_INPUTS:
                    out = self._out(root)
                    yield _Cone(out, cells, inputs, self._table(out, cells, inputs), luts)

    def _out(self, name: str) -> Net:
        return self._cells[name]["connections"]["Z"][0]

    def _joined(self, root: str) -> tuple[str, ...] | None:
        """Return a cell with the cells that a slice joins to it; None if one of those has other readers."""
        cell = self._cells[root]
        found: tuple[str, ...] = (root,)
        for pin in {"PFUMX": ("ALUT", "BLUT"), "L6MUX21": ("D0", "D1")}.get(cell["type"], ()):
            net = cell["connections"][pin][0]
            driver = self._depths.driver(net)
            more = self._joined(driver) if driver and len(self._depths.readers[net]) == 1 else None
            if more is None:
                return None
            found += more
        return found

    def _leaf(self, net: Net, whole: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the cells that compute an input of a cone, if nothing else reads it."""
        driver = self._depths.driver(net)
        if driver is None or self._cells[driver]["type"] not in ("LUT4", "PFUMX"):
            return None
        return self._joined(driver) if all(user in whole for user, _pin in self._depths.readers[net]) else None

    def _inputs(self, cells: tuple[str, ...]) -> tuple[Net, ...]:
        """Return the nets on which a cone depends."""
        nets = {self._out(name) for name in cells}
        found: dict[Net, None] = {}
        for name in cells:
            cell = self._cells[name]
            read = lut_function(cell).nets if cell["type"] == "LUT4" else [
                pins[0] for pin, pins in cell["connections"].items() if pin != "Z" and not isinstance(pins[0], str)]
            found |= dict.fromkeys(net for net in read if net not in nets)
        return tuple(found)

    def _table(self, out: Net, cells: tuple[str, ...], inputs: tuple[Net, ...]) -> int:
        """Return the function of a cone: bit i is its value where input k is bit k of i."""
        ones = (1 << (1 << len(inputs))) - 1
        values: dict[Net, int] = {net: _variable(len(inputs), bit) for bit, net in enumerate(inputs)}
        drivers = {self._out(name): self._cells[name] for name in cells}

        def value(net: Net) -> int:
            if isinstance(net, str):
                return ones if net == "1" else 0
            if net not in values:
                values[net] = of_cell(drivers[net])
            return values[net]

        def of_cell(cell: Cell) -> int:
            pins = {pin: nets[0] for pin, nets in cell["connections"].items()}
            if cell["type"] == "PFUMX":
                return _chosen(value(pins["C0"]), value(pins["ALUT"]), value(pins["BLUT"]))
            if cell["type"] == "L6MUX21":
                return _chosen(value(pins["SD"]), value(pins["D1"]), value(pins["D0"]))
            function, result = lut_function(cell), 0
            for index in range(1 << len(function.nets)):
                if function.table >> index & 1:
                    term = ones
                    for bit, net in enumerate(function.nets):
                        term &= value(net) if index >> bit & 1 else value(net) ^ ones
                    result |= term
            return result

        return value(out)

    def _replace(self, cone: _Cone) -> int:
        """Replace a cone by the pair with the shortest ways; return how many LUTs fewer there are."""
        depths = self._depths
        after = depths.after[cone.out]

        def depth(pair: _Pair) -> int:
            return max((*(depths.before[cone.inputs[bit]] + 2 * LUT_DEPTH for bit in pair.first),
                        *(depths.before[cone.inputs[bit]] + LUT_DEPTH for bit in pair.second))) + after

        pairs = _pairs(len(cone.inputs), cone.table)
        if not pairs:
            return 0
        best = min(pairs, key=depth)
        if depth(best) > depths.through(cone.out):
            return 0
        gone = {name: self._cells.pop(name) for name in cone.cells}
        names = [name for name, cell in gone.items() if cell["type"] == "LUT4"]
        inner = next(cell["connections"]["Z"][0] for cell in gone.values() if cell["connections"]["Z"][0] != cone.out)
        first = _lut([cone.inputs[bit] for bit in best.first], best.first_table, inner)
        second = _lut([inner, *(cone.inputs[bit] for bit in best.second)], best.second_table, cone.out)
        new = dict(zip(names, (first, second), strict=False))
        self._cells |= new
        depths.replace(gone, new)
        return cone.luts - len(new)


def _variable(count: int, bit: int) -> int:
    """Return the table of one of `count` inputs."""
    return sum(1 << index for index in range(1 << count) if index >> bit & 1)


def _chosen(select: int, one: int, zero: int) -> int:
    return select & one | ~select & zero


def _lut(nets: list[Net], table: int, out: Net) -> Cell:
    """Return a LUT4 of some inputs."""
    repeated = sum((table >> index % (1 << len(nets)) & 1) << index for index in range(16))
    pins = dict(zip(PINS, [*nets, *["0"] * (len(PINS) - len(nets))], strict=True))
    return {"hide_name": 1, "type": "LUT4", "parameters": {"INIT": f"{repeated:016b}"}, "attributes": {},
            "port_directions": dict.fromkeys(PINS, "input") | {"Z": "output"},
            "connections": {pin: [net] for pin, net in pins.items()} | {"Z": [out]}}


@cache
def _pairs(count: int, table: int) -> list[_Pair]:
    """Return the pairs that compute a function of `count` inputs."""
    found = []
    inputs = range(count)
    for size in range(max(0, count - len(PINS)), len(PINS)):
        for second in combinations(inputs, size):
            rest = tuple(bit for bit in inputs if bit not in second)
            for shared in combinations(second, len(PINS) - len(rest)) if len(rest) < len(PINS) else [()]:
                pair = _pair(table, rest, shared, second)
                if pair is not None:
                    found.append(pair)
    return found


def _pair(table: int, rest: tuple[int, ...], shared: tuple[int, ...], second: tuple[int, ...]) -> _Pair | None:
    """Return the pair whose first LUT reads `rest` and `shared`; None if one bit does not tell enough of `rest`."""
    first = (*rest, *shared)
    apart = [bit for bit in second if bit not in shared]
    first_table = second_table = 0
    for common in range(1 << len(shared)):
        base = sum((common >> place & 1) << bit for place, bit in enumerate(shared))
        rows: dict[tuple[int, ...], int] = {}
        for index in range(1 << len(rest)):
            at = base | sum((index >> place & 1) << bit for place, bit in enumerate(rest))
            row = tuple(table >> (at | sum((other >> place & 1) << bit for place, bit in enumerate(apart))) & 1
                        for other in range(1 << len(apart)))
            number = rows.setdefault(row, len(rows))
            if number > 1:
                return None
            first_table |= number << (index | common << len(rest))
        for row, number in rows.items():
            for other, value in enumerate(row):
                bits = {bit: common >> place & 1 for place, bit in enumerate(shared)}
                bits |= {bit: other >> place & 1 for place, bit in enumerate(apart)}
                index = number | sum(bits[bit] << place + 1 for place, bit in enumerate(second))
                second_table |= value << index
    return _Pair(first, second, first_table, second_table)
