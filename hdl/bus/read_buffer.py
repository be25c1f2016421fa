"""The buffer for read data: a burst is requested only if all of its beats fit."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.axi import MemoryReadSignature, ReadBurstLayout
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.queues import Queue
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES

__all__ = ["ReadBuffer"]


class ReadBuffer(wiring.Component):
    """Request bursts, and buffer their beats until they are taken.

    Parameters
    ----------
    config : sizes
    bursts : capacity in bursts of full length, at least 4; up to two less may be outstanding
    cut : register `o.ready` in a queue of two entries; without it the consumer must have such a queue (then latency 2)

    Members
    -------
    i : In(stream of ReadBurstLayout)
    memory : Out(MemoryReadSignature)
    o : Out(stream of 8 * bus_bytes bits), latency 3 cycles
    """

    i: stream.Interface
    memory: Any
    o: stream.Interface

    def __init__(self, config: Config, bursts: int, *, cut: bool = True) -> None:
        if bursts < 4:
            raise ValueError(f"a read buffer has room for 4 or more bursts, not {bursts}")
        self._config, self._bursts, self._cut = config, bursts, cut
        super().__init__({
            "i": In(stream.Signature(ReadBurstLayout())), "memory": Out(MemoryReadSignature(config)),
            "o": Out(stream.Signature(8 * config.bus_bytes)),
        })

    def elaborate(self, platform: object) -> Module:
        """Count beats from the request until they are taken."""
        m = Module()
        memory = self.memory
        beat_shape = 8 * self._config.bus_bytes
        longest = BURST_BYTES // self._config.bus_bytes
        beats = self._bursts * longest
        m.submodules.buffer = buffer = Queue(beat_shape, beats, registered=True)
        beats_out = buffer.o
        if self._cut:
            m.submodules.out = out = Queue(beat_shape, 2)
            wiring.connect(m, buffer.o, out.i)
            beats_out = out.o
        wiring.connect(m, beats_out, wiring.flipped(self.o))

        claimed = Signal(range(beats + 1))
        asked = Signal(range(longest + 1))
        room = Signal()
        m.d.comb += [
            memory.burst.payload.eq(self.i.payload), memory.burst.valid.eq(self.i.valid & room),
            self.i.ready.eq(memory.burst.ready & room),
            buffer.i.payload.eq(memory.data), buffer.i.valid.eq(memory.valid),
        ]
        # Whether a beat is taken is late in its cycle, so it is counted one cycle later.
        taken = delayed(m, buffer.o.valid & buffer.o.ready, 1, "taken", control=True)
        m.d.sync += [
            asked.eq(Mux(self.i.valid & self.i.ready, self.i.payload.length + 1, 0)),
            claimed.eq(claimed + asked - taken),
            # Up to two requested bursts may not be counted in `claimed` yet.
            room.eq(claimed <= beats - 3 * longest),
        ]
        return m
