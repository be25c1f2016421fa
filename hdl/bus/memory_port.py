"""Single-beat memory accesses over AXI4."""

from typing import Any

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.isa.config import Config

__all__ = ["MemoryPort"]


class MemoryPort(wiring.Component):
    """Read or write one word of the bus. An access stays pending until memory answers, even if nobody waits for it.

    Members
    -------
    read, write : In(1), strobes while `pending` is 0
    addr : In(32), byte address, whose lowest bits are ignored; data : In(8 * bus_bytes); strobe : In(bus_bytes)
    pending : Out(1), an access is in progress, from the cycle after the strobe on
    failed : Out(1), the memory answered with an error, or with more than one beat; came : Out(8 * bus_bytes), the
        word read; both valid from the fall of `pending` to the next strobe
    bus : Out(AXI4 signals of hdl/bus/axi.py); every output is a register
    """

    read: Signal
    write: Signal
    addr: Signal
    data: Signal
    strobe: Signal
    pending: Signal
    failed: Signal
    came: Signal
    bus: Any

    def __init__(self, config: Config) -> None:
        self._bus_bytes = config.bus_bytes
        bits = 8 * config.bus_bytes
        super().__init__({
            "read": In(1), "write": In(1), "addr": In(32), "data": In(bits), "strobe": In(config.bus_bytes),
            "pending": Out(1), "failed": Out(1), "came": Out(bits),
            "bus": Out(wiring.Signature(read_members(config) | write_members(config))),
        })

    def elaborate(self, platform: object) -> Module:
        """Hold each `valid` until its `ready`."""
        m = Module()
        bus = self.bus
        low_bits = ceil_log2(self._bus_bytes)
        word = Cat(Const(0, low_bits), self.addr[low_bits:])
        m.d.comb += [
            bus.arid.eq(0), bus.arlen.eq(0), bus.arsize.eq(low_bits), bus.arburst.eq(1), bus.arcache.eq(3),
            bus.arprot.eq(0), bus.rready.eq(1),
            bus.awid.eq(0), bus.awlen.eq(0), bus.awsize.eq(low_bits), bus.awburst.eq(1), bus.awcache.eq(3),
            bus.awprot.eq(0), bus.wlast.eq(1), bus.bready.eq(1),
        ]
        for valid, ready in ((bus.arvalid, bus.arready), (bus.awvalid, bus.awready), (bus.wvalid, bus.wready)):
            with m.If(valid & ready):
                m.d.sync += valid.eq(0)
        reads = Signal()
        with m.If(bus.rvalid & reads):
            m.d.sync += [self.pending.eq(0), self.failed.eq(bus.rresp[1] | ~bus.rlast), self.came.eq(bus.rdata),
                         reads.eq(0)]
        with m.If(bus.bvalid & ~reads):
            m.d.sync += [self.pending.eq(0), self.failed.eq(bus.bresp[1])]
        with m.If(self.read):
            m.d.sync += [self.pending.eq(1), reads.eq(1), bus.araddr.eq(word), bus.arvalid.eq(1)]
        with m.If(self.write):
            m.d.sync += [self.pending.eq(1), bus.awaddr.eq(word), bus.awvalid.eq(1), bus.wvalid.eq(1),
                         bus.wdata.eq(self.data), bus.wstrb.eq(self.strobe)]
        return m
