"""The host's registers: start and stop, status, the first error, counters."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.hdl import ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.control.event_counters import EventCounters
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import Config
from tq_hw.isa.control import COUNTERS, MAGIC, NO_RUN, REGISTERS, Status
from tq_hw.isa.layout import Unit

__all__ = ["ADDRESS_BITS", "EVENTS", "RESET_CYCLES", "Registers", "host_members"]

#: Byte addresses of the bus.
ADDRESS_BITS = 8
#: Cycles for which the units' reset is asserted; it must reach all of them within as many.
RESET_CYCLES = 8
#: Events that are counted in addition to cycles, in the order of COUNTERS.
EVENTS = COUNTERS[1:]
_FIRST_EVENT, _LAST_EVENT = f"counter_{EVENTS[0]}", f"counter_{EVENTS[-1]}"
_OFFSET = {register.name: register.offset_bytes for register in REGISTERS}
#: Writable bits of each register: addresses are multiples of 16, the length of the commands is a multiple of 4.
_MASKS = {"command_offset": ~15, "command_bytes": ~3, "watchdog": ~0, **{f"base{region}": ~15 for region in range(4)}}


def host_members() -> dict[str, wiring.Member]:
    """Return a machine's ports to its host: inputs, then outputs."""
    return {"reg_addr": In(ADDRESS_BITS), "reg_write_en": In(1), "reg_write_data": In(32), "reg_read_data": Out(32),
            "interrupt": Out(1)}


