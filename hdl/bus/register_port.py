"""Single accesses of the register bus, for the bridges from standard buses."""

from collections.abc import Mapping
from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from tq_hw.isa.control import REGISTERS, WINDOW_BYTES
from tq_hw.isa.sizes import ceil_log2

__all__ = ["ADDRESS_BITS", "ANSWER_CYCLES", "AccessLayout", "AnswerLayout", "RegisterBridge", "RegisterPort"]

#: Width of a bridge's byte address: a whole page, so that no register appears at two addresses in it.
ADDRESS_BITS = ceil_log2(WINDOW_BYTES)
#: From the cycle in which `RegisterPort.i` is taken to the first in which `o.valid` is 1.
ANSWER_CYCLES = 4


class AccessLayout(data.StructLayout):
    """An access: byte address, whose two low bits are ignored; for a write, its word and byte strobes."""

    def __init__(self) -> None:
        super().__init__({"addr": ADDRESS_BITS, "write": 1, "data": 32, "strobe": 4})


class AnswerLayout(data.StructLayout):
    """An answer: the word of a read, 0 for a write or an error."""

    def __init__(self) -> None:
        super().__init__({"data": 32, "error": 1})


class RegisterPort(wiring.Component):
    """Carry out accesses on the register bus, and refuse invalid ones.

    Errors, which write nothing: an address without a register; a write to a read-only register; a write of only some
    bytes of a word. A write with no byte strobe writes nothing and is no error. `control` reads as 0.
    A write is answered after it took effect: a read of `status` after a start sees the machine busy.

    Members
    -------
    i : In(stream of AccessLayout)
    o : Out(stream of AnswerLayout), ANSWER_CYCLES later; it must be taken at once
    reg_addr : Out(8); reg_write_en : Out(1); reg_write_data : Out(32); reg_read_data : In(32), two cycles after
        `reg_addr`
    """

    i: stream.Interface
    o: stream.Interface
    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal

    def __init__(self) -> None:
        super().__init__({
            "i": In(stream.Signature(AccessLayout())), "o": Out(stream.Signature(AnswerLayout(), always_ready=True)),
            "reg_addr": Out(8), "reg_write_en": Out(1), "reg_write_data": Out(32), "reg_read_data": In(32),
        })

    def elaborate(self, platform: object) -> Module:
        """Hold the access, check that the register exists, wait for the word."""
        m = Module()
        access: Any = Signal(AccessLayout(), reset_less=True)
        age = Signal(ANSWER_CYCLES - 1)
        refused = Signal()
        m.d.comb += [
            self.i.ready.eq(~age.any()), self.reg_addr.eq(access.addr), self.reg_write_data.eq(access.data),
        ]
        m.d.sync += age.eq(Cat(self.i.valid & self.i.ready, age))
        with m.If(self.i.ready):
            m.d.sync += access.eq(self.i.payload)
        word = access.addr[2:]
        read = Cat(word == register.offset_bytes // 4 for register in REGISTERS).any()
        written = Cat(word == register.offset_bytes // 4 for register in REGISTERS if "w" in register.access).any()
        m.d.sync += [
            refused.eq(Mux(access.write, ~written | (access.strobe.any() & ~access.strobe.all()), ~read)),
            self.reg_write_en.eq(age[0] & access.write & written & access.strobe.all()),
            self.o.valid.eq(age[-1]), self.o.payload.error.eq(refused),
            self.o.payload.data.eq(Mux(access.write | refused, 0, self.reg_read_data)),
        ]
        return m


class RegisterBridge(wiring.Component):
    """Base class of the bridges: a standard bus on one side, the register bus on the other.

    Members
    -------
    bus : In, members of the bus as its master sees them
    reg_* : as of `RegisterPort`
    """

    bus: Any
    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal

    def __init__(self, members: Mapping[str, Member]) -> None:
        super().__init__({
            "bus": In(wiring.Signature({name: member.flip() for name, member in members.items()})),
            "reg_addr": Out(8), "reg_write_en": Out(1), "reg_write_data": Out(32), "reg_read_data": In(32),
        })

    def connect_port(self, m: Module) -> RegisterPort:
        """Return the port between the bridge and the register bus."""
        m.submodules.port = port = RegisterPort()
        m.d.comb += [
            self.reg_addr.eq(port.reg_addr), self.reg_write_en.eq(port.reg_write_en),
            self.reg_write_data.eq(port.reg_write_data), port.reg_read_data.eq(self.reg_read_data),
        ]
        return port
