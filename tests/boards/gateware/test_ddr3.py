"""The leveller with LiteDRAM's controller of the Arty's DDR3 and LiteDRAM's model of the DRAM."""

import ctypes
import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest
from amaranth import Cat, ClockDomain, Elaboratable, Instance, Module, Mux, Signal
from amaranth.hdl import ClockSignal, ResetSignal
from verilated import RTL, to_verilog, verilate

from tq_hw.boards.build.build import dram_core
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.gateware.dram import control_ports
from tq_hw.boards.gateware.emulated_dram import PHYS
from tq_hw.boards.gateware.levelling import Leveller
from tq_hw.boards.gateware.levelling_plan import plan_levelling
from tq_hw.boards.gateware.phy_model import ARTY_SHAPE, PhyModel, model_registers

_PORT_INPUTS = ("arvalid", "awvalid", "wvalid", "rready", "bready")
_SETTINGS = ("dly_sel", "rdly_dq_rst", "rdly_dq_inc", "rdly_dq_bitslip_rst", "rdly_dq_bitslip")
#: A page of the bus without registers, for those of the PHY.
_FREE_PAGE = 0x1000
_MOST_CYCLES = 1_000_000
Eye = tuple[int, int, int]


class Design(Elaboratable):
    """Leveller and core; a model of the PHY watches the bus, and corrupts reads while a byte's settings are wrong."""

    def __init__(self, registers: dict[str, int]) -> None:
        self.registers = registers | {f"ddrphy_{name}": _FREE_PAGE + 4 * place for place, name in enumerate(_SETTINGS)}
        self.eyes, self.windows, self.good = Signal(48, name="eyes"), Signal(64, name="windows"), Signal(2, name="good")
        self.clk, self.rst, self.done, self.failed, self.init_done, self.init_error = (Signal(name=name) for name in (
            "clk", "rst", "done", "failed", "init_done", "init_error"))

    @property
    def ports(self) -> list[Any]:
        return [self.clk, self.rst, self.eyes, self.windows, self.good, self.done, self.failed, self.init_done,
                self.init_error]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.clk), ResetSignal().eq(self.rst)]
        # The DRAM model needs no initialization; LiteDRAM's sequence has other addresses in this core.
        wake = ((self.registers["sdram_dfii_control"], 0xE, 0),)
        m.submodules.leveller = leveller = Leveller(plan_levelling(wake, self.registers, ARTY_SHAPE))
        m.submodules.phy = phy = PhyModel(ARTY_SHAPE, self.registers)
        m.d.comb += [
            phy.adr.eq(leveller.adr), phy.dat_w.eq(leveller.dat_w), phy.we.eq(leveller.we),
            phy.request.eq(leveller.request & leveller.ack), phy.eyes.eq(self.eyes), self.good.eq(phy.good),
            self.windows.eq(leveller.windows.as_value()), self.done.eq(leveller.done),
            self.failed.eq(leveller.failed)]
        garble = Cat(Mux(phy.good[byte % 2], 0, phy.noise[byte:byte + 8] | 1) for byte in range(16))
        m.submodules.core = Instance(
            "tq_dram", i_clk=self.clk, i_sim_trace=0, i_garble=garble, o_init_done=self.init_done,
            o_init_error=self.init_error, **{f"i_user_port_0_{name}": 0 for name in _PORT_INPUTS},
            **control_ports(leveller.adr, leveller.dat_w, leveller.request, leveller.ack) | {
                "i_wb_ctrl_we": leveller.we, "o_wb_ctrl_dat_r": leveller.dat_r})
        return m


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The design in Verilator."""
    pytest.importorskip("litedram")
    folder = tmp_path_factory.mktemp("ddr3")
    run = subprocess.run([sys.executable, RTL.parent / "ddr3_core.py", folder, json.dumps(asdict(ARTY_SHAPE))],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    design = Design(json.loads((folder / "registers.json").read_text(encoding="utf-8")))
    name = to_verilog(design, "fpga", design.ports, folder)
    return ctypes.CDLL(str(verilate(folder, [name, "core.v"], "fpga", RTL / "ddr3.cpp", optimize="-O0")))


def level(library: ctypes.CDLL, eyes: list[Eye]) -> dict[str, Any]:
    packed = sum(value << 24 * lane + 8 * place for lane, eye in enumerate(eyes) for place, value in enumerate(eye))
    found = (ctypes.c_ulong * 5)()
    end = library.level(ctypes.c_ulong(packed), ctypes.c_uint(_MOST_CYCLES), found)
    windows = [tuple(found[0] >> 32 * lane + 8 * place & 0xFF for place in range(3)) for lane in range(2)]
    return {"end": end, "windows": windows, "good": found[1], "init_done": found[2], "init_error": found[3]}


@pytest.mark.slow
@pytest.mark.parametrize("eyes", [[(7, 12, 2), (18, 11, 5)], [(0, 32, 0), (31, 1, 7)]])
def test_controller_gets_the_dram_when_both_bytes_have_a_window(library: ctypes.CDLL, eyes: list[Eye]) -> None:
    assert level(library, eyes) == {"end": 1, "windows": eyes, "good": 3, "init_done": 1, "init_error": 0}


@pytest.mark.slow
def test_controller_does_not_get_the_dram_when_one_byte_has_no_window(library: ctypes.CDLL) -> None:
    found = level(library, [(9, 9, 1), (0, 0, 0)])
    assert found == {"end": 2, "windows": [(9, 9, 1), (0, 0, 0)], "good": 1, "init_done": 0, "init_error": 1}


@pytest.mark.parametrize("name", ["arty_a7", "ecpix5_85f"])
def test_models_have_the_shapes_of_the_cores(name: str) -> None:
    pytest.importorskip("litedram")
    board = BOARDS[name]
    memory: Any = board.memories[0]
    core, shape = dram_core(board, memory), PHYS[memory.phy].shape
    assert core is not None and core.levelling is not None
    registers = dict.fromkeys(model_registers(shape), 0)
    planned = plan_levelling((), registers, shape)
    assert (core.levelling.lanes, core.levelling.delays, core.levelling.slips, len(core.levelling.point)) == (
        shape.lanes, shape.delays, shape.slips, len(planned.point))
