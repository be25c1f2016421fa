"""States of the bridge that answer a request: status, data and CRC, byte by byte.

| state | waits for, or does |
|---|---|
| NOTE | keeps sequence number and status, in case the request is repeated |
| ANSWER | turns the request's header into the answer's |
| MARK | sends the two sync bytes |
| HEAD | sends a byte of the header, which is shifted out |
| NEXT | checks whether a data byte remains |
| LOADED, BODY | wait for a byte from block RAM; send it |
| TAIL | loads the checksum into the header's register |
| SUM | sends a byte of the checksum |
"""

from typing import Any

from amaranth import Module, Mux

from tq_hw.boards.gateware.frame_state import FrameState
from tq_hw.boards.link.protocol import ANSWER_SYNC, CRC_BYTES, Result

__all__ = ["answer"]

_ANSWER_BYTES = 6


def answer(m: Module, bridge: Any, s: FrameState) -> None:
    """Send status, data and CRC."""
    with m.State("NOTE"):
        m.d.sync += [s.last_sequence.eq(s.header.sequence), s.last_status.eq(s.status), s.last_write.eq(s.is_write)]
        m.next = "ANSWER"
    with m.State("ANSWER"):
        answered = Mux((s.status == Result.OK) & ~s.is_write, s.header.size, 0)
        m.d.sync += [s.header.size.eq(answered), s.header.command.eq(s.status), s.count.eq(0)]
        m.next = "MARK"
    with m.State("MARK"):
        m.d.comb += [s.tx_byte.eq(Mux(s.count[0], ANSWER_SYNC[1], ANSWER_SYNC[0])), s.crc.start.eq(1)]
        with m.If(~bridge.tx.valid):
            m.d.comb += s.put.eq(1)
            m.d.sync += s.count.eq(s.more)
            with m.If(s.count[0]):
                m.d.sync += [s.count.eq(0), s.end.eq(s.header.size)]
                m.next = "HEAD"
    with m.State("NEXT"):
        m.next = "TAIL"
        with m.If(s.count != s.end[:9]):
            m.next = "LOADED"
    with m.State("LOADED"):
        m.next = "BODY"
    with m.State("BODY"):
        m.d.comb += s.tx_byte.eq(s.fetched)
        with m.If(~bridge.tx.valid):
            m.d.comb += [s.put.eq(1), s.summed.eq(1)]
            m.d.sync += s.count.eq(s.more)
            m.next = "NEXT"
    with m.State("TAIL"):
        m.d.sync += [s.header.as_value()[:32].eq(s.crc.crc), s.count.eq(0)]
        m.next = "SUM"
    # Header and CRC use the same output register.
    for state, most, summed, after in (("HEAD", _ANSWER_BYTES, 1, "NEXT"), ("SUM", CRC_BYTES, 0, "HUNT")):
        with m.State(state):
            m.d.comb += s.tx_byte.eq(s.header.command)
            with m.If(~bridge.tx.valid):
                m.d.comb += [s.put.eq(1), s.summed.eq(summed)]
                m.d.sync += [s.header.eq(s.header.as_value()[8:]), s.count.eq(s.more)]
                with m.If(s.count == most - 1):
                    m.d.sync += s.count.eq(0)
                    m.next = after
