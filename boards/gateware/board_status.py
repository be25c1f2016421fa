"""The board's own registers, above the accelerator's: the state of its DRAM. Read-only; see boards/link/protocol.py."""

from typing import Any

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.levelling import WINDOW
from tq_hw.boards.link.protocol import DRAM_LANES, DRAM_REGISTERS, DramState
from tq_hw.hdl.control.registers import ADDRESS_BITS

__all__ = ["BoardStatus"]

_BASE = DRAM_REGISTERS[0].offset_bytes
#: The registers fill their block of words.
_WORD_BITS = 3


class BoardStatus(wiring.Component):
    """Answer reads of the board's registers, and pass others from the host to the accelerator.

    Members
    -------
    done, failed, bad, windows : In, from a Leveller in any clock domain; `bad` and `windows` are constant after the end
    reg_addr : In, reg_read_data : Out(32), two cycles later
    inner_read_data : In(32), the accelerator's
    """

    def __init__(self) -> None:
        super().__init__({
            "done": In(1), "failed": In(1), "bad": In(DRAM_LANES), "windows": In(data.ArrayLayout(WINDOW, DRAM_LANES)),
            "reg_addr": In(ADDRESS_BITS), "reg_read_data": Out(32), "inner_read_data": In(32)})

    def elaborate(self, platform: object) -> Module:
        """A multiplexer of the words."""
        m = Module()
        done, failed = Signal(), Signal()
        m.submodules.see_done = FFSynchronizer(self.done, done)
        m.submodules.see_failed = FFSynchronizer(self.failed, failed)
        state = Signal(8)
        m.d.comb += state.eq(Mux(done, DramState.READY, Mux(failed, DramState.FAILED, DramState.UNDER_WAY)))
        ended = done | failed
        words: list[Any] = [Cat(state, Mux(ended, self.bad, 0)),
                            *(Mux(ended, window.as_value(), 0) for window in self.windows)]
        words += [0] * ((1 << _WORD_BITS) - len(words))
        word, mine, mine_then, word_then = Signal(32), Signal(), Signal(), Signal(32)
        m.d.sync += [
            word.eq(Array(words)[self.reg_addr[2:2 + _WORD_BITS]]), word_then.eq(word), mine_then.eq(mine),
            mine.eq(self.reg_addr[2 + _WORD_BITS:] == _BASE >> 2 + _WORD_BITS),
        ]
        m.d.comb += self.reg_read_data.eq(Mux(mine_then, word_then, self.inner_read_data))
        return m
