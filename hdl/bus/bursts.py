"""Splits a run of bytes in memory into AXI4 bursts."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import ReadBurstLayout
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES

__all__ = ["BurstSplitter", "SpanLayout"]


class SpanLayout(data.StructLayout):
    """Bytes to read: byte address, length, and low bits of the operation's number."""

    def __init__(self, size_bits: int) -> None:
        super().__init__({"addr": 32, "size_bytes": size_bits, "number": NUMBER_BITS})


class BurstSplitter(wiring.Component):
    """Cut spans, in order, into bursts that end at multiples of BURST_BYTES, one burst per cycle.

    Members
    -------
    i : In(stream of SpanLayout); spans have one byte or more
    o : Out(stream of ReadBurstLayout), latency 2 cycles
    idle : Out(1), nothing is stored
    """

    i: stream.Interface
    o: stream.Interface
    idle: Signal

    def __init__(self, config: Config, size_bits: int) -> None:
        self._config, self._size_bits = config, size_bits
        super().__init__({"i": In(stream.Signature(SpanLayout(size_bits))),
                          "o": Out(stream.Signature(ReadBurstLayout())), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Find the end of a span first, then step through its blocks of BURST_BYTES."""
        m = Module()
        lane_bits = ceil_log2(self._config.bus_bytes)
        block_bits = ceil_log2(BURST_BYTES)
        room_bits = block_bits - lane_bits
        longest = (1 << room_bits) - 1

        # Stage 1: the span's last beat, counted from the block of its first.
        span_valid = Signal()
        span_addr = Signal(32 - lane_bits)
        span_last = Signal(max(self._size_bits, block_bits) + 1 - lane_bits)
        # Stage 2: the burst's first beat, the blocks after it, and the last beat in the last block.
        valid = Signal()
        addr = Signal(32 - lane_bits)
        blocks = Signal(len(span_last) - room_bits)
        last = Signal(room_bits)
        span_number, number = Signal(NUMBER_BITS), Signal(NUMBER_BITS)

        final = Signal()
        m.d.comb += [
            self.o.valid.eq(valid),
            self.o.payload.addr.eq(addr << lane_bits),
            self.o.payload.length.eq(Mux(final, last, longest) - addr[:room_bits]),
            self.o.payload.number.eq(number),
            self.idle.eq(~(span_valid | valid)),
        ]
        take = Signal()
        m.d.comb += [
            take.eq(span_valid & (~valid | self.o.ready & final)),
            self.i.ready.eq(~span_valid | take),
        ]
        with m.If(take):
            m.d.sync += [
                valid.eq(1), addr.eq(span_addr), blocks.eq(span_last >> room_bits), last.eq(span_last),
                final.eq((span_last >> room_bits) == 0), number.eq(span_number),
            ]
        with m.Elif(valid & self.o.ready):
            m.d.sync += [
                valid.eq(~final), addr.eq(Cat(Const(0, room_bits), addr[room_bits:] + 1)), blocks.eq(blocks - 1),
                final.eq(blocks == 1),
            ]
        with m.If(self.i.ready):
            span = self.i.payload
            m.d.sync += [
                span_valid.eq(self.i.valid), span_addr.eq(span.addr >> lane_bits),
                span_last.eq((span.addr[:block_bits] + span.size_bytes - 1) >> lane_bits), span_number.eq(span.number),
            ]
        return m
