"""The plan of a store operation: from its fields, where each word is read and where its bytes go in the window."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.dma.load_plan import lane_bits, window_beats
from tq_hw.hdl.dma.runs import RunGenerator
from tq_hw.hdl.dma.word_walk import WordWalk
from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import OperationLayout, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit

__all__ = ["StorePlan", "TakeLayout"]

#: Bits for 0..32, the bytes of a word.
_BYTES_BITS = 6


class TakeLayout(data.StructLayout):
    """One word: `take` bytes from some lane on go to `place` in the window; lane 0 would go to `origin`.

    The bytes touch `touches` beats of the window and complete `completes` of them. `run_end` and `last` mark the last
    word of a run and of the operation.
    """

    def __init__(self, config: Config) -> None:
        beats = window_beats(config)
        place = ceil_log2(beats * config.bus_bytes)
        super().__init__({
            "addr": 16, "origin": place, "place": place, "take": _BYTES_BITS, "touches": beats.bit_length(),
            "completes": beats.bit_length(), "run_end": 1, "last": 1, "flip": 1,
        })


class StorePlan(wiring.Component):
    """Plan one word per cycle; about six cycles pass between two operations.

    Members
    -------
    i : In(operation_signature(Unit.STORE)), checked
    base : In(ArrayLayout(32, 4)), byte addresses of the regions
    o : Out(stream of TakeLayout), not from registers
    runs : Out(stream), beat address (byte address // bus_bytes) of each run, no later than its first word
    """

    i: stream.Interface
    base: Any
    o: stream.Interface
    runs: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.STORE)), "base": In(data.ArrayLayout(32, 4)),
            "o": Out(stream.Signature(TakeLayout(config))),
            "runs": Out(stream.Signature(32 - lane_bits(config))),
        })

    def elaborate(self, platform: object) -> Module:
        """Generate runs, then words. An operation begins when the previous one has ended."""
        m = Module()
        op: Any = Signal(OperationLayout(Unit.STORE), reset_less=True)
        active = Signal()
        begin = Signal()
        ahead = self._runs(m, op, begin)
        walk = WordWalk(op)
        walk.elaborate(m)
        go, last_run = self._words(m, op, ahead, walk, begin)

        m.d.comb += self.i.ready.eq(~active)
        m.d.sync += begin.eq(self.i.valid & ~active)
        with m.If(~active):
            m.d.sync += [active.eq(self.i.valid), op.eq(self.i.payload)]
            walk.start(m, self.i.payload.source)
        with m.Elif(go & walk.end1 & last_run):
            m.d.sync += active.eq(0)
        return m

    def _runs(self, m: Module, op: Any, begin: Signal) -> Queue:
        """Generate the memory address of each run, two ahead; return their queue."""
        based = Signal()
        first = Signal(32)
        m.submodules.generator = generator = RunGenerator(32)
        m.d.sync += [based.eq(begin), first.eq(self.base[op.region] + op.memory_offset_bytes)]
        m.d.comb += [
            generator.start.eq(based), generator.base.eq(first),
            generator.stride2.eq(op.stride2_bytes), generator.stride3.eq(op.stride3_bytes),
            generator.count2.eq(op.count2), generator.count3.eq(op.count3),
        ]
        m.submodules.ahead = ahead = Queue(generator.o.payload.shape(), 2)
        wiring.connect(m, generator.o, ahead.i)
        return ahead

    def _words(self, m: Module, op: Any, ahead: Queue, walk: WordWalk, begin: Signal) -> tuple[Signal, Signal]:
        """Place each word's bytes in the window; return its strobe, and whether its run is the last."""
        config = self._config
        lanes = lane_bits(config)
        run = ahead.o.payload
        valid = Signal()
        lane = Signal(lanes)
        slot = Signal(range(window_beats(config)))
        last_run = Signal()
        last_run2 = Signal()
        go = Signal()
        take_run = Signal()
        take = Signal(_BYTES_BITS)
        total = Signal(_BYTES_BITS + 1)
        touches = Signal(_BYTES_BITS)
        completes = Signal(_BYTES_BITS)
        end1 = walk.end1
        m.d.comb += [
            go.eq(valid & self.o.ready),
            take.eq(Mux(walk.end0, op.last_take_bytes, op.take_bytes)), total.eq(lane + take),
            touches.eq((total + config.bus_bytes - 1) >> lanes),
            completes.eq(Mux(end1, touches, total >> lanes)),
            take_run.eq(self.runs.ready & (~valid | go & end1)), ahead.o.ready.eq(take_run),
            self.runs.payload.eq(run.addr >> lanes),
            self.runs.valid.eq(ahead.o.valid & (~valid | go & end1)),
        ]
        word = self.o.payload
        m.d.comb += [
            self.o.valid.eq(valid), word.addr.eq(walk.addr), word.place.eq((slot << lanes) + lane),
            word.origin.eq((slot << lanes) + lane - op.lane), word.take.eq(take), word.touches.eq(touches),
            word.completes.eq(completes), word.run_end.eq(end1), word.last.eq(end1 & last_run), word.flip.eq(op.flip),
        ]
        with m.If(go):
            m.d.sync += [lane.eq(total), slot.eq(slot + completes)]
            with m.If(end1):
                m.d.sync += valid.eq(0)
            walk.step(m, last_run2)
        with m.If(begin | go):
            walk.count(m)
        with m.If(take_run & ahead.o.valid):
            m.d.sync += [valid.eq(1), lane.eq(run.addr), last_run.eq(run.last), last_run2.eq(run.last2)]
        return go, last_run
