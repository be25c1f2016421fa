"""Netlists for nextpnr-xilinx: only cells that it packs, inputs tied, no LUTs for unused carry bits.

Yosys makes single-port memories (RAM32X1S ... RAM256X1S), which the packer rejects; `SINGLE_PORT` maps them to others
before logic is mapped. `prepare` edits the JSON netlist afterwards. `clock_table` computes the target of every clock,
since the placer accepts only one rate for all.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tq_hw.boards.build.part_names import HIDE_PARTS
from tq_hw.model.errors import ToolError

__all__ = ["SINGLE_PORT", "SINGLE_PORT_FILE", "Prepared", "clock_table", "prepare", "synthesis_script",
           "xilinx_synthesis"]

SINGLE_PORT_FILE = "single_port.v"
_WORDS_IN_LUT = 64
#: Values for a PLL's unconnected inputs: CLKIN1 is selected as its clock, and nothing reconfigures it.
_TIES: dict[str, dict[str, str]] = {
    "PLLE2_ADV": {"CLKINSEL": "1", "CLKIN2": "0", "RST": "0", "PWRDWN": "0", "DCLK": "0", "DEN": "0", "DWE": "0",
                  "DADDR": "0" * 7, "DI": "0" * 16},
}
#: Cells after synthesis that make the packer fail.
_REFUSED = ("$scopeinfo", "RAM32X1S", "RAM64X1S", "RAM128X1S", "RAM256X1S", "RAM512X1S", "RAM256X1D")


def _single_port(words: int) -> str:
    """Return Verilog of a single-port memory, `words` deep, made of dual-port memories of one LUT each.

    It reads through the second port, at the same address. With reads through the first port, the packer would merge
    several memories that are written together into one cell.
    """
    depth = min(words, _WORDS_IN_LUT)
    bits, low, parts = words.bit_length() - 1, depth.bit_length() - 1, words // depth
    bus = words > 128
    ports = f"input [{bits - 1}:0] A" if bus else ", ".join(f"input A{bit}" for bit in range(bits))
    address = "A" if bus else "{" + ", ".join(f"A{bit}" for bit in reversed(range(bits))) + "}"
    pins = ", ".join(f".A{bit}(address[{bit}]), .DPRA{bit}(address[{bit}])" for bit in range(low))
    chosen = f" && address[{bits - 1}:{low}] == part" if parts > 1 else ""
    out = f"read[address[{bits - 1}:{low}]]" if parts > 1 else "read[0]"
    return f"""module RAM{words}X1S (output O, {ports}, input D, input WCLK, input WE);
  parameter [{words - 1}:0] INIT = {words}'h0;
  parameter [0:0] IS_WCLK_INVERTED = 1'b0;
  wire [{bits - 1}:0] address = {address};
  wire [{parts - 1}:0] read;
  genvar part;
  generate for (part = 0; part < {parts}; part = part + 1) begin : parts
    RAM{depth}X1D #(.INIT(INIT[{depth} * part +: {depth}]), .IS_WCLK_INVERTED(IS_WCLK_INVERTED)) memory (
      .DPO(read[part]), .D(D), .WCLK(WCLK), .WE(WE{chosen}), {pins});
  end endgenerate
  assign O = {out};
endmodule
"""


#: For Yosys' `techmap`.
SINGLE_PORT = "\n".join(_single_port(words) for words in (32, 64, 128, 256))


#: ABC9's own script with two more rewrites, `&syn3` and `&syn4`, and another search for choices, `&dch -x`.
_ABC9 = "+&scorr;&sweep;&dc2;&syn3;&syn4;&dch,-x;&ps;&if,{W},{D},{R},-v;&mfs"
#: Shortest shift register that becomes a LUT: a 7 series has two flip-flops per LUT, and flip-flops are less scarce.
_LEAST_SHIFTS = 12
#: The `map_luts` step of `synth_xilinx`, with that script.
_MAP_LUTS = ("opt_expr -mux_undef -noclkinv; read_verilog -icells -lib -specify +/xilinx/abc9_model.v; "
             f'abc9 -W 300 -script "{_ABC9}"; clean; xilinx_srl -fixed -minlen {_LEAST_SHIFTS}; '
             "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6; xilinx_dffopt; "
             "opt_lut_ins -tech xilinx")


def xilinx_synthesis(top: str, options: str = "", begin: str = "begin") -> str:
    """Return Yosys' commands from a step of `synth_xilinx` to cells of a 7 series; `options` are passed to it."""
    synth = " ".join(("synth_xilinx -flatten", *([options] if options else []), f"-top {top} -run"))
    return f"{synth} {begin}:map_luts; {_MAP_LUTS}; {synth} finalize:"


def synthesis_script(sources: str, top: str, stat_file: str) -> str:
    """Return Yosys' commands from Verilog to `top`.json; the folder contains `SINGLE_PORT` as `SINGLE_PORT_FILE`."""
    return (f"read_verilog {sources}; {HIDE_PARTS}; synth_xilinx -flatten -top {top} -run begin:map_ffram; "
            f"techmap -map {SINGLE_PORT_FILE}; {xilinx_synthesis(top, begin='map_ffram')}; "
            f"delete t:$scopeinfo; write_json {top}.json; tee -q -o {stat_file} stat -tech xilinx -json")


