"""Signals of the AXI4 master, and the bursts and beats that its clients pass to its channels.

Fetch and load share the read channel (`hdl.bus.read_channel`). Store has the write channel (`hdl.bus.write_channel`).

Addresses have 32 bits, data `bus_bytes`. Bursts are INCR, at most 256 bytes long, and never cross a 256-byte boundary
(so never 4 KiB). Read id 0 is fetch, 1 is load; writes have id 0. Responses of the two read ids may arrive in any order
and interleaved. `rready` and `bready` are constantly 1, because a client reserves space for an answer before it asks.
Every other output is a register.
"""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import Config

__all__ = ["LENGTH_BITS", "BurstLayout", "MemoryReadSignature", "ReadBurstLayout", "WriteBeatLayout", "read_members",
           "write_members"]

#: Bits of a burst's length, beats less one.
LENGTH_BITS = 8


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
    """A burst: first byte (a multiple of bus_bytes), beats less one, and a flag that is returned with the answer."""

    def __init__(self) -> None:
        super().__init__({"addr": 32, "length": LENGTH_BITS, "last": 1})


class ReadBurstLayout(data.StructLayout):
    """A read burst: first byte (a multiple of bus_bytes), beats less one, low bits of its operation's number."""

    def __init__(self) -> None:
        super().__init__({"addr": 32, "length": LENGTH_BITS, "number": NUMBER_BITS})


class WriteBeatLayout(data.StructLayout):
    """One beat of write data; `last` ends the burst."""

    def __init__(self, config: Config) -> None:
        super().__init__({"data": 8 * config.bus_bytes, "strobe": config.bus_bytes, "last": 1})


class MemoryReadSignature(wiring.Signature):
    """A client's interface for memory reads.

    Members
    -------
    burst : Out(stream of ReadBurstLayout)
    data : In(8 * bus_bytes); valid : In(1): the next beat of the client's bursts, in order; it must be taken at once
    error : In(1), strobe: the memory answered with an error, or ended a burst at the wrong beat; error_at : In,
        the number of that burst's operation
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "burst": Out(stream.Signature(ReadBurstLayout())),
            "data": In(8 * config.bus_bytes), "valid": In(1), "error": In(1), "error_at": In(NUMBER_BITS),
        })
