"""The serial machine's own memory, with only as much scratchpad as its configuration has."""

from amaranth import Elaboratable, Module, Mux, Signal

from tq_hw.hdl.serial.cells import Cells
from tq_hw.hdl.serial.encoding import CELL_WORDS, PRIVATE_WORDS

__all__ = ["SmallCells"]


class SmallCells(Elaboratable):
    """As `hdl.serial.cells.Cells`, but the scratchpad's half has `scratchpad_bytes`; addresses beyond them wrap."""

    def __init__(self, scratchpad_bytes: int) -> None:
        self._scratchpad_bytes = scratchpad_bytes
        self.addr = Signal(range(CELL_WORDS))
        self.write = Signal(4)
        self.wdata, self.rdata = Signal(32), Signal(32)

    def elaborate(self, platform: object) -> Module:
        """Two memories, and a multiplexer that follows the address of the previous cycle."""
        m = Module()
        private, was_private = self.addr[-1], Signal()
        m.submodules.scratchpad = scratchpad = Cells(self._scratchpad_bytes // 4)
        m.submodules.private = own = Cells(PRIVATE_WORDS)
        for cells, chosen in ((scratchpad, ~private), (own, private)):
            m.d.comb += [cells.addr.eq(self.addr), cells.wdata.eq(self.wdata),
                         cells.write.eq(Mux(chosen, self.write, 0))]
        m.d.sync += was_private.eq(private)
        m.d.comb += self.rdata.eq(Mux(was_private, own.rdata, scratchpad.rdata))
        return m
