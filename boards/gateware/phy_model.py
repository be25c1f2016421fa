"""Model of a DDR3 with LiteDRAM's PHY, as far as levelling sees it, for simulations and the emulated board.

A byte is right only at one bitslip and inside a window of delays, and only while it is not selected for a setting.
Otherwise it is noise or belongs to another beat. Nothing is read from a row that is not open.
"""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.levelling_plan import PhyShape

__all__ = ["ARTY_SHAPE", "ECP5_SHAPE", "EYE", "PhyModel", "model_registers"]

#: The Artix-7 PHY at a quarter of the DRAM's clock with 16 data lines.
ARTY_SHAPE = PhyShape(phases=4, words=1, lanes=2, delays=32, slips=8, read_phase=2, write_phase=3)
#: The ECP5 PHY at half the DRAM's clock with 16 data lines.
ECP5_SHAPE = PhyShape(phases=2, words=2, lanes=2, delays=8, slips=4, read_phase=0, write_phase=1)
#: Where a byte's data are right: first delay, number of delays, and bitslip.
EYE = data.StructLayout({"first": 8, "length": 8, "slip": 8})
_PHASE = ("command", "command_issue", "address", "baddress", "wrdata", "rddata")
_PATTERNS = 16
_NOISE_TAPS = (31, 21, 1, 0)


def model_registers(shape: PhyShape) -> dict[str, int]:
    """Return consecutive byte addresses by LiteDRAM's names."""
    names = ["ddrctrl_init_done", "ddrctrl_init_error", "ddrphy_dly_sel", "ddrphy_rdly_dq_rst", "ddrphy_rdly_dq_inc",
             "ddrphy_rdly_dq_bitslip_rst", "ddrphy_rdly_dq_bitslip", "sdram_dfii_control"]
    sizes = [(name, 1) for name in names]
    sizes += [(f"sdram_dfii_pi{phase}_{name}", shape.words if name in ("wrdata", "rddata") else 1)
              for phase in range(shape.phases) for name in _PHASE]
    found, place = {}, 0
    for name, words in sizes:
        found[name] = 4 * place
        place += words
    return found


