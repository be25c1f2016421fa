"""Counters of events: the low bits of each are in registers, and all bits of each in a small RAM."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.delay import delayed

__all__ = ["EventCounters"]

#: Bits of a counter.
_BITS = 32
#: Bits of it in a register.
_LOW_BITS = 5


class EventCounters(wiring.Component):
    """Count events that may all happen in one cycle.

    While the machine runs, the counters are visited in turn. The word in the memory takes the low bits, and its high
    bits a carry if these are less than before. When it does not run, the host reads through the same adder: what
    happened since the last visit is in the low bits. So nothing is written while the host reads.

    Parameters
    ----------
    number : counters, 2 to 30: each is visited before its low bits have passed all their values

    Members
    -------
    clear : In(1), strobe in the first cycle of `running`: all counters are 0
    running : In(1), the events of the next cycle are counted
    events : In(number)
    index : In(5), number of a counter
    value : Out(32), it, in the next cycle; 0 if the machine ran in this cycle or the one before, or never since a reset
    """

    clear: Signal
    running: Signal
    events: Signal
    index: Signal
    value: Signal

    def __init__(self, number: int) -> None:
        if not 2 <= number < (1 << _LOW_BITS) - 1:
            raise ValueError(f"{number} counters are not between 2 and {(1 << _LOW_BITS) - 2}")
        self._number = number
        #: By number; for tests.
        self.memory = block_memory(_BITS, 1 << _LOW_BITS)
        super().__init__({"clear": In(1), "running": In(1), "events": In(number), "index": In(_LOW_BITS),
                          "value": Out(_BITS)})

    def elaborate(self, platform: object) -> Module:
        """In the first cycle of a visit or of a read both parts go to registers, in the second they are joined."""
        m = Module()
        low = [Signal(_LOW_BITS, name=f"low{index}") for index in range(self._number)]
        turn, fresh, known = Signal(_LOW_BITS), Signal(), Signal()
        counts, visits = delayed(m, self.running, 1, "counts", control=True), Signal()
        m.d.comb += visits.eq(self.running & ~self.clear)
        for counter, event in zip(low, self.events, strict=True):
            with m.If(self.clear):
                m.d.sync += counter.eq(0)
            with m.Elif(event & counts):
                m.d.sync += counter.eq(counter + 1)

        # In the first round the memory has the counts of an earlier run.
        last_turn = turn == self._number - 1
        with m.If(self.clear):
            m.d.sync += [turn.eq(0), fresh.eq(1), known.eq(1)]
        with m.Elif(visits):
            m.d.sync += turn.eq(Mux(last_turn, 0, turn + 1))
            with m.If(last_turn):
                m.d.sync += fresh.eq(0)

        m.submodules.memory = memory = self.memory
        write = memory.write_port()
        at = Signal(_LOW_BITS)
        m.d.comb += at.eq(Mux(self.running, turn, self.index))
        then = block_read(m, memory, Const(1), at, "then")
        now, stale, readable = Signal(_LOW_BITS), Signal(), Signal()
        m.d.sync += [now.eq(Array(low)[at]), stale.eq(fresh & (at >= turn)),
                     readable.eq(known & ~self.running & ~counts)]
        high = Mux(stale, 0, then[_LOW_BITS:]) + (~stale & (now < then[:_LOW_BITS]))
        m.d.comb += [
            write.en.eq(delayed(m, visits, 1, "visits", control=True)), write.addr.eq(delayed(m, turn, 1, "turn")),
            write.data.eq(Cat(now, high[:_BITS - _LOW_BITS])), self.value.eq(Mux(readable, write.data, 0)),
        ]
        return m
