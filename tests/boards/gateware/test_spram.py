"""The systems without a bus, from pin to pin (link, serial machine, memory): a network's result is bit-exact."""

from pathlib import Path
from typing import Any

import pytest
from amaranth import ClockDomain, Elaboratable, Module, Signal
from amaranth.hdl import ClockSignal, ResetSignal
from verilated import RTL, SimulatedLine, to_verilog, verilate

from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.gateware.serial_cells import SmallCells
from tq_hw.boards.gateware.spram_system import SpramSystem
from tq_hw.boards.link.device import Device
from tq_hw.boards.link.host import Link
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.hdl.serial.cells import Cells
from tq_hw.model.samples.layers import sample
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import edges, golden

BIT_CYCLES = 5
BOARD, TANG = BOARDS["icebreaker"], BOARDS["tang_primer_20k"]
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"


class Design(Elaboratable):
    """The contents of the FPGA, without pins."""

    def __init__(self, system: SpramSystem) -> None:
        self.system = system
        self.clk, self.rst, self.rx, self.tx, self.interrupt = (Signal(name=name) for name in (
            "clk", "rst", "rx", "tx", "interrupt"))

    @property
    def ports(self) -> list[Any]:
        return [self.clk, self.rst, self.rx, self.tx, self.interrupt]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += ClockDomain("sync")
        m.submodules.system = system = self.system
        m.d.comb += [
            ClockSignal("sync").eq(self.clk), ResetSignal("sync").eq(self.rst), system.rx.eq(self.rx),
            self.tx.eq(system.tx), self.interrupt.eq(system.interrupt),
        ]
        return m


def icebreaker() -> SpramSystem:
    return SpramSystem(BOARD.config, BOARD.clock_hz, BOARD.clock_hz // BIT_CYCLES, Cells(), Cells())


def tang() -> SpramSystem:
    config, memory_bytes = TANG.config, TANG.memories[0].size_bytes
    return SpramSystem(config, TANG.clock_hz, TANG.clock_hz // BIT_CYCLES, SmallCells(config.scratchpad_bytes),
                       Cells(memory_bytes // 4), memory_bytes)


@pytest.fixture(scope="module", params=["icebreaker", pytest.param("tang", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The board in Verilator."""
    folder = tmp_path_factory.mktemp("spram")
    design = Design(icebreaker() if request.param == "icebreaker" else tang())
    sources = [to_verilog(design, "fpga", design.ports, folder), RTL / "spram_board.v"]
    return verilate(folder, sources, "board", RTL / "board.cpp")


def test_networks_are_exact_on_the_board(library: Path, request: pytest.FixtureRequest) -> None:
    """One test, so that only one process builds the board; the larger network has one input set."""
    board = TANG if "tang" in request.node.name else BOARD
    for model, sets in ((sample("chain", 3), 2), (read_model(DIGITS), 1)):
        program = compile_model(model, board.config).program
        line = SimulatedLine(library, BIT_CYCLES)
        device = Device(Link(line))
        device.load(program)
        for inputs in draw_inputs(model, sets, 1):
            run = device.run([edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)])
            outputs = [edges.from_port(port, data) for port, data in zip(program.outputs, run.outputs, strict=True)]
            expected = golden.run(model, inputs).outputs
            assert [output.tolist() for output in outputs] == [wanted.tolist() for wanted in expected]
        line.close()
