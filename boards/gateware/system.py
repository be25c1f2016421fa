"""The system of every board: link, accelerator, and their common memory."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature, Merge
from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.gateware.bridge import UartBridge
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.top import Core
from tq_hw.isa.config import Config

__all__ = ["System"]


class System(wiring.Component):
    """Host link and accelerator, in one clock domain.

    Parameters
    ----------
    config : of the accelerator
    clock_hz, baud : ValueError if the clock cannot give the baud rate
    memory_bytes : from address 0 on; a multiple of 256
    levelled : the memory is a DRAM that has to be levelled; the host can read its state

    Members
    -------
    rx : In(1), tx : Out(1), the UART
    interrupt : Out(1), the accelerator's
    memory : Out(AxiSignature(bus_bytes, MEMORY_ID_BITS))
    status : None, or the component that takes the leveller's results
    """

    rx: Signal
    tx: Signal
    interrupt: Signal
    memory: Any

    def __init__(self, config: Config, clock_hz: int, baud: int, memory_bytes: int, *, levelled: bool = False) -> None:
        self._config, self._memory_bytes = config, memory_bytes
        self.status = BoardStatus() if levelled else None
        self._bridge = UartBridge(config, clock_hz, baud, memory_bytes=memory_bytes)
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "interrupt": Out(1),
                          "memory": Out(AxiSignature(config.bus_bytes, MEMORY_ID_BITS))})

    def elaborate(self, platform: object) -> Module:
        """Instantiate and connect."""
        m = Module()
        m.submodules.bridge = bridge = self._bridge
        m.submodules.accelerator = accelerator = Core(self._config)
        m.submodules.merge = merge = Merge(self._config.bus_bytes, self._memory_bytes)
        for port, master in ((merge.a, bridge), (merge.b, accelerator)):
            m.d.comb += pass_through(port.signature.members, master, port, "m_axi_")
        wiring.connect(m, merge.o, wiring.flipped(self.memory))
        m.d.comb += [
            bridge.rx.eq(self.rx), self.tx.eq(bridge.tx), self.interrupt.eq(accelerator.interrupt),
            accelerator.reg_addr.eq(bridge.reg_addr), accelerator.reg_write_en.eq(bridge.reg_write_en),
            accelerator.reg_write_data.eq(bridge.reg_write_data),
        ]
        if self.status is None:
            m.d.comb += bridge.reg_read_data.eq(accelerator.reg_read_data)
        else:
            m.submodules.status = status = self.status
            m.d.comb += [status.reg_addr.eq(bridge.reg_addr), status.inner_read_data.eq(accelerator.reg_read_data),
                         bridge.reg_read_data.eq(status.reg_read_data)]
        return m
