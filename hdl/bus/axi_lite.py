"""AXI4-Lite to the register bus."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.register_port import ADDRESS_BITS, RegisterBridge

__all__ = ["AxiLiteBridge", "axi_lite_members"]

_OKAY, _SLVERR = 0, 2


def axi_lite_members() -> dict[str, wiring.Member]:
    """Return the signals by their AXI names, seen from the slave."""
    return {
        "awaddr": In(ADDRESS_BITS), "awprot": In(3), "awvalid": In(1), "awready": Out(1),
        "wdata": In(32), "wstrb": In(4), "wvalid": In(1), "wready": Out(1),
        "bresp": Out(2), "bvalid": Out(1), "bready": In(1),
        "araddr": In(ADDRESS_BITS), "arprot": In(3), "arvalid": In(1), "arready": Out(1),
        "rdata": Out(32), "rresp": Out(2), "rvalid": Out(1), "rready": In(1),
    }


class AxiLiteBridge(RegisterBridge):
    """A slave that accepts the channels in any order and timing. Every output is a register or the inverse of one.

    One read address, one write address and one word are buffered while an access is in progress; a waiting read and
    write alternate. A write starts when both its address and its word have arrived. An answer that is not accepted
    stalls only further accesses of its own kind. `RegisterPort` decides what is an error: it is answered with SLVERR.
    The `prot` signals are ignored. From the cycle in which an address (and word) is taken to `rvalid`, `bvalid`: 6.

    Members
    -------
    bus : In(axi_lite_members)
    reg_* : as of `RegisterPort`
    """

    def __init__(self) -> None:
        super().__init__(axi_lite_members())

    def elaborate(self, platform: object) -> Module:
        """Fill the buffers, empty them into the port, hold the answers."""
        m = Module()
        bus = self.bus
        port = self.connect_port(m)
        # Answers are kept in `bresp`, `rdata` and `rresp` themselves.
        read = Signal()
        write = Signal()
        waits = {"aw": Signal(name="aw_waits"), "w": Signal(name="w_waits"), "ar": Signal(name="ar_waits")}
        layouts = {"aw": {"addr": ADDRESS_BITS}, "w": {"data": 32, "strb": 4}, "ar": {"addr": ADDRESS_BITS}}
        held: dict[str, Any] = {channel: Signal(data.StructLayout(fields), name=f"{channel}_held", reset_less=True)
                                for channel, fields in layouts.items()}
        for channel, waiting in waits.items():
            ready, valid = getattr(bus, f"{channel}ready"), getattr(bus, f"{channel}valid")
            m.d.comb += ready.eq(~waiting)
            with m.If(~waiting):
                m.d.sync += [waiting.eq(valid),
                             *(held[channel][name].eq(getattr(bus, channel + name)) for name in layouts[channel])]
            with m.Elif(read if channel == "ar" else write):
                m.d.sync += waiting.eq(0)

        write_last = Signal()
        writing = Signal()
        busy = Signal()
        may_write = Signal()
        may_read = Signal()
        m.d.comb += [
            may_write.eq(waits["aw"] & waits["w"] & ~bus.bvalid & ~busy),
            may_read.eq(waits["ar"] & ~bus.rvalid & ~busy),
            write.eq(may_write & ~(may_read & write_last)), read.eq(may_read & ~write),
            port.i.valid.eq(write | read), port.i.payload.write.eq(write),
            port.i.payload.addr.eq(Mux(write, held["aw"].addr, held["ar"].addr)),
            port.i.payload.data.eq(held["w"].data), port.i.payload.strobe.eq(held["w"].strb),
        ]
        with m.If(write | read):
            m.d.sync += [busy.eq(1), writing.eq(write), write_last.eq(write)]
        with m.Elif(port.o.valid):
            m.d.sync += busy.eq(0)
        resp = Mux(port.o.payload.error, _SLVERR, _OKAY)
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(port.o.valid & writing):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(resp)]
        with m.If(port.o.valid & ~writing):
            m.d.sync += [bus.rvalid.eq(1), bus.rresp.eq(resp), bus.rdata.eq(port.o.payload.data)]
        return m
