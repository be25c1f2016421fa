"""Shifts of an int32: left, and right with the roundings of `isa.uop.Rounding`.

Right shift, HALF_AWAY: RoundingDivideByPOT, 3 / 2 gives 2 and -3 / 2 gives -2; HALF_UP: 2 and -1; FLOOR: 1 and -2.
Each shift is in two steps, by whole bytes and then by the rest: a register between two small multiplexers.
"""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import LEFT_SHIFT_CYCLES, RIGHT_SHIFT_CYCLES
from tq_hw.isa.uop import Rounding

__all__ = ["LeftShift", "RightShift", "one_of", "shifted_right"]


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
