"""Carry narrow bursts to a memory with wider words."""

from typing import Any

from amaranth import Array, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.boards.gateware.axi import OPEN_BURSTS, AxiSignature, channel_layout, connect_channel
from tq_hw.hdl.parts.queues import Queue, SkidBuffer, Stage

__all__ = ["Widen"]


class Widen(wiring.Component):
    """Carry bursts of narrow beats over a wide bus: each wide beat contains the narrow beats of its address.

    A burst may begin and end within a wide beat. The rest of that beat is read and dropped, or written without strobes.
    The narrow side runs at full rate. Answers keep the order of the bursts.

    Parameters
    ----------
    few_luts : beats and requests on the wide side wait in registers, not in skid buffers, which take a LUT per bit and
        keep the paths through `ready` shorter

    Members
    -------
    i : In(AxiSignature(narrow_bytes, id_bits))
    o : Out(AxiSignature(wide_bytes, id_bits))
    """

    i: Any
    o: Any

    def __init__(self, narrow_bytes: int, wide_bytes: int, id_bits: int, *, few_luts: bool = False) -> None:
        self._narrow, self._wide, self._id_bits = narrow_bytes, wide_bytes, id_bits
        self._buffer: type[SkidBuffer] | type[Stage] = Stage if few_luts else SkidBuffer
        self._ratio = wide_bytes // narrow_bytes
        self._place = range(self._ratio)
        super().__init__({"i": In(AxiSignature(narrow_bytes, id_bits)), "o": Out(AxiSignature(wide_bytes, id_bits))})

    def elaborate(self, platform: object) -> Module:
        """Shorten bursts and align addresses; queues record where in a wide beat each burst begins and ends."""
        m = Module()
        m.submodules.b = answers = self._buffer(channel_layout("b", self._narrow, self._id_bits))
        connect_channel(m, "b", self.o, answers.i, to_bus=False)
        connect_channel(m, "b", self.i, answers.o, to_bus=True)
        self._split(m, self._address(m, "ar"))
        self._join(m, self._address(m, "aw"))
        return m

    def _address(self, m: Module, channel: str) -> Queue:
        """Carry an address channel; return the queue of each burst's first and last position, in narrow beats."""
        m.submodules[channel] = part = self._buffer(channel_layout(channel, self._wide, self._id_bits))
        connect_channel(m, channel, self.o, part.o, to_bus=True)
        m.submodules[f"{channel}_ends"] = ends = Queue(data.StructLayout({"first": self._place, "last": self._place}),
                                                       OPEN_BURSTS)
        address, length = getattr(self.i, f"{channel}addr"), getattr(self.i, f"{channel}len")
        valid, ready = getattr(self.i, f"{channel}valid"), getattr(self.i, f"{channel}ready")
        low, places = ceil_log2(self._narrow), ceil_log2(self._ratio)
        first = address[low:low + places]
        # Counted from the beginning of the first wide beat.
        end = Signal(9)
        m.d.comb += [
            end.eq(length + first), ready.eq(part.i.ready & ends.i.ready),
            part.i.valid.eq(valid & ends.i.ready), ends.i.valid.eq(valid & part.i.ready),
            part.i.payload.id.eq(getattr(self.i, f"{channel}id")),
            part.i.payload.addr.eq(address & ~(self._wide - 1)), part.i.payload.len.eq(end >> places),
            ends.i.payload.first.eq(first), ends.i.payload.last.eq(end[:places]),
        ]
        return ends

    def _counted(self, m: Module, ends: Queue, taken: Signal, final: Value) -> Signal:
        """Return the position of the next narrow beat: a burst begins where the queue says."""
        begins, following = Signal(init=1), Signal(self._place)
        place = Signal(self._place)
        m.d.comb += [place.eq(Mux(begins, ends.o.payload.first, following)), ends.o.ready.eq(taken & final)]
        with m.If(taken):
            m.d.sync += [following.eq(place + 1), begins.eq(final)]
        return place

    def _split(self, m: Module, ends: Queue) -> None:
        """Return the requested parts of a wide read beat, low bytes first; its error is that of each part."""
        layout = channel_layout("r", self._wide, self._id_bits)
        m.submodules.r_wide, m.submodules.r = wide, out = self._buffer(layout), SkidBuffer(
            channel_layout("r", self._narrow, self._id_bits))
        connect_channel(m, "r", self.o, wide.i, to_bus=False)
        connect_channel(m, "r", self.i, out.o, to_bus=True)
        beat, final, taken = wide.o.payload, Signal(), Signal()
        place = self._counted(m, ends, taken, final)
        parts = Array(beat.data.word_select(number, 8 * self._narrow) for number in range(self._ratio))
        m.d.comb += [
            final.eq(beat.last & (place == ends.o.payload.last)),
            out.i.valid.eq(wide.o.valid & ends.o.valid), taken.eq(out.i.valid & out.i.ready),
            out.i.payload.data.eq(parts[place]), out.i.payload.id.eq(beat.id), out.i.payload.resp.eq(beat.resp),
            out.i.payload.last.eq(final),
            wide.o.ready.eq(taken & ((place == self._ratio - 1) | final)),
        ]

    def _join(self, m: Module, ends: Queue) -> None:
        """Collect write beats until the wide one is full, or the burst ends."""
        m.submodules.w = out = self._buffer(channel_layout("w", self._wide, self._id_bits))
        connect_channel(m, "w", self.o, out.o, to_bus=True)
        full, taken = Signal(), Signal()
        place = self._counted(m, ends, taken, self.i.wlast)
        words, strobes = Signal(8 * self._wide), Signal(self._wide)
        kept_words, kept_strobes = Signal.like(words), Signal.like(strobes)
        m.d.comb += [
            full.eq((place == self._ratio - 1) | self.i.wlast), words.eq(kept_words), strobes.eq(kept_strobes),
            words.word_select(place, 8 * self._narrow).eq(self.i.wdata),
            strobes.word_select(place, self._narrow).eq(self.i.wstrb),
            self.i.wready.eq(ends.o.valid & out.i.ready), taken.eq(self.i.wvalid & self.i.wready),
            out.i.valid.eq(self.i.wvalid & ends.o.valid & full), out.i.payload.data.eq(words),
            out.i.payload.strb.eq(strobes), out.i.payload.last.eq(self.i.wlast),
        ]
        with m.If(taken):
            m.d.sync += [kept_words.eq(words), kept_strobes.eq(Mux(full, 0, strobes))]
