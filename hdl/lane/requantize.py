"""The arithmetic between an int32 and an int8: shifts, products and their roundings, one step a component.

    y = right_shift(high_product(x << left, multiplier), right)

High product: `(x * m + 2^30) >> 31`, which is TFLite's SaturatingRoundingDoublingHighMul for every int32 x and m:
halves go up (x * m = 2^30 gives 1, -2^30 gives 0), and INT32_MIN * INT32_MIN gives INT32_MAX. Its C source adds a
nudge that depends on the sign and divides toward zero; both are one function, proved in tests/formal.
Right shift, HALF_AWAY: RoundingDivideByPOT, 3 / 2 gives 2 and -3 / 2 gives -2; HALF_UP: 2 and -1; FLOOR: 1 and -2.
Bit-exact with `tq_hw.sim.golden.arith`; the source is LiteRT `kernels/internal/common.h` (double rounding).

The steps take control inputs in stated cycles after their operand, so that all lanes share one pipeline of them.
No step has back pressure, and none resets its data registers.
"""

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import CLAMP_CYCLES, LEFT_SHIFT_CYCLES, PRODUCT_CYCLES, RIGHT_SHIFT_CYCLES
from tq_hw.isa.uop import Rounding

__all__ = ["AddClamp", "HighMultiply", "LeftShift", "Requantize", "RightShift", "one_of", "shifted_right"]


def one_of(choices: list[Value], index: Value) -> Value:
    """Return choices[index]; a power of two of them."""
    while len(choices) > 1:
        choices = [Mux(index[0], choices[i + 1], choices[i]) for i in range(0, len(choices), 2)]
        index = index[1:]
    return choices[0]


def shifted_right(x: Value, bits: int, sign: Value, unit: int, ways: int, amount: Value) -> Value:
    """Return `bits` bits of x >> (unit * amount), filled with `sign` from above, amount < ways."""
    wide = Cat(x, sign.replicate(unit * (ways - 1)))
    return one_of([wide[unit * k:unit * k + bits] for k in range(ways)], amount)


class LeftShift(wiring.Component):
    """Shift left, wrapping at 32 bits.

    Range: all x, amount 0..31. Timing: LATENCY_CYCLES, one result a cycle.

    Members
    -------
    x : In(signed(32))
    amount : In(5), with x
    y : Out(signed(32))
    """

    LATENCY_CYCLES = LEFT_SHIFT_CYCLES

    x: Signal
    amount: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({"x": In(signed(32)), "amount": In(5), "y": Out(signed(32))})

    def elaborate(self, platform: object) -> Module:
        """Shift by whole bytes, then by the rest."""
        m = Module()
        y = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        coarse = Signal(32, reset_less=True)
        fine = delayed(m, self.amount[:3], 1, "fine")
        m.d.sync += [
            coarse.eq(one_of([Cat(Const(0, 8 * k), self.x)[:32] for k in range(4)], self.amount[3:])),
            y.eq(one_of([Cat(Const(0, k), coarse)[:32] for k in range(8)], fine)),
        ]
        return m


