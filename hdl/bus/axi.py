"""The AXI4 master: one read channel for fetch and load, one write channel for store.

32-bit addresses, `bus_bytes` of data, INCR bursts of at most 256 bytes that never cross 256 bytes (and so never 4 KiB).
Read id 0 is fetch, 1 is load; writes have id 0. Responses of the two ids may come in any order and mixed.
`rready` and `bready` are always 1: whoever asks keeps room for the answer. Every other output is a register.

The memory must end each read burst where it was asked to: RLAST with another beat is an error, after which nothing is
known of what is still to come. It is waited for until the memory has been quiet for long enough.
"""

from typing import Any

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue, Slice
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES, LOAD_SHARES

__all__ = ["BurstLayout", "MemoryReadSignature", "ReadBurstLayout", "ReadChannel", "WriteBeatLayout",
           "WriteChannel", "read_members", "write_members"]

_LENGTH_BITS = 8
#: Bursts that may be open, of fetch and of load, of store.
_FETCH_LIMIT, _LOAD_LIMIT = 8, 64
_WRITE_LIMIT = 16


def read_members(config: Config) -> dict[str, wiring.Member]:
    """Return the AR and R signals by their AXI names, seen from the master."""
    return {
        "arid": Out(1), "araddr": Out(32), "arlen": Out(8), "arsize": Out(3), "arburst": Out(2), "arcache": Out(4),
        "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
        "rid": In(1), "rdata": In(8 * config.bus_bytes), "rresp": In(2), "rlast": In(1), "rvalid": In(1),
        "rready": Out(1),
    }


def write_members(config: Config) -> dict[str, wiring.Member]:
    """Return the AW, W and B signals by their AXI names, seen from the master."""
    return {
        "awid": Out(1), "awaddr": Out(32), "awlen": Out(8), "awsize": Out(3), "awburst": Out(2), "awcache": Out(4),
        "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(8 * config.bus_bytes), "wstrb": Out(config.bus_bytes), "wlast": Out(1), "wvalid": Out(1),
        "wready": In(1),
        "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
    }


class BurstLayout(data.StructLayout):
    """A burst: first byte (a multiple of bus_bytes), beats less one, and a flag that comes back with the answer."""

    def __init__(self) -> None:
        super().__init__({"addr": 32, "length": _LENGTH_BITS, "last": 1})


class ReadBurstLayout(data.StructLayout):
    """A read burst: first byte (a multiple of bus_bytes), beats less one, low bits of its operation's number."""

    def __init__(self) -> None:
        super().__init__({"addr": 32, "length": _LENGTH_BITS, "number": NUMBER_BITS})


class WriteBeatLayout(data.StructLayout):
    """One beat of write data; `last` ends the burst."""

    def __init__(self, config: Config) -> None:
        super().__init__({"data": 8 * config.bus_bytes, "strobe": config.bus_bytes, "last": 1})


class MemoryReadSignature(wiring.Signature):
    """A client's way to read memory.

    Members
    -------
    burst : Out(stream of ReadBurstLayout)
    data : In(8 * bus_bytes); valid : In(1): the next beat of the client's bursts, in order; it must be taken at once
    error : In(1), strobe: the memory answered with an error, or ended a burst where it should not; error_at : In,
        the burst's
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "burst": Out(stream.Signature(ReadBurstLayout())),
            "data": In(8 * config.bus_bytes), "valid": In(1), "error": In(1), "error_at": In(NUMBER_BITS),
        })


class ReadChannel(wiring.Component):
    """Share AR and R between fetch and load: of bursts that wait, one of load to one of fetch, or 15 to one.

    Members
    -------
    fetch, load : In(MemoryReadSignature)
    urgent : In(1), commands run short
    halt : In(1), take no more bursts
    quiet : In(1), nothing has moved for so long that after a wrong RLAST no beat is expected any more
    bus : Out(read_members)
    open : Out(2), bursts of fetch, of load are under way
    idle : Out(1), none is, as far as that is known
    moved : Out(1), strobe: an address or a beat was taken
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
        """Choose a burst, register the answer."""
        m = Module()
        bus, fetch, load = self.bus, self.fetch, self.load
        shape = data.StructLayout({"addr": 32, "length": _LENGTH_BITS, "id": 1})
        m.submodules.address = address = Slice(shape)
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
        # Once a burst has ended in the wrong place, nobody knows which beats will still come.
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
    """Follow the beats of one client's bursts.

    Members
    -------
    opened : In(1), strobe, only while `room`, or in the cycle after: a burst of `length`, of operation `number`
    came : In(1), a beat of this client; last, wrong : In(1), its RLAST, and whether it is an error
    room : Out(1); open : Out(1), a burst is under way
    error : Out(1), strobe; error_at : Out
    astray : Out(1), strobe: a burst ended where it should not, or a beat came that nobody asked for
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
            "opened": In(1), "length": In(_LENGTH_BITS), "number": In(NUMBER_BITS), "came": In(1), "last": In(1),
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


class WriteChannel(wiring.Component):
    """Send write bursts, at most 16 at a time.

    All beats of a burst must be waiting in `beats` when the burst is given, so that started bursts can always end.

    Members
    -------
    bursts : In(stream of BurstLayout)
    beats : In(stream of WriteBeatLayout)
    halt : In(1), start no more bursts
    bus : Out(write_members)
    answered : Out(1), strobe: a burst marked `last` is answered, and with it all before it
    error : Out(1), strobe: the memory answered with an error
    idle : Out(1), no burst is under way
    moved : Out(1), strobe: an address, a beat or an answer was taken
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
        """Let the data follow the addresses."""
        m = Module()
        bus = self.bus
        m.submodules.address = address = Slice(BurstLayout())
        m.submodules.data = beats = Slice(WriteBeatLayout(self._config))
        m.submodules.flags = flags = Queue(1, _WRITE_LIMIT)

        started = Signal()
        m.d.comb += [
            started.eq(self.bursts.valid & self.bursts.ready),
            self.bursts.ready.eq(address.i.ready & flags.i.ready & ~self.halt),
            address.i.payload.eq(self.bursts.payload), address.i.valid.eq(started),
            flags.i.payload.eq(self.bursts.payload.last), flags.i.valid.eq(started),
        ]
        # Bursts whose address is on its way and whose data is not.
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
            flags.o.ready.eq(came), self.answered.eq(came & flags.o.valid & flags.o.payload),
            self.error.eq(came & came_wrong), self.idle.eq(~Cat(started, flags.o.valid).any()),
        ]
        m.d.sync += self.moved.eq(bus.bvalid | address.o.valid & bus.awready | beats.o.valid & bus.wready)
        return m