class PhyModel(wiring.Component):
    """Registers of a controller, and the data that reads return.

    Parameters
    ----------
    shape : of the PHY
    registers : byte addresses by LiteDRAM's names, by default those of `model_registers`

    Members
    -------
    adr, dat_w, dat_r, we, request, ack : Wishbone, seen from the slave
    eyes : In(EYE), for each byte; they may move while the machine runs
    noise : Out(32), changes in every cycle
    ready : Out(1), the controller has the DRAM
    good : Out(lanes), bytes whose settings are right
    error : Out(1), the leveller gave up
    """

    def __init__(self, shape: PhyShape, registers: Mapping[str, int] | None = None) -> None:
        self._shape, self._registers = shape, registers or model_registers(shape)
        super().__init__({
            "adr": In(30), "dat_w": In(32), "dat_r": Out(32), "we": In(1), "request": In(1), "ack": Out(1),
            "eyes": In(data.ArrayLayout(EYE, shape.lanes)), "noise": Out(32), "ready": Out(1),
            "good": Out(shape.lanes), "error": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Settings by byte, a row of the DRAM, and the commands that reach it."""
        m = Module()
        shape, place = self._shape, self._registers
        # The noise generator ignores resets, so that each reset draws different values.
        noise = Signal(32, init=0x1234567, reset_less=True)
        m.d.sync += noise.eq(Cat(Cat(noise[tap] for tap in _NOISE_TAPS).xor(), noise[:-1]))
        m.d.comb += self.noise.eq(noise)
        writes = Signal()
        m.d.comb += writes.eq(self.request & self.we & ~self.ack)
        m.d.sync += self.ack.eq(self.request & ~self.ack)

        def written(name: str) -> Signal:
            strobe = Signal(name=f"written_{name}")
            m.d.comb += strobe.eq(writes & (self.adr == place[name] >> 2))
            return strobe

        self._settings(m, written)
        control, done = Signal(4), Signal()
        for name, register in (("sdram_dfii_control", control), ("ddrctrl_init_done", done),
                               ("ddrctrl_init_error", self.error)):
            with m.If(written(name)):
                m.d.sync += register.eq(self.dat_w)
        m.d.comb += self.ready.eq(control[0] & done)

        words = shape.phases * shape.words
        kept = Array(Signal(32, name=f"kept{word}") for word in range(words))
        read = Array(Signal(32, name=f"read{word}") for word in range(words))
        m.d.sync += self.dat_r.eq(0)
        for phase in range(shape.phases):
            for word in range(shape.words):
                index = phase * shape.words + word
                with m.If(writes & (self.adr == (place[f"sdram_dfii_pi{phase}_wrdata"] >> 2) + word)):
                    m.d.sync += kept[index].eq(self.dat_w)
                with m.If(self.adr == (place[f"sdram_dfii_pi{phase}_rddata"] >> 2) + word):
                    m.d.sync += self.dat_r.eq(read[index])
        self._commands(m, written, kept, read)
        return m

    def _settings(self, m: Module, written: Callable[[str], Signal]) -> None:
        """Delay and bitslip of each byte; both wrap after their last value."""
        shape = self._shape
        chosen = Signal(shape.lanes)
        with m.If(written("ddrphy_dly_sel")):
            m.d.sync += chosen.eq(self.dat_w)
        strobes = {name: written(f"ddrphy_rdly_dq_{name}") for name in ("rst", "inc", "bitslip_rst", "bitslip")}
        for lane in range(shape.lanes):
            delay = Signal(range(shape.delays), name=f"delay{lane}")
            slip = Signal(range(shape.slips), name=f"slip{lane}")
            with m.If(chosen[lane]):
                for register, most, clear, step in ((delay, shape.delays, "rst", "inc"),
                                                    (slip, shape.slips, "bitslip_rst", "bitslip")):
                    with m.If(strobes[step]):
                        m.d.sync += register.eq(Mux(register == most - 1, 0, register + 1))
                    with m.If(strobes[clear]):
                        m.d.sync += register.eq(0)
            eye = self.eyes[lane]
            inside = (delay >= eye.first) & (delay < eye.first + eye.length)
            m.d.comb += self.good[lane].eq(~chosen[lane] & (slip == eye.slip) & inside)

    def _commands(self, m: Module, written: Callable[[str], Signal], kept: Any, read: Any) -> None:
        """Open and close the row, write a burst to it, read one."""
        shape = self._shape
        words = shape.phases * shape.words
        m.submodules.row = row = memory.Memory(shape=32 * words, depth=_PATTERNS, init=[])
        write, fetch = row.write_port(), row.read_port()
        opened, fetching = Signal(), Signal(2)
        m.d.comb += write.data.eq(Cat(kept[word] for word in range(words)))
        m.d.sync += fetching.eq(fetching << 1)
        for phase in range(shape.phases):
            command, address = Signal(6, name=f"command{phase}"), Signal(16, name=f"address{phase}")
            for name, register in (("command", command), ("address", address)):
                with m.If(written(f"sdram_dfii_pi{phase}_{name}")):
                    m.d.sync += register.eq(self.dat_w)
            issued = Signal(name=f"issued{phase}")
            m.d.comb += issued.eq(written(f"sdram_dfii_pi{phase}_command_issue") & command[0])
            # RAS opens a row, RAS with WE closes it; CAS reads, CAS with WE writes. Both need data of their own phase.
            with m.If(issued & command[3] & ~command[2]):
                m.d.sync += opened.eq(~command[1])
            with m.If(issued & command[2] & ~command[3] & opened):
                m.d.comb += write.addr.eq(address[3:])
                if phase == shape.write_phase:
                    m.d.comb += write.en.eq(command[1] & command[4])
                if phase == shape.read_phase:
                    m.d.comb += fetch.addr.eq(address[3:])
                    m.d.sync += fetching[0].eq(~command[1] & command[5])
        shown = fetch.data
        beats = [shown.word_select(byte, 8) for byte in range(4 * words)]
        with m.If(fetching[0]):
            for byte in range(4 * words):
                lane = byte % shape.lanes
                other = beats[(byte + shape.lanes) % (4 * words)]
                word, part = divmod(byte, 4)
                wrong = other ^ Mux(self.noise[lane], self.noise[lane:lane + 8], 0)
                m.d.sync += read[word].word_select(part, 8).eq(Mux(self.good[lane], beats[byte], wrong))
