"""Counters of events in block RAM: the low bits of each in a register, all bits of each in a memory."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.delay import delayed

__all__ = ["SETTLE_CYCLES", "EventCounters"]

#: Bits of a counter.
_BITS = 32
#: Bits of it in a register.
_LOW_BITS = 5
#: Cycles from one visit of a counter to the next at least, so that its word is written.
_VISIT_CYCLES = 3
#: Cycles in which all counters are visited, and the last one is written: no low bits pass the same value twice.
SETTLE_CYCLES = 1 << _LOW_BITS


class EventCounters(wiring.Component):
    """Count events that may all happen in one cycle.

    A counter is visited in turn. Its high bits then take a carry if its low bits are less than those in the memory.
    Nothing is written when the machine is at rest, so the host never reads a word that is written.

    Parameters
    ----------
    number : counters, 3 to 29

    Members
    -------
    clear : In(1), strobe: all counters are 0, before the events of the next cycle
    running : In(1), events are counted
    events : In(number)
    index : In(5), number of a counter; value : Out(32), it, one cycle later; 0 while `settles` and before the first
        `clear`
    settles : Out(1), register: from the cycle after `clear` to SETTLE_CYCLES cycles after `running`
    """

    clear: Signal
    running: Signal
    events: Signal
    index: Signal
    value: Signal
    settles: Signal

    def __init__(self, number: int) -> None:
        if not _VISIT_CYCLES <= number <= SETTLE_CYCLES - _VISIT_CYCLES:
            raise ValueError(f"{number} counters: a visit takes {_VISIT_CYCLES} cycles, and {SETTLE_CYCLES} must be "
                             "enough for all")
        self._number = number
        #: By number; for tests.
        self.memory = block_memory(_BITS, 1 << _LOW_BITS, always=True)
        super().__init__({"clear": In(1), "running": In(1), "events": In(number), "index": In(_LOW_BITS),
                          "value": Out(_BITS), "settles": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Stages of a visit: 0 address, 1 both parts in registers, 2 the new word, which is written."""
        m = Module()
        low = [Signal(_LOW_BITS, name=f"low{index}") for index in range(self._number)]
        turn, fresh = Signal(_LOW_BITS), Signal()
        for counter, event in zip(low, self.events, strict=True):
            with m.If(self.clear):
                m.d.sync += counter.eq(0)
            with m.Elif(event & self.running):
                m.d.sync += counter.eq(counter + 1)
        last_turn = turn == self._number - 1
        m.d.sync += turn.eq(Mux(last_turn | self.clear, 0, turn + 1))
        # In the first round the memory has the counts of an earlier run.
        with m.If(self.clear):
            m.d.sync += fresh.eq(1)
        with m.Elif(last_turn):
            m.d.sync += fresh.eq(0)

        left = Signal(range(SETTLE_CYCLES))
        known = Signal()
        with m.If(self.clear | self.running):
            m.d.sync += [left.eq(SETTLE_CYCLES - 1), self.settles.eq(1), known.eq(1)]
        with m.Else():
            m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.d.sync += self.settles.eq(0)

        m.submodules.memory = memory = self.memory
        write = memory.write_port()
        then = block_read(m, memory, Const(1), turn, "then")
        now, total = Signal(_LOW_BITS), Signal(_BITS, reset_less=True)
        carries = now < then[:_LOW_BITS]
        m.d.sync += [now.eq(Array(low)[turn]), total.eq(Cat(now, then[_LOW_BITS:] + carries))]
        with m.If(delayed(m, fresh, 1, "fresh", control=True)):
            m.d.sync += total[_LOW_BITS:].eq(0)
        found = block_read(m, memory, Const(1), self.index, "found")
        m.d.comb += [write.en.eq(self.settles), write.addr.eq(delayed(m, turn, 2, "turn")), write.data.eq(total),
                     self.value.eq(Mux(known & ~self.settles, found, 0))]
        return m
