"""Shared state of the bridge: the current frame, and the parts that every FSM state uses.

A frame is received, executed and answered before the next one is accepted. So request and answer share one shift
register, counter, checksum and block RAM. Decision 0023 says why these are no streams.
"""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC

from tq_hw.boards.link.protocol import MOST_BYTES
from tq_hw.hdl.bus.memory_port import MemoryPort
from tq_hw.hdl.control.registers import ADDRESS_BITS
from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.isa.config import Config

__all__ = ["HEADER", "FrameState"]

#: A request's header, without its sync bytes.
HEADER = data.StructLayout({"command": 8, "sequence": 8, "session": 16, "size": 16, "address": 32})


class FrameState:
    """The shared signals, by the group of states that drives them.

    Members
    -------
    of all:
        header : of the request, then of the answer; shifted through byte by byte
        count : bytes of the current part; `more` is one more
        last : `count` is at the last byte of the data, one cycle after `header`
        timer, expired : since the last byte or memory access
        crc, summed : the checksum is updated by a byte one cycle after `summed`
        store : writes the frame's data to block RAM; fetched : the byte at `count`, two cycles later
    of the decision:
        is_open, is_register, is_memory, is_write, known : kind of request
        offset, end, beyond, wrong_size : whether it may be executed
        session : of the host that opened the link
        status : of the answer; execution may still change it
    of the execution:
        address : of the next byte to write or to read; lane, last_lane : its position in a word; word : of registers
        port, beat : to memory, and the word that is written or read
    of the answer:
        put, tx_byte : send a byte
        last_sequence, last_status, last_write : of the previous request, which may be repeated
    """

    def __init__(self, m: Module, bridge: Any, config: Config, gap_cycles: int) -> None:
        self.crc: Any = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.crc = self.crc
        m.submodules.memory = memory = block_memory(8, MOST_BYTES)
        m.submodules.port = self.port = MemoryPort(config)
        self.store = memory.write_port()
        self.header: Any = Signal(HEADER)
        self.address = Signal(32)
        self.count = Signal(range(MOST_BYTES + 1))
        self.more = Signal(range(MOST_BYTES + 1))
        self.last = Signal(range(MOST_BYTES + 1))
        self.status = Signal(8)
        self.session = Signal(16)
        self.last_sequence = Signal(8)
        self.last_status = Signal(8)
        self.last_write = Signal()
        self.timer = Signal(range(gap_cycles + 1))
        self.expired = Signal()
        self.summed = Signal()
        self.put = Signal()
        self.tx_byte = Signal(8)
        self.fetched = Signal(8, reset_less=True)
        self.beat: Any = Signal(data.ArrayLayout(8, config.bus_bytes))
        self.is_open = Signal()
        self.is_register = Signal()
        self.is_memory = Signal()
        self.is_write = Signal()
        self.lane = Signal(range(max(config.bus_bytes, 2)))
        self.last_lane = Signal()
        self.end = Signal(33)
        self.offset = Signal(32)
        self.beyond = Signal()
        self.wrong_size = Signal()
        self.known = Signal()
        self.word = self.address[:ADDRESS_BITS] & ~3
        m.d.comb += [
            self.more.eq(self.count + 1), self.is_write.eq(self.header.command[0]),
            self.lane.eq(Mux(self.is_memory, self.address & (config.bus_bytes - 1), self.address[:2])),
            self.last_lane.eq(self.lane == Mux(self.is_memory, config.bus_bytes - 1, 3)),
            self.port.addr.eq(self.address), self.port.data.eq(self.beat),
            self.store.addr.eq(self.count[:8]),
            self.store.data.eq(Mux(bridge.busy, self.beat.as_value().word_select(self.lane, 8), bridge.rx_data)),
        ]
        m.d.sync += [
            self.last.eq(self.header.size - 1),
            self.crc.valid.eq(self.summed), self.crc.data.eq(Mux(bridge.busy, self.tx_byte, bridge.rx_data)),
            self.timer.eq(self.timer + ~self.expired), self.expired.eq(self.timer >= gap_cycles - 1),
            # Block RAM outputs are slow, so they get a register of their own.
            self.fetched.eq(block_read(m, memory, ~self.store.en, self.count[:8], "stored")),
        ]

    def restart(self) -> list[Any]:
        """Return the statements that reset the timer."""
        return [self.timer.eq(0), self.expired.eq(0)]
