"""Link, accelerator and the generated SDR core with a model of the chip: a network's result is bit-exact."""

from pathlib import Path
from typing import Any

import pytest
from amaranth import ClockDomain, Elaboratable, Instance, Module, Signal
from amaranth.hdl import ClockSignal, IOPort, ResetSignal
from amaranth.lib import wiring
from verilated import RTL, SimulatedLine, to_verilog, verilate

from tq_hw.boards.build.dram_core import DramCore, core_description, generate_core
from tq_hw.boards.build.dram_generate import CORE
from tq_hw.boards.catalog.board import Sdr
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.gateware.dram import DramPath, add_sequencer, memory_ports
from tq_hw.boards.gateware.system import System
from tq_hw.boards.link.device import Device
from tq_hw.boards.link.host import Link
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config
from tq_hw.model.samples.layers import sample
from tq_hw.sim import edges, golden

BIT_CYCLES = 5
CLOCK_HZ = 100_000_000
CONFIG = Config("sdram", 4, 4, 2, 8 << 10, acc_words=16, bus_bytes=8)
OUTPUTS = {"a": 13, "ba": 2, "dm": 2, "ras_n": 1, "cas_n": 1, "we_n": 1, "cs_n": 1, "cke": 1}


class Design(Elaboratable):
    """The contents of the FPGA of a board with SDR SDRAM, without PLL and pins."""

    def __init__(self, core: DramCore) -> None:
        self.core = core
        self.clk = Signal()
        self.rst = Signal()
        self.mem_clk = Signal()
        self.mem_rst = Signal()
        self.rx = Signal(init=1)
        self.tx = Signal()
        self.interrupt = Signal()
        self.pins = {name: Signal(bits, name=f"sdram_{name}") for name, bits in OUTPUTS.items()}
        self.dq = IOPort(16, name="sdram_dq")

    @property
    def ports(self) -> list[Any]:
        return [self.clk, self.rst, self.mem_clk, self.mem_rst, self.rx, self.tx, self.interrupt, *self.pins.values(),
                self.dq]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += [ClockDomain("sync"), ClockDomain("mem")]
        m.submodules.system = system = System(CONFIG, CLOCK_HZ, CLOCK_HZ // BIT_CYCLES, self.core.size_bytes)
        m.submodules.path = path = DramPath(CONFIG.bus_bytes, 2)
        wiring.connect(m, system.memory, path.bus)
        ports = (memory_ports(path.core, (self.core.size_bytes - 1).bit_length())
                 | add_sequencer(m, self.core.sequence))
        m.submodules.core = Instance(
            CORE, **ports, i_clk=ClockSignal("mem"), i_rst=ResetSignal("mem"), io_sdram_dq=self.dq,
            **{f"o_sdram_{name}": pin for name, pin in self.pins.items()})
        m.d.comb += [
            ClockSignal("sync").eq(self.clk), ResetSignal("sync").eq(self.rst), ClockSignal("mem").eq(self.mem_clk),
            ResetSignal("mem").eq(self.mem_rst), system.rx.eq(self.rx), self.tx.eq(system.tx),
            self.interrupt.eq(system.interrupt),
        ]
        return m


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The board with the catalog's core, in Verilator."""
    pytest.importorskip("litedram")
    folder = tmp_path_factory.mktemp("sdram")
    memory = BOARDS["ulx3s_85f"].memories[0]
    assert isinstance(memory, Sdr)
    core = generate_core(core_description(memory, BOARDS["ulx3s_85f"].device.name, 25_000_000))
    design = Design(core)
    name = to_verilog(design, "fpga", design.ports, folder)
    (folder / "core.v").write_text(core.verilog, encoding="utf-8")
    sources = [name, "core.v", *(RTL / part for part in ("ecp5_io.v", "sdram_chip.v", "sdram_board.v"))]
    return verilate(folder, sources, "board", RTL / "board.cpp")


def test_network_is_exact_through_the_controller(library: Path) -> None:
    line = SimulatedLine(library, BIT_CYCLES)
    # The chip's power-up pause, then its initialization.
    line.run(30_000)
    device = Device(Link(line))
    model = sample("chain", 3)
    program = compile_model(model, CONFIG).program
    inputs, = draw_inputs(model, 1, 1)
    device.load(program)
    run = device.run([edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)])
    outputs = [edges.from_port(port, data) for port, data in zip(program.outputs, run.outputs, strict=True)]
    expected = golden.run(model, inputs).outputs
    assert [output.tolist() for output in outputs] == [wanted.tolist() for wanted in expected]
    assert line.refreshes > 10
    assert line.broken == 0
    line.close()
