"""The AXI4 read channel: arbitrates between fetch and load, and returns each beat to its client.

The memory must end each read burst at the requested beat. RLAST at another beat is an error. After it the number of
outstanding beats is unknown, so the channel is idle again only when the memory has been quiet for long enough.
"""

from typing import Any

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import LENGTH_BITS, MemoryReadSignature, ReadBurstLayout, read_members
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue, SkidBuffer
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES, LOAD_SHARES

__all__ = ["ReadChannel"]

#: Most outstanding bursts of fetch and of load.
_FETCH_LIMIT, _LOAD_LIMIT = 8, 64


class ReadChannel(wiring.Component):
    """Share AR and R between fetch and load. If both wait, load gets one burst for each of fetch if `urgent`, else 15.

    Members
    -------
    fetch, load : In(MemoryReadSignature)
    urgent : In(1), fetch is short of commands
    halt : In(1), accept no more bursts
    quiet : In(1), nothing has moved for so long that no beat is expected any more after a wrong RLAST
    bus : Out(read_members)
    open : Out(2), bursts of fetch, of load are outstanding
    idle : Out(1), none is, as far as is known
    moved : Out(1), strobe: an address or a beat was accepted
    beat : Out(1), strobe: a beat arrived
    """

    fetch: Any
    load: Any
    urgent: Signal
    halt: Signal
    quiet: Signal
    bus: Any
    open: Signal
    idle: Signal
    moved: Signal
    beat: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "fetch": In(MemoryReadSignature(config)), "load": In(MemoryReadSignature(config)), "urgent": In(1),
            "halt": In(1), "quiet": In(1),
            "bus": Out(wiring.Signature(read_members(config))), "open": Out(2), "idle": Out(1), "moved": Out(1),
            "beat": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Arbitrate, and register the answers."""
        m = Module()
        bus, fetch, load = self.bus, self.fetch, self.load
        shape = data.StructLayout({"addr": 32, "length": LENGTH_BITS, "id": 1})
        m.submodules.address = address = SkidBuffer(shape)
        forget = Signal()
        bursts = [_OpenBursts(self._config, limit) for limit in (_FETCH_LIMIT, _LOAD_LIMIT)]
        for name, part in zip(("fetch_bursts", "load_bursts"), bursts, strict=True):
            m.submodules[name] = ResetInserter(forget)(part)

        may_open = Signal()
        # One cycle late: one more burst may be opened in the cycle of a halt.
        m.d.sync += may_open.eq(~self.halt & Cat(part.room for part in bursts).all())
        in_a_row, next_in_a_row = (Signal(range(max(LOAD_SHARES) + 1), name=name)
                                   for name in ("in_a_row", "next_in_a_row"))
        fetch_turn = Signal()
        choose_load = Signal()
        chosen = Mux(choose_load, load.burst.payload.as_value(), fetch.burst.payload.as_value())
        burst = data.View(ReadBurstLayout(), chosen)
        m.d.comb += [
            choose_load.eq(load.burst.valid & ~(fetch.burst.valid & fetch_turn)),
            address.i.valid.eq(may_open & (load.burst.valid | fetch.burst.valid)),
            load.burst.ready.eq(may_open & address.i.ready & choose_load),
            fetch.burst.ready.eq(may_open & address.i.ready & ~choose_load),
            address.i.payload.addr.eq(burst.addr),
            address.i.payload.length.eq(burst.length),
            address.i.payload.id.eq(choose_load),
        ]
        opened = address.i.valid & address.i.ready
        m.d.comb += next_in_a_row.eq(in_a_row)
        with m.If(opened):
            m.d.comb += next_in_a_row.eq(Mux(choose_load & fetch.burst.valid, in_a_row + 1, 0))
        m.d.sync += [in_a_row.eq(next_in_a_row), fetch_turn.eq(next_in_a_row >= Mux(self.urgent, *LOAD_SHARES))]

        m.d.comb += [
            bus.arid.eq(address.o.payload.id), bus.araddr.eq(address.o.payload.addr),
            bus.arlen.eq(address.o.payload.length), bus.arvalid.eq(address.o.valid), address.o.ready.eq(bus.arready),
            bus.arsize.eq(ceil_log2(self._config.bus_bytes)), bus.arburst.eq(1), bus.arcache.eq(3),
            bus.arprot.eq(0), bus.rready.eq(1),
        ]
        came = Signal()
        came_id = Signal()
        came_last = Signal()
        came_wrong = Signal()
        came_data = Signal(8 * self._config.bus_bytes)
        m.d.sync += [came.eq(bus.rvalid), came_id.eq(bus.rid), came_last.eq(bus.rlast), came_wrong.eq(bus.rresp[1]),
                     came_data.eq(bus.rdata)]
        # Once a burst has ended at the wrong beat, the number of outstanding beats is unknown.
        astray = Signal()
        for number, (client, part) in enumerate(zip((fetch, load), bursts, strict=True)):
            mine = came & (came_id == number)
            m.d.comb += [
                part.opened.eq(opened & (choose_load == number)), part.length.eq(burst.length),
                part.number.eq(burst.number), part.came.eq(mine), part.last.eq(came_last), part.wrong.eq(came_wrong),
                client.valid.eq(mine), client.data.eq(came_data), client.error.eq(part.error),
                client.error_at.eq(part.error_at), self.open[number].eq(part.open),
            ]
        with m.If(Cat(part.astray for part in bursts).any()):
            m.d.sync += astray.eq(1)
        with m.Elif(forget):
            m.d.sync += astray.eq(0)
        m.d.sync += forget.eq(astray & self.quiet & ~address.o.valid)
        m.d.comb += [self.idle.eq(~(self.open.any() | opened | astray)), self.beat.eq(came)]
        m.d.sync += self.moved.eq(bus.rvalid | address.o.valid & bus.arready)
        return m


class _OpenBursts(wiring.Component):
    """Track the beats of one client's outstanding bursts.

    Members
    -------
    opened : In(1), strobe, only while `room`, or in the cycle after: a burst of `length`, of operation `number`
    came : In(1), a beat of this client; last, wrong : In(1), its RLAST, and whether its response is an error
    room : Out(1), another burst may be opened; open : Out(1), a burst is outstanding
    error : Out(1), strobe; error_at : Out
    astray : Out(1), strobe: a burst ended at the wrong beat, or a beat arrived that was not requested
    """

    opened: Signal
    length: Signal
    number: Signal
    came: Signal
    last: Signal
    wrong: Signal
    room: Signal
    open: Signal
    error: Signal
    error_at: Signal
    astray: Signal

    def __init__(self, config: Config, limit: int) -> None:
        self._beats, self._limit = BURST_BYTES // config.bus_bytes, limit
        super().__init__({
            "opened": In(1), "length": In(LENGTH_BITS), "number": In(NUMBER_BITS), "came": In(1), "last": In(1),
            "wrong": In(1), "room": Out(1), "open": Out(1), "error": Out(1), "error_at": Out(NUMBER_BITS),
            "astray": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Count beats up to the length of the oldest burst."""
        m = Module()
        length_bits = ceil_log2(self._beats)
        m.submodules.bursts = bursts = Queue(
            data.StructLayout({"length": length_bits, "number": NUMBER_BITS}), self._limit)
        position = Signal(length_bits)
        oldest = bursts.o.payload
        is_last = Signal()
        m.d.comb += [
            bursts.i.valid.eq(self.opened), bursts.i.payload.length.eq(self.length),
            bursts.i.payload.number.eq(self.number), is_last.eq(position == oldest.length),
            bursts.o.ready.eq(self.came & is_last),
            self.room.eq(bursts.level < self._limit - 1), self.open.eq(bursts.o.valid),
        ]
        with m.If(self.came):
            m.d.sync += position.eq(Mux(is_last, 0, position + 1))
        m.d.sync += [
            self.astray.eq(self.came & ((self.last != is_last) | ~bursts.o.valid)), self.error_at.eq(oldest.number),
            self.error.eq(self.came & (self.wrong | (self.last != is_last) | ~bursts.o.valid)),
        ]
        return m
