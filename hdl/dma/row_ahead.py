"""A queue of decoded rows, which keeps the decoder off the consumer's timing paths."""

from typing import Any

from amaranth import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.dma.coded_beats import PieceLayout
from tq_hw.hdl.dma.row_decoder import RowDecoder
from tq_hw.hdl.parts.queues import Queue
from tq_hw.isa.config import Config
from tq_hw.isa.weight_code import view_bytes

__all__ = ["RowsAhead"]

#: Rows decoded ahead. A taken row is counted three cycles after it was begun; fewer would not sustain the rate.
_AHEAD = 4
#: Capacity for pieces: a small RAM takes fewer LUTs than a skid buffer.
_PIECES = 2


class RowsAhead(wiring.Component):
    """Decode rows into a queue while it has room; discard the rows after a run's last one.

    The first row of a run arrives three cycles later than from the decoder itself, the next ones one per cycle.

    Members
    -------
    i : In(stream of PieceLayout), pieces of runs
    can : Out(1), a row may be taken; it does not depend on `take` of the same cycle
    take : In(1), only while `can`: take a row; last : In(1), with it: it is the run's last one
    o : Out(8 * cols), the row that was taken in the cycle before
    idle : Out(1), nothing of a run is stored
    """

    i: stream.Interface
    can: Signal
    take: Signal
    last: Signal
    o: Signal
    idle: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({"i": In(stream.Signature(PieceLayout(view_bytes(config.cols)))), "can": Out(1),
                          "take": In(1), "last": In(1), "o": Out(8 * config.cols), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Count the rows in the queue and on their way to it. A taken row is subtracted one cycle late."""
        m = Module()
        m.submodules.rows = rows = RowDecoder(self._config)
        m.submodules.pieces = pieces = Queue(self.i.p.shape(), _PIECES)
        wiring.connect(m, wiring.flipped(self.i), pieces.i)
        wiring.connect(m, pieces.o, rows.i)
        stops = Signal()
        queue: Any = ResetInserter(stops)(Queue(8 * self._config.cols, _AHEAD))
        m.submodules.queue = queue
        held = Signal(range(_AHEAD + 1))
        held_next = Signal(range(_AHEAD + 1))
        room = Signal()
        taken = Signal()
        comes = Signal()
        m.d.comb += [
            rows.take.eq(rows.can & room & ~stops), rows.drop.eq(stops), held_next.eq(held + rows.take - taken),
            queue.i.payload.eq(rows.o), queue.i.valid.eq(comes), queue.o.ready.eq(self.take),
            self.can.eq(queue.o.valid & ~stops), self.idle.eq(rows.idle & ~pieces.o.valid),
        ]
        m.d.sync += [
            held.eq(held_next), room.eq(held_next != _AHEAD), taken.eq(self.take), comes.eq(rows.take),
            stops.eq(self.take & self.last), self.o.eq(queue.o.payload),
        ]
        with m.If(stops):
            m.d.sync += [held.eq(0), room.eq(1), taken.eq(0), comes.eq(0)]
        return m
