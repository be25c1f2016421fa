"""The bridge from the machine's AXI4 to a Wishbone master with bursts."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.isa.config import Config

__all__ = ["WishboneMaster", "wishbone_master_members"]

_SLVERR = 2


def wishbone_master_members(config: Config) -> dict[str, wiring.Member]:
    """Return the signals, seen from the master; `adr` counts words of `bus_bytes`."""
    bits = 8 * config.bus_bytes
    return {
        "adr": Out(32 - ceil_log2(config.bus_bytes)), "dat_w": Out(bits), "dat_r": In(bits),
        "sel": Out(config.bus_bytes), "we": Out(1), "cyc": Out(1), "stb": Out(1), "cti": Out(3), "bte": Out(2),
        "ack": In(1), "err": In(1),
    }


class WishboneMaster(wiring.Component):
    """A master of classic cycles with registered feedback (Wishbone B4): one burst of the machine is one cycle.

    `cti` is 2 (incrementing burst) until the last word, then 7 (end of burst); `bte` is 0 (linear). A slave that
    ignores them sees a block of classic cycles. It may answer in the cycle of the request or in any later one. `err`
    fails one word, and the rest of the burst is still requested. `cyc` falls for one cycle between bursts; waiting
    reads and writes alternate. Reads select all bytes. Every output is a register or constant.

    A burst of n words takes n + 1 cycles plus the slave's wait states; only one is in progress. Within a write burst
    `stb` falls while the machine has no word, but the machine starts no burst before all its words are available.

    Members
    -------
    axi : In(AXI4 signals of hdl/bus/axi.py), whose `rready` and `bready` are always 1
    bus : Out(wishbone_master_members)
    """

    axi: Any
    bus: Any

    def __init__(self, config: Config) -> None:
        self._bus_bytes = config.bus_bytes
        super().__init__({
            "axi": In(wiring.Signature(read_members(config) | write_members(config))),
            "bus": Out(wiring.Signature(wishbone_master_members(config))),
        })

    def elaborate(self, platform: object) -> Module:
        """Accept a burst when none is in progress, then step through its words."""
        m = Module()
        axi, bus = self.axi, self.bus
        low_bits = ceil_log2(self._bus_bytes)
        left = Signal(8)
        last = Signal()
        write_turn = Signal()
        wrong = Signal()
        burst_id = Signal()
        may_read = Signal()
        may_write = Signal()
        read = Signal()
        write = Signal()
        done = Signal()
        m.d.comb += [
            may_read.eq(axi.arvalid & ~bus.cyc), may_write.eq(axi.awvalid & axi.wvalid & ~bus.cyc),
            write.eq(may_write & (write_turn | ~may_read)), read.eq(may_read & ~write),
            axi.arready.eq(read), axi.awready.eq(write), done.eq(bus.stb & (bus.ack | bus.err)),
            # A word is taken with the address, or when the previous word is done.
            axi.wready.eq(write | (bus.cyc & bus.we & ((done & ~last) | ~bus.stb))),
            axi.rvalid.eq(done & ~bus.we), axi.rdata.eq(bus.dat_r), axi.rlast.eq(last), axi.rid.eq(burst_id),
            axi.rresp.eq(Mux(bus.err, _SLVERR, 0)), axi.bid.eq(0), axi.bresp.eq(Mux(wrong, _SLVERR, 0)),
            bus.cti.eq(Cat(last, Const(1, 1), last)), bus.bte.eq(0),
        ]
        m.d.sync += axi.bvalid.eq(done & last & bus.we)
        with m.If(done):
            m.d.sync += [bus.adr.eq(bus.adr + 1), left.eq(left - 1), last.eq(left == 1), wrong.eq(wrong | bus.err)]
            with m.If(last):
                m.d.sync += [bus.cyc.eq(0), bus.stb.eq(0)]
            with m.Elif(bus.we):
                m.d.sync += bus.stb.eq(axi.wvalid)
        with m.Elif(bus.cyc & bus.we & axi.wvalid):
            m.d.sync += bus.stb.eq(1)
        with m.If(read | write):
            length = Mux(write, axi.awlen, axi.arlen)
            m.d.sync += [
                bus.cyc.eq(1), bus.stb.eq(1), bus.we.eq(write), write_turn.eq(read), wrong.eq(0),
                bus.adr.eq(Mux(write, axi.awaddr, axi.araddr)[low_bits:]), left.eq(length), last.eq(length == 0),
                burst_id.eq(axi.arid),
            ]
        with m.If(read):
            m.d.sync += bus.sel.eq(~0)
        with m.If(axi.wready):
            m.d.sync += [bus.dat_w.eq(axi.wdata), bus.sel.eq(axi.wstrb)]
        return m
