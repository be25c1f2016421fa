"""The system of a board that runs its own program: soft core, accelerator, and their common memory.

The soft core is VexRiscv (RV32IM, instruction cache, no data cache); its Verilog comes from a Python package.
"""

import importlib.util
from pathlib import Path
from typing import Any

from amaranth import Cat, ClockSignal, Const, Instance, Module, Mux, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature, Merge
from tq_hw.boards.gateware.on_chip import BlockCells
from tq_hw.boards.gateware.uart import UartReceiver, UartTransmitter, bit_cycles
from tq_hw.boards.soc.flash import FlashReader
from tq_hw.boards.soc.map import RAM_BYTES, Device, Region
from tq_hw.hdl.bus.memory_port import MemoryPort
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.top import Core
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import MissingToolError

__all__ = ["CPU_PACKAGE", "Soc", "SocSystem", "cpu_verilog"]

CPU_PACKAGE = "pythondata_cpu_vexriscv"
_REGION_BIT = 28
#: Limit of the flash's clock: every flash supports command 0x03 at this rate.
_FLASH_MOST_HZ = 25_000_000


def cpu_verilog() -> str:
    """Return the Verilog of module VexRiscv; MissingToolError when its package is not installed."""
    spec = importlib.util.find_spec(CPU_PACKAGE)
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    file = Path(folder or "") / "verilog" / "VexRiscv_Lite.v"
    if folder is None or not file.is_file():
        raise MissingToolError(f"the Python package {CPU_PACKAGE.replace('_', '-')}, the soft core, is not installed: "
                               'pip install "tq-hw[soc]"')
    return file.read_text(encoding="utf-8")


