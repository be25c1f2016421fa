"""The system of a board for the simulator: link, accelerator and memory arbiter, with bytes instead of UART pins."""

from typing import Any

from amaranth import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature, Merge
from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.gateware.bridge import Bridge
from tq_hw.boards.gateware.emulated_dram import PHYS, EmulatedDram
from tq_hw.boards.link.protocol import MOST_BYTES, VERSION, Identity
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.simulation import late_reset
from tq_hw.hdl.top import Core
from tq_hw.isa.config import Config
from tq_hw.isa.control import REGISTERS

__all__ = ["GAP_CYCLES", "EmulatedSystem"]

#: Time-out of a frame: short, since the simulated link has no wire to wait for.
GAP_CYCLES = 20_000
_CONTROL = next(register.offset_bytes for register in REGISTERS if register.name == "control")


class EmulatedSystem(wiring.Component):
    """`boards.gateware.system.System` without its UART.

    Its reset comes one cycle after the top's: see `hdl.simulation.late_reset`.

    Parameters
    ----------
    config : of the accelerator
    memory_bytes : from address 0 on
    clock_hz : that the board reports
    phy : 1-based index into PHYS of a DDR3 that has to be levelled: `EmulatedDram`; 0 for other memories

    Members
    -------
    rx_valid, rx_data, tx_valid, tx_data, tx_ready, busy : the bytes of `Bridge`
    running : Out(1), the accelerator was started and has not ended
    interrupt : Out(1)
    m_axi_* : Out(AxiSignature(bus_bytes, MEMORY_ID_BITS))
    """

    rx_valid: Signal
    rx_data: Signal
    tx_valid: Signal
    tx_data: Signal
    tx_ready: Signal
    busy: Signal
    running: Signal
    interrupt: Signal

    def __init__(self, config: Config, memory_bytes: int, clock_hz: int, phy: int = 0) -> None:
        self._config, self._phy = config, phy
        self._identity = Identity(VERSION, config.fingerprint, 0, memory_bytes, MOST_BYTES, clock_hz)
        memory = AxiSignature(config.bus_bytes, MEMORY_ID_BITS)
        super().__init__({
            "rx_valid": In(1), "rx_data": In(8), "tx_valid": Out(1), "tx_data": Out(8), "tx_ready": In(1),
            "busy": Out(1), "running": Out(1), "interrupt": Out(1),
            **{f"m_axi_{name}": member for name, member in memory.members.items()},
        })

    def elaborate(self, platform: object) -> Module:
        """Connect as `System` does, in a domain of its own."""
        m = Module()
        late_reset(m)
        bridge, accelerator = Bridge(self._config, self._identity, GAP_CYCLES), Core(self._config)
        merge = Merge(self._config.bus_bytes, self._identity.memory_bytes)
        for name, part in (("bridge", bridge), ("accelerator", accelerator), ("merge", merge)):
            m.submodules[name] = DomainRenamer("core")(part)
        masters: tuple[tuple[Any, Any], ...] = ((merge.a, bridge), (merge.b, accelerator))
        for port, master in masters:
            m.d.comb += pass_through(port.signature.members, master, port, "m_axi_")
        self._connect_memory(m, merge, bridge, accelerator)
        ended = Signal()
        m.d.core += ended.eq(accelerator.interrupt)
        with m.If(bridge.reg_write_en & (bridge.reg_addr == _CONTROL)):
            m.d.core += self.running.eq(bridge.reg_write_data[:2] == 1)
        with m.Elif(accelerator.interrupt & ~ended):
            m.d.core += self.running.eq(0)
        m.d.comb += [
            bridge.rx_valid.eq(self.rx_valid), bridge.rx_data.eq(self.rx_data), self.tx_valid.eq(bridge.tx.valid),
            self.tx_data.eq(bridge.tx.payload), bridge.tx.ready.eq(self.tx_ready), self.busy.eq(bridge.busy),
            self.interrupt.eq(accelerator.interrupt),
            accelerator.reg_addr.eq(bridge.reg_addr), accelerator.reg_write_en.eq(bridge.reg_write_en),
            accelerator.reg_write_data.eq(bridge.reg_write_data),
        ]
        return m

    def _connect_memory(self, m: Module, merge: Merge, bridge: Any, accelerator: Any) -> None:
        """Connect the simulator's memory, through the DRAM that has to be levelled if there is one."""
        if not self._phy:
            m.d.comb += [*pass_through(merge.o.signature.members, self, merge.o, "m_axi_"),
                         bridge.reg_read_data.eq(accelerator.reg_read_data)]
            return
        status = BoardStatus()
        dram = EmulatedDram(self._config.bus_bytes, status, list(PHYS.values())[self._phy - 1])
        m.submodules.status, m.submodules.dram = DomainRenamer("core")(status), DomainRenamer("core")(dram)
        wiring.connect(m, merge.o, dram.bus)
        m.d.comb += [
            *pass_through(dram.memory.signature.members, self, dram.memory, "m_axi_"),
            status.reg_addr.eq(bridge.reg_addr), status.inner_read_data.eq(accelerator.reg_read_data),
            bridge.reg_read_data.eq(status.reg_read_data),
        ]