class HighMultiply(wiring.Component):
    """Multiply two int32 and keep the high or the low word.

    high, nudged: `(x * multiplier + 2^30) >> 31`, saturated to int32; high, not nudged: `(x * multiplier) >> 31`,
    wrapping; low: the low 32 bits of the product. So `low` with multiplier 1 passes x on.

    Range: all x, all multipliers; only INT32_MIN * INT32_MIN leaves int32.
    Timing: LATENCY_CYCLES, one result a cycle; x and multiplier should come from registers.
    Resources: four 18x18 multipliers (or four DSP48E1) between registers.

    Parameters
    ----------
    bits : width of the factors and the result; all numbers above are those of 32, others serve proofs

    Members
    -------
    x, multiplier : In(signed(bits))
    nudge : In(1), one cycle after x
    low : In(1), three cycles after x
    saturate : In(1), three cycles after x: nudged high product
    y : Out(signed(bits))
    """

    LATENCY_CYCLES = PRODUCT_CYCLES

    x: Signal
    multiplier: Signal
    nudge: Signal
    low: Signal
    saturate: Signal
    y: Signal

    def __init__(self, bits: int = 32) -> None:
        self._bits = bits
        super().__init__({
            "x": In(signed(bits)), "multiplier": In(signed(bits)), "nudge": In(1), "low": In(1), "saturate": In(1),
            "y": Out(signed(bits)),
        })

    def elaborate(self, platform: object) -> Module:
        """Multiply by parts of 17 and 15 bits, which fit signed 18-bit multipliers; add the parts, choose the word."""
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

        # The outer products do not overlap; the nudge is added to them with the sum of the inner ones.
        middle = Signal(signed(bits + 2), reset_less=True)
        outer = Signal(2 * bits, reset_less=True)
        joined = Cat(low_low[:2 * low_bits], high_high[:2 * (bits - low_bits)])
        m.d.sync += [
            middle.eq(low_high + high_low),
            outer.eq(Cat(joined[:bits - 2], joined[bits - 2:] + self.nudge)),
        ]

        product = Signal(2 * bits, reset_less=True)
        m.d.sync += product.eq(Cat(outer[:low_bits], outer[low_bits:].as_signed() + middle))

        overflow = self.saturate & ~product[2 * bits - 1] & product[2 * bits - 2]
        with m.If(self.low):
            m.d.sync += y.eq(product[:bits])
        with m.Elif(overflow):
            m.d.sync += y.eq((1 << bits - 1) - 1)
        with m.Else():
            m.d.sync += y.eq(product[bits - 1:2 * bits - 1])
        return m


class RightShift(wiring.Component):
    """Shift right arithmetically, rounding as `isa.uop.Rounding` says.

    Rounding: HALF_AWAY is RoundingDivideByPOT; HALF_UP is `(x + half) >> n`; FLOOR is `x >> n`. n = 0 changes nothing.
    Range: all x, amount 0..31: the sum with the half has 33 bits inside.
    Timing: LATENCY_CYCLES after x, one result a cycle.

    Members
    -------
    amount : In(5), one cycle *before* x
    rounding : In(Rounding), one cycle before x
    x : In(signed(32))
    y : Out(signed(32))
    """

    LATENCY_CYCLES = RIGHT_SHIFT_CYCLES

    amount: Signal
    rounding: Signal
    x: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({"amount": In(5), "rounding": In(2), "x": In(signed(32)), "y": Out(signed(32))})

    def elaborate(self, platform: object) -> Module:
        """Make the mask of what is shifted out, add the half, shift."""
        m = Module()
        y = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        # mask[i]: bit i is shifted out. The half is the mask's top bit; a negative tie gets the bits below it.
        mask = Signal(32, reset_less=True)
        away = Signal(reset_less=True)
        rounds = self.rounding != Rounding.FLOOR
        m.d.sync += [
            mask.eq(~(Const(-1, 32) << self.amount) & rounds.replicate(31)),
            away.eq(self.rounding == Rounding.HALF_AWAY),
        ]
        below = Cat(mask[1:], Const(0, 1))
        half = mask & ~below
        total = Signal(signed(33), reset_less=True)
        m.d.sync += total.eq(self.x + Cat(Mux(away & self.x[31], below, half), Const(0, 1)).as_signed())

        amount = delayed(m, self.amount, 2, "amount")
        coarse = Signal(signed(33), reset_less=True)
        fine = delayed(m, amount[:3], 1, "fine")
        m.d.sync += [
            coarse.eq(shifted_right(total, 33, total[32], 8, 4, amount[3:])),
            y.eq(shifted_right(coarse, 33, coarse[32], 1, 8, fine)[:32]),
        ]
        return m


