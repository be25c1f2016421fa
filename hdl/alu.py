"""The arithmetic and logic stage of a lane: `x = alu(a, b)` of isa/uop.py."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.delay import delayed
from tq_hw.hdl.requantize import one_of
from tq_hw.isa.uop import Alu

__all__ = ["LaneAlu"]


def _is(operation: Value, *choices: Alu) -> Value:
    return operation.matches(*(int(choice) for choice in choices))


class LaneAlu(wiring.Component):
    """Compute all of `isa.uop.Alu` on int32 operands.

    One adder serves sums, differences and comparisons; one shifter both directions; the count of leading zeros also
    tells whether a left shift overflows.

    Timing: LATENCY_CYCLES, one result a cycle, no back pressure.

    Members
    -------
    a, b : In(signed(32))
    partner : In(signed(32)), operand a of lane l ^ 1
    alu0, alu1, alu2 : In(4), `isa.uop.Alu`, with the operands and one and two cycles after them
    x : Out(signed(32))
    """

    LATENCY_CYCLES = 3

    a: Signal
    b: Signal
    partner: Signal
    alu0: Signal
    alu1: Signal
    alu2: Signal
    x: Signal

    def __init__(self) -> None:
        super().__init__({
            "a": In(signed(32)), "b": In(signed(32)), "partner": In(signed(32)), "alu0": In(4), "alu1": In(4),
            "alu2": In(4), "x": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Three stages: add and start the shift; compare and end the shift; choose."""
        m = Module()
        x = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.x.eq(x)
        pair = self.alu0 == Alu.PAIR_DIFFERENCE
        add = self.alu0 == Alu.ADD
        left = _is(self.alu0, Alu.SHL, Alu.SHL_SATURATE)
        minuend, subtrahend = Mux(pair, self.partner, self.a), Mux(pair, self.a, self.b)
        # 33 bits, so that the top bit of a difference is "a < b".
        total = Signal(33, reset_less=True)
        second = Cat(subtrahend, subtrahend[31]) ^ (~add).replicate(33)
        m.d.sync += total.eq(minuend + second.as_signed() + ~add)

        # Both shifts move a window over 63 bits: down from the word with its sign above it for the right one, up from
        # the word with zeros below it, by 31 less the amount, for the left one.
        zeros31 = Const(0, 31)
        both = Mux(left, Cat(zeros31, self.a), Cat(self.a, self.a[31].replicate(31)))
        coarse = Signal(39, reset_less=True)
        m.d.sync += coarse.eq(one_of([both[8 * k:8 * k + 39] for k in range(4)], self.b[3:5] ^ left.replicate(2)))

        # Leading zeros per byte; for a saturating shift of the word without its sign.
        counted = self.a ^ ((self.alu0 == Alu.SHL_SATURATE) & self.a[31]).replicate(32)
        byte_zeros = [Signal(4, name=f"byte_zeros{i}", reset_less=True) for i in range(4)]
        with m.If(_is(self.alu0, Alu.CLZ, Alu.SHL_SATURATE)):
            for i, zeros in enumerate(byte_zeros):
                byte = counted[8 * i:8 * i + 8]
                with m.If(byte == 0):
                    m.d.sync += zeros.eq(8)
                for bit in range(8):
                    with m.Elif(byte[7 - bit]):
                        m.d.sync += zeros.eq(bit)

        left1 = _is(self.alu1, Alu.SHL, Alu.SHL_SATURATE)
        a1, b1 = delayed(m, self.a, 1, "a1"), delayed(m, self.b, 1, "b1")
        shifted = Signal(32, reset_less=True)
        less, equal = Signal(reset_less=True), Signal(reset_less=True)
        zeros = Signal(6, reset_less=True)
        logic = Signal(32, reset_less=True)
        m.d.sync += [
            shifted.eq(one_of([coarse[k:k + 32] for k in range(8)], b1[:3] ^ left1.replicate(3))),
            less.eq(total[32]), equal.eq(~total.any()),
            logic.eq(Mux(self.alu1 == Alu.AND, a1 & b1, a1)),
        ]
        with m.If(~byte_zeros[3][3]):
            m.d.sync += zeros.eq(byte_zeros[3])
        for i in (2, 1):
            with m.Elif(~byte_zeros[i][3]):
                m.d.sync += zeros.eq(byte_zeros[i] + 8 * (3 - i))
        with m.Else():
            m.d.sync += zeros.eq(byte_zeros[0] + 24)

        total2, b2 = delayed(m, total[:32], 1, "total2"), delayed(m, b1, 1, "b2")
        # zeros counts the sign bit and its copies: a shift by that many or more drops a bit that differs.
        overflow = (self.alu2 == Alu.SHL_SATURATE) & (b2[:5] >= zeros)
        limit = Cat((~logic[31]).replicate(31), logic[31])
        with m.Switch(self.alu2):
            with m.Case(Alu.ADD, Alu.SUB, Alu.PAIR_DIFFERENCE):
                m.d.sync += x.eq(total2)
            with m.Case(Alu.MAX):
                m.d.sync += x.eq(Mux(less, b2, logic))
            with m.Case(Alu.MIN):
                m.d.sync += x.eq(Mux(less, logic, b2))
            with m.Case(Alu.SHL, Alu.SHL_SATURATE):
                m.d.sync += x.eq(Mux(overflow, limit, shifted))
            with m.Case(Alu.SAR):
                m.d.sync += x.eq(shifted)
            with m.Case(Alu.CLZ):
                m.d.sync += x.eq(zeros)
            with m.Case(Alu.LESS, Alu.LESS_EQUAL, Alu.EQUAL, Alu.NOT_EQUAL):
                is_less = less & (self.alu2 != Alu.EQUAL)
                holds = Mux(self.alu2 == Alu.NOT_EQUAL, ~equal, Mux(
                    self.alu2 == Alu.LESS, less, Mux(self.alu2 == Alu.LESS_EQUAL, is_less | equal, equal)))
                m.d.sync += x.eq(holds)
            with m.Case(Alu.SELECT_NEGATIVE):
                m.d.sync += x.eq(Mux(logic[31], b2, logic))
            with m.Default():
                m.d.sync += x.eq(logic)
        return m
