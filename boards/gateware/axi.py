"""Interconnect between the masters of a board and its memory: AXI4 with the members of hdl/bus/axi.py.

Every part keeps the order of the bursts. It supports only the bursts that the accelerator makes: INCR bursts of whole
beats, at most 256 bytes that do not cross a 256-byte boundary. Each output is a register or comes from a small memory:
there is no combinational path from an input to an output.
"""

from typing import Any

from amaranth import Cat, Const, DomainRenamer, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.parts.queues import Queue, SkidBuffer
from tq_hw.isa.config import PRESETS

__all__ = ["CHANNELS", "DECODE_ERROR", "MEMORY_ID_BITS", "OPEN_BURSTS", "AxiSignature", "Crossing", "Merge", "Narrow",
           "channel_layout", "connect_channel"]

#: Response for an address without memory.
DECODE_ERROR = 3
#: Width of the ids on the memory's side of a `Merge`.
MEMORY_ID_BITS = 3
#: Channels and their signals other than the handshake; the remaining AXI signals are constant.
CHANNELS: dict[str, tuple[str, ...]] = {
    "ar": ("id", "addr", "len"), "aw": ("id", "addr", "len"), "w": ("data", "strb", "last"),
    "b": ("id", "resp"), "r": ("id", "data", "resp", "last"),
}
#: Open bursts that a part can keep track of.
OPEN_BURSTS = 16


class AxiSignature(wiring.Signature):
    """All five channels, seen from the master: `data_bytes` wide, ids of `id_bits`."""

    def __init__(self, data_bytes: int, id_bits: int = 1) -> None:
        self.data_bytes, self.id_bits = data_bytes, id_bits
        # Names, directions and other widths are those of the accelerator, whatever its configuration.
        members = read_members(PRESETS["tiny"]) | write_members(PRESETS["tiny"])
        widths = {"rdata": 8 * data_bytes, "wdata": 8 * data_bytes, "wstrb": data_bytes, "arid": id_bits,
                  "awid": id_bits, "rid": id_bits, "bid": id_bits}
        super().__init__({name: wiring.Member(member.flow, widths.get(name, member.shape))
                          for name, member in members.items()})


def channel_layout(channel: str, data_bytes: int, id_bits: int) -> data.StructLayout:
    """Return the layout of a channel's signals as one value."""
    widths = {"id": id_bits, "addr": 32, "len": 8, "data": 8 * data_bytes, "strb": data_bytes, "last": 1, "resp": 2}
    return data.StructLayout({name: widths[name] for name in CHANNELS[channel]})


def connect_channel(m: Module, channel: str, bus: Any, flow: Any, *, to_bus: bool) -> None:
    """Connect a stream `flow` to a channel of `bus`, including the constants of an address channel."""
    pairs = [(getattr(bus, channel + name), flow.payload[name]) for name in CHANNELS[channel]]
    valid, ready = getattr(bus, channel + "valid"), getattr(bus, channel + "ready")
    if to_bus:
        m.d.comb += [*(outer.eq(inner) for outer, inner in pairs), valid.eq(flow.valid), flow.ready.eq(ready)]
        if channel in ("ar", "aw"):
            size = ceil_log2(len(bus.wstrb))
            m.d.comb += [getattr(bus, channel + name).eq(value)
                         for name, value in (("size", size), ("burst", 1), ("cache", 3), ("prot", 0))]
    else:
        m.d.comb += [*(inner.eq(outer) for outer, inner in pairs), flow.valid.eq(valid), ready.eq(flow.ready)]