class AddClamp(wiring.Component):
    """Add a zero point, wrapping at 32 bits, then clamp.

    Range: all x and zero points; limits are 16-bit, low <= high.
    Timing: LATENCY_CYCLES, one result a cycle; y changes only for `take`.

    Members
    -------
    x : In(signed(32))
    zero_point : In(signed(16)), with x
    low, high : In(signed(16)), one cycle after x
    clamp : In(1), one cycle after x
    low_late, high_late : In(signed(16)), low and high two cycles after x
    take : In(1), two cycles after x: y is to change
    y : Out(signed(32))
    """

    LATENCY_CYCLES = CLAMP_CYCLES

    x: Signal
    zero_point: Signal
    low: Signal
    high: Signal
    clamp: Signal
    low_late: Signal
    high_late: Signal
    take: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({
            "x": In(signed(32)), "zero_point": In(signed(16)), "low": In(signed(16)), "high": In(signed(16)),
            "clamp": In(1), "low_late": In(signed(16)), "high_late": In(signed(16)), "take": In(1),
            "y": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Add; compare; choose."""
        m = Module()
        y = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        total = Signal(signed(32), reset_less=True)
        late = Signal(signed(32), reset_less=True)
        below, above = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            total.eq(self.x + self.zero_point),
            late.eq(total),
            below.eq(self.clamp & (total < self.low)),
            above.eq(self.clamp & (total > self.high)),
        ]
        with m.If(self.take):
            m.d.sync += y.eq(Mux(below, self.low_late, Mux(above, self.high_late, late)))
        return m


class Requantize(wiring.Component):
    """Requantize an int32: MultiplyByQuantizedMultiplier, add the zero point, clamp.

    The whole path with all controls given together with x; the lanes of the vector unit have the same steps and
    share the controls' registers.

    Range: all x, multipliers and zero points, shift -31..31 (positive is left).
    Timing: LATENCY_CYCLES, one result a cycle, no back pressure.
    Raises: nothing.

    Members
    -------
    x, multiplier : In(signed(32))
    shift : In(signed(6))
    low : In(1), the low product instead of the high one
    truncate : In(1), no nudge
    rounding : In(2), `isa.uop.Rounding`
    zero_point, act_min, act_max : In(signed(16))
    y : Out(signed(32))

    See also: tq_hw.sim.golden.arith.multiply_by_quantized_multiplier, tests/hdl/lane/test_requantize.py.
    """

    LATENCY_CYCLES = (1 + LeftShift.LATENCY_CYCLES + HighMultiply.LATENCY_CYCLES + RightShift.LATENCY_CYCLES
                      + AddClamp.LATENCY_CYCLES)

    x: Signal
    multiplier: Signal
    shift: Signal
    low: Signal
    truncate: Signal
    rounding: Signal
    zero_point: Signal
    act_min: Signal
    act_max: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({
            "x": In(signed(32)), "multiplier": In(signed(32)), "shift": In(signed(6)), "low": In(1),
            "truncate": In(1), "rounding": In(2), "zero_point": In(signed(16)), "act_min": In(signed(16)),
            "act_max": In(signed(16)), "y": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Wire the steps; `at` is the cycle in which a step takes its operand."""
        m = Module()
        m.submodules.left = left = LeftShift()
        m.submodules.product = product = HighMultiply()
        m.submodules.right = right = RightShift()
        m.submodules.clamp = clamp = AddClamp()
        left_amount, right_amount = Signal(5), Signal(5)
        m.d.sync += [left_amount.eq(Mux(self.shift > 0, self.shift, 0)),
                     right_amount.eq(Mux(self.shift < 0, -self.shift, 0))]

        at = 1
        m.d.comb += [left.x.eq(delayed(m, self.x, at, "x")), left.amount.eq(left_amount)]
        at += left.LATENCY_CYCLES
        m.d.comb += [
            product.x.eq(left.y),
            product.multiplier.eq(delayed(m, self.multiplier, at, "multiplier")),
            product.nudge.eq(delayed(m, ~self.low & ~self.truncate, at + 1, "nudge")),
            product.low.eq(delayed(m, self.low, at + 3, "low")),
            product.saturate.eq(delayed(m, product.nudge, 2, "saturate")),
        ]
        at += product.LATENCY_CYCLES
        m.d.comb += [
            right.x.eq(product.y),
            right.amount.eq(delayed(m, right_amount, at - 2, "right_amount")),
            right.rounding.eq(delayed(m, self.rounding, at - 1, "rounding")),
        ]
        at += right.LATENCY_CYCLES
        low, high = delayed(m, self.act_min, at + 1, "act_min"), delayed(m, self.act_max, at + 1, "act_max")
        m.d.comb += [
            clamp.x.eq(right.y),
            clamp.zero_point.eq(delayed(m, self.zero_point, at, "zero_point")),
            clamp.low.eq(low), clamp.high.eq(high), clamp.clamp.eq(1), clamp.take.eq(1),
            clamp.low_late.eq(delayed(m, low, 1, "act_min_late")),
            clamp.high_late.eq(delayed(m, high, 1, "act_max_late")),
            self.y.eq(clamp.y),
        ]
        return m
