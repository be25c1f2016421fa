"""On-chip memory: block RAM with AXI, and the single-port RAM of an iCE40UP5K."""

from typing import Any

from amaranth import Cat, ClockSignal, Elaboratable, Instance, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature, channel_layout, connect_channel
from tq_hw.hdl.parts.queues import Queue, SkidBuffer

__all__ = ["SPRAM_BYTES", "BlockCells", "OnChipMemory", "SpramCells"]

#: Two of the four single-port RAMs of an iCE40UP5K.
SPRAM_BYTES = 64 << 10
#: Read beats under way or waiting to be accepted.
_WAITING = 8
_LATENCY_CYCLES = 2


class BlockCells(Elaboratable):
    """Block RAM with one port: each cycle reads a word or writes bytes of one; `image` is its initial contents.

    `rdata` is the word at `addr` two cycles later.
    """

    def __init__(self, data_bytes: int, size_bytes: int, image: bytes = b"") -> None:
        self._bytes, self._words, self._image = data_bytes, size_bytes // data_bytes, image
        self.addr = Signal(range(self._words))
        self.write = Signal(data_bytes)
        self.wdata, self.rdata = Signal(8 * data_bytes), Signal(8 * data_bytes)

    def elaborate(self, platform: object) -> Module:
        """One memory, and a register after it."""
        m = Module()
        width = self._bytes
        words = [int.from_bytes(self._image[at:at + width], "little") for at in range(0, len(self._image), width)]
        m.submodules.memory = memory = Memory(shape=8 * width, depth=self._words, init=words)
        writer = memory.write_port(granularity=8)
        reader = memory.read_port(domain="comb")
        found = Signal(8 * width, reset_less=True)
        m.d.comb += [writer.addr.eq(self.addr), writer.data.eq(self.wdata), writer.en.eq(self.write),
                     reader.addr.eq(self.addr)]
        # With its output register this maps to one port of the block RAM: it never reads while it writes.
        with m.If(~self.write.any()):
            m.d.sync += found.eq(reader.data)
        m.d.sync += self.rdata.eq(found)
        return m


class SpramCells(Elaboratable):
    """Two single-port RAMs of an iCE40UP5K side by side: 64 KiB in words of 32 bits; members as of `hdl.serial.cells`.

    `rdata` is the word at `addr` one cycle later.
    """

    def __init__(self) -> None:
        self.addr = Signal(range(SPRAM_BYTES // 4))
        self.write = Signal(4)
        self.wdata, self.rdata = Signal(32), Signal(32)

    def elaborate(self, platform: object) -> Module:
        """One cell for each half of a word."""
        m = Module()
        for half in range(2):
            part = slice(16 * half, 16 * half + 16)
            low, high = self.write[2 * half], self.write[2 * half + 1]
            m.submodules[f"cell{half}"] = Instance(
                "SB_SPRAM256KA", i_ADDRESS=self.addr, i_DATAIN=self.wdata[part], i_MASKWREN=Cat(low, low, high, high),
                i_WREN=self.write.any(), i_CHIPSELECT=1, i_CLOCK=ClockSignal(), i_STANDBY=0, i_SLEEP=0, i_POWEROFF=1,
                o_DATAOUT=self.rdata[part])
        return m


class OnChipMemory(wiring.Component):
    """AXI memory in `cells`; addresses beyond its end wrap (`Merge` answers them).

    Bursts are not interleaved; reads and writes alternate. A burst takes one cycle per beat and two more.

    Members
    -------
    bus : In(AxiSignature(data_bytes, id_bits))
    """

    bus: Any

    def __init__(self, cells: BlockCells, id_bits: int = MEMORY_ID_BITS) -> None:
        self._cells, self._id_bits = cells, id_bits
        self._bytes = len(cells.write)
        super().__init__({"bus": In(AxiSignature(self._bytes, id_bits))})

    def elaborate(self, platform: object) -> Module:
        """One burst at a time; a queue for read data has room for all beats under way."""
        m = Module()
        m.submodules.cells = cells = self._cells
        inputs = {}
        for channel in ("ar", "aw", "w"):
            part = SkidBuffer(channel_layout(channel, self._bytes, self._id_bits))
            m.submodules[channel] = part
            connect_channel(m, channel, self.bus, part.i, to_bus=False)
            inputs[channel] = part.o
        m.submodules.b = answer = SkidBuffer(channel_layout("b", self._bytes, self._id_bits))
        m.submodules.r = found = Queue(channel_layout("r", self._bytes, self._id_bits), _WAITING)
        connect_channel(m, "b", self.bus, answer.o, to_bus=True)
        connect_channel(m, "r", self.bus, found.o, to_bus=True)

        low_bits = ceil_log2(self._bytes)
        word_bits = len(cells.addr)
        at, left, number = Signal(word_bits), Signal(8), Signal(self._id_bits)
        wrote_last = Signal()
        m.d.comb += [cells.addr.eq(at), cells.wdata.eq(inputs["w"].payload.data)]
        # The output of the cells belongs to the beat of two cycles ago.
        asked = Signal(_LATENCY_CYCLES)
        notes = [Signal(self._id_bits + 1, name=f"note{age}") for age in range(_LATENCY_CYCLES)]
        ask = Signal()
        m.d.sync += [asked.eq(Cat(ask, asked)), notes[0].eq(Cat(number, left == 0)), notes[1].eq(notes[0])]
        m.d.comb += [
            found.i.valid.eq(asked[-1]), found.i.payload.id.eq(notes[-1][:self._id_bits]),
            found.i.payload.last.eq(notes[-1][-1]), found.i.payload.resp.eq(0), found.i.payload.data.eq(cells.rdata),
        ]
        with m.FSM(name="state"):
            with m.State("IDLE"):
                reads, writes = inputs["ar"], inputs["aw"]
                choose_write = writes.valid & (~reads.valid | ~wrote_last)
                chosen = Mux(choose_write, writes.payload.addr, reads.payload.addr)
                m.d.comb += [writes.ready.eq(choose_write), reads.ready.eq(~choose_write)]
                m.d.sync += [
                    at.eq(chosen[low_bits:]), left.eq(Mux(choose_write, writes.payload.len, reads.payload.len)),
                    number.eq(Mux(choose_write, writes.payload.id, reads.payload.id)),
                ]
                with m.If(choose_write):
                    m.d.sync += wrote_last.eq(1)
                    m.next = "WRITE"
                with m.Elif(reads.valid):
                    m.d.sync += wrote_last.eq(0)
                    m.next = "READ"
            with m.State("READ"), m.If(found.level < _WAITING - _LATENCY_CYCLES):
                m.d.comb += ask.eq(1)
                m.d.sync += [at.eq(at + 1), left.eq(left - 1)]
                with m.If(left == 0):
                    m.next = "IDLE"
            with m.State("WRITE"):
                data = inputs["w"]
                m.d.comb += [data.ready.eq(1), cells.write.eq(Mux(data.valid, data.payload.strb, 0))]
                with m.If(data.valid):
                    m.d.sync += at.eq(at + 1)
                    with m.If(data.payload.last):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [answer.i.valid.eq(1), answer.i.payload.id.eq(number),
                             answer.i.payload.resp.eq(0)]
                with m.If(answer.i.ready):
                    m.next = "IDLE"
        return m
