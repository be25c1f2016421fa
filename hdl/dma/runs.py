"""Memory addresses of load and store: the runs of an operation."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RunGenerator", "RunLayout", "first_round", "next_is_last", "next_round"]


def next_round(left: Signal, last: Signal, count: Value) -> list[Any]:
    """Step a loop's registers: `left` more rounds follow, `last` if none; after the last round the loop restarts."""
    return [left.eq(Mux(last, count, left) - 1), last.eq(next_is_last(left, last, count))]


def next_is_last(left: Signal, last: Signal, count: Value) -> Value:
    """Return whether the round after this one is the last of its loop."""
    return Mux(last, count == 1, left == 1)


def first_round(left: Signal, last: Signal, count: Value) -> list[Any]:
    """Set a loop's registers to the first of `count` rounds."""
    return [left.eq(count - 1), last.eq(count == 1)]


class RunLayout(data.StructLayout):
    """One run: its address (modulo 2^bits), whether it is the last of its inner loop, and of all."""

    def __init__(self, bits: int) -> None:
        super().__init__({"addr": bits, "last2": 1, "last": 1})


class RunGenerator(wiring.Component):
    """The two memory loops of an operation, one run per cycle.

    Members
    -------
    start : In(1), strobe: begin (only while idle); `base` is read then, the other inputs as long as runs come
    base, stride2, stride3 : In(bits), bytes
    count2, count3 : In(16), at least 1
    o : Out(stream of RunLayout), first run in the cycle after `start`
    """

    start: Signal
    base: Signal
    stride2: Signal
    stride3: Signal
    count2: Signal
    count3: Signal
    o: stream.Interface

    def __init__(self, bits: int) -> None:
        self._bits = bits
        super().__init__({
            "start": In(1), "base": In(bits), "stride2": In(bits), "stride3": In(bits), "count2": In(16),
            "count3": In(16), "o": Out(stream.Signature(RunLayout(bits))),
        })

    def elaborate(self, platform: object) -> Module:
        """Count down. An outer step starts from the first address of the previous outer step."""
        m = Module()
        addr = Signal(self._bits)
        outer = Signal(self._bits)
        left2, last2 = Signal(16), Signal()
        left3, last3 = Signal(16), Signal()
        run = self.o.payload
        m.d.comb += [run.addr.eq(addr), run.last2.eq(last2), run.last.eq(last2 & last3)]
        next_outer = (outer + self.stride3)[:self._bits]
        with m.If(self.start):
            m.d.sync += [
                self.o.valid.eq(1), addr.eq(self.base), outer.eq(self.base),
                *first_round(left2, last2, self.count2), *first_round(left3, last3, self.count3),
            ]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [addr.eq(Mux(last2, next_outer, addr + self.stride2)), *next_round(left2, last2, self.count2)]
            with m.If(last2):
                m.d.sync += [outer.eq(next_outer), *next_round(left3, last3, self.count3)]
            with m.If(run.last):
                m.d.sync += self.o.valid.eq(0)
        return m