@dataclass(frozen=True)
class Prepared:
    """Changes made by `prepare`: inputs tied, inputs of carry cells disconnected."""

    tied: int
    freed: int


def prepare(netlist: Path, top: str) -> Prepared:
    """Tie required inputs and disconnect unused ones in a netlist that Yosys wrote as JSON.

    Raises ToolError for cells that nextpnr-xilinx cannot pack.
    """
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    module = design["modules"][top]
    kinds = Counter(cell["type"] for cell in module["cells"].values())
    refused = [f"{kinds[kind]} {kind}" for kind in _REFUSED if kinds[kind]]
    if refused:
        raise ToolError(f"the netlist has cells that nextpnr-xilinx cannot pack: {', '.join(refused)}; another version "
                        "of Yosys would help")
    prepared = Prepared(_tie(module), _free_carries(module))
    netlist.write_text(json.dumps(design), encoding="utf-8")
    return prepared


def _tie(module: Any) -> int:
    tied = 0
    for cell in module["cells"].values():
        for port, value in _TIES.get(cell["type"], {}).items():
            if not cell["connections"].get(port):
                cell["connections"][port] = list(value)
                cell["port_directions"][port] = "input"
                tied += len(value)
    return tied


def _free_carries(module: Any) -> int:
    """Disconnect DI of carry bits that affect no used output: the packer spends a LUT on each constant there.

    CO of a bit and of the bits above depends on its DI. The remaining pins are named bit by bit. An "x" in the vector
    would be an undriven net, which breaks the placer's timing analysis. S must stay: without it a bit cannot be packed.
    """
    used = _used_bits(module)
    freed = 0
    for cell in module["cells"].values():
        if cell["type"] != "CARRY4":
            continue
        pins, ways = cell["connections"], cell["port_directions"]
        carries, sums = (pins.get(port) or [None] * 4 for port in ("CO", "O"))
        needed = [carries[bit] in used or not {*carries[bit + 1:], *sums[bit + 1:]}.isdisjoint(used)
                  for bit in range(4)]
        if all(needed):
            continue
        bits, way = pins.pop("DI"), ways.pop("DI")
        pins |= {f"DI[{bit}]": [bits[bit]] for bit in range(4) if needed[bit]}
        ways |= {f"DI[{bit}]": way for bit in range(4) if needed[bit]}
        freed += needed.count(False)
    return freed


def _used_bits(module: Any) -> set[Any]:
    """Return the bits that an output of the design or an input of a cell reads."""
    used = {bit for port in module["ports"].values() if port["direction"] != "input" for bit in port["bits"]}
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) != "output":
                used.update(bits)
    return used


def clock_table(netlist: Any, top: str, inputs_hz: Mapping[str, int]) -> dict[str, float]:
    """Return the rate in MHz of every clock net, under each of its names, from the pins' rates and the PLLs' dividers.

    Raises ToolError when a pin is not in the netlist.
    """
    module = netlist["modules"][top]
    rates: dict[Any, Fraction] = {}
    for pin, hz in inputs_hz.items():
        if pin not in module["ports"]:
            raise ToolError(f"the netlist has no clock pin {pin}")
        rates[module["ports"][pin]["bits"][0]] = Fraction(hz)
    cells = list(module["cells"].values())
    found = -1
    while found != len(rates):
        found = len(rates)
        for cell in cells:
            for bit, rate in _derived(cell, rates):
                rates.setdefault(bit, rate)
    return {name if len(net["bits"]) == 1 else f"{name}[{place}]": float(rates[bit] / 1_000_000)
            for name, net in module["netnames"].items() for place, bit in enumerate(net["bits"]) if bit in rates}


def _derived(cell: Any, rates: Mapping[Any, Fraction]) -> Iterator[tuple[Any, Fraction]]:
    """Yield the clocks that a buffer or a PLL derives from known ones."""
    pins = cell["connections"]
    if cell["type"] in ("IBUF", "BUFG", "BUFH", "BUFR") and pins["I"][0] in rates and pins.get("O"):
        yield pins["O"][0], rates[pins["I"][0]]
    elif cell["type"] == "PLLE2_ADV" and pins["CLKIN1"][0] in rates:
        phase = rates[pins["CLKIN1"][0]] / _number(cell, "DIVCLK_DIVIDE", 1)
        oscillator = phase * _number(cell, "CLKFBOUT_MULT", 5)
        if pins.get("CLKFBOUT"):
            yield pins["CLKFBOUT"][0], phase
        for output in range(6):
            if pins.get(f"CLKOUT{output}"):
                yield pins[f"CLKOUT{output}"][0], oscillator / _number(cell, f"CLKOUT{output}_DIVIDE", 1)


def _number(cell: Any, name: str, default: int) -> int:
    """Return an integer parameter, which Yosys writes in binary."""
    return int(cell["parameters"][name], 2) if name in cell["parameters"] else default