class Soc(wiring.Component):
    """Soft core, block RAM, UART without its bits, timer, flash and accelerator, in one clock domain.

    Addresses are those of `boards.soc.map`. The processor's data bus has one access under way at a time. Block RAM
    takes 4 cycles, the accelerator's registers 4, memory its latency and about 8. There are no error responses: an
    address beyond the memory reads an undefined value.

    Parameters
    ----------
    config : of the accelerator
    memory_bytes : from device address 0 on; a multiple of 256
    flash_half_cycles : half a period of the flash's clock
    image : initial contents of block RAM

    Members
    -------
    rx_valid : In(1), strobe: a byte came on the UART; rx_data : In(8), with it. It replaces a byte that was not read
    tx : Out(stream of 8 bits), bytes for the UART
    flash_select, flash_clk, flash_copi : Out(1); flash_cipo : In(1), see `FlashReader`
    dram_adr : Out(30), word address; dram_dat_w : Out(32); dram_request : Out(1), held until dram_ack : In(1)
    load_en : In(1), load_addr, load_data : write block RAM while the system is in reset
    interrupt : Out(1), the accelerator's
    memory : Out(AxiSignature(bus_bytes, MEMORY_ID_BITS))
    """

    rx_valid: Signal
    rx_data: Signal
    tx: stream.Interface
    flash_select: Signal
    flash_clk: Signal
    flash_copi: Signal
    flash_cipo: Signal
    dram_adr: Signal
    dram_dat_w: Signal
    dram_request: Signal
    dram_ack: Signal
    load_en: Signal
    load_addr: Signal
    load_data: Signal
    interrupt: Signal
    memory: Any

    def __init__(self, config: Config, memory_bytes: int, *, flash_half_cycles: int = 2, image: bytes = b"") -> None:
        if len(image) > RAM_BYTES:
            raise ValueError(f"the program has {len(image)} bytes, block RAM {RAM_BYTES}")
        self._config, self._memory_bytes = config, memory_bytes
        self._flash_half_cycles, self._image = flash_half_cycles, image
        super().__init__({
            "rx_valid": In(1), "rx_data": In(8), "tx": Out(stream.Signature(8)),
            "flash_select": Out(1), "flash_clk": Out(1), "flash_copi": Out(1), "flash_cipo": In(1),
            "dram_adr": Out(30), "dram_dat_w": Out(32), "dram_request": Out(1), "dram_ack": In(1),
            "load_en": In(1), "load_addr": In(range(RAM_BYTES // 4)), "load_data": In(32),
            "interrupt": Out(1), "memory": Out(AxiSignature(config.bus_bytes, MEMORY_ID_BITS)),
        })

    def elaborate(self, platform: object) -> Module:
        """Instantiate, share block RAM between the two buses, decode the data bus."""
        m = Module()
        m.submodules.accelerator = accelerator = Core(self._config)
        m.submodules.port = port = MemoryPort(self._config)
        m.submodules.merge = merge = Merge(self._config.bus_bytes, self._memory_bytes)
        m.submodules.flash = flash = FlashReader(self._flash_half_cycles)
        m.submodules.ram = ram = BlockCells(4, RAM_BYTES, self._image)
        for side, master, prefix in ((merge.a, port.bus, ""), (merge.b, accelerator, "m_axi_")):
            m.d.comb += pass_through(side.signature.members, master, side, prefix)
        wiring.connect(m, merge.o, wiring.flipped(self.memory))
        m.d.comb += [
            self.interrupt.eq(accelerator.interrupt), self.flash_select.eq(flash.select),
            self.flash_clk.eq(flash.clk), self.flash_copi.eq(flash.copi), flash.cipo.eq(self.flash_cipo),
        ]
        fetch, data = _WishboneBus("fetch"), _WishboneBus("data")
        m.submodules.cpu = Instance(
            "VexRiscv", i_clk=ClockSignal(), i_reset=ResetSignal(), i_externalResetVector=Region.RAM,
            i_timerInterrupt=0, i_softwareInterrupt=0, i_externalInterruptArray=Const(0, 32),
            **fetch.ports("iBusWishbone"), **data.ports("dBusWishbone"))
        self._share_ram(m, ram, fetch, data)
        self._decode(m, ram, data, accelerator, port, flash)
        return m

    def _share_ram(self, m: Module, ram: BlockCells, fetch: "_WishboneBus", data: "_WishboneBus") -> None:
        """Give block RAM to the data bus on request, otherwise to the instruction cache."""
        self._data_first = data_first = Signal()
        age = Signal(2)
        take = Signal()
        m.d.comb += [
            take.eq(fetch.request & (age == 0) & ~data_first), fetch.ack.eq(age[1]), fetch.read.eq(ram.rdata),
            ram.addr.eq(Mux(data_first, data.adr, fetch.adr)), ram.wdata.eq(data.write),
            ram.write.eq(Mux(data_first & data.we, data.sel, 0)),
        ]
        m.d.sync += age.eq(Cat(take, age))
        with m.If(self.load_en):
            m.d.comb += [ram.addr.eq(self.load_addr), ram.wdata.eq(self.load_data), ram.write.eq(15)]

    def _decode(self, m: Module, ram: BlockCells, data: "_WishboneBus", accelerator: Core, port: MemoryPort,
                flash: FlashReader) -> None:
        """Execute the accesses of the data bus one after the other."""
        answer = Signal(32)
        timer = Signal(32)
        came, waits = Signal(8), Signal()
        lanes = self._config.bus_bytes // 4
        lane = data.adr[:ceil_log2(lanes)]
        m.d.sync += timer.eq(timer + 1)
        m.d.comb += [
            data.read.eq(answer),
            accelerator.reg_addr.eq(data.adr << 2), accelerator.reg_write_data.eq(data.write),
            port.addr.eq((data.adr << 2)[:30]), port.data.eq(Cat(data.write for _ in range(lanes))),
            port.strobe.eq(data.sel << (lane << 2)),
            flash.addr.eq(data.adr), self.tx.payload.eq(data.write),
            self.dram_adr.eq(data.adr[:_REGION_BIT - 2]), self.dram_dat_w.eq(data.write),
        ]
        regions = {Region.RAM: "RAM", Region.FLASH: "FLASH", Region.DRAM: "DRAM", Region.DEVICES: "DEVICES",
                   Region.ACCELERATOR: "ACCELERATOR"}
        with m.FSM(name="state"):
            with m.State("IDLE"), m.If(data.request):
                m.next = "DONE"
                with m.Switch(data.adr[_REGION_BIT - 2:]):
                    for region, state in regions.items():
                        with m.Case(region >> _REGION_BIT):
                            m.next = state
                    with m.Case("01--"):
                        m.d.comb += [port.read.eq(~data.we), port.write.eq(data.we)]
                        m.next = "MEMORY"
            with m.State("RAM"):
                m.d.comb += self._data_first.eq(1)
                m.next = "RAM FOUND"
                with m.If(data.we):
                    m.next = "DONE"
            with m.State("RAM FOUND"):
                m.next = "RAM READ"
            with m.State("RAM READ"):
                m.d.comb += [data.ack.eq(1), data.read.eq(ram.rdata)]
                m.next = "IDLE"
            with m.State("FLASH"):
                m.d.comb += flash.request.eq(1)
                m.d.sync += answer.eq(flash.data)
                with m.If(flash.ready):
                    m.next = "DONE"
            with m.State("MEMORY"):
                m.d.sync += answer.eq(port.came.word_select(lane, 32))
                with m.If(~port.pending):
                    m.next = "DONE"
            with m.State("DRAM"):
                m.d.comb += self.dram_request.eq(1)
                with m.If(self.dram_ack):
                    m.next = "DONE"
            with m.State("DEVICES"):
                is_timer = data.adr[0] == Device.TIMER >> 2
                m.d.sync += answer.eq(Mux(is_timer, timer, Cat(came, ~waits)))
                m.d.comb += self.tx.valid.eq(data.we & ~is_timer)
                with m.If(~self.tx.valid | self.tx.ready):
                    m.next = "DONE"
                with m.If(~data.we & ~is_timer):
                    m.d.sync += waits.eq(0)
            with m.State("ACCELERATOR"):
                m.d.comb += accelerator.reg_write_en.eq(data.we)
                m.next = "ACCELERATOR FINDS"
            with m.State("ACCELERATOR FINDS"):
                m.next = "ACCELERATOR READ"
            with m.State("ACCELERATOR READ"):
                m.d.sync += answer.eq(accelerator.reg_read_data)
                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += data.ack.eq(1)
                m.next = "IDLE"
        with m.If(self.rx_valid):
            m.d.sync += [came.eq(self.rx_data), waits.eq(1)]


class SocSystem(wiring.Component):
    """`Soc` with a bit-level UART: replaces `boards.gateware.system.System` on a board with a soft core.

    Parameters
    ----------
    config, memory_bytes : as of `Soc`
    clock_hz, baud : ValueError if the clock cannot give the baud rate
    program : initial contents of block RAM

    Members
    -------
    rx : In(1), tx : Out(1), the UART
    others : of `Soc`
    """

    rx: Signal
    tx: Signal
    flash_select: Signal
    flash_clk: Signal
    flash_copi: Signal
    flash_cipo: Signal
    dram_ack: Signal
    interrupt: Signal
    memory: Any

    def __init__(self, config: Config, clock_hz: int, baud: int, memory_bytes: int, program: bytes) -> None:
        half_cycles = ceil_div(clock_hz, 2 * _FLASH_MOST_HZ)
        self._soc = Soc(config, memory_bytes, flash_half_cycles=half_cycles, image=program)
        self._cycles = bit_cycles(clock_hz, baud)
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), **_shared(self._soc)})

    def elaborate(self, platform: object) -> Module:
        """Connect the UART to the system."""
        m = Module()
        m.submodules.soc = soc = self._soc
        m.submodules.receiver = receiver = UartReceiver(self._cycles)
        m.submodules.transmitter = transmitter = UartTransmitter(self._cycles)
        wiring.connect(m, soc.tx, transmitter.i)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx), soc.rx_valid.eq(receiver.valid),
                     soc.rx_data.eq(receiver.data)]
        shared = _shared(soc)
        del shared["memory"]
        m.d.comb += pass_through(shared, self, soc)
        wiring.connect(m, soc.memory, wiring.flipped(self.memory))
        return m