class Registers(wiring.Component):
    """The registers of isa/control.py, and the state machine of a run.

    A run ends with its last command, an error, or a stop. Then outstanding bursts finish and the units are reset. Only
    after that does the next start begin, or is a stop no longer busy. While the machine is busy, a start and writes to
    registers other than `control` are ignored. The first error halts everything: no unit gets another operation, no
    burst is started. Status, error and counters stay until the next start or stop.

    If memory never gives the answers that it owes, a stop still completes, and a start ends in NO_ANSWER. `status` says
    so until the answers arrive, or until memory and machine are reset.

    Members
    -------
    addr : In(8), byte address; its two low bits are ignored
    write_en, write_data : In(1), In(32)
    read_data : Out(32), two cycles after `addr`
    interrupt : Out(1), done or error
    base : Out(ArrayLayout(32, 4)); command_addr, command_bytes : Out(32)
    start : Out(1), strobe for fetch
    reset_units : Out(1), for RESET_CYCLES; a unit is ready RESET_CYCLES later
    halt : Out(1), start nothing more
    channels_idle : In(1), no burst is outstanding
    finished : In(1), in the cycle before END was reached and all units were idle
    errors : In(ArrayLayout(4, 5)), Status by unit; of several units in one cycle the lowest counts
    error_at : In(ArrayLayout(NUMBER_BITS, 5)), low bits of the number of the operation that caused the error
    runs : In(ArrayLayout(32, 5)), operations started, by unit; the error is about one of the last ones, or the next
    watchdog : Out(32), the register; running, draining : Out(1), a run is in progress; its outstanding bursts are
    asked : Out(1), strobe: a start or a stop
    given_up : In(1), strobe: memory did not answer in time; owed : In(3), the unit that it owes an answer
    events : In(len(EVENTS)), counted while running, unless the configuration has few counters
    """

    addr: Signal
    write_en: Signal
    write_data: Signal
    read_data: Signal
    interrupt: Signal
    base: Any
    command_addr: Signal
    command_bytes: Signal
    start: Signal
    reset_units: Signal
    halt: Signal
    channels_idle: Signal
    finished: Signal
    errors: Any
    error_at: Any
    runs: Any
    watchdog: Signal
    running: Signal
    draining: Signal
    asked: Signal
    given_up: Signal
    owed: Signal
    events: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "addr": In(ADDRESS_BITS), "write_en": In(1), "write_data": In(32), "read_data": Out(32),
            "interrupt": Out(1), "base": Out(data.ArrayLayout(32, 4)), "command_addr": Out(32),
            "command_bytes": Out(32), "start": Out(1), "reset_units": Out(1), "halt": Out(1, init=1),
            "channels_idle": In(1), "finished": In(1), "errors": In(data.ArrayLayout(4, len(Unit))),
            "error_at": In(data.ArrayLayout(NUMBER_BITS, len(Unit))), "watchdog": Out(32), "running": Out(1),
            "draining": Out(1), "asked": Out(1), "given_up": In(1), "owed": In(3),
            "runs": In(data.ArrayLayout(32, len(Unit))), "events": In(len(EVENTS)),
        })

    def elaborate(self, platform: object) -> Module:
        """Keep the written registers, choose the first error, count, step the states."""
        m = Module()
        status = _Status()
        runs = Signal()
        self._host(m, status, *self._count(m, runs))
        asked_start = Signal()
        asked_stop = Signal()
        control = self.write_en & (self.addr[2:] == _OFFSET["control"] >> 2)
        m.d.comb += [asked_start.eq(control & self.write_data[0]), asked_stop.eq(control & self.write_data[1])]
        asked = _Asked(asked_start, asked_stop)
        error = self._first_error(m)
        finished = delayed(m, self.finished, 2, "finished", control=True)

        # Drain and reset begin as soon as a run ends, so that a start need not wait for them.
        again = Signal()
        with m.FSM(name="state", init="RESET") as states:
            drained = Signal()
            m.d.sync += [drained.eq(states.ongoing("DRAIN") & self.channels_idle),
                         self.draining.eq(states.ongoing("DRAIN")), self.asked.eq(asked_start | asked_stop)]
            m.d.comb += runs.eq(states.ongoing("RUN"))
            m.d.sync += self.running.eq(runs)
            self._run(m, status, asked, again, error, finished)
            self._end(m, status, asked, again, drained)
        return m

    def _host(self, m: Module, status: "_Status", cycles: Value, events: Value | None) -> None:
        """Host access: write the registers of a run while none is in progress, read all of them.

        `events` is the counter at `addr`, one cycle later, or None.
        """
        kept = {name: Signal(32, name=name) for name in _MASKS}
        m.d.comb += [
            *(self.base[region].eq(kept[f"base{region}"]) for region in range(4)),
            self.command_bytes.eq(kept["command_bytes"]), self.watchdog.eq(kept["watchdog"]),
            self.interrupt.eq(status.done | status.failed),
        ]
        m.d.sync += self.command_addr.eq(kept["base0"] + kept["command_offset"])

        values = {
            "magic": MAGIC, "fingerprint": self._config.fingerprint, "status": status.flags,
            "error_code": status.error_code, "error_unit": status.error_unit, "error_index": status.error_index,
            **kept, "counter_cycles": cycles,
        }
        read_at = {name: self.addr[2:] == _OFFSET[name] >> 2 for name in values}
        if events is not None:
            values["events"] = events
            read_at["events"] = ((self.addr[2:] >= _OFFSET[_FIRST_EVENT] >> 2)
                                 & (self.addr[2:] <= _OFFSET[_LAST_EVENT] >> 2))
        # An OR of masked values: a chain of multiplexers would be mapped to a reset of the register, on slow wires.
        read_data: Any = 0
        for name, value in values.items():
            reads = Signal(name=f"reads_{name}")
            m.d.sync += reads.eq(read_at[name])
            read_data = read_data | Mux(reads, value, 0)
        m.d.sync += self.read_data.eq(read_data)
        for name, register in kept.items():
            with m.If(self.write_en & ~status.busy & (self.addr[2:] == _OFFSET[name] >> 2)):
                m.d.sync += register.eq(self.write_data & _MASKS[name])

    def _first_error(self, m: Module) -> "_Error":
        """Choose among the units' errors: of several in one cycle, the first unit's.

        Errors are delayed by three cycles, which keeps the choice off the paths of the units and of the state. The end
        of a run is delayed with them. In two cycles a unit starts one more operation at most, so that `runs` is still
        less than 2^NUMBER_BITS after the one with the error.
        """
        codes = Signal(self.errors.shape())
        at = Signal(self.error_at.shape())
        m.d.sync += [codes.eq(self.errors), at.eq(self.error_at)]
        chosen: Any = Unit.CONTROL
        for unit in reversed(Unit):
            chosen = Mux(codes[unit] != 0, unit, chosen)
        wrong, first = Signal(), Signal(3)
        first_code, first_run, first_at = Signal(4), Signal(32), Signal(NUMBER_BITS)
        unit_wrong = Signal(3)
        codes_then, at_then = delayed(m, codes, 1, "codes"), delayed(m, at, 1, "error_at")
        m.d.sync += [
            unit_wrong.eq(chosen), wrong.eq(delayed(m, codes.as_value().any(), 1, "any_code", control=True)),
            first.eq(unit_wrong), first_code.eq(Array(codes_then[unit] for unit in Unit)[unit_wrong]),
            first_run.eq(Array(self.runs[unit] for unit in Unit)[unit_wrong]),
            first_at.eq(Array(at_then[unit] for unit in Unit)[unit_wrong]),
        ]
        rounds = first_run[NUMBER_BITS:] - (first_run[:NUMBER_BITS] < first_at)
        return _Error(wrong, first, first_code, Cat(first_at, rounds)[:32])

    def _count(self, m: Module, runs: Signal) -> tuple[Signal, Signal | None]:
        """Count cycles and events while the machine `runs`; return the cycles, and the counter of events at `addr`."""
        begins, cycles = Signal(), Signal(32, name="counter_cycles")
        m.d.sync += [begins.eq(self.start), cycles.eq(cycles + self.running)]
        with m.If(begins):
            m.d.sync += cycles.eq(0)
        if self._config.few_counters:
            return cycles, None
        m.submodules.counters = counters = EventCounters(len(EVENTS))
        m.d.sync += counters.events.eq(self.events)
        m.d.comb += [counters.clear.eq(begins), counters.running.eq(runs),
                     counters.index.eq(self.addr[2:] - (_OFFSET[_FIRST_EVENT] >> 2))]
        return cycles, counters.value

    def _run(self, m: Module, status: "_Status", asked: "_Asked", again: Signal, error: "_Error",
             finished: Signal) -> None:
        """States from a start to the end of its run; `again`: a start waits for the cleanup of an earlier run."""
        with m.State("IDLE"):
            m.d.sync += status.busy.eq(0)
            with m.If(asked.stop):
                m.d.sync += [again.eq(0), *status.clear()]
            with m.Elif(asked.start | again):
                m.d.sync += [status.busy.eq(1), again.eq(0), *status.clear()]
                m.next = "START"
        with m.State("START"):
            m.d.comb += self.start.eq(1)
            m.d.sync += self.halt.eq(asked.stop)
            m.next = "RUN"
            with m.If(asked.stop):
                m.next = "DRAIN"
        with m.State("RUN"):
            with m.If(error.wrong):
                m.d.sync += [status.busy.eq(0), self.halt.eq(1),
                             *status.fail(error.unit, error.code, error.index)]
                m.next = "DRAIN"
            with m.Elif(finished):
                m.d.sync += [status.busy.eq(0), status.done.eq(1), self.halt.eq(1)]
                m.next = "DRAIN"
            with m.If(asked.stop):
                m.d.sync += [status.busy.eq(1), self.halt.eq(1), *status.clear()]
                m.next = "DRAIN"

    def _end(self, m: Module, status: "_Status", asked: "_Asked", again: Signal, drained: Signal) -> None:
        """States after a run: drain bursts, then reset the units. A start or stop meanwhile sets busy."""
        left = Signal(range(2 * RESET_CYCLES), init=2 * RESET_CYCLES - 1)
        with m.State("DRAIN"):
            with m.If(self.given_up):
                m.d.sync += [status.busy.eq(0), status.owed.eq(1), again.eq(0)]
                with m.If(again):
                    m.d.sync += status.fail(self.owed, Status.NO_ANSWER, NO_RUN)
            with m.If(asked.start | asked.stop):
                m.d.sync += [status.busy.eq(1), again.eq(~asked.stop), *status.clear()]
            with m.If(drained):
                m.d.sync += [left.eq(2 * RESET_CYCLES - 1), status.owed.eq(0)]
                m.next = "RESET"
        with m.State("RESET"):
            m.d.comb += self.reset_units.eq(left >= RESET_CYCLES)
            m.d.sync += left.eq(left - 1)
            with m.If(asked.start | asked.stop):
                m.d.sync += [status.busy.eq(1), again.eq(~asked.stop), *status.clear()]
            with m.If(left == 0):
                m.next = "IDLE"


