"""Streams that wait: a skid buffer of two entries, and queues in RAM."""

from amaranth import Module, Signal
from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Queue", "SkidBuffer"]


class SkidBuffer(wiring.Component):
    """Cut every combinational path of a stream, at full rate.

    Latency 1 cycle; holds two entries. `i.ready` and `o.valid` are registers.

    Members
    -------
    i : In(stream of `shape`)
    o : Out(stream of `shape`)
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike) -> None:
        self._shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """Keep the second entry aside while the first one waits."""
        m = Module()
        front = Signal(self._shape, reset_less=True)
        front_valid = Signal()
        back = Signal(self._shape, reset_less=True)
        back_valid = Signal()
        m.d.comb += [self.i.ready.eq(~back_valid), self.o.payload.eq(front), self.o.valid.eq(front_valid)]
        with m.If(self.o.ready | ~front_valid):
            m.d.sync += [front_valid.eq(back_valid | self.i.valid), back_valid.eq(0)]
            with m.If(back_valid):
                m.d.sync += front.eq(back)
            with m.Else():
                m.d.sync += front.eq(self.i.payload)
        with m.Elif(self.i.valid):
            m.d.sync += back_valid.eq(1)
        # Copied speculatively while it is not needed: `o.ready` may come late.
        with m.If(~back_valid):
            m.d.sync += back.eq(self.i.payload)
        return m


class Queue(wiring.Component):
    """First in, first out.

    Parameters
    ----------
    shape : shape of an entry
    depth : entries, at least 2
    registered : the entry at `o` is in a register, or at block RAM's (latency 2 cycles); else it is read from a small
        RAM in the same cycle (latency 1)

    Members
    -------
    i : In(stream of `shape`)
    o : Out(stream of `shape`)
    level : Out(range(depth + 1)), entries held
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal

    def __init__(self, shape: ShapeLike, depth: int, *, registered: bool = False) -> None:
        if depth < 2:
            raise ValueError(f"a queue has two or more entries, not {depth}")
        self._shape, self._depth, self._registered = shape, depth, registered
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(depth + 1))})

    def elaborate(self, platform: object) -> Module:
        """Wrap the FIFO of the standard library."""
        m = Module()
        kind = fifo.SyncFIFOBuffered if self._registered else fifo.SyncFIFO
        m.submodules.fifo = queue = kind(width=Shape.cast(self._shape).width, depth=self._depth)
        m.d.comb += [
            queue.w_data.eq(self.i.payload), queue.w_en.eq(self.i.valid), self.i.ready.eq(queue.w_rdy),
            self.o.payload.eq(queue.r_data), self.o.valid.eq(queue.r_rdy), queue.r_en.eq(self.o.ready),
            self.level.eq(queue.r_level),
        ]
        return m