class Merge(wiring.Component):
    """Share one memory of `memory_bytes`, from address 0, between two masters; bursts alternate when both have one.

    A burst beyond the memory is answered with DECODE_ERROR and writes nothing. The memory sees it at a wrong address,
    without write strobes.

    The memory sees ids of MEMORY_ID_BITS: the master's own id bit, the number of the master, and whether the address is
    beyond the memory. It may answer in any order.

    Members
    -------
    a, b : In(AxiSignature(data_bytes, 1))
    o : Out(AxiSignature(data_bytes, MEMORY_ID_BITS))
    """

    a: Any
    b: Any
    o: Any

    def __init__(self, data_bytes: int, memory_bytes: int) -> None:
        if memory_bytes <= 0 or memory_bytes % 256:
            raise ValueError(f"memory must have a multiple of 256 bytes, not {memory_bytes}")
        self._bytes, self._memory_bytes = data_bytes, memory_bytes
        super().__init__({"a": In(AxiSignature(data_bytes)), "b": In(AxiSignature(data_bytes)),
                          "o": Out(AxiSignature(data_bytes, MEMORY_ID_BITS))})

    def elaborate(self, platform: object) -> Module:
        """Register all channels; a queue records which master's write data come next."""
        m = Module()
        masters = (self.a, self.b)
        # A register after the queue's small RAM, before its output is used.
        m.submodules.owners = owners = Queue(2, OPEN_BURSTS)
        m.submodules.owner = owner = SkidBuffer(2)
        wiring.connect(m, owners.o, owner.i)
        for channel in ("ar", "aw"):
            waiting = []
            for name, master in zip("ab", masters, strict=True):
                part = SkidBuffer(channel_layout(channel, self._bytes, 1))
                m.submodules[f"{channel}_{name}"] = part
                connect_channel(m, channel, master, part.i, to_bus=False)
                waiting.append(part.o)
            layout = channel_layout(channel, self._bytes, MEMORY_ID_BITS)
            out: Any = stream.Signature(layout).create(path=(f"{channel}_out",))
            connect_channel(m, channel, self.o, out, to_bus=True)
            room = owners.i.ready if channel == "aw" else Const(1, 1)
            last = Signal(name=f"{channel}_last")
            # A request that was offered stays selected until it is accepted.
            held = Signal(name=f"{channel}_held")
            chosen = Signal(name=f"{channel}_chosen")
            m.d.comb += [
                chosen.eq(Mux(held, ~last, Mux(last, ~waiting[0].valid, waiting[1].valid))),
                out.valid.eq((waiting[0].valid | waiting[1].valid) & room),
            ]
            m.d.sync += held.eq(0)
            for number, one in enumerate(waiting):
                m.d.comb += one.ready.eq(out.ready & room & (chosen == number))
            with m.If(out.valid & out.ready):
                m.d.sync += last.eq(chosen)
            with m.Elif(out.valid):
                m.d.sync += [held.eq(1), last.eq(~chosen)]
            for name in CHANNELS[channel]:
                m.d.comb += out.payload[name].eq(Mux(chosen, waiting[1].payload[name], waiting[0].payload[name]))
            beyond = out.payload.addr >= self._memory_bytes
            m.d.comb += out.payload.id[1:].eq(Cat(chosen, beyond))
            if channel == "aw":
                m.d.comb += [owners.i.payload.eq(Cat(chosen, beyond)), owners.i.valid.eq(out.valid & out.ready)]
        self._write_data(m, owner.o)
        for channel in ("r", "b"):
            answers = SkidBuffer(channel_layout(channel, self._bytes, MEMORY_ID_BITS))
            m.submodules[channel] = answers
            connect_channel(m, channel, self.o, answers.i, to_bus=False)
            owner = answers.o.payload.id[1]
            m.d.comb += answers.o.ready.eq(Mux(owner, getattr(self.b, channel + "ready"),
                                               getattr(self.a, channel + "ready")))
            for number, master in enumerate(masters):
                m.d.comb += getattr(master, channel + "valid").eq(answers.o.valid & (owner == number))
                m.d.comb += [getattr(master, channel + name).eq(answers.o.payload[name])
                             for name in CHANNELS[channel]]
                with m.If(answers.o.payload.id[2]):
                    m.d.comb += getattr(master, channel + "resp").eq(DECODE_ERROR)
        return m

    def _write_data(self, m: Module, owners: Any) -> None:
        m.submodules.w = out = SkidBuffer(channel_layout("w", self._bytes, MEMORY_ID_BITS))
        connect_channel(m, "w", self.o, out.o, to_bus=True)
        owner, beyond = owners.payload[0], owners.payload[1]
        m.d.comb += [out.i.valid.eq(owners.valid & Mux(owner, self.b.wvalid, self.a.wvalid)),
                     owners.ready.eq(out.i.valid & out.i.ready & out.i.payload.last)]
        for number, master in enumerate((self.a, self.b)):
            m.d.comb += master.wready.eq(owners.valid & out.i.ready & (owner == number))
        m.d.comb += [out.i.payload[name].eq(Mux(owner, getattr(self.b, "w" + name), getattr(self.a, "w" + name)))
                     for name in CHANNELS["w"]]
        with m.If(beyond):
            m.d.comb += out.i.payload.strb.eq(0)


