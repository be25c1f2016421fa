"""The emulated board's DDR3: it answers when it has been levelled, and gives noise where a byte's settings are wrong.

The windows of right settings are drawn again at each reset, for each byte, and wander while the machine runs.
"""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature
from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.gateware.levelling import Leveller
from tq_hw.boards.gateware.levelling_plan import plan_levelling
from tq_hw.boards.gateware.phy_model import ARTY_SHAPE, PhyModel, model_registers
from tq_hw.hdl.bus.pass_through import pass_through

__all__ = ["LEVELLING_CYCLES", "EmulatedDram"]

#: More than a levelling takes.
LEVELLING_CYCLES = 200_000
_WANDER_BITS = 19
#: Bits of the noise between those that bytes are drawn from.
_APART_BITS = 13


class EmulatedDram(wiring.Component):
    """A leveller, the model of its PHY, and the way to the memory of the simulator.

    Members
    -------
    bus : In(AxiSignature(bus_bytes, MEMORY_ID_BITS)), what the board has on its memory port
    memory : Out(the same)
    """

    bus: Any
    memory: Any

    def __init__(self, bus_bytes: int, status: BoardStatus) -> None:
        self._bus_bytes, self._status = bus_bytes, status
        signature = AxiSignature(bus_bytes, MEMORY_ID_BITS)
        super().__init__({"bus": In(signature), "memory": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        """Level, draw the windows, gate the memory."""
        m = Module()
        registers = model_registers(ARTY_SHAPE)
        # Its DRAM wakes at once.
        wake = ((registers["sdram_dfii_control"], 0xE, 0),)
        m.submodules.leveller = leveller = Leveller(plan_levelling(wake, registers, ARTY_SHAPE))
        m.submodules.phy = phy = PhyModel(ARTY_SHAPE)
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
            memory.rdata.word_select(byte, 8) ^ Mux(phy.good[byte % ARTY_SHAPE.lanes], 0, phy.noise[byte:byte + 8])
            for byte in range(self._bus_bytes)))
        return m

    def _draw(self, m: Module, phy: PhyModel) -> None:
        """Windows of 8 to 15 delays that wander by two, at any bitslip."""
        drawn, age = Signal(), Signal(_WANDER_BITS + 2)
        m.d.sync += [drawn.eq(1), age.eq(age + 1)]
        step = age[_WANDER_BITS:]
        for lane in range(ARTY_SHAPE.lanes):
            bits = phy.noise[_APART_BITS * lane:]
            first, length, slip = (Signal(width, name=f"{name}{lane}")
                                   for name, width in (("first", 4), ("length", 3), ("slip", 3)))
            with m.If(~drawn):
                m.d.sync += [first.eq(bits[:4]), length.eq(bits[4:7]), slip.eq(bits[7:10])]
            eye = phy.eyes[lane]
            m.d.comb += [eye.first.eq(first + 1 + Mux(step == 3, 1, step)), eye.length.eq(length + 8),
                         eye.slip.eq(slip)]
