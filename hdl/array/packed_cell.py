"""A cell that computes two products with a shared weight in one multiplier, and the separation of their sums.

The bytes of two slots form one 25-bit operand, `high * 2^16 + low`, which a DSP48E1 multiplies by the weight in one
cycle. The sum of up to 8 such products is `S1 * 2^16 + S0` with S0 in -130048..131072, which needs two bits more than
the 16 below S1. S1 modulo 4, which a few LUTs per cell add up in parallel, resolves the overlap.
"""

from typing import Any

from amaranth import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import PACKED_CELL_CYCLES

__all__ = ["HIGH_BITS", "LOW_BITS", "TOTAL_BITS", "PackedCell", "PackedSums"]

#: Bit position of the high product in the operand and in the sums.
LOW_BITS = 16
#: Bits of either sum of 8 products of bytes, -130048..131072.
HIGH_BITS = 19
TOTAL_BITS = LOW_BITS + HIGH_BITS


class PackedCell(wiring.Component):
    """`total <= above + (row operand + column operand) * weight`, PACKED_CELL_CYCLES after the operands.

    In each half one of the two operands is 0, with one exception: where the column operand has a low byte, it has
    that byte + 128, and the row operand has -128 as its low half. The sum of both is a pair of signed bytes.

    Parameters
    ----------
    columns : whether the cell takes column bytes; otherwise `x_high` and `x_low` are unused

    Members
    -------
    row : In(25), signed, `high * 2^16 + low`
    row_high : In(2), low bits of the high byte
    x_high : In(8), signed; x_low : In(8), the column byte + 128
    weight : In(8), signed; idle : In(1), it counts as 0
    above : In(35), above_high : In(2), `total` and `total_high` of the cell above
    total : Out(35), sum of the packed products
    total_high : Out(2), sum of the high products modulo 4, one cycle before `total`
    """

    row: Signal
    row_high: Signal
    x_high: Signal
    x_low: Signal
    weight: Signal
    idle: Signal
    above: Signal
    above_high: Signal
    total: Signal
    total_high: Signal

    def __init__(self, *, columns: bool) -> None:
        self._columns = columns
        super().__init__({
            "row": In(signed(25)), "row_high": In(2), "x_high": In(signed(8)), "x_low": In(8), "weight": In(signed(8)),
            "idle": In(1), "above": In(signed(TOTAL_BITS)), "above_high": In(2),
            "total": Out(signed(TOTAL_BITS)), "total_high": Out(2)})

    def elaborate(self, platform: object) -> Module:
        """The registers of a DSP48E1: operands, pre-adder and weight; product; sum. No LUT precedes them."""
        m = Module()
        assert PACKED_CELL_CYCLES == 3
        operand = Signal(signed(25), reset_less=True)
        factor = Signal(signed(8), reset_less=True)
        product = Signal(signed(33), reset_less=True)
        total = Signal(signed(TOTAL_BITS), reset_less=True)
        column = Signal(signed(25))
        high: Any = self.row_high
        if self._columns:
            m.d.comb += column.eq(Cat(self.x_low, Signal(8), self.x_high, self.x_high[7]).as_signed())
            high = high | self.x_high[:2]
        m.d.sync += [
            operand.eq(self.row + column if self._columns else self.row), factor.eq(self.weight),
            product.eq(operand * factor), total.eq(self.above + product)]
        # The high product modulo 4: its bit 0, and its bit 1.
        low_bit, high_bit = Signal(reset_less=True), Signal(reset_less=True)
        total_high = Signal(2, reset_less=True)
        m.d.sync += [
            low_bit.eq(high[0] & self.weight[0]),
            high_bit.eq((high[1] & self.weight[0]) ^ (high[0] & self.weight[1])),
            total_high.eq(self.above_high + Cat(low_bit, high_bit))]
        with m.If(self.idle):
            m.d.sync += [factor.eq(0), low_bit.eq(0), high_bit.eq(0)]
        m.d.comb += [self.total.eq(total), self.total_high.eq(total_high)]
        return m


class PackedSums(wiring.Component):
    """Separate the two sums at the end of a chain, and register them.

    Members
    -------
    total : In(35), `S1 * 2^16 + S0`, both -130048..131072; total_high : In(2), S1 modulo 4, in the cycle before
    low, high : Out(19), S0 and S1, in the cycle after `total`
    """

    total: Signal
    total_high: Signal
    low: Signal
    high: Signal

    def __init__(self) -> None:
        super().__init__({"total": In(signed(TOTAL_BITS)), "total_high": In(2),
                          "low": Out(signed(HIGH_BITS)), "high": Out(signed(HIGH_BITS))})

    def elaborate(self, platform: object) -> Module:
        """S0 has 18 bits, -131072..131071. Bits 17..10 of -131072 can only mean 131072: S0 is never below -130048."""
        m = Module()
        total, upper = self.total, self.total[LOW_BITS:]
        more = Signal(2)
        negative = Signal()
        m.d.comb += [
            more.eq(upper[:2] - delayed(m, self.total_high, 1, "total_high")),
            # The least S0 is -131072 + 1024.
            negative.eq(more[1] & (more[0] | total[10:LOW_BITS].any()))]
        low = Signal(signed(HIGH_BITS), reset_less=True)
        high = Signal(signed(HIGH_BITS), reset_less=True)
        m.d.sync += [low.eq(Cat(total[:LOW_BITS], more, negative).as_signed()),
                     high.eq(upper - Cat(more, negative).as_signed())]
        m.d.comb += [self.low.eq(low), self.high.eq(high)]
        return m
