"""The product of two int32, reduced to one word: SaturatingRoundingDoublingHighMul, or the low word, or its limit.

High product: `(x * m + 2^30) >> 31`, which equals TFLite's SaturatingRoundingDoublingHighMul for every int32 x and m.
Ties round up (x * m = 2^30 gives 1, -2^30 gives 0), and INT32_MIN * INT32_MIN gives INT32_MAX. The C source adds a
sign-dependent nudge and divides toward zero; tests/formal proves that both are the same function.
"""

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.choose import differ
from tq_hw.isa.latency import PRODUCT_CYCLES

__all__ = ["HighMultiply"]


class HighMultiply(wiring.Component):
    """Multiply two int32 and keep the high or the low word.

    high, nudged: `(x * multiplier + 2^30) >> 31`, saturated to int32; high, not nudged: `(x * multiplier) >> 31`,
    wrapping; low: the low 32 bits of the product, or saturated, the product limited to int32. `low` with multiplier 1
    passes x on.

    Range: all x, multipliers -2^31..2^31; of high products by an int32, only INT32_MIN * INT32_MIN leaves int32.
    Timing: LATENCY_CYCLES, one result a cycle; x and multiplier should come from registers.
    Resources: four 18x18 multipliers (or four DSP48E1) between registers.

    Parameters
    ----------
    bits : width of the factors and of the result; the numbers above are for 32, other widths serve proofs
    wide_luts : make the best of LUTs of six inputs

    Members
    -------
    x : In(signed(bits)); multiplier : In(signed(bits + 1))
    nudge : In(1), one cycle after x
    low : In(1), three cycles after x
    saturate : In(1), three cycles after x: nudged high product, or low product to be limited
    y : Out(signed(bits))
    """

    LATENCY_CYCLES = PRODUCT_CYCLES

    x: Signal
    multiplier: Signal
    nudge: Signal
    low: Signal
    saturate: Signal
    y: Signal

    def __init__(self, bits: int = 32, *, wide_luts: bool = False) -> None:
        self._bits, self._wide_luts = bits, wide_luts
        super().__init__({
            "x": In(signed(bits)), "multiplier": In(signed(bits + 1)), "nudge": In(1), "low": In(1), "saturate": In(1),
            "y": Out(signed(bits)),
        })

    def elaborate(self, platform: object) -> Module:
        """Multiply in parts of 17 and 15 or 16 bits, which fit signed 18-bit multipliers; add them, select the word."""
        m = Module()
        y = Signal(signed(self._bits), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        bits = self._bits
        low_bits = bits // 2 + 1

        def parts(factor: Value) -> tuple[Value, Value]:
            return Cat(factor[:low_bits], Const(0, 1)).as_signed(), factor[low_bits:].as_signed()

        x_low, x_high = parts(self.x)
        m_low, m_high = parts(self.multiplier)
        low_low, low_high, high_low, high_high = (
            Signal(Shape.cast((a * b).shape()), name=name, reset_less=True)
            for name, a, b in (("low_low", x_low, m_low), ("low_high", x_low, m_high), ("high_low", x_high, m_low),
                               ("high_high", x_high, m_high)))
        m.d.sync += [low_low.eq(x_low * m_low), low_high.eq(x_low * m_high), high_low.eq(x_high * m_low),
                     high_high.eq(x_high * m_high)]

        # The outer partial products do not overlap. The nudge is added to them with the sum of the inner ones.
        middle = Signal(signed(bits + 2), reset_less=True)
        outer = Signal(2 * bits, reset_less=True)
        joined = Cat(low_low[:2 * low_bits], high_high[:2 * (bits - low_bits)])
        m.d.sync += [
            middle.eq(low_high + high_low),
            outer.eq(Cat(joined[:bits - 2], joined[bits - 2:] + self.nudge)),
        ]

        product = Signal(2 * bits, reset_less=True)
        m.d.sync += product.eq(Cat(outer[:low_bits], outer[low_bits:].as_signed() + middle))

        # All bits but the sign are 1 where the product exceeds int32. Where it is negative, the register's reset makes
        # them 0.
        sign, upper = product[2 * bits - 1], product[bits - 1:]
        exceeds = self.saturate & Mux(self.low, differ(upper, wide_luts=self._wide_luts), sign ^ product[2 * bits - 2])
        word = Mux(self.low, product[:bits], product[bits - 1:2 * bits - 1])
        m.d.sync += y.eq(Cat(word[:-1] | exceeds.replicate(bits - 1), word[-1] & ~exceeds))
        with m.If(exceeds & sign):
            m.d.sync += y.eq(-1 << bits - 1)
        return m
