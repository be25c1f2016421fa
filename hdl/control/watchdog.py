"""The watchdog: counts cycles in which nothing moves, and names the unit that waits."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.isa.control import DRAIN_CYCLES, Status
from tq_hw.isa.layout import Unit

__all__ = ["QUIET_CYCLES", "Watchdog"]

#: When nothing has moved for this long after a burst that ended at the wrong beat, no beat is expected any more.
QUIET_CYCLES = 1 << 14
#: Which unit is named if several wait for memory: fetch is last, because it reads ahead.
_BY_MEMORY = (Unit.LOAD, Unit.STORE, Unit.CONTROL)


class Watchdog(wiring.Component):
    """Stop a run in which nothing has moved for `limit` cycles; after a run, give up waiting for memory.

    Members
    -------
    limit : In(32), 0: never
    running : In(1), a run is in progress; draining : In(1), it has ended, and memory owes answers
    moved : In(1), something moved, or a new wait began
    memory : In(5), by unit: memory owes it answers (control: fetch)
    tokens, under_way : In(5), by unit: a RUN waits for tokens; operations are in flight
    error : Out(ArrayLayout(4, 5)), strobe of Status by unit: NO_ANSWER or DEADLOCK of the unit that waits
    owed : Out(3), the unit that memory owes answers
    quiet : Out(1), nothing has moved for QUIET_CYCLES; given_up : Out(1), strobe: for DRAIN_CYCLES of draining
    """

    limit: Signal
    running: Signal
    draining: Signal
    moved: Signal
    memory: Signal
    tokens: Signal
    under_way: Signal
    error: Any
    owed: Signal
    quiet: Signal
    given_up: Signal

    def __init__(self) -> None:
        units = len(Unit)
        super().__init__({
            "limit": In(32), "running": In(1), "draining": In(1), "moved": In(1), "memory": In(units),
            "tokens": In(units), "under_way": In(units), "error": Out(data.ArrayLayout(4, units)), "owed": Out(3),
            "quiet": Out(1), "given_up": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Count, compare in two steps, choose the unit."""
        m = Module()
        count = Signal(32)
        with m.If(self.moved | ~(self.running | self.draining)):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + 1)
        equal, asked, over = Signal(4), Signal(), Signal()
        m.d.sync += [
            equal.eq(Cat(count.word_select(byte, 8) == self.limit.word_select(byte, 8) for byte in range(4))),
            asked.eq(self.limit.any()), over.eq(equal.all() & asked & self.running),
            self.quiet.eq(count >= QUIET_CYCLES), self.given_up.eq(self.draining & (count == DRAIN_CYCLES)),
        ]
        # The inputs come from all over the device, late in their cycles: two register stages follow.
        memory, tokens, under_way = (Signal(len(Unit), name=name) for name in ("memory", "tokens", "under_way"))
        m.d.sync += [memory.eq(self.memory), tokens.eq(self.tokens & ~self.under_way), under_way.eq(self.under_way)]
        waits = Signal(len(Unit))
        waits_for_memory = Signal()
        m.d.sync += waits_for_memory.eq(memory.any())
        unit: Any = Unit.CONTROL
        for bits, order in ((under_way, WORKERS), (tokens, WORKERS), (memory, _BY_MEMORY)):
            for name in reversed(order):
                unit = Mux(bits[name], name, unit)
        m.d.sync += [self.owed.eq(unit), waits.eq(1 << unit)]
        status = Mux(waits_for_memory, Status.NO_ANSWER, Status.DEADLOCK)
        m.d.comb += [self.error[name].eq(Mux(over & waits[name], status, Status.OK)) for name in Unit]
        return m