class Narrow(wiring.Component):
    """Carry bursts of wide beats over a narrow bus: `ratio` narrow beats for each wide one.

    Members
    -------
    i : In(AxiSignature(wide_bytes, id_bits))
    o : Out(AxiSignature(narrow_bytes, id_bits))
    """

    i: Any
    o: Any

    def __init__(self, wide_bytes: int, narrow_bytes: int, id_bits: int) -> None:
        self._wide, self._narrow, self._id_bits = wide_bytes, narrow_bytes, id_bits
        self._ratio = wide_bytes // narrow_bytes
        super().__init__({"i": In(AxiSignature(wide_bytes, id_bits)), "o": Out(AxiSignature(narrow_bytes, id_bits))})

    def elaborate(self, platform: object) -> Module:
        """Multiply burst lengths by `ratio`; move data through shift registers."""
        m = Module()
        ratio = self._ratio
        shift = ceil_log2(ratio)
        for channel in ("ar", "aw"):
            part = SkidBuffer(channel_layout(channel, self._narrow, self._id_bits))
            m.submodules[channel] = part
            connect_channel(m, channel, self.o, part.o, to_bus=True)
            m.d.comb += [
                part.i.valid.eq(getattr(self.i, channel + "valid")),
                getattr(self.i, channel + "ready").eq(part.i.ready),
                part.i.payload.id.eq(getattr(self.i, channel + "id")),
                part.i.payload.addr.eq(getattr(self.i, channel + "addr")),
                part.i.payload.len.eq((getattr(self.i, channel + "len") << shift) | (ratio - 1)),
            ]
        m.submodules.b = answers = SkidBuffer(channel_layout("b", self._narrow, self._id_bits))
        connect_channel(m, "b", self.o, answers.i, to_bus=False)
        connect_channel(m, "b", self.i, answers.o, to_bus=True)
        self._split(m)
        self._join(m)
        return m

    def _split(self, m: Module) -> None:
        """Send a write beat in parts, low bytes first."""
        bits = 8 * self._narrow
        words = Signal(8 * self._wide)
        strobes = Signal(self._wide)
        last = Signal()
        left = Signal(range(self._ratio + 1))
        final = left == 1
        m.d.comb += [
            self.o.wvalid.eq(left != 0), self.o.wdata.eq(words[:bits]), self.o.wstrb.eq(strobes[:self._narrow]),
            self.o.wlast.eq(last & final), self.i.wready.eq(left == 0),
        ]
        with m.If(self.o.wvalid & self.o.wready):
            m.d.sync += [words.eq(words >> bits), strobes.eq(strobes >> self._narrow), left.eq(left - 1)]
        with m.Elif(self.i.wvalid & self.i.wready):
            m.d.sync += [words.eq(self.i.wdata), strobes.eq(self.i.wstrb), last.eq(self.i.wlast),
                         left.eq(self._ratio)]

    def _join(self, m: Module) -> None:
        """Collect the parts of a read beat; the beat has an error if any part has one."""
        bits = 8 * self._narrow
        m.submodules.r = out = SkidBuffer(channel_layout("r", self._wide, self._id_bits))
        connect_channel(m, "r", self.i, out.o, to_bus=True)
        words = Signal(8 * self._wide)
        wrong = Signal(2)
        have = Signal(range(self._ratio + 1))
        last = Signal()
        number = Signal(self._id_bits)
        full = have == self._ratio
        m.d.comb += [
            out.i.valid.eq(full), out.i.payload.data.eq(words), out.i.payload.resp.eq(wrong),
            out.i.payload.last.eq(last), out.i.payload.id.eq(number),
            self.o.rready.eq(~full | out.i.ready),
        ]
        with m.If(full & out.i.ready):
            m.d.sync += have.eq(self.o.rvalid)
        with m.Elif(self.o.rvalid & self.o.rready):
            m.d.sync += have.eq(have + 1)
        with m.If(self.o.rvalid & self.o.rready):
            m.d.sync += [words.eq(words >> bits), words[-bits:].eq(self.o.rdata), last.eq(self.o.rlast),
                         number.eq(self.o.rid),
                         wrong.eq(Mux((have == 0) | full, self.o.rresp, wrong | self.o.rresp))]


class Crossing(wiring.Component):
    """Carry all channels from domain `sync` to domain `to` and back through five asynchronous queues.

    This is the only crossing of clock domains on a board. A reset of `sync` empties the queues of both sides. It comes
    together with the reset of `to`; a burst that is open then is lost.

    Members
    -------
    i : In(AxiSignature(data_bytes, id_bits)), domain `sync`
    o : Out(AxiSignature(data_bytes, id_bits)), domain `to`
    """

    i: Any
    o: Any

    def __init__(self, data_bytes: int, id_bits: int, to: str, *, depth: int = 16) -> None:
        self._bytes, self._id_bits, self._to, self._depth = data_bytes, id_bits, to, depth
        signature = AxiSignature(data_bytes, id_bits)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        """One queue for each channel, with a skid buffer at its output."""
        m = Module()
        for channel in CHANNELS:
            away = channel in ("ar", "aw", "w")
            source, target = ("sync", self._to) if away else (self._to, "sync")
            layout = channel_layout(channel, self._bytes, self._id_bits)
            depth = self._depth if "data" in CHANNELS[channel] else 4
            queue = AsyncFIFO(width=layout.size, depth=depth, w_domain=source, r_domain=target)
            m.submodules[channel] = queue
            out = SkidBuffer(layout)
            m.submodules[f"{channel}_slice"] = DomainRenamer(target)(out)
            before: Any = stream.Signature(layout).create(path=(f"{channel}_before",))
            connect_channel(m, channel, self.i if away else self.o, before, to_bus=False)
            connect_channel(m, channel, self.o if away else self.i, out.o, to_bus=True)
            m.d.comb += [queue.w_data.eq(before.payload), queue.w_en.eq(before.valid), before.ready.eq(queue.w_rdy),
                         out.i.payload.eq(queue.r_data), out.i.valid.eq(queue.r_rdy), queue.r_en.eq(out.i.ready)]
        return m


