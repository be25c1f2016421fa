"""States of the bridge that execute a request: words between the frame and registers, memory or the identity.

| state | waits for, or does |
|---|---|
| FETCH, FETCHED | a byte of the frame, which block RAM gives two cycles after its address |
| FILL | puts the byte into its lane of the word |
| WRITE, WRITTEN | write the word to a register or to memory; wait for the response |
| READ | requests a word |
| LOOK, FIND, SEE | a register's value, two cycles after its address; a word of the identity takes as long |
| AWAIT | the response of memory |
| KEEP | moves the word's bytes to the frame, one a cycle |

Each sequence ends in NOTE, which begins the answer, with a status.
"""

from typing import Any

from amaranth import Array, Module, Mux

from tq_hw.boards.gateware.frame_state import FrameState
from tq_hw.boards.link.protocol import IDENTITY, Identity, Result

__all__ = ["read", "write"]


def write(m: Module, bridge: Any, s: FrameState) -> None:
    """Write the frame's data to registers or memory, word by word: FETCH to WRITTEN."""
    with m.State("FETCH"):
        m.next = "FETCHED"
    with m.State("FETCHED"):
        m.next = "FILL"
    with m.State("FILL"):
        m.d.sync += [s.beat[s.lane].eq(s.fetched), s.port.strobe.eq(s.port.strobe | (1 << s.lane)),
                     s.count.eq(s.more)]
        with m.If(s.last_lane | (s.count == s.last)):
            m.next = "WRITE"
        with m.Else():
            m.d.sync += s.address.eq(s.address + 1)
            m.next = "FETCH"
    with m.State("WRITE"):
        with m.If(s.is_register):
            m.d.sync += [bridge.reg_addr.eq(s.word), bridge.reg_write_en.eq(1),
                         bridge.reg_write_data.eq(s.beat.as_value())]
            m.next = "WRITTEN"
        with m.Elif(~s.port.pending):
            m.d.comb += s.port.write.eq(1)
            m.d.sync += s.restart()
            m.next = "WRITTEN"
        with m.Elif(s.expired):
            m.d.sync += s.status.eq(Result.BUS_TIMEOUT)
            m.next = "NOTE"
    with m.State("WRITTEN"):
        with m.If(s.is_register | ~s.port.pending):
            m.d.sync += [s.address.eq(s.address + 1), s.port.strobe.eq(0)]
            m.next = "FETCH"
            with m.If(s.is_memory & s.port.failed):
                m.d.sync += s.status.eq(Result.BUS_ERROR)
                m.next = "NOTE"
            with m.Elif(s.count == s.header.size):
                m.next = "NOTE"
        with m.Elif(s.expired):
            m.d.sync += s.status.eq(Result.BUS_TIMEOUT)
            m.next = "NOTE"


def read(m: Module, bridge: Any, s: FrameState, identity: Identity) -> None:
    """Collect registers, memory or the identity, word by word: READ to KEEP."""
    words = Array(getattr(identity, word.name) for word in IDENTITY)
    with m.State("READ"):
        m.d.sync += bridge.reg_addr.eq(s.word)
        with m.If(~s.is_memory):
            m.next = "LOOK"
        with m.Elif(~s.port.pending):
            m.d.comb += s.port.read.eq(1)
            m.d.sync += s.restart()
            m.next = "AWAIT"
        with m.Elif(s.expired):
            m.d.sync += s.status.eq(Result.BUS_TIMEOUT)
            m.next = "NOTE"
    with m.State("LOOK"):
        m.next = "FIND"
    with m.State("FIND"):
        m.next = "SEE"
    with m.State("SEE"):
        m.d.sync += s.beat.eq(Mux(s.is_open, words[s.address[2:5]], bridge.reg_read_data))
        m.next = "KEEP"
    with m.State("AWAIT"):
        m.d.sync += s.beat.eq(s.port.came)
        with m.If(~s.port.pending):
            m.next = "KEEP"
            with m.If(s.port.failed):
                m.d.sync += s.status.eq(Result.BUS_ERROR)
                m.next = "NOTE"
        with m.Elif(s.expired):
            m.d.sync += s.status.eq(Result.BUS_TIMEOUT)
            m.next = "NOTE"
    with m.State("KEEP"):
        m.d.comb += s.store.en.eq(1)
        m.d.sync += [s.count.eq(s.more), s.address.eq(s.address + 1)]
        with m.If(s.count == s.last):
            m.next = "NOTE"
        with m.Elif(s.last_lane):
            m.next = "READ"
