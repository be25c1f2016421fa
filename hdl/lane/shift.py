"""Shifts of an int32: left or right before the product, and right with the roundings of `isa.uop.Rounding` after it.

Right shift, HALF_AWAY: RoundingDivideByPOT, 3 / 2 gives 2 and -3 / 2 gives -2; HALF_UP: 2 and -1; FLOOR: 1 and -2.
Each shifter is pipelined, whole bytes first: FirstShift has one more stage, RightShift two. So only small multiplexers
lie between registers.
"""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import LEFT_SHIFT_CYCLES, RIGHT_SHIFT_CYCLES
from tq_hw.isa.uop import Rounding

__all__ = ["FirstShift", "RightShift"]


def _from_bit(first: Value) -> Value:
    """Return a 32-bit mask whose bits from `first` (5 bits) on are 1."""
    low = [first[:3] <= bit for bit in range(8)]
    return Cat((first[3:] < byte) | (first[3:] == byte) & low[bit] for byte in range(4) for bit in range(8))


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


class FirstShift(wiring.Component):
    """Shift left, wrapping at 32 bits, or right, arithmetically; then clear low bits.

    One shifter for the ALU's shifts and for the left shift before the product. It selects 32 of 63 bits: for a left
    shift, of the word above zeros; for a right shift, of the word below its sign extension.

    Range: all x, by -31..62 (positive is left; 32 and more gives 0), clear 0..31. Timing: LATENCY_CYCLES, one result
    a cycle.

    Members
    -------
    x : In(signed(32))
    by : In(signed(7)), with x
    clear : In(5), with x: bits below this one are 0 in the result
    y : Out(signed(32))
    """

    LATENCY_CYCLES = LEFT_SHIFT_CYCLES

    x: Signal
    by: Signal
    clear: Signal
    y: Signal

    def __init__(self) -> None:
        super().__init__({"x": In(signed(32)), "by": In(signed(7)), "clear": In(5), "y": Out(signed(32))})

    def elaborate(self, platform: object) -> Module:
        """Shift by 16 and 8; then by 4, 2 and 1, and clear."""
        m = Module()
        y = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.y.eq(y)
        # The 32 bits begin at bit 31 - by of the word above zeros, or at bit -1 - by of the word without its bit 0.
        down, right, sign = ~self.by[:5], self.by[6], self.x[31]
        half = self._by_16(m, down[4], right, sign)
        coarse = Signal(39, reset_less=True)
        m.d.sync += coarse.eq(Mux(down[3], half[8:], half[:39]))
        with m.If(~right & self.by[5]):
            m.d.sync += coarse.eq(0)
        keep = Signal(32, reset_less=True)
        m.d.sync += keep.eq(_from_bit(self.clear))

        fine = delayed(m, down[:3], 1, "fine")
        wide = Mux(fine[2], coarse[4:], coarse[:35])
        wide = Mux(fine[1], wide[2:], wide[:33])
        m.d.sync += y.eq(Mux(fine[0], wide[1:], wide[:32]) & keep)
        return m

    def _by_16(self, m: Module, far: Value, right: Value, sign: Value) -> Value:
        """Return the upper (`far`) or lower 47 of the 63 bits, one LUT4 per bit."""
        x = self.x
        # Each selects one of two bits of x, or a constant, by a two-bit code that 16 bits share.
        middle, upper = Signal(2), Signal(2)
        m.d.comb += [middle.eq(Mux(right, Mux(far, sign, 2), Mux(far, 3, 0))),
                     upper.eq(Mux(right, sign, Mux(far, 3, 2)))]

        def either(code: Signal, near_bit: Value, far_bit: Value) -> Value:
            return Mux(code[1], Mux(code[0], far_bit, near_bit), code[0])

        low = [right & Mux(far, x[i + 17], x[i + 1]) for i in range(15)]
        return Cat(low, *(either(middle, x[i + 1], x[i - 15]) for i in range(15, 31)),
                   *(either(upper, x[i - 31], x[i - 15]) for i in range(31, 47)))


class RightShift(wiring.Component):
    """Shift right arithmetically, with the rounding of `isa.uop.Rounding`. The adder of the zero point then rounds up.

    Rounding: HALF_AWAY is RoundingDivideByPOT; HALF_UP is `(x + half) >> n`; FLOOR is `x >> n`. n = 0 changes nothing.
    Range: all x, amount 0..31.
    Timing: LATENCY_CYCLES after x, one result a cycle.

    Members
    -------
    amount : In(5), one cycle *before* x
    rounding : In(Rounding), one cycle before x
    x : In(signed(32))
    y : Out(signed(32)); up : Out(1), with it: add 1 to y
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
            m.d.sync += [shifted.eq(shifted_right(word, 33, word[32], unit, 1 << len(bits), bits)),
                         any_below.eq(some | Cat(out).any())]
            word, some = shifted, any_below
        rounds = delayed(m, self.rounding != Rounding.FLOOR, 1 + self.LATENCY_CYCLES, "rounds")
        ties_down = delayed(m, ties_down, self.LATENCY_CYCLES - 1, "ties_down")
        m.d.comb += [self.y.eq(word[1:].as_signed()), self.up.eq(rounds & word[0] & (some | ~ties_down))]
        return m
