"""The board's end of the link: requests to register accesses and memory bursts of one beat.

Frames and rules are those of boards/link/protocol.py.
"""

from typing import Any

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from tq_hw.boards.link.memory_port import MemoryPort
from tq_hw.boards.link.protocol import (
    ANSWER_SYNC,
    GAP_SECONDS,
    IDENTITY,
    MOST_BYTES,
    REQUEST_SYNC,
    VERSION,
    Command,
    Identity,
    Result,
)
from tq_hw.boards.link.uart import UartReceiver, UartTransmitter, bit_cycles
from tq_hw.hdl.axi import read_members, write_members
from tq_hw.hdl.block_memory import block_memory, block_read
from tq_hw.hdl.registers import ADDRESS_BITS
from tq_hw.isa.config import Config

__all__ = ["Bridge", "UartBridge", "bus_members"]

#: Commands without bit 0.
_REGISTERS, _MEMORY = Command.READ_REGISTERS >> 1, Command.READ_MEMORY >> 1
_HEADER = data.StructLayout({"command": 8, "sequence": 8, "session": 16, "size": 16, "address": 32})
_ANSWER_BYTES = 6


def bus_members(config: Config) -> dict[str, wiring.Member]:
    """Return the ports to registers and memory, seen from the master, by the accelerator's names."""
    bus = write_members(config) | read_members(config)
    return {
        **{f"m_axi_{name}": member for name, member in bus.items()},
        "reg_addr": Out(ADDRESS_BITS), "reg_write_en": Out(1), "reg_write_data": Out(32), "reg_read_data": In(32),
    }


