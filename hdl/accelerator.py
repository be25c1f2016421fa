"""The whole accelerator: AXI4 master, register bus, interrupt."""

from typing import Any, NamedTuple

from amaranth import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring

from tq_hw.hdl.array.unit import ArrayUnit
from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.bus.read_channel import ReadChannel
from tq_hw.hdl.bus.write_channel import WriteChannel
from tq_hw.hdl.control.fetch import Fetch
from tq_hw.hdl.control.registers import EVENTS, RESET_CYCLES, Registers, host_members
from tq_hw.hdl.control.tokens import WORKERS, Tokens
from tq_hw.hdl.control.unit_control import UnitControl
from tq_hw.hdl.control.watchdog import Watchdog
from tq_hw.hdl.dma.load import LoadUnit
from tq_hw.hdl.dma.store import StoreUnit
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.scratchpad import Scratchpad
from tq_hw.hdl.vector.unit import VectorUnit
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit

__all__ = ["Accelerator"]

#: Names of the parts, in the order in which reset reaches and releases them, one group per cycle.
_RESET_ORDER = (("vector",), ("array",), ("load",), ("store",), ("fetch", "tokens"),
                ("control_load", "control_array", "control_vector", "control_store"))


class Accelerator(wiring.Component):
    """The machine on one clock. Port names are flat and are those in the Verilog.

    Members
    -------
    m_axi_* : AXI4 master of hdl/bus/axi.py, 32-bit addresses, `bus_bytes` of data, 1-bit ids
    reg_addr : In(8), byte address; reg_write_en : In(1); reg_write_data : In(32)
    reg_read_data : Out(32), two cycles after `reg_addr`; registers of isa/control.py
    interrupt : Out(1), high from done or error to the next start or stop
    """

    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal
    interrupt: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        bus = write_members(config) | read_members(config)
        super().__init__({
            **{f"m_axi_{name}": member for name, member in bus.items()}, **host_members(),
        })

    def elaborate(self, platform: object) -> Module:
        """Instantiate and connect the parts. Those that work on a stream are reset between runs."""
        m = Module()
        config = self._config
        m.submodules.registers = registers = Registers(config)
        m.submodules.read_channel = reads = ReadChannel(config)
        m.submodules.write_channel = writes = WriteChannel(config)
        m.submodules.scratchpad = pad = Scratchpad(config)
        parts = _Parts(Fetch(config), Tokens(), LoadUnit(config), ArrayUnit(config), VectorUnit(config),
                       StoreUnit(config), {unit: UnitControl(unit, config) for unit in WORKERS})
        self._reset_parts(m, parts, registers.reset_units)

        self._connect_host(m, registers, reads, writes)
        self._connect_memory(m, parts, registers, reads, writes, pad)
        m.submodules.watchdog = watchdog = Watchdog()
        self._connect_controls(m, parts, registers, watchdog)
        self._count_events(m, parts, registers, reads, writes)
        self._watch(m, parts, registers, reads, writes, watchdog)
        return m

    def _reset_parts(self, m: Module, parts: "_Parts", reset_units: Signal) -> None:
        """Add the parts that are reset between runs. One group per cycle: they have thousands of flip-flops."""
        named = parts.by_name
        reset: Any = ResetSignal() | reset_units
        for step, names in enumerate(_RESET_ORDER):
            domain = ClockDomain(f"units{step}", local=True)
            m.domains += domain
            flag = Signal(name=f"reset{step}", init=1, reset_less=True)
            m.d.sync += flag.eq(reset)
            m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(flag)]
            reset = flag
            for name in names:
                m.submodules[name] = DomainRenamer(domain.name)(named.pop(name))
        assert not named and len(_RESET_ORDER) < RESET_CYCLES

    def _connect_memory(self, m: Module, parts: "_Parts", registers: Registers, reads: ReadChannel,
                        writes: WriteChannel, pad: Scratchpad) -> None:
        """Connect the data paths: system memory, accumulators, scratchpad."""
        fetch, load, array, vector, store = parts.fetch, parts.load, parts.array, parts.vector, parts.store
        wiring.connect(m, fetch.memory, reads.fetch)
        wiring.connect(m, load.memory, reads.load)
        wiring.connect(m, store.beats, writes.beats)
        wiring.connect(m, store.bursts, writes.bursts)
        wiring.connect(m, array.acc, vector.acc)
        for client, port in (("feed0", array.feed0), ("feed1", array.feed1), ("feed2", array.feed2),
                             ("weights", array.weights), ("a", vector.a), ("b", vector.b), ("store", store.port),
                             ("out", vector.out), ("load", load.port)):
            wiring.connect(m, port, getattr(pad, client))
        m.d.comb += [
            fetch.start.eq(registers.start), fetch.addr.eq(registers.command_addr),
            fetch.size_bytes.eq(registers.command_bytes), fetch.halt.eq(registers.halt),
            load.base.eq(registers.base), store.base.eq(registers.base),
            store.answered.eq(writes.answered), store.write_error.eq(writes.error),
            reads.urgent.eq(fetch.urgent), reads.halt.eq(registers.halt), writes.halt.eq(registers.halt),
            registers.channels_idle.eq(reads.idle & writes.idle),
        ]

    def _connect_controls(self, m: Module, parts: "_Parts", registers: Registers, watchdog: Watchdog) -> None:
        """Connect each unit: commands from fetch, the engine, tokens, and errors to the registers."""
        fetch, tokens = parts.fetch, parts.tokens
        # An error of fetch belongs to no RUN.
        m.d.comb += [registers.errors[Unit.CONTROL].eq(_first((fetch.error, 0), (watchdog.error[Unit.CONTROL], 0))[0]),
                     registers.error_at[Unit.CONTROL].eq(-1)]
        for unit, control in parts.controls.items():
            name, engine = unit.name.lower(), parts.engines[unit]
            wiring.connect(m, getattr(fetch, name), control.words)
            wiring.connect(m, control.o, engine.i)
            wiring.connect(m, control.tokens, getattr(tokens, name))
            if unit in (Unit.ARRAY, Unit.VECTOR):
                wiring.connect(m, control.table, engine.table)
            m.d.comb += [
                control.halt.eq(registers.halt), control.done.eq(engine.done), control.engine_idle.eq(engine.idle),
                registers.runs[unit].eq(control.runs),
                watchdog.tokens[unit].eq(control.waiting), watchdog.under_way[unit].eq(control.under_way),
            ]
            # Tokens are posted by the operation before the one that is now the oldest.
            code, at = _first((control.error, control.runs[:NUMBER_BITS]), (engine.error, engine.error_at),
                              (getattr(tokens, f"error_{name}"), (control.oldest - 1)[:NUMBER_BITS]),
                              (watchdog.error[unit], control.oldest))
            m.d.comb += [registers.errors[unit].eq(code), registers.error_at[unit].eq(at)]
        controls = parts.controls.values()
        m.d.sync += registers.finished.eq(fetch.ended & Cat(control.idle for control in controls).all())

    def _count_events(self, m: Module, parts: "_Parts", registers: Registers, reads: ReadChannel,
                      writes: WriteChannel) -> None:
        """Connect the event counters by name."""
        array, vector = parts.array, parts.vector
        events = {
            "fetch_stall": parts.fetch.stall, "read_beats": reads.beat, "write_beats": writes.beat,
            "load_port": parts.load.stall, "store_port": parts.store.stall,
            "array_acc": array.stall_acc, "array_weight": array.stall_weight,
            "vector_acc": vector.stall_acc, "vector_port": vector.stall_port,
            **{f"{unit.name.lower()}_busy": ~engine.idle for unit, engine in parts.engines.items()},
            **{f"{unit.name.lower()}_token": control.waiting for unit, control in parts.controls.items()},
        }
        m.d.comb += registers.events.eq(Cat(events[name] for name in EVENTS))

    def _watch(self, m: Module, parts: "_Parts", registers: Registers, reads: ReadChannel, writes: WriteChannel,
               watchdog: Watchdog) -> None:
        """Tell the watchdog what moves and which answers memory owes."""
        moved = Signal()
        m.d.sync += moved.eq(Cat(reads.moved, writes.moved, parts.fetch.moved, registers.asked,
                                 *(engine.moved for engine in parts.engines.values())).any())
        m.d.comb += [
            watchdog.limit.eq(registers.watchdog), watchdog.running.eq(registers.running),
            watchdog.draining.eq(registers.draining), watchdog.moved.eq(moved),
            watchdog.memory[Unit.CONTROL].eq(reads.open[0]), watchdog.memory[Unit.LOAD].eq(reads.open[1]),
            watchdog.memory[Unit.STORE].eq(~writes.idle), registers.given_up.eq(watchdog.given_up),
            registers.owed.eq(watchdog.owed), reads.quiet.eq(watchdog.quiet),
        ]

    def _connect_host(self, m: Module, registers: Registers, reads: ReadChannel, writes: WriteChannel) -> None:
        """Connect the ports: register bus, interrupt and AXI4 master."""
        m.d.comb += [
            registers.addr.eq(self.reg_addr), registers.write_en.eq(self.reg_write_en),
            registers.write_data.eq(self.reg_write_data), self.reg_read_data.eq(registers.read_data),
            self.interrupt.eq(registers.interrupt),
        ]
        m.d.comb += pass_through(read_members(self._config), self, reads.bus, "m_axi_")
        m.d.comb += pass_through(write_members(self._config), self, writes.bus, "m_axi_")


class _Parts(NamedTuple):
    """The parts that are reset between runs."""

    fetch: Fetch
    tokens: Tokens
    load: LoadUnit
    array: ArrayUnit
    vector: VectorUnit
    store: StoreUnit
    controls: dict[Unit, UnitControl]

    @property
    def engines(self) -> dict[Unit, Any]:
        """The engine of each unit: it runs the unit's operations."""
        return {Unit.LOAD: self.load, Unit.ARRAY: self.array, Unit.VECTOR: self.vector, Unit.STORE: self.store}

    @property
    def by_name(self) -> dict[str, wiring.Component]:
        """The parts by submodule name."""
        return {"fetch": self.fetch, "tokens": self.tokens, "load": self.load, "array": self.array,
                "vector": self.vector, "store": self.store,
                **{f"control_{unit.name.lower()}": control for unit, control in self.controls.items()}}


def _first(*errors: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the first code other than OK, and its detail."""
    chosen: tuple[Any, Any] = (Status.OK, 0)
    for code, detail in reversed(errors):
        there = code != Status.OK
        chosen = (Mux(there, code, chosen[0]), Mux(there, detail, chosen[1]))
    return chosen
