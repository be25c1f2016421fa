"""The realigner of the load unit: turns memory beats into scratchpad words."""

from typing import Any, NamedTuple

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.dma.load_plan import WordLayout, ring_size, window_beats, word_beats
from tq_hw.hdl.parts.choose import TURN_BITS, rotate_down
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import WriteSignature
from tq_hw.isa.config import Config
from tq_hw.isa.latency import rotate_cycles

__all__ = ["Realigner"]

#: Words that wait for the port.
_WAITING_WORDS = 8


class Realigner(wiring.Component):
    """Extract words from a window of beats.

    The window is a ring of registers that beats enter in order, at most one per cycle. A planned word waits in a
    register until the beats that it needs have arrived, then leaves, at most one per cycle. Bytes outside its memory
    lanes are the fill value. It is at the port two stages later, of which the second
    takes `rotate_cycles`.

    Members
    -------
    i : In(stream of WordLayout)
    beats : In(stream of 8 * bus_bytes bits)
    port : Out(WriteSignature)
    done : Out(1), strobe: the word marked `last` was granted in the cycle before
    idle : Out(1), no beat is stored or outstanding
    stall : Out(1), a word waits for beats or for the port
    row_can, row_take, row_last, row : with compressed_weights: `can`, `take`, `last`, `o` of the decoder
    """

    i: stream.Interface
    beats: stream.Interface
    port: Any
    done: Signal
    idle: Signal
    stall: Signal
    row_can: Signal
    row_take: Signal
    row_last: Signal
    row: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        #: Bits of the rotation that stage 1 serves: its LUTs of six inputs have room for one.
        self._turn_bits = rotate_cycles(config) - 1
        decoder = {"row_can": In(1), "row_take": Out(1), "row_last": Out(1), "row": In(8 * config.cols)}
        super().__init__({
            "i": In(stream.Signature(WordLayout(config))), "beats": In(stream.Signature(8 * config.bus_bytes)),
            "port": Out(WriteSignature(config)), "done": Out(1), "idle": Out(1), "stall": Out(1),
            **(decoder if config.compressed_weights else {}),
        })

    def elaborate(self, platform: object) -> Module:
        """Window, choice of bytes, rotation, port."""
        m = Module()
        config = self._config
        # From small RAM into a register, before any logic.
        word: Any = Signal(WordLayout(config), reset_less=True)
        word_valid = Signal()
        slots = window_beats(config)
        spare = word_beats(config) < slots
        beat_shape = 8 * config.bus_bytes

        # Beats in the window; negative while beats are outstanding that no word needs. Both next values are computed
        # before the selecting signal is known, and `there` is the narrow copy that the comparisons use.
        held = Signal(signed(len(word.drops) + 1))
        there = Signal(range(slots + 1))
        window = Array(Signal(beat_shape, name=f"window{index}", reset_less=True) for index in range(slots))
        put = Signal(range(slots))
        go = Signal()
        moves = Signal()
        ready = Signal()
        room = Signal()
        goes = word_valid & ready & (there >= word.needs)
        if config.compressed_weights:
            goes = goes & (~word.coded | self.row_can)
            m.d.comb += [self.row_take.eq(go & word.coded), self.row_last.eq(word.last)]
        m.d.comb += [
            go.eq(goes), self.i.ready.eq(go | ~word_valid),
            moves.eq(go & word.moves), room.eq(there != slots),
            # If no word needs the whole window, it has room again before it waits. Whether a word moves is late.
            self.beats.ready.eq(room if spare else room | moves),
        ]
        with m.If(self.i.ready):
            m.d.sync += [word_valid.eq(self.i.valid), word.eq(self.i.payload)]
        kept = held + (self.beats.valid & room)
        moved = held + (self.beats.valid & (room | (not spare))) - word.drops
        with m.If(moves):
            m.d.sync += [held.eq(moved), there.eq(Mux(moved < 0, 0, moved))]
        with m.Else():
            m.d.sync += [held.eq(kept), there.eq(Mux(kept < 0, 0, kept))]
        with m.If(self.beats.valid & self.beats.ready):
            m.d.sync += [window[put].eq(self.beats.payload), put.eq(put + 1)]

        # Stage 1: the bytes of the word, each at its address modulo the ring size, or moved down by the lowest bits.
        cut = Signal(8 * ring_size(config), reset_less=True)
        part = _Part(Signal(name="cut_valid"), Signal(WordLayout(config), name="cut_word", reset_less=True),
                     Signal(config.word_bytes, name="from_memory"))
        m.d.sync += [
            part.valid.eq(go), part.word.eq(word), cut.eq(self._cut(Cat(window), word.place)),
            part.from_memory.eq(Cat((word.fill_end <= lane) & (word.data_end > lane)
                                    for lane in range(config.word_bytes))),
        ]

        self._to_port(m, ready, cut, part)
        m.d.comb += [self.idle.eq(held == 0), self.stall.eq(word_valid & ~go | self.port.en & ~self.port.grant)]
        return m

    def _cut(self, window: Value, place: Value) -> Value:
        """Return a byte of the window for each position in the ring.

        Of the window's two parts of that size, the word begins in one; its bytes below that position are in the other.
        """
        ring_bytes, turn_bits = ring_size(self._config), self._turn_bits
        rotation, part = place[:ceil_log2(ring_bytes)], place[ceil_log2(ring_bytes):]
        found = []
        for byte in range(ring_bytes):
            # The byte, or the one above, if that bit of the rotation is served here.
            places = [(byte + turn) % ring_bytes for turn in range(1 << turn_bits)]
            parts = Array((part + (rotation > each))[:len(part)] for each in places)
            choices = Cat(window[8 * at:8 * at + 8] for each in places
                          for at in range(each, len(window) // 8, ring_bytes))
            index = Cat(parts[rotation[:turn_bits]], rotation[:turn_bits]) if turn_bits else parts[0]
            found.append(choices.word_select(index, 8))
        return Cat(found)

    def _to_port(self, m: Module, ready: Signal, cut: Signal, part: "_Part") -> None:
        """Stage 2, of one or two cycles: rotate the first byte to lane 0, then the port.

        Nothing stalls after stage 1, so up to three or four words may be in flight that the queue's level does not
        include.
        """
        config, turn_bits = self._config, self._turn_bits
        m.submodules.out = out = Queue(
            data.StructLayout({"addr": 16, "data": 8 * config.word_bytes, "last": 1}), _WAITING_WORDS)
        later = rotate_cycles(config) - 1
        m.d.sync += ready.eq(out.level <= _WAITING_WORDS - 3 - later)
        early_bits = turn_bits + TURN_BITS * later
        early = rotate_down(m, cut, part.word.place[turn_bits:early_bits], "turn", 8 << turn_bits)
        turned, part = delayed(m, early, later, "turn"), part.later(m, later)
        turned = rotate_down(m, turned, part.word.place[early_bits:ceil_log2(ring_size(config))], "turned",
                             8 << early_bits)
        inverted = Mux(part.word.flip, 0x80, 0)
        others: list[Value] = [part.word.fill] * config.word_bytes
        if config.compressed_weights:
            row = delayed(m, self.row, later, "row")
            rows = [row.word_select(lane, 8) for lane in range(config.cols)]
            others[:config.cols] = [Mux(part.word.coded, row, part.word.fill) for row in rows]
        m.d.comb += [
            out.i.valid.eq(part.valid),
            out.i.payload.addr.eq(part.word.addr), out.i.payload.last.eq(part.word.last),
            out.i.payload.data.eq(Cat(
                Mux(use, turned.word_select(lane, 8) ^ inverted, others[lane])
                for lane, use in enumerate(part.from_memory))),
            self.port.en.eq(out.o.valid), self.port.addr.eq(out.o.payload.addr),
            self.port.data.eq(out.o.payload.data),
            self.port.mask.eq(Const(1).replicate(config.word_bytes)), out.o.ready.eq(self.port.grant),
        ]
        m.d.sync += self.done.eq(self.port.en & self.port.grant & out.o.payload.last)


class _Part(NamedTuple):
    """A word after stage 1, and which of its lanes come from memory."""

    valid: Value
    word: Any
    from_memory: Any

    def later(self, m: Module, cycles: int) -> "_Part":
        """Return the same `cycles` cycles later."""
        return _Part(delayed(m, self.valid, cycles, "part_valid", control=True),
                     delayed(m, self.word, cycles, "part_word"), delayed(m, self.from_memory, cycles, "part_memory"))
