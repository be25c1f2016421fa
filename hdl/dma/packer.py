"""The packer of the store unit: words of the scratchpad in, beats and bursts for the memory out."""

from typing import Any

from amaranth import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import BurstLayout, WriteBeatLayout
from tq_hw.hdl.dma.load_plan import lane_bits, window_beats
from tq_hw.hdl.dma.store_plan import TakeLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Lay words into a window over the beats of a run, with a strobe for each byte.

    The window is a ring of registers. A word is laid down when the beats that it touches are free, at most one per
    cycle; a whole beat leaves per cycle. A burst is given when its last beat leaves: at a multiple of BURST_BYTES, or
    at the end of the run.

    Members
    -------
    i : In(stream of TakeLayout); `addr` is not used
    word : In(8 * word_bytes), the word of `i`
    runs : In(stream), beat address of each run
    beats : Out(stream of WriteBeatLayout, always ready)
    bursts : Out(stream of BurstLayout, always ready); `last` ends the operation
    room : In(1), a beat and a burst may be given in the next cycle; both come from registers
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
        """Shift within a beat, choice of beats, window, bursts."""
        m = Module()
        config = self._config
        bus_bytes, slots, lanes = config.bus_bytes, window_beats(config), lane_bits(config)
        slot_bits = ceil_log2(slots)
        beat_bits = 8 * bus_bytes

        # Stage 1: the lanes within a beat.
        valid = Signal()
        ready = Signal()
        take = Signal(TakeLayout(config), reset_less=True)
        shifted = Signal(8 * config.word_bytes + beat_bits, reset_less=True)
        marked = Signal(config.word_bytes + bus_bytes)
        m.d.comb += self.i.ready.eq(~valid | ready)
        with m.If(self.i.ready):
            asked = self.i.payload
            flips = Const(0x80, 8).replicate(config.word_bytes)
            ones = (Const(1, config.word_bytes + 1) << asked.take)[:config.word_bytes + 1] - 1
            m.d.sync += [
                valid.eq(self.i.valid), take.eq(asked),
                shifted.eq((self.word ^ Mux(asked.flip, flips, 0)) << (asked.origin[:lanes] << 3)),
                marked.eq(ones[:config.word_bytes] << asked.place[:lanes]),
            ]

        # Stage 2: the window.
        window = [Signal(beat_bits, name=f"window{index}", reset_less=True) for index in range(slots)]
        strobes = [Signal(bus_bytes, name=f"strobe{index}") for index in range(slots)]
        run_ends = Signal(slots)
        op_ends = Signal(slots)
        whole = Signal(range(slots + 1))
        get = Signal(range(slots))
        pop = Signal()
        lay = Signal()
        filled = whole + take.touches
        m.d.comb += [lay.eq(valid & Mux(pop, filled <= slots + 1, filled <= slots)), ready.eq(lay)]
        m.d.sync += whole.eq(whole - pop + Mux(lay, take.completes, 0))
        first = take.place >> lanes
        origin = take.origin >> lanes
        pieces = Array(_piece(shifted, index, beat_bits) for index in range(slots))
        marks = Array(_piece(marked, index, bus_bytes) for index in range(slots))
        for index in range(slots):
            piece = pieces[(index - origin)[:slot_bits]]
            mark = Signal(bus_bytes, name=f"mark{index}")
            rank = Signal(slot_bits, name=f"rank{index}")
            m.d.comb += [rank.eq(index - first), mark.eq(marks[rank])]
            with m.If(pop & (get == index)):
                m.d.sync += strobes[index].eq(0)
            with m.If(lay):
                m.d.sync += strobes[index].eq(Mux(pop & (get == index), 0, strobes[index]) | mark)
                for lane in range(bus_bytes):
                    with m.If(mark[lane]):
                        m.d.sync += window[index].word_select(lane, 8).eq(piece.word_select(lane, 8))
                with m.If(rank < take.touches):
                    is_end = take.run_end & (rank == take.touches - 1)
                    m.d.sync += [run_ends[index].eq(is_end), op_ends[index].eq(is_end & take.last)]

        # Whole beats leave, and bursts with their last beat.
        addr_bits = 32 - lanes
        room_bits = ceil_log2(BURST_BYTES // bus_bytes)
        in_run = Signal()
        next_addr = Signal(addr_bits)
        addr = Signal(addr_bits)
        burst_addr = Signal(addr_bits)
        length = Signal(room_bits)
        run_end = Signal()
        close = Signal()
        m.d.comb += [
            run_end.eq(run_ends.bit_select(get, 1)),
            addr.eq(Mux(in_run, next_addr, self.runs.payload)),
            close.eq(run_end | addr[:room_bits].all()),
            pop.eq((whole != 0) & self.room),
            self.runs.ready.eq(pop & ~in_run),
        ]
        m.d.sync += [
            self.beats.valid.eq(pop), self.beats.payload.data.eq(Array(window)[get]),
            self.beats.payload.strobe.eq(Array(strobes)[get]), self.beats.payload.last.eq(close),
            self.bursts.valid.eq(pop & close), self.bursts.payload.length.eq(length),
            self.bursts.payload.addr.eq(Mux(length == 0, addr, burst_addr) << lanes),
            self.bursts.payload.last.eq(op_ends.bit_select(get, 1)),
        ]
        with m.If(pop):
            m.d.sync += [
                get.eq(get + 1), in_run.eq(~run_end), next_addr.eq(addr + 1), length.eq(Mux(close, 0, length + 1)),
            ]
            with m.If(length == 0):
                m.d.sync += burst_addr.eq(addr)
        return m


def _piece(value: Signal, index: int, bits: int) -> Any:
    """Return `bits` bits of `value` from index * bits on, 0 beyond its end."""
    part = value[index * bits:(index + 1) * bits]
    return part if len(part) == bits else Const(0, bits) | part
