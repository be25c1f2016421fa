"""APB to the register bus."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.register_port import ADDRESS_BITS, RegisterBridge

__all__ = ["ApbBridge", "apb_members"]


def apb_members() -> dict[str, wiring.Member]:
    """Return the signals by their names in AMBA APB4, seen from the completer."""
    return {
        "paddr": In(ADDRESS_BITS), "pprot": In(3), "psel": In(1), "penable": In(1), "pwrite": In(1), "pwdata": In(32),
        "pstrb": In(4), "pready": Out(1), "prdata": Out(32), "pslverr": Out(1),
    }


class ApbBridge(RegisterBridge):
    """A completer of APB4. Every output is a register.

    `pready` is 1 in the last cycle of a transfer, 6 cycles after its setup, with `pslverr` if `RegisterPort`
    refuses it. `pprot` is ignored. An APB3 requester ties `pstrb` to 15.

    Members
    -------
    bus : In(apb_members)
    reg_* : as of `RegisterPort`
    """

    def __init__(self) -> None:
        super().__init__(apb_members())

    def elaborate(self, platform: object) -> Module:
        """Take the access in the setup cycle, answer it in the access phase."""
        m = Module()
        bus = self.bus
        port = self.connect_port(m)
        setup = Signal()
        m.d.comb += setup.eq(bus.psel & ~bus.penable)
        m.d.sync += [
            port.i.payload.addr.eq(bus.paddr), port.i.payload.write.eq(bus.pwrite),
            port.i.payload.data.eq(bus.pwdata), port.i.payload.strobe.eq(bus.pstrb), port.i.valid.eq(setup),
            bus.pready.eq(port.o.valid), bus.pslverr.eq(port.o.valid & port.o.payload.error),
            bus.prdata.eq(port.o.payload.data),
        ]
        return m
