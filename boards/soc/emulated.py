"""A board with a soft core for the simulator, with bytes instead of UART pins and a model of the DRAM controller."""

from typing import Any

from amaranth import Array, DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature
from tq_hw.boards.soc.map import RAM_BYTES
from tq_hw.boards.soc.soc import Soc, cpu_verilog
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.simulation import late_reset
from tq_hw.isa.config import Config

__all__ = ["DramModel", "EmulatedSoc"]

#: Handshakes that are blocked until the DRAM is up.
_GATED = ("arvalid", "arready", "awvalid", "awready")


class DramModel(wiring.Component):
    """A DRAM controller that checks its initialization: the right register writes, in order, with the required pauses.

    Members
    -------
    adr : In(30), dat_w : In(32), request : In(1), ack : Out(1), as of `Soc`
    ready : Out(1), the DRAM can be used; stays low after a wrong write, or one that came too early
    """

    adr: Signal
    dat_w: Signal
    request: Signal
    ack: Signal
    ready: Signal

    def __init__(self, sequence: tuple[tuple[int, int, int], ...]) -> None:
        self._sequence = sequence
        super().__init__({"adr": In(30), "dat_w": In(32), "request": In(1), "ack": Out(1), "ready": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Compare each write with the next line of the sequence."""
        m = Module()
        addresses, values, waits = (Array(column) for column in zip(*self._sequence, strict=True))
        step = Signal(range(len(self._sequence) + 1))
        left = Signal(range(max(wait for _address, _value, wait in self._sequence) + 2))
        wrong = Signal()
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.sync += self.ack.eq(self.request & ~self.ack)
        with m.If(self.request & ~self.ack):
            m.d.sync += [step.eq(step + 1), left.eq(waits[step])]
            with m.If((self.adr != addresses[step] >> 2) | (self.dat_w != values[step]) | (left != 0)
                      | (step == len(self._sequence))):
                m.d.sync += wrong.eq(1)
        m.d.comb += self.ready.eq((step == len(self._sequence)) & ~wrong)
        return m


class EmulatedSoc(wiring.Component):
    """`boards.soc.soc.Soc`; its reset comes one cycle after the top's: see `hdl.simulation.late_reset`.

    Parameters
    ----------
    config : of the accelerator
    memory_bytes : from device address 0 on
    flash_half_cycles : see `Soc`
    sequence : address, value, wait, address, ... of the register writes that initialize the DRAM; none for other memory

    Members
    -------
    rx_valid, rx_data, tx_valid, tx_data, tx_ready : the bytes of the UART
    flash_*, load_* : of `Soc`
    busy : Out(1), 0; running : Out(1), 1
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

    def __init__(self, config: Config, memory_bytes: int, flash_half_cycles: int, *sequence: int) -> None:
        self._sequence = tuple(zip(sequence[::3], sequence[1::3], sequence[2::3], strict=True))
        self._soc = Soc(config, memory_bytes, flash_half_cycles=flash_half_cycles)
        memory = AxiSignature(config.bus_bytes, MEMORY_ID_BITS)
        super().__init__({
            "rx_valid": In(1), "rx_data": In(8), "tx_valid": Out(1), "tx_data": Out(8), "tx_ready": In(1),
            "flash_select": Out(1), "flash_clk": Out(1), "flash_copi": Out(1), "flash_cipo": In(1),
            "load_en": In(1), "load_addr": In(range(RAM_BYTES // 4)), "load_data": In(32),
            "busy": Out(1), "running": Out(1), "interrupt": Out(1),
            **{f"m_axi_{name}": member for name, member in memory.members.items()},
        })

    @property
    def verilog(self) -> str:
        """Verilog of the modules that are instantiated."""
        return cpu_verilog()

    def elaborate(self, platform: object) -> Module:
        """Put the system into its own domain, and the model of the DRAM controller before its memory."""
        m = Module()
        late_reset(m)
        soc = self._soc
        m.submodules.soc = DomainRenamer("core")(soc)
        ready: Any = Signal(name="memory_ready", init=1)
        if self._sequence:
            dram = DramModel(self._sequence)
            m.submodules.dram = DomainRenamer("core")(dram)
            m.d.comb += [dram.adr.eq(soc.dram_adr), dram.dat_w.eq(soc.dram_dat_w), dram.request.eq(soc.dram_request),
                         soc.dram_ack.eq(dram.ack), ready.eq(dram.ready)]
        else:
            m.d.comb += [soc.dram_ack.eq(1), ready.eq(1)]
        bus, members = soc.memory, soc.memory.signature.members
        m.d.comb += pass_through({name: member for name, member in members.items() if name not in _GATED}, self, bus,
                                 "m_axi_")
        for kind in ("ar", "aw"):
            master_valid, master_ready = (getattr(self, f"m_axi_{kind}{name}") for name in ("valid", "ready"))
            m.d.comb += [master_valid.eq(getattr(bus, f"{kind}valid") & ready),
                         getattr(bus, f"{kind}ready").eq(master_ready & ready)]
        for name in ("rx_valid", "rx_data", "flash_cipo", "load_en", "load_addr", "load_data"):
            m.d.comb += getattr(soc, name).eq(getattr(self, name))
        for name in ("flash_select", "flash_clk", "flash_copi", "interrupt"):
            m.d.comb += getattr(self, name).eq(getattr(soc, name))
        m.d.comb += [self.tx_valid.eq(soc.tx.valid), self.tx_data.eq(soc.tx.payload), soc.tx.ready.eq(self.tx_ready),
                     self.running.eq(1)]
        return m