class _Status:
    """The state of a run as the host reads it."""

    def __init__(self) -> None:
        self.busy, self.done, self.failed, self.owed = Signal(), Signal(), Signal(), Signal()
        self.error_code, self.error_unit, self.error_index = Signal(4), Signal(3), Signal(32, name="error_index")

    @property
    def flags(self) -> Value:
        """The register `status`."""
        return Cat(self.busy, self.done, self.failed, self.owed)

    def fail(self, unit: ValueLike, code: ValueLike, index: ValueLike) -> list[Any]:
        """Return the assignments that end a run with an error of operation `index`."""
        return [self.failed.eq(1), self.error_unit.eq(unit), self.error_code.eq(code), self.error_index.eq(index)]

    def clear(self) -> list[Any]:
        """Return the assignments that clear the result of the last run."""
        return [self.done.eq(0), self.failed.eq(0), self.error_code.eq(0), self.error_unit.eq(0),
                self.error_index.eq(0)]


class _Asked(NamedTuple):
    """Strobes: the host writes the register `control`."""

    start: Signal
    stop: Signal


@dataclass(frozen=True)
class _Error:
    """The first error of a run; `wrong`: there is one."""

    wrong: Signal
    unit: Signal
    #: Its Status.
    code: Signal
    #: Number of its operation.
    index: Value
