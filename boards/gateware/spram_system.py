"""A system without a bus: link, serial machine, and memory on the chip, such as an iCE40UP5K's single-port RAM."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.bridge import UartBridge
from tq_hw.boards.gateware.on_chip import SPRAM_BYTES, SpramCells
from tq_hw.hdl.serial.accelerator import SerialCore
from tq_hw.isa.config import Config

__all__ = ["SpramSystem"]


class SpramSystem(wiring.Component):
    """Host link and serial machine in one clock domain; part of the RAM is the machine's own, part their common memory.

    An access of the machine takes one cycle and has priority; the link's accesses wait.

    Parameters
    ----------
    config : of the machine
    clock_hz, baud : ValueError if the clock cannot give the baud rate
    cells, memory : the machine's own RAM and the memory, as `hdl.serial.cells.Cells`; by default half of the
        single-port RAM each
    memory_bytes : of `memory`, a power of two

    Members
    -------
    rx : In(1), tx : Out(1), the UART
    interrupt : Out(1), the machine's
    """

    rx: Signal
    tx: Signal
    interrupt: Signal

    def __init__(self, config: Config, clock_hz: int, baud: int, cells: Any = None, memory: Any = None,
                 memory_bytes: int = SPRAM_BYTES) -> None:
        self._bridge = UartBridge(config, clock_hz, baud, memory_bytes=memory_bytes)
        self._core = SerialCore(config, SpramCells() if cells is None else cells)
        self._cells = SpramCells() if memory is None else memory
        self._memory_bytes = memory_bytes
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "interrupt": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Instantiate and connect; the link's accesses have one beat, so its bus needs only a response."""
        m = Module()
        m.submodules.bridge = bridge = self._bridge
        m.submodules.core = core = self._core
        m.submodules.cells = cells = self._cells
        word_bits = len(cells.addr)
        port = core.port
        asked = Signal()
        reads, writes = Signal(), Signal()
        addr = Signal(32)
        m.d.comb += [
            asked.eq(port.read | port.write),
            writes.eq(bridge.m_axi_awvalid & bridge.m_axi_wvalid & ~asked), reads.eq(bridge.m_axi_arvalid & ~asked),
            addr.eq(Mux(asked, port.addr, Mux(bridge.m_axi_awvalid, bridge.m_axi_awaddr, bridge.m_axi_araddr))),
            cells.addr.eq(addr[2:2 + word_bits]), cells.wdata.eq(Mux(asked, port.data, bridge.m_axi_wdata)),
            port.pending.eq(0), port.came.eq(cells.rdata),
            bridge.m_axi_awready.eq(writes), bridge.m_axi_wready.eq(writes), bridge.m_axi_arready.eq(reads),
            bridge.m_axi_rdata.eq(cells.rdata), bridge.m_axi_rlast.eq(1),
        ]
        outside = Signal()
        m.d.comb += outside.eq(port.addr >= self._memory_bytes)
        with m.If(port.write):
            m.d.comb += cells.write.eq(Mux(outside, 0, port.strobe))
        with m.Elif(writes):
            m.d.comb += cells.write.eq(bridge.m_axi_wstrb)
        m.d.sync += [port.failed.eq(outside), bridge.m_axi_rvalid.eq(reads), bridge.m_axi_bvalid.eq(writes)]
        m.d.comb += [
            bridge.rx.eq(self.rx), self.tx.eq(bridge.tx), self.interrupt.eq(core.interrupt),
            core.reg_addr.eq(bridge.reg_addr), core.reg_write_en.eq(bridge.reg_write_en),
            core.reg_write_data.eq(bridge.reg_write_data), bridge.reg_read_data.eq(core.reg_read_data),
        ]
        return m