def _shared(soc: Soc) -> dict[str, wiring.Member]:
    """Return the members of `soc` that a board's top uses."""
    return {name: member for name, member in soc.signature.members.items()
            if name.startswith(("flash_", "dram_")) or name in ("interrupt", "memory")}


class _WishboneBus:
    """The signals of one of the processor's buses."""

    def __init__(self, name: str) -> None:
        self.cyc, self.stb = Signal(name=f"{name}_cyc"), Signal(name=f"{name}_stb")
        self.we, self.ack = Signal(name=f"{name}_we"), Signal(name=f"{name}_ack")
        self.adr, self.sel = Signal(30, name=f"{name}_adr"), Signal(4, name=f"{name}_sel")
        self.write, self.read = Signal(32, name=f"{name}_write"), Signal(32, name=f"{name}_read")
        self.request = self.cyc & self.stb

    def ports(self, prefix: str) -> dict[str, Any]:
        """Return the connections of an instance."""
        outputs = {"CYC": self.cyc, "STB": self.stb, "WE": self.we, "ADR": self.adr, "SEL": self.sel,
                   "DAT_MOSI": self.write}
        inputs: dict[str, Any] = {"ACK": self.ack, "DAT_MISO": self.read, "ERR": 0}
        return ({f"o_{prefix}_{name}": signal for name, signal in outputs.items()}
                | {f"i_{prefix}_{name}": signal for name, signal in inputs.items()})
