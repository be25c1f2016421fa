"""The board's end of the link: turns requests into register accesses and memory bursts of one beat.

Frames and rules are those of boards/link/protocol.py.
"""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.frame_answer import answer
from tq_hw.boards.gateware.frame_execute import read, write
from tq_hw.boards.gateware.frame_receive import decide, receive
from tq_hw.boards.gateware.frame_state import FrameState
from tq_hw.boards.gateware.uart import UartReceiver, UartTransmitter, bit_cycles
from tq_hw.boards.link.protocol import GAP_SECONDS, MOST_BYTES, VERSION, Identity
from tq_hw.hdl.bus.axi import read_members, write_members
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.hdl.control.registers import ADDRESS_BITS
from tq_hw.isa.config import Config

__all__ = ["Bridge", "UartBridge", "bus_members"]


def bus_members(config: Config) -> dict[str, wiring.Member]:
    """Return the ports to registers and memory, seen from the master, by the accelerator's names."""
    bus = write_members(config) | read_members(config)
    return {
        **{f"m_axi_{name}": member for name, member in bus.items()},
        "reg_addr": Out(ADDRESS_BITS), "reg_write_en": Out(1), "reg_write_data": Out(32), "reg_read_data": In(32),
    }


class Bridge(wiring.Component):
    """The link protocol on a stream of bytes.

    Every output is a register, so there is no combinational path from an input to an output. One burst of one beat is
    open at a time, with id 0. A byte of data takes at most six cycles, a beat the memory's latency in addition.

    Parameters
    ----------
    config : of the accelerator
    identity : the answer to OPEN
    gap_cycles : time-out for the next byte of a frame, which is then dropped, and for an answer of the memory

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
            receive(m, self, s)
            decide(m, self, s, self._identity)
            write(m, self, s)
            read(m, self, s, self._identity)
            answer(m, self, s)
        return m


class UartBridge(wiring.Component):
    """The link protocol on the pins of a UART.

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
        """Connect the UART to the bridge."""
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
