"""Logistic and tanh of 16-bit numbers, computed as in gemmlowp: one lane, one element per cycle.

    |x|  --table of exponentials, factors of the bits above-->  e  --Newton-Raphson-->  1 / ((1 + e) / 2)  -->  y

Source: gemmlowp `fixedpoint/fixedpoint.h`, with `FixedPoint<int16_t>`: `exp_on_negative_values`,
`one_over_one_plus_x_for_x_in_0_1`, `one_minus_x_over_one_plus_x_for_x_in_0_1`.
"""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import DelayLine, delayed
from tq_hw.isa.latency import ACTIVATION_LANE_CYCLES

__all__ = ["ActivationLane"]

#: e^-(2^k) in Q0.15 for k = -2..3.
_FACTORS = (25520, 19875, 12055, 4435, 600, 11)
#: The table has e^-(n / 2^12) for n = 1..2^10.
_TABLE_BITS = 10
#: 48/17 and -32/17, and 1, in Q2.13.
_START, _SLOPE, _ONE = 23130, -15420, 1 << 13
_STEPS = 3
_MAX = (1 << 15) - 1


def _high(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul of 16 bits. A table factor is never -2^15, so no saturation is needed."""
    return a * b + (1 << 14) >> 15


def _halved(x: int, times: int) -> int:
    """RoundingDivideByPOT."""
    return x + (1 << times - 1) - (x < 0) >> times


def _last_quarter(n: int) -> int:
    """Return e^-(n / 2^12) in Q0.15 for n = 1..2^10: Taylor expansion around -1/8."""
    constant, third = 28918, 10923  # e^-1/8 and 1/3
    x = (1 << 12) - 8 * n
    x2 = _high(x, x)
    tail = _high(_halved(_high(x2, x2), 2) + _high(x2, x), third) + x2
    return min(constant + _high(constant, x + _halved(tail, 1)), _MAX)


def _saturated(value: Value) -> Value:
    """Saturate a value to 16 bits."""
    fits = value[15:].all() | ~value[15:].any()
    return Mux(fits, value[:16], Cat((~value[-1]).replicate(15), value[-1])).as_signed()


class ActivationLane(wiring.Component):
    """Compute `isa.uop.Activation` of an int32.

    Range: all x. Timing: LATENCY_CYCLES, one result a cycle, no back pressure.
    Resources: seven 16x17 multipliers of variables, seven by constants, a table of 2^10 words of 15 bits.

    Members
    -------
    x : In(signed(32)), 12 fraction bits; tanh : In(1), with x: else the logistic
    y : Out(signed(16)), Q0.15
    """

    _PRODUCT_CYCLES = 2
    _EXPONENTIAL_CYCLES = 4 + _PRODUCT_CYCLES * len(_FACTORS)
    _RECIPROCAL_CYCLES = _PRODUCT_CYCLES * (1 + 2 * _STEPS)
    LATENCY_CYCLES = ACTIVATION_LANE_CYCLES
    assert LATENCY_CYCLES == _EXPONENTIAL_CYCLES + _RECIPROCAL_CYCLES + 2

    x: Signal
    tanh: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({"x": In(signed(32)), "tanh": In(1), "y": Out(signed(16))})

    def elaborate(self, platform: object) -> Module:
        """Chain the steps. Sign, zero flag and function are delayed alongside."""
        m = Module()
        flags = Cat(self.tanh, self.x[31], self.x == 0)
        m.submodules.flags = line = DelayLine(len(flags), self.LATENCY_CYCLES - 2)
        m.d.comb += line.i.eq(flags)
        tanh, negative, zero = line.o

        x = self._reciprocal(m, self._exponential(m))
        # One cycle to move the reciprocal's binary point, one to mirror negative x.
        magnitude = Signal(signed(16), reset_less=True)
        m.d.sync += magnitude.eq(Mux(tanh, _saturated(Cat(Const(0, 2), x - _ONE).as_signed()),
                                     _saturated(Cat(Const(0, 1), x).as_signed())))
        tanh, negative, zero = delayed(m, line.o, 1, "flags")
        y = Signal(signed(16), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        with m.If(zero):
            m.d.sync += y.eq(Mux(tanh, 0, 1 << 14))
        with m.Elif(negative):
            m.d.sync += y.eq(Mux(tanh, 0, _MAX) - magnitude)
        with m.Else():
            m.d.sync += y.eq(magnitude)
        return m

    def _exponential(self, m: Module) -> Value:
        """Return e^-|x| in Q0.15 for all x but 0; for |x| >= 16 it is 0."""
        magnitude = Signal(32, reset_less=True)
        at = Signal(16, reset_less=True)
        m.d.sync += [magnitude.eq(Mux(self.x[31], -self.x, self.x)),
                     at.eq(Mux(magnitude[16:].any(), (1 << 16) - 1, magnitude[:16] - 1))]
        memory: Any = Memory(shape=15, depth=1 << _TABLE_BITS,
                             init=[_last_quarter(n + 1) for n in range(1 << _TABLE_BITS)])
        m.submodules.table = memory
        read = memory.read_port()
        m.d.comb += read.addr.eq(at[:_TABLE_BITS])
        e: Value = delayed(m, read.data, 1, "found")
        bits = delayed(m, at[_TABLE_BITS:], 2, "bits")
        for number, factor in enumerate(_FACTORS):
            product = Signal(30, name=f"product{number}", reset_less=True)
            m.d.sync += product.eq(e * factor)
            before, bits = delayed(m, e, 1, f"e{number}"), delayed(m, bits, 1, f"bits{number}_early")
            taken = Signal(15, name=f"taken{number}", reset_less=True)
            m.d.sync += taken.eq(Mux(bits[0], product + (1 << 14) >> 15, before))
            e, bits = taken, delayed(m, bits[1:], 1, f"bits{number}")
        return e

    def _reciprocal(self, m: Module, e: Value) -> Value:
        """Return 1 / ((1 + e) / 2) in Q2.13 by Newton-Raphson steps from 48/17 - 32/17 * half."""
        # The mean of e and 2^15 - 1, ties up.
        half: Value = Cat(e[1:], Const(1, 1))

        def rounded(a: Value, b: Value | int, name: str) -> Value:
            """High product, one cycle late."""
            product = Signal(signed(34), name=f"product_{name}", reset_less=True)
            m.d.sync += product.eq(a * b)
            return product + (1 << 14) >> 15

        x = Signal(signed(17), name="start", reset_less=True)
        m.d.sync += x.eq(rounded(half, _SLOPE, "start") + _START)
        half = delayed(m, half, 2, "half_start")
        for step in range(_STEPS):
            error = Signal(signed(17), name=f"error{step}", reset_less=True)
            m.d.sync += error.eq(_ONE - rounded(half, x, f"error{step}"))
            late = delayed(m, x, 2, f"x{step}_early")
            correction = rounded(late, error, f"correction{step}")
            late, half = delayed(m, late, 1, f"x{step}_late"), delayed(m, half, 4, f"half{step}")
            x = Signal(signed(17), name=f"x{step}", reset_less=True)
            m.d.sync += x.eq(late + _saturated(Cat(Const(0, 2), correction).as_signed()))
        return x
