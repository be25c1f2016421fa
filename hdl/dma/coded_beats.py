"""Routes the beats of loads: those of coded runs to the decoder, cut into pieces, all others around it."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.queues import SkidBuffer
from tq_hw.isa.config import Config
from tq_hw.isa.layout import LOAD_BYTES
from tq_hw.isa.weight_code import view_bytes

__all__ = ["BeatRouter", "PieceLayout", "Pieces", "beat_number_bits", "run_beats_bits"]

_RUN_BITS = 24


def run_beats_bits(config: Config) -> int:
    """Bits of the number of beats of a coded run. A coded run is whole beats."""
    return _RUN_BITS - ceil_log2(config.bus_bytes)


def beat_number_bits(config: Config) -> int:
    """Bits of a beat number: twice the buffer's beats, so that outstanding beats and new requests stay distinct."""
    return ceil_log2(LOAD_BYTES // config.bus_bytes) + 1


class PieceLayout(data.StructLayout):
    """Bytes of a coded run; `last` ends it."""

    def __init__(self, size: int) -> None:
        super().__init__({"data": 8 * size, "last": 1})


class BeatRouter(wiring.Component):
    """Route beats one of two ways, one cycle later; the choice is made on entry to a queue of two.

    Members
    -------
    beats : In(stream of 8 * bus_bytes bits); `beats.ready` is a register
    firsts : In(stream of beat_number_bits), number of the first beat of each coded run, valid before that beat
    sizes : In(stream of run_beats_bits), number of beats of each coded run
    plain : Out(stream of 8 * bus_bytes bits), beats of the other runs
    coded : Out(stream of PieceLayout), beats of coded runs
    idle : Out(1), no coded run is in progress or pending
    """

    beats: stream.Interface
    firsts: stream.Interface
    sizes: stream.Interface
    plain: stream.Interface
    coded: stream.Interface
    idle: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        beat = stream.Signature(8 * config.bus_bytes)
        super().__init__({
            "beats": In(beat), "firsts": In(stream.Signature(beat_number_bits(config))),
            "sizes": In(stream.Signature(run_beats_bits(config))), "plain": Out(beat),
            "coded": Out(stream.Signature(PieceLayout(config.bus_bytes))), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Number the beats, mark the first beat of a coded run, and count the rest of that run."""
        m = Module()
        m.submodules.told = told = SkidBuffer(data.StructLayout({"data": 8 * self._config.bus_bytes, "first": 1}))
        number = Signal(beat_number_bits(self._config))
        left = Signal(run_beats_bits(self._config))
        last = Signal()
        comes, goes = Signal(), Signal()
        beat: Any = told.o.payload
        m.d.comb += [
            told.i.valid.eq(self.beats.valid), self.beats.ready.eq(told.i.ready),
            comes.eq(told.i.valid & told.i.ready), goes.eq(told.o.valid & told.o.ready),
            told.i.payload.data.eq(self.beats.payload),
            told.i.payload.first.eq(self.firsts.valid & (self.firsts.payload == number)),
            self.firsts.ready.eq(comes & told.i.payload.first),
            self.plain.payload.eq(beat.data), self.coded.payload.data.eq(beat.data), self.coded.payload.last.eq(last),
        ]
        with m.If(comes):
            m.d.sync += number.eq(number + 1)
        with m.FSM():
            with m.State("PLAIN"):
                begins = told.o.valid & beat.first
                m.d.comb += [
                    self.plain.valid.eq(told.o.valid & ~beat.first), told.o.ready.eq(self.plain.ready & ~beat.first),
                    self.sizes.ready.eq(begins), self.idle.eq(~self.sizes.valid),
                ]
                m.d.sync += [left.eq(self.sizes.payload - 1), last.eq(self.sizes.payload == 1)]
                with m.If(begins):
                    m.next = "CODED"
            with m.State("CODED"):
                m.d.comb += [self.coded.valid.eq(told.o.valid), told.o.ready.eq(self.coded.ready)]
                with m.If(goes):
                    m.d.sync += [left.eq(left - 1), last.eq(left == 1)]
                    with m.If(last):
                        m.next = "PLAIN"
        return m


class Pieces(wiring.Component):
    """Convert the beats of a run to pieces of `view_bytes`; the last piece is padded with zeros.

    Members
    -------
    i : In(stream of PieceLayout), beats
    o : Out(stream of PieceLayout), pieces
    idle : Out(1), nothing is stored
    """

    i: stream.Interface
    o: stream.Interface
    idle: Signal

    def __init__(self, config: Config) -> None:
        self._beat, self._piece = config.bus_bytes, view_bytes(config.cols)
        super().__init__({"i": In(stream.Signature(PieceLayout(self._beat))),
                          "o": Out(stream.Signature(PieceLayout(self._piece))), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Pass beats of the same size through; otherwise gather or cut them."""
        m = Module()
        if self._piece > self._beat:
            self._gather(m)
        elif self._piece < self._beat:
            self._cut(m)
        else:
            wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
            m.d.comb += self.idle.eq(1)
        return m

    def _gather(self, m: Module) -> None:
        """Fill a register beat by beat, and offer it when it is full."""
        count, bits = self._piece // self._beat, 8 * self._beat
        slots = [Signal(bits, name=f"slot{number}") for number in range(count)]
        at = Signal(range(count))
        full = Signal()
        last = Signal()
        takes = Signal()
        m.d.comb += [
            self.o.payload.data.eq(Cat(slots)), self.o.payload.last.eq(last), self.o.valid.eq(full),
            self.i.ready.eq(~full | self.o.ready), takes.eq(self.i.valid & self.i.ready),
            self.idle.eq(~full & (at == 0)),
        ]
        with m.If(takes):
            ends = self.i.payload.last | (at == count - 1)
            m.d.sync += [full.eq(ends), last.eq(self.i.payload.last), at.eq(Mux(ends, 0, at + 1))]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        with m.If(takes & (at == 0)):
            m.d.sync += [slots[0].eq(self.i.payload.data), *(slot.eq(0) for slot in slots[1:])]
        for number, slot in enumerate(slots[1:], 1):
            with m.If(takes & (at == number)):
                m.d.sync += slot.eq(self.i.payload.data)

    def _cut(self, m: Module) -> None:
        """Offer the parts of a beat in order."""
        count = self._beat // self._piece
        at = Signal(range(count))
        final = at == count - 1
        m.d.comb += [
            self.o.payload.data.eq(self.i.payload.data.word_select(at, 8 * self._piece)),
            self.o.payload.last.eq(self.i.payload.last & final), self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & final), self.idle.eq(at == Const(0)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += at.eq(at + 1)
