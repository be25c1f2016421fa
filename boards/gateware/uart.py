"""A UART: eight data bits, no parity, one stop bit."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter", "bit_cycles"]

#: Cycles of a bit below which sampling is too coarse.
_FEWEST_CYCLES = 5
#: Largest relative error of the baud rate that a whole number of cycles gives.
_TOLERANCE = 0.02


def bit_cycles(clock_hz: float, baud: int) -> int:
    """Return the cycles of one bit; ValueError if the clock cannot give the baud rate within two percent."""
    cycles = round(clock_hz / baud)
    if cycles < _FEWEST_CYCLES or abs(clock_hz / cycles / baud - 1) > _TOLERANCE:
        raise ValueError(f"a clock of {clock_hz / 1e6:g} MHz cannot make {baud} baud: expected {_FEWEST_CYCLES} or "
                         f"more cycles per bit and an error of 2 % or less, found {clock_hz / baud:.2f} cycles")
    return cycles


class UartReceiver(wiring.Component):
    """Bits to bytes.

    A byte is output in the middle of its stop bit. A byte whose stop bit is low is dropped, as is a start bit that is
    high again in its middle.

    Members
    -------
    rx : In(1), the pin; high when idle
    valid : Out(1), strobe; data : Out(8), with it
    """

    rx: Signal
    valid: Signal
    data: Signal

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        super().__init__({"rx": In(1, init=1), "valid": Out(1), "data": Out(8)})

    def elaborate(self, platform: object) -> Module:
        """Wait for the start bit, then sample in the middle of each bit."""
        m = Module()
        level = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, level, init=1)
        timer = Signal(range(self._cycles))
        bits = Signal(range(10))
        busy = Signal()
        m.d.sync += self.valid.eq(0)
        with m.If(~busy), m.If(~level):
            m.d.sync += [busy.eq(1), bits.eq(0), timer.eq(self._cycles // 2 - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self._cycles - 1), bits.eq(bits + 1)]
            with m.If((bits == 0) & level):
                m.d.sync += busy.eq(0)
            with m.Elif(bits == 9):
                m.d.sync += [busy.eq(0), self.valid.eq(level)]
            with m.Elif(bits != 0):
                m.d.sync += self.data.eq(Cat(self.data[1:], level))
        return m


class UartTransmitter(wiring.Component):
    """Bytes to bits.

    Members
    -------
    i : In(stream of 8 bits); ready between bytes
    tx : Out(1), the pin; high when idle
    """

    i: stream.Interface
    tx: Signal

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        """Shift out start bit, data and stop bit."""
        m = Module()
        timer = Signal(range(self._cycles))
        left = Signal(range(11))
        shift = Signal(9, init=(1 << 9) - 1)
        m.d.comb += self.i.ready.eq(left == 0)
        with m.If(left == 0), m.If(self.i.valid):
            m.d.sync += [self.tx.eq(0), shift.eq(Cat(self.i.payload, 1)), left.eq(10), timer.eq(self._cycles - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [self.tx.eq(shift[0]), shift.eq(Cat(shift[1:], 1)), left.eq(left - 1),
                         timer.eq(self._cycles - 1)]
        return m
