"""The board's end of the link: requests to register accesses and memory bursts of one beat.

Frames and rules are those of boards/link/protocol.py.
"""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.frame_state import HEADER, FrameState
from tq_hw.boards.gateware.uart import UartReceiver, UartTransmitter, bit_cycles
from tq_hw.boards.link.protocol import (
    ANSWER_SYNC,
    CRC_BYTES,
    GAP_SECONDS,
    IDENTITY,
    MOST_BYTES,
    REQUEST_SYNC,
    VERSION,
    Command,
    Identity,
    Result,
)
from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.control.registers import ADDRESS_BITS
from tq_hw.isa.config import Config

__all__ = ["Bridge", "UartBridge", "bus_members"]

#: Commands without bit 0.
_REGISTERS, _MEMORY = Command.READ_REGISTERS >> 1, Command.READ_MEMORY >> 1
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
    id 0. A byte of data takes six cycles at most, a beat also the memory's latency.

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
    m_axi_* : AXI4 master of hdl/bus/axi.py
    reg_addr, reg_write_en, reg_write_data : Out; reg_read_data : In(32), two cycles after `reg_addr`
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
        s = FrameState(m, self, self._config, self._gap_cycles)
        m.d.comb += pass_through(s.port.bus.signature.members, self, s.port.bus, "m_axi_")
        m.d.sync += self.reg_write_en.eq(0)
        with m.If(self.tx.valid & self.tx.ready):
            m.d.sync += self.tx.valid.eq(0)
        with m.If(s.put):
            m.d.sync += [self.tx.valid.eq(1), self.tx.payload.eq(s.tx_byte)]
        with m.FSM(name="state"):
            self._receive(m, s)
            self._decide(m, s)
            self._write(m, s)
            self._read(m, s)
            self._answer(m, s)
        return m

    def _receive(self, m: Module, s: FrameState) -> None:
        """Find a frame, take its header, data and CRC."""
        with m.State("HUNT"):
            m.d.sync += [self.busy.eq(0), *s.restart()]
            with m.If(self.rx_valid & (self.rx_data == REQUEST_SYNC[0])):
                m.next = "SYNC"
        with m.State("SYNC"):
            m.d.comb += s.crc.start.eq(1)
            m.d.sync += s.count.eq(0)
            with m.If(self.rx_valid):
                m.d.sync += s.restart()
                with m.If(self.rx_data == REQUEST_SYNC[1]):
                    m.next = "HEADER"
                with m.Elif(self.rx_data != REQUEST_SYNC[0]):
                    m.next = "HUNT"
            with m.Elif(s.expired):
                m.next = "HUNT"
        with m.State("HEADER"):
            with m.If(self.rx_valid):
                m.d.comb += s.summed.eq(1)
                m.d.sync += [s.header.eq(Cat(s.header.as_value()[8:], self.rx_data)), s.count.eq(s.more), *s.restart()]
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
            with m.If(self.rx_valid):
                m.d.comb += [s.summed.eq(1), s.store.en.eq(1)]
                m.d.sync += [s.count.eq(s.more), *s.restart()]
                with m.If(s.more == s.header.size):
                    m.d.sync += s.count.eq(0)
                    m.next = "CRC"
            with m.Elif(s.expired):
                m.next = "HUNT"
        with m.State("CRC"):
            with m.If(self.rx_valid):
                m.d.comb += s.summed.eq(1)
                m.d.sync += [s.count.eq(s.more), *s.restart()]
                with m.If(s.count == 3):
                    m.next = "SUMMED"
            with m.Elif(s.expired):
                m.next = "HUNT"

    def _decide(self, m: Module, s: FrameState) -> None:
        """Judge a whole frame by the rules of the protocol."""
        limit = Mux(s.is_memory, self._identity.memory_bytes, Mux(s.is_open, 4 * len(IDENTITY), 1 << ADDRESS_BITS))
        with m.State("SUMMED"):
            m.next = "CHECK"
        with m.State("CHECK"):
            m.d.sync += [
                s.is_open.eq(s.header.command == Command.OPEN), s.is_register.eq(s.header.command[1:] == _REGISTERS),
                s.is_memory.eq(s.header.command[1:] == _MEMORY),
                s.address.eq(s.header.address),
                s.offset.eq(s.header.address - Mux(s.header.command[1:] == _MEMORY, self._identity.memory_base, 0)),
                s.count.eq(0), s.status.eq(Result.BAD_FRAME), self.busy.eq(1),
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

    def _write(self, m: Module, s: FrameState) -> None:
        """Carry data from the frame to registers or memory, word by word."""
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
                m.d.sync += [self.reg_addr.eq(s.word), self.reg_write_en.eq(1),
                             self.reg_write_data.eq(s.beat.as_value())]
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

    def _read(self, m: Module, s: FrameState) -> None:
        """Collect registers, memory or the identity, word by word."""
        identity = Array(getattr(self._identity, word.name) for word in IDENTITY)
        with m.State("READ"):
            m.d.sync += self.reg_addr.eq(s.word)
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
            m.d.sync += s.beat.eq(Mux(s.is_open, identity[s.address[2:5]], self.reg_read_data))
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

    def _answer(self, m: Module, s: FrameState) -> None:
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
            with m.If(~self.tx.valid):
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
            with m.If(~self.tx.valid):
                m.d.comb += [s.put.eq(1), s.summed.eq(1)]
                m.d.sync += s.count.eq(s.more)
                m.next = "NEXT"
        with m.State("TAIL"):
            m.d.sync += [s.header.as_value()[:32].eq(s.crc.crc), s.count.eq(0)]
            m.next = "SUM"
        # Header and CRC leave by the same register.
        for state, most, summed, after in (("HEAD", _ANSWER_BYTES, 1, "NEXT"), ("SUM", CRC_BYTES, 0, "HUNT")):
            with m.State(state):
                m.d.comb += s.tx_byte.eq(s.header.command)
                with m.If(~self.tx.valid):
                    m.d.comb += [s.put.eq(1), s.summed.eq(summed)]
                    m.d.sync += [s.header.eq(s.header.as_value()[8:]), s.count.eq(s.more)]
                    with m.If(s.count == most - 1):
                        m.d.sync += s.count.eq(0)
                        m.next = after


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
        m.d.comb += pass_through(self._members, self, bridge)
        return m
