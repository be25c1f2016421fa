"""States of the bridge that receive a request byte by byte, and decide whether it may be executed.

| state | waits for, or does |
|---|---|
| HUNT, SYNC | the two sync bytes |
| HEADER | a byte of the header, which is shifted in |
| SIZE | checks whether data follow, and not too many |
| DATA | a byte of the data, which goes to block RAM |
| CRC | a byte of the checksum |
| SUMMED | the checksum to take in the last byte |
| CHECK | compares the checksum; the answer to a wrong one is BAD_FRAME |
| PLACE, COMPARE | compute the request's first and last address; compare them with the limit |
| DECIDE | status of the first rule that is broken; else READ or FETCH |

A byte that does not come in time leads back to HUNT.
"""

from typing import Any

from amaranth import Cat, Module, Mux

from tq_hw.boards.gateware.frame_state import HEADER, FrameState
from tq_hw.boards.link.protocol import IDENTITY, MOST_BYTES, REQUEST_SYNC, Command, Identity, Result
from tq_hw.hdl.control.registers import ADDRESS_BITS

__all__ = ["decide", "receive"]

#: Commands without bit 0.
_REGISTERS, _MEMORY = Command.READ_REGISTERS >> 1, Command.READ_MEMORY >> 1


def receive(m: Module, bridge: Any, s: FrameState) -> None:
    """Find a frame; receive its header, data and CRC."""
    with m.State("HUNT"):
        m.d.sync += [bridge.busy.eq(0), *s.restart()]
        with m.If(bridge.rx_valid & (bridge.rx_data == REQUEST_SYNC[0])):
            m.next = "SYNC"
    with m.State("SYNC"):
        m.d.comb += s.crc.start.eq(1)
        m.d.sync += s.count.eq(0)
        with m.If(bridge.rx_valid):
            m.d.sync += s.restart()
            with m.If(bridge.rx_data == REQUEST_SYNC[1]):
                m.next = "HEADER"
            with m.Elif(bridge.rx_data != REQUEST_SYNC[0]):
                m.next = "HUNT"
        with m.Elif(s.expired):
            m.next = "HUNT"
    with m.State("HEADER"):
        with m.If(bridge.rx_valid):
            m.d.comb += s.summed.eq(1)
            m.d.sync += [s.header.eq(Cat(s.header.as_value()[8:], bridge.rx_data)), s.count.eq(s.more), *s.restart()]
            with m.If(s.count == HEADER.size // 8 - 1):
                m.next = "SIZE"
        with m.Elif(s.expired):
            m.next = "HUNT"
    with m.State("SIZE"):
        m.d.sync += s.count.eq(0)
        with m.If(~s.is_write | (s.header.size == 0)):
            m.next = "CRC"
        with m.Elif(s.header.size > MOST_BYTES):
            m.next = "HUNT"
        with m.Else():
            m.next = "DATA"
    with m.State("DATA"):
        with m.If(bridge.rx_valid):
            m.d.comb += [s.summed.eq(1), s.store.en.eq(1)]
            m.d.sync += [s.count.eq(s.more), *s.restart()]
            with m.If(s.more == s.header.size):
                m.d.sync += s.count.eq(0)
                m.next = "CRC"
        with m.Elif(s.expired):
            m.next = "HUNT"
    with m.State("CRC"):
        with m.If(bridge.rx_valid):
            m.d.comb += s.summed.eq(1)
            m.d.sync += [s.count.eq(s.more), *s.restart()]
            with m.If(s.count == 3):
                m.next = "SUMMED"
        with m.Elif(s.expired):
            m.next = "HUNT"


def decide(m: Module, bridge: Any, s: FrameState, identity: Identity) -> None:
    """Check a complete frame by the rules of the protocol."""
    limit = Mux(s.is_memory, identity.memory_bytes, Mux(s.is_open, 4 * len(IDENTITY), 1 << ADDRESS_BITS))
    with m.State("SUMMED"):
        m.next = "CHECK"
    with m.State("CHECK"):
        m.d.sync += [
            s.is_open.eq(s.header.command == Command.OPEN), s.is_register.eq(s.header.command[1:] == _REGISTERS),
            s.is_memory.eq(s.header.command[1:] == _MEMORY),
            s.address.eq(s.header.address),
            s.offset.eq(s.header.address - Mux(s.header.command[1:] == _MEMORY, identity.memory_base, 0)),
            s.count.eq(0), s.status.eq(Result.BAD_FRAME), bridge.busy.eq(1),
        ]
        m.next = "ANSWER"
        with m.If(s.crc.match_detected):
            m.next = "PLACE"
    with m.State("PLACE"):
        words = s.header.size[:2] == 0
        m.d.sync += [
            s.end.eq(s.offset + s.header.size), s.known.eq(s.is_open | s.is_register | s.is_memory),
            s.wrong_size.eq((s.header.size == 0) | (s.header.size > MOST_BYTES) | (s.is_register & ~words)
                          | (s.is_open & (s.header.size != 4 * len(IDENTITY)))),
        ]
        m.next = "COMPARE"
    with m.State("COMPARE"):
        m.d.sync += s.beyond.eq((s.end > limit) | (~s.is_memory & (s.address[:2] != 0)))
        m.next = "DECIDE"
    with m.State("DECIDE"):
        m.d.sync += [s.port.strobe.eq(0), *s.restart()]
        m.next = "NOTE"
        with m.If(~s.is_open & ((s.header.session != s.session) | (s.session == 0))):
            m.d.sync += s.status.eq(Result.NO_SESSION)
            m.next = "ANSWER"
        with m.Elif(~s.known):
            m.d.sync += s.status.eq(Result.BAD_COMMAND)
        with m.Elif(s.wrong_size):
            m.d.sync += s.status.eq(Result.BAD_SIZE)
        with m.Elif(s.beyond):
            m.d.sync += s.status.eq(Result.BAD_ADDRESS)
        with m.Elif(s.is_write & s.last_write & (s.header.sequence == s.last_sequence)):
            m.d.sync += s.status.eq(s.last_status)
        with m.Else():
            m.d.sync += s.status.eq(Result.OK)
            with m.If(s.is_open):
                m.d.sync += s.session.eq(s.header.session)
            with m.If(s.is_write):
                m.next = "FETCH"
            with m.Else():
                m.next = "READ"
