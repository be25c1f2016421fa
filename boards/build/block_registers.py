"""Move registers after products and memories into an ECP5's multipliers and block RAMs, which Yosys does not do.

A MULT18X18D has an output register. Without it, the 3.9 ns of the multiplier and two wires share one cycle. With it,
the second wire belongs to the next cycle (setup 3.5 ns, clock to output 0.7 ns, in nextpnr's timing of the slowest
grade). A DP16KD delivers a word 5.8 ns after the clock, and far sooner from its output register.

A flip-flop is removed in favour of such a register if only a product or a memory drives it.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Cell", "Readers", "absorb_registers", "readers_of"]

#: Parameters of a flip-flop that such a register can replace: rising clock, starts at 0, never set.
_PLAIN = {"CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"}
_ALWAYS = "1 "
#: Widest port of a DP16KD with pins of its own.
_PORT_BITS = 18

Cell = dict[str, Any]
#: By net: names of the reading cells and of their inputs; both are "" for a port of the module.
Readers = dict[Any, list[tuple[str, str]]]


class _Way(NamedTuple):
    """Clock and enable of flip-flops: nets, or "1"."""

    clock: Any
    enable: Any


def absorb_registers(netlist: Path) -> int:
    """Turn on the registers in a netlist that Yosys wrote as JSON; return how many flip-flops they replace.

    A multiplier or memory keeps its flip-flops unless every output that is read drives exactly one flip-flop, all of
    them with one clock, one enable and no reset. One that already uses its register is left as it is.

    Of a memory, only the outputs of port B count, the port that Yosys reads from. Its flip-flops must have the port's
    clock and no enable.
    """
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    gone = sum(_absorb(module) for module in design["modules"].values() if "cells" in module)
    if gone:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return gone


def _absorb(module: Any) -> int:
    cells, readers = module["cells"], readers_of(module)
    gone = 0
    for block in list(cells.values()):
        if block["type"] == "MULT18X18D":
            gone += _absorb_product(cells, block, readers)
        elif block["type"] == "DP16KD":
            gone += _absorb_word(cells, block, readers)
    return gone


def readers_of(module: Any) -> Readers:
    """Return what reads each net of a module."""
    readers: Readers = defaultdict(list)
    for port in module["ports"].values():
        for bit in port["bits"]:
            readers[bit].append(("", ""))
    for name, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) != "output":
                for bit in bits:
                    readers[bit].append((name, port))
    return readers


def _absorb_product(cells: dict[str, Cell], multiplier: Cell, readers: Readers) -> int:
    found = _flip_flops(cells, multiplier, [f"P{bit}" for bit in range(36)], readers)
    if not found or any(name.startswith("REG_") for name in multiplier["parameters"]):
        return 0
    way = _take_out(cells, multiplier, found)
    multiplier["parameters"] |= {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0", "REG_OUTPUT_RST": "RST0",
                                 "GSR": "DISABLED", "RESETMODE": "SYNC"}
    for port, net in (("CLK0", way.clock), ("CE0", way.enable), ("RST0", "0")):
        multiplier["connections"][port] = [net]
        multiplier["port_directions"][port] = "input"
    return len(found)


def _absorb_word(cells: dict[str, Cell], memory: Cell, readers: Readers) -> int:
    parameters, pins = memory["parameters"], memory["connections"]
    found = _flip_flops(cells, memory, [f"DOB{bit}" for bit in range(_PORT_BITS)], readers)
    if (not found or parameters["REGMODE_B"] != "NOREG" or int(parameters["DATA_WIDTH_B"], 2) > _PORT_BITS
            or _way(cells[next(iter(found.values()))]) != _Way(pins["CLKB"][0], "1")
            or parameters["CLKBMUX"] != "CLKB" or (pins["OCEB"], pins["RSTB"]) != (["1"], ["0"])):
        return 0
    _take_out(cells, memory, found)
    parameters["REGMODE_B"] = "OUTREG"
    return len(found)


def _flip_flops(cells: dict[str, Cell], block: Cell, outputs: list[str], readers: Readers) -> dict[str, str]:
    """Return the flip-flop of each output that is read; {} if a register cannot replace them."""
    found: dict[str, str] = {}
    for output in outputs:
        net = block["connections"].get(output)
        users = readers.get(net[0], []) if net else []
        if not users:
            continue
        if len(users) > 1 or users[0][1] != "DI" or not _is_plain(cells[users[0][0]]):
            return {}
        found[output] = users[0][0]
    return found if len({_way(cells[name]) for name in found.values()}) == 1 else {}


def _is_plain(cell: Cell) -> bool:
    parameters, pins = cell["parameters"], cell["connections"]
    return (cell["type"] == "TRELLIS_FF" and parameters.get("CEMUX") in (_ALWAYS, "CE") and pins["LSR"] == ["0"]
            and all(parameters.get(name) == value for name, value in _PLAIN.items()))


def _way(flip_flop: Cell) -> _Way:
    pins = flip_flop["connections"]
    return _Way(pins["CLK"][0], pins["CE"][0] if flip_flop["parameters"]["CEMUX"] == "CE" else "1")


def _take_out(cells: dict[str, Cell], block: Cell, flip_flops: dict[str, str]) -> _Way:
    """Connect the block to the flip-flops' outputs and remove them; return their clock and enable."""
    way = _way(cells[next(iter(flip_flops.values()))])
    for output, name in flip_flops.items():
        block["connections"][output] = cells.pop(name)["connections"]["Q"]
    return way
