"""Buffered streams: a register, a skid buffer of two entries, and queues in RAM."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Shape, ShapeLike, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.block_memory import block_memory, block_read

__all__ = ["Queue", "SkidBuffer", "Stage"]


class _Cut(wiring.Component):
    """What takes a stream and passes it on.

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


class SkidBuffer(_Cut):
    """Cut every combinational path of a stream, at full rate.

    Latency 1 cycle; holds two entries. `i.ready` and `o.valid` are registers.
    """

    def elaborate(self, platform: object) -> Module:
        """Hold the second entry in a spare register while the first one waits."""
        m = Module()
        front = Signal(self._shape, reset_less=True)
        front_valid = Signal()
        back = Signal(self._shape, reset_less=True)
        back_valid = Signal()
        m.d.comb += [self.i.ready.eq(~back_valid), self.o.payload.eq(front), self.o.valid.eq(front_valid)]
        waits, some = Signal(), Signal()
        # Written as a choice, `back_valid` would get a reset of its own, whose wires are slow for a late `o.ready`.
        m.d.comb += [waits.eq(front_valid & ~self.o.ready), some.eq(back_valid | self.i.valid)]
        m.d.sync += [front_valid.eq(waits | some), back_valid.eq(waits & some)]
        with m.If(~waits):
            m.d.sync += front.eq(Mux(back_valid, back, self.i.payload))
        # Copied speculatively, because `o.ready` may be late.
        with m.If(~back_valid):
            m.d.sync += back.eq(self.i.payload)
        return m


class Stage(_Cut):
    """Cut the paths of `payload` and `valid` of a stream, at full rate, without a LUT per bit.

    `o.valid` is a register, `i.ready` depends on `o.ready`.

    Parameters
    ----------
    entries : registers in a row: the most entries that are held, and the latency in cycles
    """

    def __init__(self, shape: ShapeLike, entries: int = 1) -> None:
        self._entries = entries
        super().__init__(shape)

    def elaborate(self, platform: object) -> Module:
        """Load a register whenever it is free, or its entry moves on."""
        m = Module()
        entries = [Signal(self._shape, name=f"entry{number}", reset_less=True) for number in range(self._entries)]
        valids = [Signal(name=f"valid{number}") for number in range(self._entries)]
        before, before_valid = [self.i.payload, *entries[:-1]], [self.i.valid, *valids[:-1]]
        ready: Value = self.o.ready
        for entry, valid, source, source_valid in reversed([*zip(entries, valids, before, before_valid, strict=True)]):
            ready = ~valid | ready
            with m.If(ready):
                m.d.sync += [valid.eq(source_valid), entry.eq(source)]
        m.d.comb += [self.i.ready.eq(ready), self.o.payload.eq(entries[-1]), self.o.valid.eq(valids[-1])]
        return m


class Queue(wiring.Component):
    """First in, first out.

    Parameters
    ----------
    shape : shape of an entry
    depth : entries, at least 2
    registered : the entry at `o` comes from a register, or from block RAM's (latency 2 cycles); otherwise it is read
        from a small RAM in the same cycle (latency 1)

    Members
    -------
    i : In(stream of `shape`)
    o : Out(stream of `shape`)
    level : Out(range(depth + 1)), number of entries
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
        """Build a memory with an output register, or wrap the FIFO of the standard library."""
        m = Module()
        if self._registered:
            self._ahead(m)
            return m
        m.submodules.fifo = queue = fifo.SyncFIFO(width=Shape.cast(self._shape).width, depth=self._depth)
        m.d.comb += [
            queue.w_data.eq(self.i.payload), queue.w_en.eq(self.i.valid), self.i.ready.eq(queue.w_rdy),
            self.o.payload.eq(queue.r_data), self.o.valid.eq(queue.r_rdy), queue.r_en.eq(self.o.ready),
            self.level.eq(queue.level),
        ]
        return m

    def _ahead(self, m: Module) -> None:
        """Read the oldest entry ahead of time, into the output register of the memory's port.

        Cycle-exact with the standard library's FIFO for block RAM. That one's read port promises the old word on a
        collision, which costs a register and a LUT per bit of an ECP5's memory; here a word is never read while it is
        written. Addresses wrap by themselves.
        """
        inside = self._depth - 1
        memory = block_memory(Shape.cast(self._shape).width, 1 << ceil_log2(inside))
        m.submodules.entries = memory
        write = memory.write_port()
        first, end = Signal.like(write.addr, name="first"), Signal.like(write.addr, name="end")
        count = Signal(range(inside + 1))
        valid, writes, reads = (Signal(name=name) for name in ("valid", "writes", "reads"))
        m.d.comb += [
            self.i.ready.eq(count != inside), writes.eq(self.i.valid & self.i.ready),
            reads.eq((count != 0) & (~valid | self.o.ready)),
            write.en.eq(writes), write.addr.eq(end), write.data.eq(self.i.payload),
            self.o.payload.eq(block_read(m, memory, reads, first, "oldest")), self.o.valid.eq(valid),
            self.level.eq(count + valid),
        ]
        with m.If(self.o.ready | ~valid):
            m.d.sync += valid.eq(reads)
        with m.If(reads):
            m.d.sync += first.eq(first + 1)
        with m.If(writes):
            m.d.sync += end.eq(end + 1)
        # One adder: plus 1 or plus -1.
        with m.If(writes ^ reads):
            m.d.sync += count.eq(count + Cat(1, reads.replicate(len(count) - 1)))
