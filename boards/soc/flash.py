"""The board's SPI flash as read-only memory."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FlashReader"]

_READ = 0x03
_WORD_BITS = 32
#: Half periods of the flash's clock for which it stays deselected between two reads.
_PAUSE_HALVES = 8


class FlashReader(wiring.Component):
    """Read words by command 0x03, which every SPI flash supports; consecutive words need no new command.

    A word takes 64 half periods, and 64 + _PAUSE_HALVES more when it does not follow the previous one. The last word is
    kept.

    Parameters
    ----------
    half_cycles : cycles per half period of the flash's clock; command 0x03 supports at least 33 MHz

    Members
    -------
    request : In(1), held until `ready`; addr : In(22), word address; ready : Out(1), strobe; data : Out(32), with it
    select, clk, copi : Out(1), the flash's pins, `select` high when it is selected; cipo : In(1)
    """

    request: Signal
    addr: Signal
    ready: Signal
    data: Signal
    select: Signal
    clk: Signal
    copi: Signal
    cipo: Signal

    def __init__(self, half_cycles: int) -> None:
        if half_cycles < 1:
            raise ValueError(f"half a period has at least one cycle, not {half_cycles}")
        self._half_cycles = half_cycles
        super().__init__({"request": In(1), "addr": In(22), "ready": Out(1), "data": Out(32), "select": Out(1),
                          "clk": Out(1), "copi": Out(1), "cipo": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Shift 32 bits of command out, or 32 bits of data in; all pins are registers."""
        m = Module()
        shift = Signal(_WORD_BITS)
        left = Signal(range(_WORD_BITS + 1))
        timer = Signal(range(self._half_cycles))
        tick = Signal()
        pause = Signal(range(_PAUSE_HALVES + 1))
        here = Signal(22)
        kept = Signal()
        m.d.comb += [tick.eq(timer == 0), self.copi.eq(shift[-1]),
                     self.data.eq(Cat(shift[24:], shift[16:24], shift[8:16], shift[:8]))]
        m.d.sync += timer.eq(Mux(tick, self._half_cycles - 1, timer - 1))
        with m.FSM(name="state"):
            with m.State("IDLE"), m.If(self.request & ~self.ready):
                with m.If(kept & (self.addr == here)):
                    m.d.sync += self.ready.eq(1)
                    m.next = "READY"
                with m.Elif(kept & (self.addr == here + 1)):
                    m.d.sync += [here.eq(here + 1), left.eq(_WORD_BITS)]
                    m.next = "DATA"
                with m.Else():
                    m.d.sync += [here.eq(self.addr), self.select.eq(0), pause.eq(_PAUSE_HALVES)]
                    m.next = "PAUSE"
            with m.State("READY"):
                m.d.sync += self.ready.eq(0)
                m.next = "IDLE"
            with m.State("PAUSE"), m.If(tick):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.d.sync += [self.select.eq(1), shift.eq(Cat(Const(0, 2), here, Const(_READ, 8))),
                                 left.eq(_WORD_BITS)]
                    m.next = "COMMAND"
            for name, after in (("COMMAND", "DATA"), ("DATA", "DONE")):
                with m.State(name), m.If(tick):
                    # The flash changes its output at a falling clock edge; the bit is sampled at the next one.
                    m.d.sync += self.clk.eq(~self.clk)
                    with m.If(self.clk):
                        m.d.sync += [shift.eq(Cat(self.cipo, shift)), left.eq(left - 1)]
                        with m.If(left == 1):
                            m.d.sync += left.eq(_WORD_BITS)
                            m.next = after
            with m.State("DONE"):
                m.d.sync += [kept.eq(1), self.ready.eq(1)]
                m.next = "READY"
        return m
