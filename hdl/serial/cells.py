"""Single-port memory of 32-bit words, for the engine where the device has no such memory of its own."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib.memory import Memory

from tq_hw.hdl.serial.encoding import CELL_WORDS

__all__ = ["Cells"]


class Cells(Elaboratable):
    """Words of 32 bits, initialized with `image`. In a cycle one word is read, or bytes of it are written.

    Members
    -------
    addr : In; write : In(4), bytes; wdata : In(32)
    rdata : Out(32), the word addressed in the cycle before, if nothing was written then
    """

    def __init__(self, words: int = CELL_WORDS, image: bytes = b"") -> None:
        self._words, self._image = words, image
        self.addr = Signal(range(words))
        self.write = Signal(4)
        self.wdata, self.rdata = Signal(32), Signal(32)

    def elaborate(self, platform: object) -> Module:
        """One memory."""
        m = Module()
        init = [int.from_bytes(self._image[at:at + 4], "little") for at in range(0, len(self._image), 4)]
        m.submodules.memory = memory = Memory(shape=32, depth=self._words, init=init)
        writer = memory.write_port(granularity=8)
        reader = memory.read_port(domain="comb")
        m.d.comb += [writer.addr.eq(self.addr), writer.data.eq(self.wdata), writer.en.eq(self.write),
                     reader.addr.eq(self.addr)]
        with m.If(~self.write.any()):
            m.d.sync += self.rdata.eq(reader.data)
        return m
