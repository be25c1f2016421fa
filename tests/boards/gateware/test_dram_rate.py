"""The rates at which LiteDRAM's cores serve a master that reads block after block; schedules assume them."""

import ctypes
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth import ClockDomain, Elaboratable, Instance, Module, Signal
from amaranth.hdl import ClockSignal, IOPort, ResetSignal
from amaranth.lib import wiring
from verilated import RTL, to_verilog, verilate

from tq_hw.boards.build.dram_core import core_description, generate_core
from tq_hw.boards.build.dram_generate import CORE
from tq_hw.boards.catalog.board import Ddr3, Sdr
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature
from tq_hw.boards.gateware.dram import DramPath, add_sequencer, memory_ports
from tq_hw.isa.layout import BURST_BYTES

#: Pins of an SDR chip, with their widths.
PINS = {"a": 13, "ba": 2, "dm": 2, "ras_n": 1, "cas_n": 1, "we_n": 1, "cs_n": 1, "cke": 1}
CYCLES = 100_000


class Reader(wiring.Component):
    """Requests one block of BURST_BYTES after the other, and counts the beats that arrive."""

    def __init__(self, bus_bytes: int) -> None:
        self._bus_bytes = bus_bytes
        super().__init__({"bus": wiring.Out(AxiSignature(bus_bytes, MEMORY_ID_BITS)), "beats": wiring.Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        block = Signal(16)
        m.d.comb += [bus.arvalid.eq(1), bus.araddr.eq(block * BURST_BYTES), bus.rready.eq(1), bus.arburst.eq(1),
                     bus.arlen.eq(BURST_BYTES // self._bus_bytes - 1), bus.arsize.eq(self._bus_bytes.bit_length() - 1)]
        with m.If(bus.arready):
            m.d.sync += block.eq(block + 1)
        with m.If(bus.rvalid):
            m.d.sync += self.beats.eq(self.beats + 1)
        return m


class Design(Elaboratable):
    """A reader, the path to the core, the core, and what it needs."""

    def __init__(self, memory: Sdr | Ddr3, bus_bytes: int, sequence: Any) -> None:
        self.memory, self.bus_bytes, self.sequence = memory, bus_bytes, sequence
        self.clk, self.rst, self.mem_clk, self.mem_pin_clk = (Signal(name=name) for name in (
            "clk", "rst", "mem_clk", "mem_pin_clk"))
        self.beats = Signal(32, name="beats")
        self.pins = {name: Signal(bits, name=f"sdram_{name}") for name, bits in PINS.items()}
        self.dq = IOPort(16, name="sdram_dq")

    @property
    def ports(self) -> list[Any]:
        chip = [*self.pins.values(), self.dq] if isinstance(self.memory, Sdr) else [self.mem_pin_clk]
        return [self.clk, self.rst, self.mem_clk, self.beats, *chip]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += [ClockDomain("sync"), ClockDomain("mem")]
        sdr = isinstance(self.memory, Sdr)
        m.submodules.reader = reader = Reader(self.bus_bytes)
        m.submodules.path = path = DramPath(
            self.bus_bytes, self.memory.data_bytes, few_luts=not sdr and self.memory.phy == "A7DDRPHY")
        wiring.connect(m, reader.bus, path.bus)
        ports = memory_ports(path.core, (self.memory.size_bytes - 1).bit_length())
        if sdr:
            ports |= add_sequencer(m, self.sequence) | {
                "i_rst": ResetSignal("mem"), "io_sdram_dq": self.dq,
                **{f"o_sdram_{name}": pin for name, pin in self.pins.items()}}
        else:
            ports |= add_sequencer(m, self.sequence) | {"i_sim_trace": 0, "i_garble": 0}
        m.submodules.core = Instance(CORE, i_clk=ClockSignal("mem"), **ports)
        m.d.comb += [
            ClockSignal("sync").eq(self.clk), ResetSignal("sync").eq(self.rst), ClockSignal("mem").eq(self.mem_clk),
            ResetSignal("mem").eq(self.rst), self.beats.eq(reader.beats)]
        return m


def bytes_per_cycle(folder: Path, design: Design, name: str, sources: list[str | Path],
                    halves: tuple[int, int]) -> float:
    """Return bytes per cycle of the reader's clock; `halves` are the half periods of both clocks, in the same unit.

    The design is module `name` of `sources`, whose top module is `board`.
    """
    file = to_verilog(design, name, design.ports, folder)
    library = ctypes.CDLL(str(verilate(folder, [file, *sources], "board", RTL / "rate.cpp", optimize="-O1")))
    beats = library.rate(ctypes.c_uint(halves[0]), ctypes.c_uint(halves[1]), ctypes.c_uint(CYCLES))
    return float(beats * design.bus_bytes / CYCLES)


@pytest.mark.slow
def test_sdr_reaches_the_rate_that_schedules_assume(tmp_path: Path) -> None:
    pytest.importorskip("litedram")
    board = BOARDS["ulx3s_85f"]
    memory = board.memories[0]
    assert isinstance(memory, Sdr) and (board.clock_hz, memory.clock_hz) == (100_000_000, 83_333_333)
    core = generate_core(core_description(memory, board.device.name, 25_000_000))
    (tmp_path / "core.v").write_text(core.verilog, encoding="utf-8")
    design = Design(memory, board.config.bus_bytes, core.sequence)
    sources = ["core.v", *(RTL / part for part in ("ecp5_io.v", "sdram_chip.v", "rate_board.v"))]
    found = bytes_per_cycle(tmp_path, design, "fpga", sources, (5, 6))
    assert round(found, 2) == memory_rate(board, memory).bytes_per_cycle


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bus_bytes", "phases", "halves"), [
    ("arty_a7", 8, 4, (5, 5)), ("arty_a7", 16, 4, (5, 5)), ("ecpix5_85f", 8, 2, (6, 8))])
def test_ddr3_reaches_the_rate_that_schedules_assume(tmp_path: Path, name: str, bus_bytes: int, phases: int,
                                                     halves: tuple[int, int]) -> None:
    pytest.importorskip("litedram")
    board = replace(BOARDS[name], config=replace(BOARDS[name].config, bus_bytes=bus_bytes))
    memory = board.memories[0]
    assert isinstance(memory, Ddr3) and memory.clock_hz * halves[1] == board.clock_hz * halves[0]
    shape = {"read_phase": 0, "write_phase": 1, "phases": phases, "port_bits": 8 * memory.data_bytes,
             "clock_hz": memory.clock_hz}
    run = subprocess.run([sys.executable, RTL.parent / "ddr3_core.py", tmp_path, json.dumps(shape)],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    registers = json.loads((tmp_path / "registers.json").read_text(encoding="utf-8"))
    # LiteDRAM's model needs no initialization, but the controller must be given the DRAM, and the port a word.
    sequence = [(registers["sdram_dfii_control"], 1, 0), (registers["ddrctrl_init_done"], 1, 0)]
    design = Design(memory, board.config.bus_bytes, sequence)
    found = bytes_per_cycle(tmp_path, design, "board", ["core.v"], halves)
    assert round(found, 2) == memory_rate(board, memory).bytes_per_cycle
