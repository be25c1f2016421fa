"""Wishbone classic to the register bus."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.register_port import ADDRESS_BITS, RegisterBridge

__all__ = ["WishboneBridge", "wishbone_members"]


def wishbone_members() -> dict[str, wiring.Member]:
    """Return the signals, seen from the slave; `adr` counts words."""
    return {
        "adr": In(ADDRESS_BITS - 2), "dat_w": In(32), "dat_r": Out(32), "sel": In(4), "we": In(1), "cyc": In(1),
        "stb": In(1), "ack": Out(1), "err": Out(1),
    }


class WishboneBridge(RegisterBridge):
    """A slave of classic cycles (Wishbone B4), single or block. Every output is a register.

    An access ends with `ack`, or with `err` if `RegisterPort` refuses it, 6 cycles after it began, for one cycle. A
    master that drops `cyc` or `stb` before gets neither; its write may still have taken effect.

    Members
    -------
    bus : In(wishbone_members)
    reg_* : as of `RegisterPort`
    """

    def __init__(self) -> None:
        super().__init__(wishbone_members())

    def elaborate(self, platform: object) -> Module:
        """Register the access, carry it out, answer for one cycle."""
        m = Module()
        bus = self.bus
        port = self.connect_port(m)
        asks = Signal()
        withdrawn = Signal()
        m.d.sync += [
            port.i.payload.addr.eq(bus.adr << 2), port.i.payload.write.eq(bus.we), port.i.payload.data.eq(bus.dat_w),
            port.i.payload.strobe.eq(bus.sel), bus.ack.eq(0), bus.err.eq(0), port.i.valid.eq(0),
        ]
        m.d.comb += asks.eq(bus.cyc & bus.stb)
        with m.FSM(name="state"):
            with m.State("IDLE"):
                m.d.sync += withdrawn.eq(0)
                with m.If(asks):
                    m.d.sync += port.i.valid.eq(1)
                    m.next = "ACCESS"
            with m.State("ACCESS"):
                with m.If(~asks):
                    m.d.sync += withdrawn.eq(1)
                with m.If(port.o.valid):
                    m.d.sync += bus.dat_r.eq(port.o.payload.data)
                    m.next = "IDLE"
                    with m.If(asks & ~withdrawn):
                        m.d.sync += [bus.ack.eq(~port.o.payload.error), bus.err.eq(port.o.payload.error)]
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.next = "IDLE"
        return m
