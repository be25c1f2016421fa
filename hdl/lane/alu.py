"""The arithmetic and logic stage of a lane: `x = alu(a, b)` of isa/uop.py."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.lane.shift import one_of
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import ALU_CYCLES
from tq_hw.isa.uop import Alu

__all__ = ["AluFlags", "LaneAlu", "alu_flags"]


def _codes(*choices: Alu) -> tuple[int, ...]:
    return tuple(int(choice) for choice in choices)


#: What each stage needs to know of the operation, by stage and name.
_FLAGS: tuple[dict[str, tuple[int, ...]], ...] = (
    {"pair": _codes(Alu.PAIR_DIFFERENCE), "adds": _codes(Alu.ADD), "left": _codes(Alu.SHL, Alu.SHL_SATURATE),
     "counts_signed": _codes(Alu.SHL_SATURATE)},
    {"left1": _codes(Alu.SHL, Alu.SHL_SATURATE), "ands": _codes(Alu.AND), "takes_less": _codes(Alu.MAX),
     "takes_more": _codes(Alu.MIN), "takes_negative": _codes(Alu.SELECT_NEGATIVE),
     "less": _codes(Alu.LESS, Alu.LESS_EQUAL)},
    {"total": _codes(Alu.ADD, Alu.SUB, Alu.PAIR_DIFFERENCE), "shifts": _codes(Alu.SHL, Alu.SHL_SATURATE, Alu.SAR),
     "saturates": _codes(Alu.SHL_SATURATE), "zeros": _codes(Alu.CLZ),
     "compares": _codes(Alu.LESS, Alu.LESS_EQUAL, Alu.EQUAL, Alu.NOT_EQUAL),
     "equals": _codes(Alu.LESS_EQUAL, Alu.EQUAL), "differs": _codes(Alu.NOT_EQUAL)},
)
#: Flags of one stage of the ALU, each as long as its operation is at that stage.
AluFlags: tuple[data.StructLayout, ...] = tuple(data.StructLayout(dict.fromkeys(flags, 1)) for flags in _FLAGS)


def alu_flags(operation: Value) -> list[Value]:
    """Return the values of `AluFlags` of an `isa.uop.Alu`, stage by stage."""
    return [Cat(operation.matches(*codes) for codes in flags.values()) for flags in _FLAGS]


def _leading_zeros(byte: Value) -> Value:
    """Return the count, 0..8, by nibbles; the operands come late."""
    low, high = byte[:4], byte[4:]

    def below_four(x: Value) -> Value:
        return Cat(~x[3] & (x[2] | ~x[1] & x[0]), ~x[3] & ~x[2] & x.any())

    return Cat(Mux(high.any(), below_four(high), below_four(low)), ~high.any() & low.any(), ~byte.any())


class LaneAlu(wiring.Component):
    """Compute all of `isa.uop.Alu` on int32 operands.

    One adder serves sums, differences and comparisons; one shifter both directions; the count of leading zeros also
    tells whether a left shift overflows.

    Timing: LATENCY_CYCLES, one result a cycle, no back pressure.

    Members
    -------
    a, b : In(signed(32))
    partner : In(signed(32)), operand a of lane l ^ 1
    flags0, flags1, flags2 : In(AluFlags), with the operands and one and two cycles after them
    x : Out(signed(32))
    """

    LATENCY_CYCLES = ALU_CYCLES

    a: Signal
    b: Signal
    partner: Signal
    flags0: Any
    flags1: Any
    flags2: Any
    x: Signal

    def __init__(self) -> None:
        super().__init__({
            "a": In(signed(32)), "b": In(signed(32)), "partner": In(signed(32)),
            **{f"flags{stage}": In(flags) for stage, flags in enumerate(AluFlags)}, "x": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Three stages: add and start the shift; compare and end the shift; choose."""
        m = Module()
        x = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.x.eq(x)
        flags0, flags1, flags2 = self.flags0, self.flags1, self.flags2
        minuend, subtrahend = Mux(flags0.pair, self.partner, self.a), Mux(flags0.pair, self.a, self.b)
        # 33 bits, so that the top bit of a difference is "a < b".
        total = Signal(33, reset_less=True)
        second = Cat(subtrahend, subtrahend[31]) ^ (~flags0.adds).replicate(33)
        m.d.sync += total.eq(minuend + second.as_signed() + ~flags0.adds)

        # Both shifts move a window over 63 bits: down from the word with its sign above it for the right one, up from
        # the word with zeros below it, by 31 less the amount, for the left one.
        zeros31 = Const(0, 31)
        both = Mux(flags0.left, Cat(zeros31, self.a), Cat(self.a, self.a[31].replicate(31)))
        coarse = Signal(39, reset_less=True)
        m.d.sync += coarse.eq(one_of([both[8 * k:8 * k + 39] for k in range(4)],
                                     self.b[3:5] ^ flags0.left.replicate(2)))

        # Leading zeros per byte; for a saturating shift of the word without its sign.
        counted = self.a ^ (flags0.counts_signed & self.a[31]).replicate(32)
        byte_zeros = [delayed(m, _leading_zeros(counted[8 * i:8 * i + 8]), 1, f"byte_zeros{i}") for i in range(4)]

        a1, b1 = delayed(m, self.a, 1, "a1"), delayed(m, self.b, 1, "b1")
        shifted = Signal(32, reset_less=True)
        less, equal, takes_b = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        zeros = Signal(6, reset_less=True)
        logic = Signal(32, reset_less=True)
        m.d.sync += [
            shifted.eq(one_of([coarse[k:k + 32] for k in range(8)], b1[:3] ^ flags1.left1.replicate(3))),
            less.eq(total[32] & flags1.less), equal.eq(~total.any()),
            takes_b.eq(Mux(total[32], flags1.takes_less, flags1.takes_more) | a1[31] & flags1.takes_negative),
            logic.eq(a1 & (b1 | (~flags1.ands).replicate(32))),
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
        overflow = flags2.saturates & (b2[:5] >= zeros)
        limit = Cat((~logic[31]).replicate(31), logic[31])
        with m.If(flags2.total):
            m.d.sync += x.eq(total2)
        with m.Elif(flags2.shifts):
            m.d.sync += x.eq(Mux(overflow, limit, shifted))
        with m.Elif(flags2.zeros):
            m.d.sync += x.eq(zeros)
        with m.Elif(flags2.compares):
            m.d.sync += x.eq(less | Mux(equal, flags2.equals, flags2.differs))
        with m.Else():
            m.d.sync += x.eq(Mux(takes_b, b2, logic))
        return m
