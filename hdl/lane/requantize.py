"""Requantization of an int32 to an int8: product, shift and roundings, one component per step.

    y = clamp(right_shift(high_product(x, multiplier), right) + zero_point)

The shift is in `hdl.lane.shift`, the product is in `hdl.lane.high_multiply`. This module has zero point and clamp,
and the whole chain. Bit-exact with `tq_hw.sim.golden.arith`; the source is LiteRT `kernels/internal/common.h` (double
rounding).

The steps take control inputs in stated cycles after their operand, so that all lanes can share one control pipeline.
No step has back pressure, and no data register has a reset.
"""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.lane.high_multiply import HighMultiply
from tq_hw.hdl.lane.shift import RightShift
from tq_hw.hdl.parts.choose import differ
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import CLAMP_CYCLES

__all__ = ["AddClamp", "Requantize"]


class AddClamp(wiring.Component):
    """Add the rounding carry and a zero point, wrapping at 32 bits, then clamp.

    Range: all x and zero points; limits are 16-bit, low <= high.
    Timing: LATENCY_CYCLES, one result a cycle; y changes only for `take`.

    Parameters
    ----------
    wide_luts : make the best of LUTs of six inputs

    Members
    -------
    x : In(signed(32))
    up : In(1), with x: add 1
    zero_point : In(signed(16)), with x
    low, high : In(signed(16)), one cycle after x
    used : In(1), one cycle after x: otherwise x counts as a sum of 0
    clamp : In(1), one cycle after x; 0 where x is not used
    low_late, high_late : In(signed(16)), low and high two cycles after x
    also : In(signed(32)), two cycles after x: ORed to y; 0 where x is used
    take : In(1), two cycles after x: y may change
    y : Out(signed(32))
    """

    LATENCY_CYCLES = CLAMP_CYCLES

    x: Signal
    up: Signal
    zero_point: Signal
    low: Signal
    high: Signal
    used: Signal
    clamp: Signal
    low_late: Signal
    high_late: Signal
    also: Signal
    take: Signal
    y: Signal

    def __init__(self, *, wide_luts: bool = False) -> None:
        self._wide_luts = wide_luts
        super().__init__({
            "x": In(signed(32)), "up": In(1), "zero_point": In(signed(16)), "low": In(signed(16)),
            "high": In(signed(16)), "used": In(1), "clamp": In(1), "low_late": In(signed(16)),
            "high_late": In(signed(16)), "also": In(signed(32)), "take": In(1), "y": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Add; compare; choose."""
        m = Module()
        y = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        total = Signal(signed(32), reset_less=True)
        late = Signal(signed(32), reset_less=True)
        below, above = Signal(reset_less=True), Signal(reset_less=True)
        # Limits have 16 bits. A wider sum is outside both, and its sign shows on which side.
        upper, short = total[15:], total[:16].as_signed()
        wide = differ(upper, wide_luts=self._wide_luts)
        m.d.sync += [
            # An extra bit below carries `up` in.
            total.eq((Cat(Const(1, 1), self.x) + Cat(self.up, self.zero_point).as_signed())[1:]),
            late.eq(Mux(self.used, total, 0)),
            below.eq(self.clamp & Mux(wide, total[31], short < self.low)),
            above.eq(self.clamp & Mux(wide, ~total[31], short > self.high)),
        ]
        with m.If(self.take):
            # The upper bits of a limit are all equal, so they share one multiplexer.
            limit = Mux(below, self.low_late, self.high_late)
            m.d.sync += y.eq(Mux(below | above, limit, late) | self.also)
        return m


class Requantize(wiring.Component):
    """Requantize an int32: MultiplyByQuantizedMultiplier without a left shift, add the zero point, clamp.

    The whole path, with all controls given together with x. The lanes of the vector unit have the same steps, but
    share the controls' registers.

    Range: all x, multipliers and zero points. A left shift takes a micro-operation of its own.
    Timing: LATENCY_CYCLES, one result a cycle, no back pressure.
    Raises: nothing.

    Members
    -------
    x, multiplier : In(signed(32))
    right_shift : In(5)
    low : In(1), the low product instead of the high one
    truncate : In(1), no nudge
    rounding : In(2), `isa.uop.Rounding`
    zero_point, act_min, act_max : In(signed(16))
    y : Out(signed(32))

    See also: tq_hw.sim.golden.arith.multiply_by_quantized_multiplier, tests/hdl/lane/test_requantize.py.
    """

    LATENCY_CYCLES = (1 + HighMultiply.LATENCY_CYCLES + RightShift.LATENCY_CYCLES + AddClamp.LATENCY_CYCLES)

    x: Signal
    multiplier: Signal
    right_shift: Signal
    low: Signal
    truncate: Signal
    rounding: Signal
    zero_point: Signal
    act_min: Signal
    act_max: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({
            "x": In(signed(32)), "multiplier": In(signed(32)), "right_shift": In(5), "low": In(1),
            "truncate": In(1), "rounding": In(2), "zero_point": In(signed(16)), "act_min": In(signed(16)),
            "act_max": In(signed(16)), "y": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Connect the steps; `at` is the cycle in which a step takes its operand."""
        m = Module()
        m.submodules.product = product = HighMultiply()
        m.submodules.right = right = RightShift()
        m.submodules.clamp = clamp = AddClamp()
        at = 1
        m.d.comb += [
            product.x.eq(delayed(m, self.x, at, "x")),
            product.multiplier.eq(delayed(m, self.multiplier, at, "multiplier")),
            product.nudge.eq(delayed(m, ~self.low & ~self.truncate, at + 1, "nudge")),
            product.low.eq(delayed(m, self.low, at + 3, "low")),
            product.saturate.eq(delayed(m, product.nudge, 2, "saturate")),
        ]
        at += product.LATENCY_CYCLES
        m.d.comb += [
            right.x.eq(product.y),
            right.amount.eq(delayed(m, self.right_shift, at - 1, "right_amount")),
            right.rounding.eq(delayed(m, self.rounding, at - 1, "rounding")),
        ]
        at += right.LATENCY_CYCLES
        low, high = delayed(m, self.act_min, at + 1, "act_min"), delayed(m, self.act_max, at + 1, "act_max")
        m.d.comb += [
            clamp.x.eq(right.y), clamp.up.eq(right.up),
            clamp.zero_point.eq(delayed(m, self.zero_point, at, "zero_point")),
            clamp.low.eq(low), clamp.high.eq(high), clamp.used.eq(1), clamp.clamp.eq(1),
            clamp.take.eq(1),
            clamp.low_late.eq(delayed(m, low, 1, "act_min_late")),
            clamp.high_late.eq(delayed(m, high, 1, "act_max_late")),
            self.y.eq(clamp.y),
        ]
        return m
