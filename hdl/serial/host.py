"""The register bus of the serial machine: the registers of isa/control.py, in block RAM."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.control.registers import host_members
from tq_hw.hdl.serial.encoding import HOST_WORDS, WRITTEN_WORDS, Halt
from tq_hw.isa.config import Config
from tq_hw.isa.control import DRAIN_CYCLES, MAGIC, REGISTERS

__all__ = ["WORD_OF", "Host"]

#: Registers by name, as word numbers.
WORD_OF = {register.name: register.offset_bytes // 4 for register in REGISTERS}
_WRITTEN = {register.name: register.offset_bytes // 4 for register in REGISTERS if register.access == "rw"}
#: Registers that must read 0 after a reset, although host or engine wrote them before it.
_CLEARED = (*(WORD_OF[f"error_{name}"] for name in ("code", "unit", "index")), *_WRITTEN.values())


class Host(wiring.Component):
    """The host's registers, status, and a counter of cycles; all other counters read 0.

    While the machine is busy, a start and writes to registers other than `control` are ignored. A stop takes effect
    at once. The machine stays busy until the engine has cleared the error registers, and until memory has answered or
    timed out.

    Reset does not reach block RAM. After it, one word per cycle is cleared unless the host writes. A word neither
    cleared nor written yet reads as 0. The engine starts when all words are cleared.

    Members
    -------
    reg_* , interrupt : as of `hdl.accelerator.Accelerator`
    write_en, write_index, write_data : Out, a write by the host, or a cleared word after reset, for the engine's copy
    restart, go : Out(1), to the engine; halted, halt : from it
    pending : In(1), memory owes an answer; given_up : Out(1), it did not answer in time
    out_en, out_index, out_data : In, the engine writes a register
    """

    reg_addr: Signal
    reg_write_en: Signal
    reg_write_data: Signal
    reg_read_data: Signal
    interrupt: Signal
    write_en: Signal
    write_index: Signal
    write_data: Signal
    restart: Signal
    go: Signal
    halted: Signal
    halt: Signal
    pending: Signal
    given_up: Signal
    out_en: Signal
    out_index: Signal
    out_data: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            **host_members(),
            "write_en": Out(1), "write_index": Out(range(WRITTEN_WORDS)), "write_data": Out(32),
            "restart": Out(1), "go": Out(1), "halted": In(1), "halt": In(2),
            "pending": In(1), "given_up": Out(1),
            "out_en": In(1), "out_index": In(8), "out_data": In(32),
        })

    def elaborate(self, platform: object) -> Module:
        """One memory, written by host and engine and read by the host, and the machine's states."""
        m = Module()
        contents = [0] * HOST_WORDS
        contents[WORD_OF["magic"]], contents[WORD_OF["fingerprint"]] = MAGIC, self._config.fingerprint
        attributes: Any = {"no_rw_check": 1}
        m.submodules.memory = memory = Memory(shape=32, depth=HOST_WORDS, init=contents, attrs=attributes)
        writer, reader = memory.write_port(), memory.read_port(domain="comb")
        busy, done, failed = Signal(), Signal(), Signal()
        cycles = Signal(32)
        index = self.reg_addr[2:]

        wrote = Signal()
        clearing = _Clearing(m, wrote, index)
        found = Signal(32, reset_less=True)
        special = Signal(3)
        m.d.comb += reader.addr.eq(index)
        # A running counter is read with its value in the cycle of the address.
        cycles_then = Signal(32)
        m.d.sync += [found.eq(reader.data), cycles_then.eq(cycles),
                     special.eq(Cat(index == WORD_OF["status"], index == WORD_OF["counter_cycles"], clearing.hides))]
        # Memory owes an answer that is not waited for any more.
        owed = Signal()
        with m.If(~self.pending):
            m.d.sync += owed.eq(0)
        with m.Elif(self.halted):
            m.d.sync += owed.eq(1)
        status = Signal(4)
        m.d.sync += status.eq(Cat(busy, done, failed, owed))
        m.d.comb += self.reg_read_data.eq(Mux(special[0], status, Mux(special[1], cycles_then,
                                                                      Mux(special[2], 0, found))))

        kept = Cat(index == word for word in _WRITTEN.values()).any()
        # Addresses are multiples of 16, the length of the commands a multiple of 4.
        low = Mux(index == WORD_OF["watchdog"], self.reg_write_data,
                  Mux(index == WORD_OF["command_bytes"], self.reg_write_data & 0xC, 0))
        m.d.comb += [
            wrote.eq(self.reg_write_en & ~busy & kept),
            self.write_en.eq(wrote | clearing.clears), self.write_index.eq(Mux(wrote, index, clearing.word)),
            self.write_data.eq(Mux(wrote, Cat(low[:4], self.reg_write_data[4:]), 0)),
            writer.en.eq(self.write_en | self.out_en & (self.out_index < HOST_WORDS)),
            writer.addr.eq(Mux(self.out_en, self.out_index, self.write_index)),
            writer.data.eq(Mux(self.out_en, self.out_data, self.write_data)),
            self.interrupt.eq(done | failed),
        ]

        # Cycles that memory has owed an answer. A run waits `watchdog` cycles for it, the end of a run DRAIN_CYCLES.
        limit, waited = Signal(32), Signal(32)
        with m.If(wrote & (index == WORD_OF["watchdog"])):
            m.d.sync += limit.eq(self.reg_write_data)
        with m.If(~self.pending | self.restart):
            m.d.sync += [waited.eq(0), self.given_up.eq(0)]
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
            with m.If(Mux(self.go & ~owed, (waited == limit) & limit.any(), waited == DRAIN_CYCLES)):
                m.d.sync += self.given_up.eq(1)

        asked = self.reg_write_en & (index == WORD_OF["control"])
        stop = asked & self.reg_write_data[1]
        start = asked & self.reg_write_data[0] & ~self.reg_write_data[1]
        begins = stop | start & (~busy | self.halted & ~self.go)
        late = Signal()
        m.d.sync += late.eq((late | begins) & ~clearing.over)
        m.d.comb += self.restart.eq((begins | late) & clearing.over)
        with m.If(self.go & busy):
            m.d.sync += cycles.eq(cycles + 1)
        with m.If(self.halted):
            m.d.sync += [busy.eq((self.halt == Halt.READY) & self.go), done.eq(self.halt == Halt.DONE),
                         failed.eq(self.halt == Halt.ERROR)]
        # A start during a stop counts.
        with m.If(start & ~(busy & self.go)):
            m.d.sync += [busy.eq(1), self.go.eq(1), done.eq(0), failed.eq(0), cycles.eq(0)]
        with m.If(stop):
            m.d.sync += [busy.eq(1), self.go.eq(0), done.eq(0), failed.eq(0), cycles.eq(0)]
        return m


class _Clearing:
    """Clears the words of `_CLEARED` after a reset, one in each cycle without a write by the host.

    Members
    -------
    clears : word `word` is cleared; over : all are
    hides : the word that is being read is neither cleared nor written yet
    """

    def __init__(self, m: Module, wrote: Signal, index: Any) -> None:
        stale = Signal(WRITTEN_WORDS, init=sum(1 << word for word in _CLEARED))
        self.word = Signal(range(WRITTEN_WORDS + 1), init=min(_CLEARED), name="cleared_word")
        self.over = self.word[-1]
        self.clears = ~self.over & ~wrote & stale.bit_select(self.word[:-1], 1)
        self.hides = ~index[len(self.word) - 1:].any() & stale.bit_select(index[:len(self.word) - 1], 1)
        with m.If(wrote):
            m.d.sync += stale.bit_select(index[:len(self.word) - 1], 1).eq(0)
        with m.Elif(~self.over):
            m.d.sync += [stale.bit_select(self.word[:-1], 1).eq(0), self.word.eq(self.word + 1)]
