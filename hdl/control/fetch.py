"""Fetch: reads the command stream ahead, and distributes its words to the units' queues."""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.axi import MemoryReadSignature
from tq_hw.hdl.bus.bursts import BurstSplitter
from tq_hw.hdl.bus.read_buffer import ReadBuffer
from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.hdl.control.unit_control import HeaderLayout
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.queues import Queue, SkidBuffer, Stage
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import BURST_BYTES, FETCH_BYTES, FEW_WORDS, QUEUE_WORDS, Unit

__all__ = ["Fetch"]

#: A word of the stream, decoded as if it were a header: one bit per unit that it would address, and END.
_WORD = data.StructLayout({"word": 32, "units": len(WORKERS), "is_end": 1})


class Fetch(wiring.Component):
    """Distribute one word per cycle, in order. A full queue stalls all words after it.

    Words are read ahead as long as the buffer (1024 bytes) has space. Fetch refuses headers that name no unit or have
    reserved bits, and a stream that ends without END. UnitControl refuses registers that do not exist.

    Members
    -------
    start : In(1), strobe: begin at `addr`; only after a reset
    addr : In(32), a multiple of 16
    size_bytes : In(32), a multiple of 4
    halt : In(1), distribute no more words
    memory : Out(MemoryReadSignature)
    load, array, vector, store : Out(stream of 32 bits), the units' queues
    urgent : Out(1), a queue runs short; the store unit's is not counted: its only command often comes at the end
    ended : Out(1), END was reached and all queues are empty
    stall : Out(1), in the cycle before, no word was available and END was not reached
    moved : Out(1), strobe: a word was distributed
    error : Out(4), Status: BAD_COMMAND, NO_END, BUS_ERROR
    """

    start: Signal
    addr: Signal
    size_bytes: Signal
    halt: Signal
    memory: Any
    urgent: Signal
    ended: Signal
    stall: Signal
    moved: Signal
    error: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "start": In(1), "addr": In(32), "size_bytes": In(32), "halt": In(1),
            "memory": Out(MemoryReadSignature(config)),
            **{unit.name.lower(): Out(stream.Signature(32)) for unit in WORKERS},
            "urgent": Out(1), "ended": Out(1), "stall": Out(1), "moved": Out(1), "error": Out(4),
        })

    def elaborate(self, platform: object) -> Module:
        """Bursts, beats, words, queues."""
        m = Module()
        running = Signal()
        words, none_left = self._words(m, running)
        queues = self._queues(m, words.o.payload.word)
        self._deal(m, words, none_left, queues, running)
        return m

    def _words(self, m: Module, running: Signal) -> tuple[Any, Signal]:
        """Read the stream; return its words, decoded as headers, and whether none is left."""
        per_beat = max(1, self._config.bus_bytes // 4)
        left = Signal(30)
        m.submodules.splitter = splitter = BurstSplitter(self._config, 32)
        m.submodules.buffer = buffer = ReadBuffer(self._config, FETCH_BYTES // BURST_BYTES)
        wiring.connect(m, splitter.o, buffer.i)
        wiring.connect(m, buffer.memory, wiring.flipped(self.memory))
        # Words left in memory or in the buffer. The rest of the last word's beat is dropped.
        none_left = Signal()
        m.d.comb += [
            splitter.i.payload.addr.eq(self.addr), splitter.i.payload.size_bytes.eq(self.size_bytes),
            splitter.i.valid.eq(self.start & (self.size_bytes != 0)),
        ]

        m.submodules.words = words = SkidBuffer(_WORD)
        lane = Signal(range(per_beat))
        beat = data.View(data.ArrayLayout(32, per_beat), buffer.o.payload)
        pick = words.i.valid & words.i.ready
        word = words.i.payload
        arriving = data.View(HeaderLayout(), word.word)
        m.d.comb += [
            word.word.eq(beat[lane]), words.i.valid.eq(buffer.o.valid & ~(running & none_left)),
            word.units.eq(Cat((arriving.unit == unit) & (arriving.reserved == 0) for unit in WORKERS)),
            word.is_end.eq((arriving.unit == Unit.CONTROL) & (arriving.reserved == 0) & (arriving.count == 0)
                           & arriving.run),
            buffer.o.ready.eq(pick & (lane == per_beat - 1)),
        ]
        with m.If(pick):
            m.d.sync += [lane.eq(Mux(lane == per_beat - 1, 0, lane + 1)), left.eq(left - 1), none_left.eq(left == 1)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.size_bytes >> 2), none_left.eq((self.size_bytes >> 2) == 0)]
        return words, none_left

    def _queues(self, m: Module, word: Value) -> "_Queues":
        """Add the units' queues. A word passes a register on its way into one."""
        dealt = delayed(m, word, 1, "dealt")
        queues = {}
        rooms: list[Value] = []
        held: list[Value] = []
        for unit in WORKERS:
            name = unit.name.lower()
            queues[unit] = queue = Queue(32, QUEUE_WORDS, registered=True)
            m.submodules[f"queue_{name}"] = queue
            # From block RAM into a register, before the word is decoded.
            m.submodules[f"next_{name}"] = ahead = Stage(32)
            m.d.comb += queue.i.payload.eq(dealt)
            wiring.connect(m, queue.o, ahead.i)
            wiring.connect(m, ahead.o, wiring.flipped(getattr(self, name)))
            held += [queue.i.valid, queue.level.any(), ahead.o.valid]
            # Two more may be on their way since the level was read.
            room = Signal(name=f"room_{name}")
            m.d.sync += room.eq(queue.level < QUEUE_WORDS - 2)
            rooms.append(room)
        empty = Signal()
        m.d.sync += [
            empty.eq(~Cat(held).any()),
            self.urgent.eq(Cat(queue.level < FEW_WORDS for unit, queue in queues.items() if unit != Unit.STORE).any()),
        ]
        return _Queues(queues, rooms, empty)

    def _deal(self, m: Module, words: Any, none_left: Signal, queues: "_Queues", running: Signal) -> None:
        """Send each word to the queues of its command's unit; stop at END, or at an invalid word."""
        word = words.o.payload
        deal = Signal()
        header = data.View(HeaderLayout(), word.word)
        # Whether values are left is tested in every cycle, so it is a register.
        values = Signal(header.count.shape())
        target, goes_to = Signal(len(WORKERS)), Signal(len(WORKERS))
        to_values = Signal()
        met_end = Signal()
        m.d.comb += [goes_to.eq(Mux(to_values, target, word.units)),
                     deal.eq(running & ~self.halt & words.o.valid & (goes_to & Cat(queues.rooms)).any())]
        m.d.sync += self.moved.eq(deal)
        m.d.sync += self.stall.eq(running & ~self.halt & ~words.o.valid & ~none_left)
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(running & ~self.halt):
            with m.If(~words.o.valid), m.If(none_left):
                m.d.sync += [self.error.eq(Status.NO_END), running.eq(0)]
            with m.Elif(~goes_to.any()):
                m.d.sync += running.eq(0)
                with m.If(word.is_end):
                    m.d.sync += met_end.eq(1)
                with m.Else():
                    m.d.sync += self.error.eq(Status.BAD_COMMAND)
        for (unit, queue), here in zip(queues.by_unit.items(), goes_to, strict=True):
            name = f"dealt_{unit.name.lower()}"
            m.d.comb += queue.i.valid.eq(delayed(m, deal & here, 1, name, control=True))
        with m.If(deal):
            with m.If(to_values):
                m.d.sync += [values.eq(values - 1), to_values.eq(values != 1)]
            with m.Else():
                m.d.sync += [values.eq(header.count), to_values.eq(header.count != 0), target.eq(word.units)]
        # Words after END, or after an error, are dropped.
        m.d.comb += [words.o.ready.eq(deal | ~running), self.ended.eq(met_end & queues.empty)]
        with m.If(self.memory.error):
            m.d.sync += [self.error.eq(Status.BUS_ERROR), running.eq(0)]


class _Queues(NamedTuple):
    """The units' queues."""

    by_unit: dict[Unit, Queue]
    #: Whether each queue accepts a word, in the order of WORKERS.
    rooms: list[Value]
    #: No word is in a queue, on its way to one, or waiting at a unit; one cycle late.
    empty: Signal
