"""The serial machine: engine and registers, with a word port or with AXI4."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.bus.memory_port import MemoryPort
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.control.registers import host_members
from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.hdl.serial.cells import Cells
from tq_hw.hdl.serial.encoding import Sink
from tq_hw.hdl.serial.engine import Engine, WordPortSignature
from tq_hw.hdl.serial.host import Host
from tq_hw.hdl.serial.program import microprogram
from tq_hw.isa.config import Config

__all__ = ["SerialAccelerator", "SerialCore"]

#: Ports to the host.
_HOST = tuple(host_members())


class _Progress(wiring.Component):
    """Strobes of one unit's operations for a simulator; nothing reads them, so synthesis removes them.

    Members
    -------
    began, done : In(1), strobes
    """

    began: Signal
    done: Signal

    def __init__(self) -> None:
        super().__init__({"began": In(1), "done": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Count, under the names of the parallel machine's registers."""
        m = Module()
        runs, in_flight = Signal(32, name="runs"), Signal(3, name="in_flight")
        m.d.sync += [runs.eq(runs + self.began), in_flight.eq(in_flight + self.began - self.done)]
        return m


class SerialCore(wiring.Component):
    """The machine without its bus.

    Parameters
    ----------
    cells : the engine's private memory, by default `Cells`

    Members
    -------
    reg_*, interrupt : as of `hdl.accelerator.Accelerator`
    port : Out(WordPortSignature), to system memory
    """

    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal
    interrupt: Signal
    port: Any

    def __init__(self, config: Config, cells: Any = None) -> None:
        assert config.design == "serial"
        self._config, self._cells = config, Cells() if cells is None else cells
        super().__init__(host_members() | {"port": Out(WordPortSignature())})

    def elaborate(self, platform: object) -> Module:
        """Instantiate and connect."""
        m = Module()
        m.submodules.host = host = Host(self._config)
        m.submodules.engine = engine = Engine(self._config, microprogram(self._config), self._cells)
        wiring.connect(m, engine.port, wiring.flipped(self.port))
        m.d.comb += [
            host.reg_addr.eq(self.reg_addr), host.reg_write_en.eq(self.reg_write_en),
            host.reg_write_data.eq(self.reg_write_data), self.reg_read_data.eq(host.reg_read_data),
            self.interrupt.eq(host.interrupt),
            engine.restart.eq(host.restart), engine.go.eq(host.go), host.halted.eq(engine.halted),
            host.halt.eq(engine.halt), host.pending.eq(self.port.pending), engine.given_up.eq(host.given_up),
            engine.host_en.eq(host.write_en), engine.host_index.eq(host.write_index),
            engine.host_data.eq(host.write_data), host.out_en.eq(engine.out_en), host.out_index.eq(engine.out_index),
            host.out_data.eq(engine.out_data),
        ]
        for unit in WORKERS:
            m.submodules[f"control_{unit.name.lower()}"] = progress = _Progress()
            for number, strobe in ((Sink.BEGAN, progress.began), (Sink.DONE, progress.done)):
                m.d.comb += strobe.eq(engine.out_en & (engine.out_index == number) & (engine.out_data == unit))
        return m


class SerialAccelerator(wiring.Component):
    """The serial machine with the ports of `hdl.accelerator.Accelerator`. Every burst has one beat.

    Parameters
    ----------
    cells : the engine's private memory, by default `Cells`

    Members
    -------
    m_axi_*, reg_*, interrupt : as of `hdl.accelerator.Accelerator`
    """

    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal
    interrupt: Signal

    def __init__(self, config: Config, cells: Any = None) -> None:
        self._config, self._cells = config, cells
        bus = write_members(config) | read_members(config)
        super().__init__({**{f"m_axi_{name}": member for name, member in bus.items()}, **host_members()})

    def elaborate(self, platform: object) -> Module:
        """Put the AXI4 bridge on the core's port."""
        m = Module()
        m.submodules.core = core = SerialCore(self._config, self._cells)
        m.submodules.port = port = MemoryPort(self._config)
        m.d.comb += [
            port.read.eq(core.port.read), port.write.eq(core.port.write), port.addr.eq(core.port.addr),
            port.data.eq(core.port.data), port.strobe.eq(core.port.strobe), core.port.pending.eq(port.pending),
            core.port.failed.eq(port.failed), core.port.came.eq(port.came),
            *(getattr(core, name).eq(getattr(self, name)) for name in _HOST[:3]),
            *(getattr(self, name).eq(getattr(core, name)) for name in _HOST[3:]),
        ]
        m.d.comb += pass_through(write_members(self._config) | read_members(self._config), self, port.bus, "m_axi_")
        return m