class Bridge(wiring.Component):
    """The link on bytes.

    Every output is a register; no path leads from an input to an output. One burst of one beat is open at a time, with
    id 0. A byte of data takes six cycles at most, a beat the memory's latency beside.

    Parameters
    ----------
    config : of the accelerator
    identity : what OPEN answers
    gap_cycles : after this time without a byte a frame is forgotten, a memory that does not answer is given up

    Members
    -------
    rx_valid : In(1), strobe: a byte came, at least four cycles after the one before; rx_data : In(8), with it
    tx : Out(stream of 8 bits)
    busy : Out(1), a request is being executed or answered: bytes that come now are lost
    m_axi_* : AXI4 master of hdl/axi.py
    reg_addr, reg_write_en, reg_write_data : Out; reg_read_data : In(32), one cycle after `reg_addr`
    """

    rx_valid: Signal
    rx_data: Signal
    tx: stream.Interface
    busy: Signal
    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal

    def __init__(self, config: Config, identity: Identity, gap_cycles: int) -> None:
        self._config, self._identity, self._gap_cycles = config, identity, gap_cycles
        super().__init__({"rx_valid": In(1), "rx_data": In(8), "tx": Out(stream.Signature(8)), "busy": Out(1),
                          **bus_members(config)})

    def elaborate(self, platform: object) -> Module:
        """Receive, decide, execute, answer."""
        m = Module()
        bus_bytes = self._config.bus_bytes
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.memory = memory = block_memory(8, MOST_BYTES)
        store = memory.write_port()

        header: Any = Signal(_HEADER)
        address = Signal(32)
        count = Signal(range(MOST_BYTES + 1))
        more = Signal(range(MOST_BYTES + 1))
        status = Signal(8)
        session, last_sequence, last_status, last_write = Signal(16), Signal(8), Signal(8), Signal()
        timer = Signal(range(self._gap_cycles + 1))
        expired = Signal()
        # The CRC takes a byte one cycle after it is there.
        summed, put, tx_byte = Signal(), Signal(), Signal(8)
        m.d.comb += more.eq(count + 1)
        m.d.sync += [crc.valid.eq(summed), crc.data.eq(Mux(self.busy, tx_byte, self.rx_data))]
        m.d.sync += [timer.eq(timer + ~expired), expired.eq(timer >= self._gap_cycles - 1)]

        def restart_timer() -> list[Any]:
            return [timer.eq(0), expired.eq(0)]

        # Block RAM is slow to give its data, so they get a register of their own.
        fetched = Signal(8, reset_less=True)
        m.d.sync += fetched.eq(block_read(m, memory, ~store.en, count[:8], "stored"))
        with m.If(self.tx.valid & self.tx.ready):
            m.d.sync += self.tx.valid.eq(0)
        with m.If(put):
            m.d.sync += [self.tx.valid.eq(1), self.tx.payload.eq(tx_byte)]

        word = address[:ADDRESS_BITS] & ~3
        beat: Any = Signal(data.ArrayLayout(8, bus_bytes))
        m.submodules.port = port = MemoryPort(self._config)
        for name, member in port.bus.signature.members.items():
            outer, inner = getattr(self, f"m_axi_{name}"), getattr(port.bus, name)
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        m.d.comb += [port.addr.eq(address), port.data.eq(beat)]

        is_open, is_register, is_memory, is_write = Signal(), Signal(), Signal(), Signal()
        lane = Signal(range(max(bus_bytes, 2)))
        last_lane = Signal()
        m.d.comb += [
            is_write.eq(header.command[0]),
            lane.eq(Mux(is_memory, address & (bus_bytes - 1), address[:2])),
            last_lane.eq(lane == Mux(is_memory, bus_bytes - 1, 3)),
        ]
        identity = Array(getattr(self._identity, word.name) for word in IDENTITY)
        end = Signal(33)
        offset = Signal(32)
        beyond, wrong_size, known = Signal(), Signal(), Signal()
        limit = Mux(is_memory, self._identity.memory_bytes, Mux(is_open, 4 * len(IDENTITY), 1 << ADDRESS_BITS))
        m.d.sync += self.reg_write_en.eq(0)

        with m.FSM(name="state"):
            with m.State("HUNT"):
                m.d.sync += [self.busy.eq(0), *restart_timer()]
                with m.If(self.rx_valid & (self.rx_data == REQUEST_SYNC[0])):
                    m.next = "SYNC"
            with m.State("SYNC"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += count.eq(0)
                with m.If(self.rx_valid):
                    m.d.sync += restart_timer()
                    with m.If(self.rx_data == REQUEST_SYNC[1]):
                        m.next = "HEADER"
                    with m.Elif(self.rx_data != REQUEST_SYNC[0]):
                        m.next = "HUNT"
                with m.Elif(expired):
                    m.next = "HUNT"
            with m.State("HEADER"):
                with m.If(self.rx_valid):
                    m.d.comb += summed.eq(1)
                    m.d.sync += [header.eq(Cat(header.as_value()[8:], self.rx_data)), count.eq(more), *restart_timer()]
                    with m.If(count == _HEADER.size // 8 - 1):
                        m.next = "SIZE"
                with m.Elif(expired):
                    m.next = "HUNT"
            with m.State("SIZE"):
                m.d.sync += count.eq(0)
                with m.If(~is_write | (header.size == 0)):
                    m.next = "CRC"
                with m.Elif(header.size > MOST_BYTES):
                    m.next = "HUNT"
                with m.Else():
                    m.next = "DATA"
            with m.State("DATA"):
                with m.If(self.rx_valid):
                    m.d.comb += [summed.eq(1), store.en.eq(1)]
                    m.d.sync += [count.eq(more), *restart_timer()]
                    with m.If(more == header.size):
                        m.d.sync += count.eq(0)
                        m.next = "CRC"
                with m.Elif(expired):
                    m.next = "HUNT"
            with m.State("CRC"):
                with m.If(self.rx_valid):
                    m.d.comb += summed.eq(1)
                    m.d.sync += [count.eq(more), *restart_timer()]
                    with m.If(count == 3):
                        m.next = "SUMMED"
                with m.Elif(expired):
                    m.next = "HUNT"

            with m.State("SUMMED"):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [
                    is_open.eq(header.command == Command.OPEN), is_register.eq(header.command[1:] == _REGISTERS),
                    is_memory.eq(header.command[1:] == _MEMORY),
                    address.eq(header.address),
                    offset.eq(header.address - Mux(header.command[1:] == _MEMORY, self._identity.memory_base, 0)),
                    count.eq(0), status.eq(Result.BAD_FRAME), self.busy.eq(1),
                ]
                m.next = "ANSWER"
                with m.If(crc.match_detected):
                    m.next = "PLACE"
            with m.State("PLACE"):
                words = header.size[:2] == 0
                m.d.sync += [
                    end.eq(offset + header.size), known.eq(is_open | is_register | is_memory),
                    wrong_size.eq((header.size == 0) | (header.size > MOST_BYTES) | (is_register & ~words)
                                  | (is_open & (header.size != 4 * len(IDENTITY)))),
                ]
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.sync += beyond.eq((end > limit) | (~is_memory & (address[:2] != 0)))
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += [port.strobe.eq(0), *restart_timer()]
                m.next = "NOTE"
                with m.If(~is_open & ((header.session != session) | (session == 0))):
                    m.d.sync += status.eq(Result.NO_SESSION)
                    m.next = "ANSWER"
                with m.Elif(~known):
                    m.d.sync += status.eq(Result.BAD_COMMAND)
                with m.Elif(wrong_size):
                    m.d.sync += status.eq(Result.BAD_SIZE)
                with m.Elif(beyond):
                    m.d.sync += status.eq(Result.BAD_ADDRESS)
                with m.Elif(is_write & last_write & (header.sequence == last_sequence)):
                    m.d.sync += status.eq(last_status)
                with m.Else():
                    m.d.sync += status.eq(Result.OK)
                    with m.If(is_open):
                        m.d.sync += session.eq(header.session)
                    with m.If(is_write):
                        m.next = "FETCH"
                    with m.Else():
                        m.next = "READ"

            with m.State("FETCH"):
                m.next = "FETCHED"
            with m.State("FETCHED"):
                m.next = "FILL"
            with m.State("FILL"):
                m.d.sync += [beat[lane].eq(fetched), port.strobe.eq(port.strobe | (1 << lane)), count.eq(more)]
                with m.If(last_lane | (more == header.size)):
                    m.next = "WRITE"
                with m.Else():
                    m.d.sync += address.eq(address + 1)
                    m.next = "FETCH"
            with m.State("WRITE"):
                with m.If(is_register):
                    m.d.sync += [self.reg_addr.eq(word), self.reg_write_en.eq(1),
                                 self.reg_write_data.eq(beat.as_value())]
                    m.next = "WRITTEN"
                with m.Elif(~port.pending):
                    m.d.comb += port.write.eq(1)
                    m.d.sync += restart_timer()
                    m.next = "WRITTEN"
                with m.Elif(expired):
                    m.d.sync += status.eq(Result.BUS_TIMEOUT)
                    m.next = "NOTE"
            with m.State("WRITTEN"):
                with m.If(is_register | ~port.pending):
                    m.d.sync += [address.eq(address + 1), port.strobe.eq(0)]
                    m.next = "FETCH"
                    with m.If(is_memory & port.failed):
                        m.d.sync += status.eq(Result.BUS_ERROR)
                        m.next = "NOTE"
                    with m.Elif(count == header.size):
                        m.next = "NOTE"
                with m.Elif(expired):
                    m.d.sync += status.eq(Result.BUS_TIMEOUT)
                    m.next = "NOTE"

            with m.State("READ"):
                m.d.sync += self.reg_addr.eq(word)
                with m.If(~is_memory):
                    m.next = "LOOK"
                with m.Elif(~port.pending):
                    m.d.comb += port.read.eq(1)
                    m.d.sync += restart_timer()
                    m.next = "AWAIT"
                with m.Elif(expired):
                    m.d.sync += status.eq(Result.BUS_TIMEOUT)
                    m.next = "NOTE"
            with m.State("LOOK"):
                m.next = "SEE"
            with m.State("SEE"):
                m.d.sync += beat.eq(Mux(is_open, identity[address[2:5]], self.reg_read_data))
                m.next = "KEEP"
            with m.State("AWAIT"):
                m.d.sync += beat.eq(port.came)
                with m.If(~port.pending):
                    m.next = "KEEP"
                    with m.If(port.failed):
                        m.d.sync += status.eq(Result.BUS_ERROR)
                        m.next = "NOTE"
                with m.Elif(expired):
                    m.d.sync += status.eq(Result.BUS_TIMEOUT)
                    m.next = "NOTE"
            with m.State("KEEP"):
                m.d.comb += store.en.eq(1)
                m.d.sync += [count.eq(more), address.eq(address + 1)]
                with m.If(more == header.size):
                    m.next = "NOTE"
                with m.Elif(last_lane):
                    m.next = "READ"

            with m.State("NOTE"):
                m.d.sync += [last_sequence.eq(header.sequence), last_status.eq(status), last_write.eq(is_write)]
                m.next = "ANSWER"
            with m.State("ANSWER"):
                answered = Mux((status == Result.OK) & ~is_write, header.size, 0)
                m.d.sync += [header.size.eq(answered), header.command.eq(status), count.eq(0)]
                m.next = "MARK"
            with m.State("MARK"):
                m.d.comb += [tx_byte.eq(Mux(count[0], ANSWER_SYNC[1], ANSWER_SYNC[0])), crc.start.eq(1)]
                with m.If(~self.tx.valid):
                    m.d.comb += put.eq(1)
                    m.d.sync += count.eq(more)
                    with m.If(count[0]):
                        m.d.sync += [count.eq(0), end.eq(header.size)]
                        m.next = "HEAD"
            with m.State("HEAD"):
                m.d.comb += tx_byte.eq(header.command)
                with m.If(~self.tx.valid):
                    m.d.comb += [put.eq(1), summed.eq(1)]
                    m.d.sync += [header.eq(header.as_value()[8:]), count.eq(more)]
                    with m.If(count == _ANSWER_BYTES - 1):
                        m.d.sync += count.eq(0)
                        m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "TAIL"
                with m.If(count != end[:9]):
                    m.next = "LOADED"
            with m.State("LOADED"):
                m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += tx_byte.eq(fetched)
                with m.If(~self.tx.valid):
                    m.d.comb += [put.eq(1), summed.eq(1)]
                    m.d.sync += count.eq(more)
                    m.next = "NEXT"
            with m.State("TAIL"):
                m.d.sync += [header.as_value()[:32].eq(crc.crc), count.eq(0)]
                m.next = "SUM"
            with m.State("SUM"):
                m.d.comb += tx_byte.eq(header.command)
                with m.If(~self.tx.valid):
                    m.d.comb += put.eq(1)
                    m.d.sync += [header.eq(header.as_value()[8:]), count.eq(more)]
                    with m.If(count == 3):
                        m.next = "HUNT"

        m.d.comb += [
            store.addr.eq(count[:8]), store.data.eq(Mux(self.busy, beat[lane], self.rx_data)),
        ]
        return m


class UartBridge(wiring.Component):
    """The link on the pins of a UART.

    Parameters
    ----------
    config : of the accelerator
    clock_hz, baud : ValueError if the clock cannot give the baud rate
    memory_base, memory_bytes : byte addresses that the host may use; multiples of 256

    Members
    -------
    rx : In(1); tx : Out(1); both high when idle
    m_axi_*, reg_* : as of `Bridge`
    """

    rx: Signal
    tx: Signal

    def __init__(self, config: Config, clock_hz: float, baud: int, *, memory_bytes: int, memory_base: int = 0) -> None:
        self._cycles = bit_cycles(clock_hz, baud)
        self._config, self._gap_cycles = config, round(clock_hz * GAP_SECONDS)
        self._identity = Identity(VERSION, config.fingerprint, memory_base, memory_bytes, MOST_BYTES, round(clock_hz))
        self._members = bus_members(config)
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), **self._members})

    def elaborate(self, platform: object) -> Module:
        """Put the UART before the bridge."""
        m = Module()
        m.submodules.bridge = bridge = Bridge(self._config, self._identity, self._gap_cycles)
        m.submodules.receiver = receiver = UartReceiver(self._cycles)
        m.submodules.transmitter = transmitter = UartTransmitter(self._cycles)
        m.d.comb += [
            receiver.rx.eq(self.rx), bridge.rx_valid.eq(receiver.valid), bridge.rx_data.eq(receiver.data),
            self.tx.eq(transmitter.tx),
        ]
        wiring.connect(m, bridge.tx, transmitter.i)
        for name, member in self._members.items():
            outer, inner = getattr(self, name), getattr(bridge, name)
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        return m
