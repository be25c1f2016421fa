"""APB to the register bus."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.register_port import ADDRESS_BITS, RegisterPort

__all__ = ["ApbBridge", "apb_members"]


def apb_members() -> dict[str, wiring.Member]:
    """Return the signals by their names in AMBA APB4, seen from the completer."""
    return {
        "paddr": In(ADDRESS_BITS), "pprot": In(3), "psel": In(1), "penable": In(1), "pwrite": In(1), "pwdata": In(32),
        "pstrb": In(4), "pready": Out(1), "prdata": Out(32), "pslverr": Out(1),
    }


class ApbBridge(wiring.Component):
    """A completer of APB4; every output is a register.

    `pready` is 1 for the last cycle of a transfer, 6 cycles after its setup, with `pslverr` where `RegisterPort`
    refuses it. `pprot` is ignored. An APB3 requester ties `pstrb` to 15.

    Members
    -------
    bus : In(apb_members)
    reg_* : as of `RegisterPort`
    """

    bus: Any
    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal

    def __init__(self) -> None:
        members = {name: member.flip() for name, member in apb_members().items()}
        super().__init__({
            "bus": In(wiring.Signature(members)),
            "reg_addr": Out(8), "reg_write_en": Out(1), "reg_write_data": Out(32), "reg_read_data": In(32),
        })

    def elaborate(self, platform: object) -> Module:
        """Take what stands on the bus in the setup cycle, answer in the access phase."""
        m = Module()
        bus = self.bus
        m.submodules.port = port = RegisterPort()
        m.d.comb += [
            self.reg_addr.eq(port.reg_addr), self.reg_write_en.eq(port.reg_write_en),
            self.reg_write_data.eq(port.reg_write_data), port.reg_read_data.eq(self.reg_read_data),
        ]
        setup = Signal()
        m.d.comb += setup.eq(bus.psel & ~bus.penable)
        m.d.sync += [
            port.i.payload.addr.eq(bus.paddr), port.i.payload.write.eq(bus.pwrite),
            port.i.payload.data.eq(bus.pwdata), port.i.payload.strobe.eq(bus.pstrb), port.i.valid.eq(setup),
            bus.pready.eq(port.o.valid), bus.pslverr.eq(port.o.valid & port.o.payload.error),
            bus.prdata.eq(port.o.payload.data),
        ]
        return m
