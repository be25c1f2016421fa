"""The emulated board's DDR3: it answers after levelling, with noise in bytes whose settings are wrong.

The windows of right settings are random for each byte and reset, and drift while the machine runs.
"""

from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature
from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.gateware.levelling import Leveller
from tq_hw.boards.gateware.levelling_plan import PhyShape, plan_levelling
from tq_hw.boards.gateware.phy_model import ARTY_SHAPE, ECP5_SHAPE, PhyModel, model_registers
from tq_hw.hdl.bus.pass_through import pass_through
from tq_hw.isa.sizes import ceil_log2

__all__ = ["LEVELLING_CYCLES", "PHYS", "EmulatedDram", "EmulatedPhy"]

#: More cycles than levelling takes.
LEVELLING_CYCLES = 200_000
_WANDER_BITS = 19
#: Distance between the noise bits of two bytes.
_APART_BITS = 13


@dataclass(frozen=True)
class EmulatedPhy:
    """A PHY, and the range of its random windows.

    A window is `fewest` delays long plus a random number of `more_bits` bits. It begins at delay `begin` plus a random
    number of `first_bits` bits.
    """

    shape: PhyShape
    begin: int
    first_bits: int
    fewest: int
    more_bits: int


#: By LiteDRAM's names.
PHYS = {"A7DDRPHY": EmulatedPhy(ARTY_SHAPE, begin=1, first_bits=4, fewest=8, more_bits=3),
        "ECP5DDRPHY": EmulatedPhy(ECP5_SHAPE, begin=0, first_bits=1, fewest=5, more_bits=0)}


class EmulatedDram(wiring.Component):
    """A leveller, the model of its PHY, and the path to the simulator's memory.

    Members
    -------
    bus : In(AxiSignature(bus_bytes, MEMORY_ID_BITS)), the board's memory port
    memory : Out(the same)
    """

    bus: Any
    memory: Any

    def __init__(self, bus_bytes: int, status: BoardStatus, phy: EmulatedPhy) -> None:
        self._bus_bytes, self._status, self._phy = bus_bytes, status, phy
        signature = AxiSignature(bus_bytes, MEMORY_ID_BITS)
        super().__init__({"bus": In(signature), "memory": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        """Level, draw the windows, gate the memory."""
        m = Module()
        shape = self._phy.shape
        registers = model_registers(shape)
        # This DRAM needs no initialization sequence.
        wake = ((registers["sdram_dfii_control"], 0xE, 0),)
        m.submodules.leveller = leveller = Leveller(plan_levelling(wake, registers, shape))
        m.submodules.phy = phy = PhyModel(shape)
        for name in ("adr", "dat_w", "we", "request"):
            m.d.comb += getattr(phy, name).eq(getattr(leveller, name))
        status = self._status
        m.d.comb += [leveller.dat_r.eq(phy.dat_r), leveller.ack.eq(phy.ack), status.done.eq(leveller.done),
                     status.failed.eq(leveller.failed), status.bad.eq(leveller.bad),
                     status.windows.eq(leveller.windows)]
        self._draw(m, phy)
        bus, memory = self.bus, self.memory
        m.d.comb += pass_through(memory.signature.members, memory, bus)
        for channel in ("ar", "aw", "w"):
            m.d.comb += [getattr(memory, f"{channel}valid").eq(getattr(bus, f"{channel}valid") & phy.ready),
                         getattr(bus, f"{channel}ready").eq(getattr(memory, f"{channel}ready") & phy.ready)]
        m.d.comb += bus.rdata.eq(Cat(
            memory.rdata.word_select(byte, 8) ^ Mux(phy.good[byte % shape.lanes], 0, phy.noise[byte:byte + 8])
            for byte in range(self._bus_bytes)))
        return m

    def _draw(self, m: Module, phy: PhyModel) -> None:
        """Drive windows at random bitslips that drift by up to two delays."""
        drawn, age = Signal(), Signal(_WANDER_BITS + 2)
        m.d.sync += [drawn.eq(1), age.eq(age + 1)]
        step = age[_WANDER_BITS:]
        of = self._phy
        for lane in range(of.shape.lanes):
            bits = phy.noise[_APART_BITS * lane:]
            first, more, slip = (Signal(width, name=f"{name}{lane}") for name, width in (
                ("first", of.first_bits), ("more", of.more_bits), ("slip", ceil_log2(of.shape.slips))))
            with m.If(~drawn):
                m.d.sync += Cat(first, more, slip).eq(bits)
            eye = phy.eyes[lane]
            m.d.comb += [eye.first.eq(first + of.begin + Mux(step == 3, 1, step)), eye.length.eq(more + of.fewest),
                         eye.slip.eq(slip)]
