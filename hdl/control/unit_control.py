"""The control of one unit: decodes its commands, handles its tokens, and issues operations to its engine."""

from typing import Any

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.control.target import IndexRange, Target
from tq_hw.hdl.control.tokens import WORKERS, TokenSignature
from tq_hw.hdl.legality import Legality
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import TableWriteSignature, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import FOLD_BASE, HEADER, UNITS, UOP_BASE, Unit, register_count

__all__ = ["IN_FLIGHT", "HeaderLayout", "UnitControl"]

#: Most operations that an engine has accepted and not done.
IN_FLIGHT = 4
_TABLE_BASE = {Unit.ARRAY: FOLD_BASE, Unit.VECTOR: UOP_BASE}


class HeaderLayout(data.StructLayout):
    """The header word of a command."""

    def __init__(self) -> None:
        super().__init__({f.name: f.bits for f in HEADER.fields})


class UnitControl(wiring.Component):
    """Decode the commands of one unit and issue its operations to its engine.

    One word per cycle goes into the registers. A RUN takes its tokens, then is offered on `o` until the engine accepts
    it. The words after it wait, so `o.payload` is stable. Table writes also wait until nothing is in flight and the
    engine is idle. From the last word of a RUN whose tokens are available to `o.valid`: 4 cycles, 3 if the RUN is
    only a header. An operation that breaks a rule, and a register that does not exist, stop the unit once nothing is in
    flight.

    Members
    -------
    words : In(stream of 32 bits), headers and values of this unit
    halt : In(1), from the next cycle on take no tokens
    o : Out(operation_signature(unit, config)), to the engine
    table : Out(TableWriteSignature), to the engine; only array and vector have tables
    done : In(1), strobe from the engine, one per operation, in order
    engine_idle : In(1), the engine does nothing
    tokens : Out(TokenSignature)
    idle : Out(1), no operation is waiting or in flight; commands without RUN may be
    waiting : Out(1), a RUN waits for tokens
    runs : Out(32), operations accepted by the engine
    oldest : Out(NUMBER_BITS), low bits of the number of the oldest operation in flight
    under_way : Out(1), operations are in flight
    error : Out(4), Status: BAD_COMMAND (no such register), BAD_OPERATION; of operation `runs`
    """

    words: stream.Interface
    halt: Signal
    o: stream.Interface
    table: Any
    done: Signal
    engine_idle: Signal
    tokens: Any
    idle: Signal
    waiting: Signal
    runs: Signal
    oldest: Signal
    under_way: Signal
    error: Signal

    def __init__(self, unit: Unit, config: Config) -> None:
        self._unit, self._config = unit, config
        super().__init__({
            "words": In(stream.Signature(32)), "halt": In(1), "o": Out(operation_signature(unit, config)),
            "table": Out(TableWriteSignature()), "done": In(1), "engine_idle": In(1), "tokens": Out(TokenSignature()),
            "idle": Out(1), "waiting": Out(1), "runs": Out(32), "oldest": Out(NUMBER_BITS), "under_way": Out(1),
            "error": Out(4),
        })

    def elaborate(self, platform: object) -> Module:
        """Connect registers, rules and tokens; then the states: header, values, tokens, offer."""
        m = Module()
        registers = self._registers(m)
        in_flight, started, may_take = self._flight(m)
        m.submodules.legality = legality = Legality(self._unit, self._config)
        m.d.comb += [
            legality.op.eq(self.o.payload), legality.taken.eq(started), self.under_way.eq(in_flight != 0),
            self.oldest.eq(self.runs[:NUMBER_BITS] - in_flight),
        ]
        self._give_tokens(m, started)
        target = self._target(m, len(registers), in_flight)
        self._write_registers(m, registers, target)
        with m.FSM(name="state"):
            self._receive(m, target, (in_flight == 0) & self.engine_idle)
            self._start(m, legality.legal, may_take, target.quiet)
            with m.State("STOPPED"):
                m.d.comb += self.waiting.eq(0)
        return m

    def _registers(self, m: Module) -> list[Signal]:
        """Return the registers, and connect the operation's fields to them."""
        layout, there = UNITS[self._unit], fields_of(self._unit, self._config)
        registers = [Signal(max(f.offset + f.bits for f in r.fields if f in there), name=f"register_{r.name}")
                     for r in layout.registers]
        operation = self.o.payload
        for register, word in zip(layout.registers, registers, strict=True):
            for f in register.fields:
                if f in there:
                    m.d.comb += operation[f.name].eq(word[f.offset:f.offset + f.bits])
        return registers

    def _flight(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Count operations in flight; return the count, the strobe of a new one, and whether one may take tokens."""
        in_flight = Signal(range(IN_FLIGHT + 1))
        started, may_take = Signal(), Signal()
        m.d.comb += started.eq(self.o.valid & self.o.ready)
        # One cycle late: a header lies between an operation's start and the next one's tokens.
        m.d.sync += may_take.eq((in_flight != IN_FLIGHT) & ~self.halt)
        m.d.sync += in_flight.eq(in_flight + started - self.done)
        # As enable, not as addend: `started` is late, and the carry chain is long.
        with m.If(started):
            m.d.sync += self.runs.eq(self.runs + 1)
        return in_flight, started, may_take

    def _give_tokens(self, m: Module, started: Signal) -> None:
        """Request the tokens that the operation waits for; keep those that it posts until it is done."""
        operation = self.o.payload
        m.submodules.posts = posts = Queue(self.tokens.post.shape(), IN_FLIGHT)
        names = [f"_{unit.name.lower()}" for unit in WORKERS]
        m.d.comb += [
            self.tokens.wait.eq(Cat(*(operation["wait" + name] for name in names))),
            posts.i.payload.eq(Cat(*(operation["post" + name] for name in names))), posts.i.valid.eq(started),
            self.tokens.post.eq(posts.o.payload), posts.o.ready.eq(self.done), self.tokens.give.eq(self.done),
        ]

    def _target(self, m: Module, register_words: int, in_flight: Signal) -> Target:
        """Compare the next value's index with the ranges of the registers and the engine's table, a cycle ahead."""
        index = Signal(data.View(HeaderLayout(), self.words.payload).first.shape(), name="index")
        plain = IndexRange("plain", 0, register_words)
        ranges = [plain]
        in_table: Value = Const(0)
        base = _TABLE_BASE.get(self._unit)
        if base is not None:
            table = IndexRange("in_table", base, register_count(self._unit, self._config))
            ranges.append(table)
            in_table = table.holds
            m.d.comb += self.table.index.eq(index - base)
        may_write, quiet = Signal(), Signal()
        m.d.comb += [self.table.data.eq(self.words.payload), may_write.eq(plain.holds | in_table & quiet)]
        # One cycle late: a header lies between an operation's start and the next value.
        m.d.sync += quiet.eq((in_flight == 0) & self.engine_idle)
        return Target(index, ranges, in_table, quiet, may_write, Signal(name="writes"))

    def _write_registers(self, m: Module, registers: list[Signal], target: Target) -> None:
        """Write the register at the index one cycle late: the registers are far away, at their engine."""
        index, writes = target.index, target.writes
        late_word = delayed(m, self.words.payload, 1, "late_word")
        for number, word in enumerate(registers):
            with m.If(delayed(m, writes & (index == number), 1, f"late_write{number}", control=True)):
                m.d.sync += word.eq(late_word)

    def _receive(self, m: Module, target: Target, nothing: Value) -> None:
        """States that take words: a header, its values to registers or table; then a RUN settles.

        `nothing`: no operation is in flight, and the engine does nothing.
        """
        may_write = target.may_write
        header = data.View(HeaderLayout(), self.words.payload)
        left = Signal(header.count.shape())
        run = Signal()
        with m.State("HEADER"):
            m.d.comb += [self.words.ready.eq(1), self.idle.eq(nothing)]
            m.d.sync += [left.eq(header.count), run.eq(header.run), *target.begin(header.first)]
            with m.If(self.words.valid):
                with m.If(header.count != 0):
                    m.next = "VALUES"
                with m.Elif(header.run):
                    m.next = "CHECK"
        with m.State("VALUES"):
            m.d.comb += self.words.ready.eq(may_write)
            with m.If(self.words.valid & may_write):
                m.d.comb += self.table.en.eq(target.in_table)
                m.d.comb += target.writes.eq(1)
                m.d.sync += [left.eq(left - 1), *target.step()]
                with m.If(left == 1):
                    with m.If(run):
                        m.next = "SETTLE"
                    with m.Else():
                        m.next = "HEADER"
            with m.If(self.words.valid & ~target.exists & target.quiet):
                m.d.sync += self.error.eq(Status.BAD_COMMAND)
                m.next = "STOPPED"
        with m.State("SETTLE"):
            m.next = "CHECK"

    def _start(self, m: Module, legal: Value, may_take: Signal, quiet: Signal) -> None:
        """States of a RUN: check its rules and tokens, take the tokens, offer the operation."""
        with m.State("CHECK"):
            # The counters compare in this cycle, and the rules with the fields.
            m.next = "TOKENS"
        with m.State("TOKENS"):
            m.d.comb += self.waiting.eq(~self.tokens.enough)
            with m.If(self.tokens.enough & may_take):
                m.d.comb += self.tokens.take.eq(1)
                m.next = "OFFER"
        with m.State("OFFER"):
            m.d.comb += self.o.valid.eq(legal)
            with m.If(self.o.ready & legal):
                m.next = "HEADER"
            with m.If(quiet & ~legal):
                m.d.sync += self.error.eq(Status.BAD_OPERATION)
                m.next = "STOPPED"
