"""Right shift of an int32 after the product, with the roundings of `isa.uop.Rounding`; powers of two for a left shift.

HALF_AWAY: RoundingDivideByPOT, 3 / 2 gives 2 and -3 / 2 gives -2; HALF_UP: 2 and -1; FLOOR: 1 and -2.
"""

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import RIGHT_SHIFT_CYCLES
from tq_hw.isa.uop import Rounding

__all__ = ["RightShift", "decoded", "power_of_two"]


def one_of(choices: list[Value], index: Value) -> Value:
    """Return choices[index]; there is a power of two of them."""
    while len(choices) > 1:
        choices = [Mux(index[0], choices[i + 1], choices[i]) for i in range(0, len(choices), 2)]
        index = index[1:]
    return choices[0]


def shifted_right(x: Value, bits: int, sign: Value, unit: int, ways: int, amount: Value) -> Value:
    """Return `bits` bits of x >> (unit * amount), sign-extended with `sign`, amount < ways."""
    wide = Cat(x, sign.replicate(unit * (ways - 1)))
    return one_of([wide[unit * k:unit * k + bits] for k in range(ways)], amount)


def decoded(exponent: Value, used: Value) -> tuple[list[Value], list[Value]]:
    """Return 2^(exponent % 8) in 8 bits, and 2^(exponent / 8) in 4, or 0 unless `used`: a LUT for each bit."""
    return [exponent[:3] == n for n in range(8)], [(exponent[3:5] == n) & used for n in range(4)]


def power_of_two(low: Sequence[Value] | Value, high: Sequence[Value] | Value) -> Value:
    """Return the 32 bits of a power of two that `decoded` has decoded: an AND each, which shares a LUT with others."""
    return Cat(low[bit % 8] & high[bit // 8] for bit in range(32))


class RightShift(wiring.Component):
    """Shift right arithmetically, with the rounding of `isa.uop.Rounding`. The adder of the zero point then rounds up.

    Pipelined, whole bytes first, so that only small multiplexers lie between registers. The last bit is shifted after
    the last register, because the cells of an adder have room for that choice.
    Rounding: HALF_AWAY is RoundingDivideByPOT; HALF_UP is `(x + half) >> n`; FLOOR is `x >> n`. n = 0 changes nothing.
    Range: all x, amount 0..31.
    Timing: LATENCY_CYCLES after x, one result a cycle.

    Members
    -------
    amount : In(5), one cycle *before* x
    rounding : In(Rounding), one cycle before x
    x : In(signed(32))
    y : Out(signed(32)), not from registers; up : Out(1), with it: add 1 to y
    """

    LATENCY_CYCLES = RIGHT_SHIFT_CYCLES

    amount: Signal
    rounding: Signal
    x: Signal
    y: Signal
    up: Signal

    def __init__(self) -> None:
        super().__init__({"amount": In(5), "rounding": In(2), "x": In(signed(32)), "y": Out(signed(32)), "up": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Shift by bytes, by two bits, by one bit, and examine the bits shifted out.

        The last bit shifted out is the half: it rounds up, except for a negative tie with HALF_AWAY, which has no bit
        set below the half.
        """
        m = Module()
        ties_down = Signal(reset_less=True)
        m.d.sync += ties_down.eq(delayed(m, self.rounding == Rounding.HALF_AWAY, 1, "away") & self.x[31])
        # Bit 0 is the last bit shifted out; `some` says whether a bit below it is set.
        word: Value = Cat(Const(0, 1), self.x)
        some: Value = Const(0, 1)
        for step, (unit, bits) in enumerate(((8, self.amount[3:]), (2, self.amount[1:3]), (1, self.amount[:1]))):
            bits = delayed(m, bits, 1 + step, f"amount_{unit}")
            shifted = Signal(33, name=f"by_{unit}", reset_less=True)
            any_below = Signal(name=f"some_{unit}", reset_less=True)
            out = (word[unit * number:unit * (number + 1)].any() & (bits > number)
                   for number in range((1 << len(bits)) - 1))
            # The cells of an adder have room for the last step.
            domain = m.d.sync if step < self.LATENCY_CYCLES else m.d.comb
            domain += [shifted.eq(shifted_right(word, 33, word[32], unit, 1 << len(bits), bits)),
                       any_below.eq(some | Cat(out).any())]
            word, some = shifted, any_below
        rounds = delayed(m, self.rounding != Rounding.FLOOR, 1 + self.LATENCY_CYCLES, "rounds")
        ties_down = delayed(m, ties_down, self.LATENCY_CYCLES - 1, "ties_down")
        m.d.comb += [self.y.eq(word[1:].as_signed()), self.up.eq(rounds & word[0] & (some | ~ties_down))]
        return m
