"""Memory addresses of load and store: the runs of an operation."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Rounds", "RunGenerator", "RunLayout"]


class Rounds:
    """The register of a loop: it counts down, and its sign says that the round is the loop's last.

    A step in the last round begins the loop again, so a loop that is not begun stands in its last round.

    Parameters
    ----------
    count : rounds, at least 1; read when the loop begins
    name : of the register
    """

    def __init__(self, count: Value, name: str) -> None:
        self._count = count
        #: Rounds after the next one: -1 in the last round.
        self._left = Signal(signed(len(count) + 1), name=name, init=-1)
        self._next = Signal.like(self._left, name=f"{name}_next")

    @property
    def last(self) -> Value:
        """Whether this round is the last one."""
        return self._left[-1]

    @property
    def next_last(self) -> Value:
        """Whether the round after a step is the last one."""
        return self._next[-1]

    def elaborate(self, m: Module) -> None:
        """Add the adder."""
        # Minus 2 for a new loop, otherwise minus 1: all bits but the lowest are constants.
        m.d.comb += self._next.eq(Mux(self.last, self._count, self._left)
                                  + Cat(~self.last, Const(-1, len(self._left) - 1)))

    def step(self) -> Any:
        """Go to the next round."""
        return self._left.eq(self._next)

    def stop(self) -> Any:
        """Make the next step the beginning of the loop."""
        return self._left[-1].eq(1)


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
        """Step the inner loop; an outer step starts from the first address of the previous outer step."""
        m = Module()
        addr = Signal(self._bits)
        outer = Signal(self._bits)
        loop2, loop3 = Rounds(self.count2, "left2"), Rounds(self.count3, "left3")
        run = self.o.payload
        for loop in (loop2, loop3):
            loop.elaborate(m)
        m.d.comb += [run.addr.eq(addr), run.last2.eq(loop2.last), run.last.eq(loop2.last & loop3.last)]
        next_outer = Signal(self._bits)
        m.d.comb += next_outer.eq(Mux(self.start, self.base, outer + self.stride3))
        goes = Signal()
        m.d.comb += goes.eq(self.o.valid & self.o.ready)
        with m.If(self.start | goes):
            m.d.sync += [addr.eq(Mux(loop2.last, next_outer, addr + self.stride2)), loop2.step()]
            with m.If(loop2.last):
                m.d.sync += [outer.eq(next_outer), loop3.step()]
        with m.If(self.start):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(goes & run.last):
            m.d.sync += [self.o.valid.eq(0), loop2.stop(), loop3.stop()]
        return m
