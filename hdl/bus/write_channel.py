"""The AXI4 write channel: sends the bursts of store in order, and tracks their responses."""

from typing import Any

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import BurstLayout, WriteBeatLayout, write_members
from tq_hw.hdl.parts.queues import Queue, SkidBuffer, Stage
from tq_hw.isa.config import Config

__all__ = ["WriteChannel"]

#: Most outstanding bursts.
_WRITE_LIMIT = 16
#: Of these, the number that a skid buffer stores.
_AHEAD = 2


class WriteChannel(wiring.Component):
    """Send write bursts, at most 16 outstanding.

    All beats of a burst must be waiting in `beats` when the burst is given, so that a started burst always ends.

    Members
    -------
    bursts : In(stream of BurstLayout)
    beats : In(stream of WriteBeatLayout)
    halt : In(1), start no more bursts
    bus : Out(write_members)
    answered : Out(1), strobe: a burst marked `last` is answered, and so are all before it
    error : Out(1), strobe: the memory answered with an error
    idle : Out(1), no burst is outstanding
    moved : Out(1), strobe: an address, a beat or a response was transferred
    beat : Out(1), strobe: a beat was sent
    """

    bursts: stream.Interface
    beats: stream.Interface
    halt: Signal
    bus: Any
    answered: Signal
    error: Signal
    idle: Signal
    moved: Signal
    beat: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "bursts": In(stream.Signature(BurstLayout())), "beats": In(stream.Signature(WriteBeatLayout(config))),
            "halt": In(1), "bus": Out(wiring.Signature(write_members(config))),
            "answered": Out(1), "error": Out(1), "idle": Out(1), "moved": Out(1), "beat": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Send the data of bursts that have been taken."""
        m = Module()
        bus = self.bus
        m.submodules.address = address = SkidBuffer(BurstLayout())
        # The LUTs of a skid buffer keep a late `wready` off the way to the queue of beats.
        layout = WriteBeatLayout(self._config)
        m.submodules.data = beats = Stage(layout) if self._config.few_luts else SkidBuffer(layout)
        # The `last` flag goes from small RAM into a register, because the receiver of `answered` is far away.
        m.submodules.flags = flags = Queue(1, _WRITE_LIMIT - _AHEAD)
        m.submodules.oldest = oldest = SkidBuffer(1)
        wiring.connect(m, flags.o, oldest.i)

        started = Signal()
        m.d.comb += [
            started.eq(self.bursts.valid & self.bursts.ready),
            self.bursts.ready.eq(address.i.ready & flags.i.ready & ~self.halt),
            address.i.payload.eq(self.bursts.payload), address.i.valid.eq(started),
            flags.i.payload.eq(self.bursts.payload.last), flags.i.valid.eq(started),
        ]
        # Bursts that have been taken and whose data has not been sent.
        owed, owes = Signal(range(_WRITE_LIMIT + 1)), Signal()
        paid = Signal()
        m.d.comb += [
            beats.i.payload.eq(self.beats.payload), beats.i.valid.eq(self.beats.valid & owes),
            self.beats.ready.eq(beats.i.ready & owes),
            self.beat.eq(beats.i.valid & beats.i.ready), paid.eq(self.beat & self.beats.payload.last),
        ]
        m.d.sync += [owed.eq(owed + started - paid), owes.eq(started | owes & ~(paid & (owed == 1)))]

        m.d.comb += [
            bus.awid.eq(0), bus.awaddr.eq(address.o.payload.addr), bus.awlen.eq(address.o.payload.length),
            bus.awvalid.eq(address.o.valid), address.o.ready.eq(bus.awready),
            bus.awsize.eq(ceil_log2(self._config.bus_bytes)), bus.awburst.eq(1), bus.awcache.eq(3),
            bus.awprot.eq(0),
            bus.wdata.eq(beats.o.payload.data), bus.wstrb.eq(beats.o.payload.strobe),
            bus.wlast.eq(beats.o.payload.last), bus.wvalid.eq(beats.o.valid), beats.o.ready.eq(bus.wready),
            bus.bready.eq(1),
        ]
        came = Signal()
        came_wrong = Signal()
        m.d.sync += [came.eq(bus.bvalid), came_wrong.eq(bus.bresp[1])]
        m.d.comb += [
            oldest.o.ready.eq(came), self.answered.eq(came & oldest.o.valid & oldest.o.payload),
            self.error.eq(came & came_wrong), self.idle.eq(~Cat(started, flags.o.valid, oldest.o.valid).any()),
        ]
        m.d.sync += self.moved.eq(bus.bvalid | address.o.valid & bus.awready | beats.o.valid & bus.wready)
        return m
