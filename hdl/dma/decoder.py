"""The decoder of compressed weights in the load unit: coded runs bypass the realigner's window."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.dma.coded_beats import BeatRouter, Pieces, beat_number_bits, run_beats_bits
from tq_hw.hdl.dma.row_ahead import RowsAhead
from tq_hw.isa.config import Config

__all__ = ["Decoder"]


class Decoder(wiring.Component):
    """Decode the beats of coded runs to rows; pass the other beats through.

    Members
    -------
    beats, plain : In and Out(stream of 8 * bus_bytes bits), all beats; the beats of runs that are not coded, a cycle
        later; `plain.ready` ends at the router's queue
    firsts, sizes : In(stream), of each coded run: number of its first beat, number of beats; see BeatRouter
    can, take, last, o : rows, see RowsAhead
    idle : Out(1), no coded run is stored or pending
    """

    beats: stream.Interface
    plain: stream.Interface
    firsts: stream.Interface
    sizes: stream.Interface
    can: Signal
    take: Signal
    last: Signal
    o: Signal
    idle: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        beat = stream.Signature(8 * config.bus_bytes)
        super().__init__({
            "beats": In(beat), "plain": Out(beat), "firsts": In(stream.Signature(beat_number_bits(config))),
            "sizes": In(stream.Signature(run_beats_bits(config))),
            "can": Out(1), "take": In(1), "last": In(1), "o": Out(8 * config.cols), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Router, pieces, rows."""
        m = Module()
        m.submodules.router = router = BeatRouter(self._config)
        m.submodules.pieces = pieces = Pieces(self._config)
        m.submodules.rows = rows = RowsAhead(self._config)
        for name in ("beats", "firsts", "sizes"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(router, name))
        wiring.connect(m, router.plain, wiring.flipped(self.plain))
        wiring.connect(m, router.coded, pieces.i)
        wiring.connect(m, pieces.o, rows.i)
        m.d.comb += [
            self.can.eq(rows.can), rows.take.eq(self.take), rows.last.eq(self.last), self.o.eq(rows.o),
            self.idle.eq(router.idle & pieces.idle & rows.idle),
        ]
        return m
