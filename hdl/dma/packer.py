"""The packer of the store unit: turns scratchpad words into beats and bursts."""

from typing import Any

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import BurstLayout, WriteBeatLayout
from tq_hw.hdl.dma.load_plan import lane_bits, ring_size, window_beats
from tq_hw.hdl.dma.store_plan import TakeLayout
from tq_hw.hdl.parts.choose import TURN_BITS, rotate_up
from tq_hw.hdl.parts.queues import Stage
from tq_hw.isa.config import Config
from tq_hw.isa.latency import rotate_cycles
from tq_hw.isa.layout import BURST_BYTES

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Place words into a window of beats, with a strobe per byte.

    The window is a ring of registers. A word enters when the beats that it touches are free, at most one per cycle; a
    complete beat leaves per cycle. A burst is issued when its last beat leaves: at a multiple of BURST_BYTES, or at the
    end of the run.

    Members
    -------
    i : In(stream of TakeLayout); `addr` is not used
    word : In(8 * word_bytes), the word of `i`
    runs : In(stream), beat address of each run
    beats : Out(stream of WriteBeatLayout, always ready)
    bursts : Out(stream of BurstLayout, always ready); `last` ends the operation
    room : In(1), a beat and a burst may be issued in the next cycle; both are registers
    """

    i: stream.Interface
    word: Signal
    runs: stream.Interface
    beats: stream.Interface
    bursts: stream.Interface
    room: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(TakeLayout(config))), "word": In(8 * config.word_bytes),
            "runs": In(stream.Signature(32 - lane_bits(config))),
            "beats": Out(stream.Signature(WriteBeatLayout(config), always_ready=True)),
            "bursts": Out(stream.Signature(BurstLayout(), always_ready=True)), "room": In(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Rotate each word, place it into the window, send beats and bursts."""
        m = Module()
        word = _Word(self._config)
        self._shift(m, word)
        window = _Window(self._config)
        self._lay(m, word, window)
        self._send(m, window)
        return m

    def _shift(self, m: Module, word: "_Word") -> None:
        """Stage 1, of one or two cycles: rotate each byte to its position modulo the ring size.

        It is the same for all beats of the window.
        """
        config, lanes = self._config, lane_bits(self._config)
        flipped = Signal(len(word.turned))
        take, valid, ready, bits = self.i.payload, self.i.valid, self.i.ready, flipped
        early_bits = TURN_BITS * (rotate_cycles(config) - 1)
        if early_bits:
            m.submodules.half = half = Stage(data.StructLayout({"take": TakeLayout(config), "bits": len(bits)}))
            m.d.comb += [
                half.i.valid.eq(valid), ready.eq(half.i.ready), half.i.payload.take.eq(take),
                half.i.payload.bits.eq(rotate_up(m, bits, take.origin[:early_bits], "turn")),
            ]
            take, valid, ready, bits = half.o.payload.take, half.o.valid, half.o.ready, half.o.payload.bits
        m.d.comb += [
            ready.eq(~word.valid | word.ready),
            flipped.eq(self.word ^ Mux(self.i.payload.flip, Const(0x80, 8).replicate(config.word_bytes), 0)),
        ]
        turned = rotate_up(m, bits, take.origin[early_bits:ceil_log2(ring_size(config))], "turned", 8 << early_bits)
        with m.If(ready):
            ones = (Const(1, config.word_bytes + 1) << take.take)[:config.word_bytes + 1] - 1
            m.d.sync += [
                word.valid.eq(valid), word.take.eq(take),
                word.turned.eq(turned),
                word.marked.eq(ones[:config.word_bytes] << take.place[:lanes]),
            ]

    def _lay(self, m: Module, word: "_Word", window: "_Window") -> None:
        """Stage 2: write the word into the beats that it touches, when they are free."""
        slots, lanes, bus_bytes = len(window.beats), lane_bits(self._config), self._config.bus_bytes
        take, whole, pop, get = word.take, window.whole, window.pop, window.get
        lay = Signal()
        filled = whole + take.touches
        m.d.comb += [lay.eq(word.valid & Mux(pop, filled <= slots + 1, filled <= slots)), word.ready.eq(lay)]
        m.d.sync += whole.eq(whole - pop + Mux(lay, take.completes, 0))
        first = take.place >> lanes
        marks = Array(_piece(word.marked, index, bus_bytes) for index in range(slots))
        for index, (beat, strobe) in enumerate(zip(window.beats, window.strobes, strict=True)):
            piece = word.turned.word_select(index % (len(word.turned) // len(beat)), len(beat))
            mark = Signal(bus_bytes, name=f"mark{index}")
            rank = Signal(ceil_log2(slots), name=f"rank{index}")
            m.d.comb += [rank.eq(index - first), mark.eq(marks[rank])]
            with m.If(pop & (get == index)):
                m.d.sync += strobe.eq(0)
            with m.If(lay):
                m.d.sync += strobe.eq(Mux(pop & (get == index), 0, strobe) | mark)
                for lane in range(bus_bytes):
                    with m.If(mark[lane]):
                        m.d.sync += beat.word_select(lane, 8).eq(piece.word_select(lane, 8))
                with m.If(rank < take.touches):
                    is_end = take.run_end & (rank == take.touches - 1)
                    m.d.sync += [window.run_ends[index].eq(is_end), window.op_ends[index].eq(is_end & take.last)]

    def _send(self, m: Module, window: "_Window") -> None:
        """Send complete beats, and a burst with its last beat."""
        lanes, pop, get = lane_bits(self._config), window.pop, window.get
        addr_bits = 32 - lanes
        room_bits = ceil_log2(BURST_BYTES // self._config.bus_bytes)
        in_run = Signal()
        next_addr = Signal(addr_bits)
        addr = Signal(addr_bits)
        length = Signal(room_bits)
        run_end = Signal()
        close = Signal()
        # All beats of a burst lie in one block of BURST_BYTES, so its first beat differs in the low bits only.
        first = (addr - length)[:room_bits]
        m.d.comb += [
            run_end.eq(window.run_ends.bit_select(get, 1)),
            addr.eq(Mux(in_run, next_addr, self.runs.payload)),
            close.eq(run_end | addr[:room_bits].all()),
            pop.eq((window.whole != 0) & self.room),
            self.runs.ready.eq(pop & ~in_run),
        ]
        m.d.sync += [
            self.beats.valid.eq(pop), self.beats.payload.data.eq(Array(window.beats)[get]),
            self.beats.payload.strobe.eq(Array(window.strobes)[get]), self.beats.payload.last.eq(close),
            self.bursts.valid.eq(pop & close), self.bursts.payload.length.eq(length),
            self.bursts.payload.addr.eq(Cat(first, addr[room_bits:]) << lanes),
            self.bursts.payload.last.eq(window.op_ends.bit_select(get, 1)),
        ]
        with m.If(pop):
            m.d.sync += [
                get.eq(get + 1), in_run.eq(~run_end), next_addr.eq(addr + 1), length.eq(Mux(close, 0, length + 1)),
            ]


class _Word:
    """The word after stage 1."""

    def __init__(self, config: Config) -> None:
        self.valid = Signal()
        #: Stage 2 takes it.
        self.ready = Signal()
        self.take: Any = Signal(TakeLayout(config), reset_less=True)
        #: Its bytes, rotated to their positions in the window modulo the ring size; a bit per byte that is stored.
        self.turned = Signal(8 * ring_size(config), reset_less=True)
        self.marked = Signal(config.word_bytes + config.bus_bytes)


class _Window:
    """A ring of beats with a strobe per byte; by beat, whether it ends a run, whether it ends the operation."""

    def __init__(self, config: Config) -> None:
        slots = window_beats(config)
        self.beats = [Signal(8 * config.bus_bytes, name=f"window{index}", reset_less=True) for index in range(slots)]
        self.strobes = [Signal(config.bus_bytes, name=f"strobe{index}") for index in range(slots)]
        self.run_ends = Signal(slots)
        self.op_ends = Signal(slots)
        #: Number of complete beats, the oldest of them, and the strobe with which that one leaves.
        self.whole = Signal(range(slots + 1))
        self.get = Signal(range(slots))
        self.pop = Signal()


def _piece(value: Signal, index: int, bits: int) -> Any:
    """Return `bits` bits of `value` from index * bits on, zero-extended."""
    part = value[index * bits:(index + 1) * bits]
    return part if len(part) == bits else Const(0, bits) | part
