"""The ALU of a lane: `x = alu(a, b)` of isa/uop.py."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import ALU_CYCLES
from tq_hw.isa.uop import Alu

__all__ = ["AluFlags", "LaneAlu", "a_inverted", "alu_flags"]


def _codes(*choices: Alu) -> tuple[int, ...]:
    return tuple(int(choice) for choice in choices)


#: Control flags of each stage, by stage and name.
_FLAGS: tuple[dict[str, tuple[int, ...]], ...] = (
    {"pair": _codes(Alu.PAIR_DIFFERENCE), "carry": _codes(Alu.LESS_EQUAL, Alu.EQUAL, Alu.NOT_EQUAL),
     "carry_even": _codes(Alu.LESS_EQUAL, Alu.EQUAL, Alu.NOT_EQUAL, Alu.PAIR_DIFFERENCE)},
    {"takes_both": _codes(Alu.AND), "takes_less": _codes(Alu.MAX), "takes_more": _codes(Alu.MIN),
     "takes_negative": _codes(Alu.SELECT_NEGATIVE),
     "takes": _codes(Alu.PASS, Alu.AND, Alu.MAX, Alu.MIN, Alu.SELECT_NEGATIVE),
     "total": _codes(Alu.ADD, Alu.SUB, Alu.PAIR_DIFFERENCE)},
    {"pair": _codes(Alu.PAIR_DIFFERENCE), "subtracts": _codes(Alu.SUB), "zeros": _codes(Alu.CLZ),
     "less": _codes(Alu.LESS, Alu.LESS_EQUAL), "equals": _codes(Alu.EQUAL), "differs": _codes(Alu.NOT_EQUAL)},
)
#: Layout of one stage's flags. They are valid in the cycle in which the operation is at that stage.
AluFlags: tuple[data.StructLayout, ...] = tuple(data.StructLayout(dict.fromkeys(flags, 1)) for flags in _FLAGS)
#: Operations that subtract a from b, or use the sign of the difference.
_SUBTRACTING = _codes(Alu.SUB, Alu.MAX, Alu.MIN, Alu.LESS, Alu.LESS_EQUAL, Alu.EQUAL, Alu.NOT_EQUAL)


def alu_flags(operation: Value) -> list[Value]:
    """Return the values of `AluFlags` of an `isa.uop.Alu`, stage by stage."""
    return [Cat(operation.matches(*codes) for codes in flags.values()) for flags in _FLAGS]


def a_inverted(operation: Value) -> Value:
    """Return whether an `isa.uop.Alu` takes the complement of a: in even lanes, in odd lanes.

    Of a pair of lanes, one subtracts its own operand, the other its partner's.
    """
    subtracts = operation.matches(*_SUBTRACTING)
    return Cat(subtracts | operation.matches(*_codes(Alu.PAIR_DIFFERENCE)), subtracts)


def _nibble_zeros(nibble: Value) -> tuple[Value, Value]:
    """Return the leading zeros of four bits, 0..3, and whether all four are 0."""
    return Cat(~nibble[3] & (nibble[2] | ~nibble[1]), ~nibble[3] & ~nibble[2]), ~nibble.any()


def _byte_zeros(byte: Value) -> Value:
    """Return the leading zeros of a byte, 8 or more if all bits are 0."""
    upper, no_upper = _nibble_zeros(byte[4:])
    lower, no_lower = _nibble_zeros(byte[:4])
    return Cat(Mux(no_upper, lower, upper), no_upper & ~no_lower, no_upper & no_lower)


def _chosen(mixed: Value, other: Value, a: Value, b: Value) -> Value:
    """Return a or b by `other`, or `mixed`, the operand a, given as its complement, or the AND of both."""
    return Mux(mixed, Mux(other, a & b, ~a), Mux(other, b, a))


class LaneAlu(wiring.Component):
    """Compute all of `isa.uop.Alu` on int32 operands.

    One adder computes sums, differences and comparisons; leading zeros are those of its sum. Subtraction takes the
    complement of a as input, because the carry cells have room for the choice between b and the partner's operand, but
    not for an inversion too. The sum is then b - a - 1, whose complement is a - b.

    Timing: LATENCY_CYCLES, one result a cycle, no back pressure.

    Parameters
    ----------
    odd : whether the lane's number is odd
    wide_luts : make the best of LUTs of six inputs

    Members
    -------
    a : In(signed(32)), its complement where `a_inverted` says so; b : In(signed(32))
    partner : In(signed(32)), a of lane l ^ 1
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

    def __init__(self, *, odd: bool = False, wide_luts: bool = False) -> None:
        self._odd, self._wide_luts = odd, wide_luts
        super().__init__({
            "a": In(signed(32)), "b": In(signed(32)), "partner": In(signed(32)),
            **{f"flags{stage}": In(flags) for stage, flags in enumerate(AluFlags)},
            "x": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Three stages: add; compare, count and choose; combine."""
        m = Module()
        flags0, flags1, flags2 = self.flags0, self.flags1, self.flags2
        # 33 bits, so that the top bit of b - a - 1 is "b <= a", and that of b - a "b < a". The difference of a pair is
        # partner + ~a + 1 in an even lane, and the complement of a + ~partner in an odd one.
        total = Signal(33, reset_less=True)
        carry = flags0.carry if self._odd else flags0.carry_even
        m.d.sync += total.eq(self.a + Mux(flags0.pair, self.partner, self.b) + carry)
        a1, b1 = delayed(m, self.a, 1, "a1"), delayed(m, self.b, 1, "b1")

        # One of the operands, their AND, or 0.
        chosen, total2 = Signal(32, reset_less=True), Signal(32, reset_less=True)
        less = Signal(reset_less=True)
        other = (Mux(total[32], flags1.takes_more, flags1.takes_less) | flags1.takes_negative & a1[31]
                 | flags1.takes_both)
        mixed = Mux(total[32], flags1.takes_less, flags1.takes_more) | flags1.takes_both
        m.d.sync += [less.eq(~total[32]), total2.eq(total)]
        if self._wide_luts:
            m.d.comb += chosen.eq(self._late_choice(m, mixed, other, a1, b1))
        else:
            m.d.sync += chosen.eq(_chosen(mixed, other, a1, b1))
            with m.If(~flags1.takes):
                m.d.sync += chosen.eq(0)
        with m.If(~flags1.total):
            m.d.sync += total2.eq(0)
        zeros = self._count_zeros(m, total[:32])

        inverts = flags2.subtracts | flags2.pair if self._odd else flags2.subtracts
        truth = flags2.less & less | Mux(zeros[5], flags2.equals, flags2.differs)
        small = zeros & flags2.zeros.replicate(len(zeros)) | truth
        x = Signal(signed(32), name="result", reset_less=True)
        m.d.comb += self.x.eq(x)
        m.d.sync += x.eq(Mux(inverts, ~total2, total2 | chosen) | small)
        return m

    def _late_choice(self, m: Module, mixed: Value, other: Value, a: Value, b: Value) -> Value:
        """Return what `_chosen` does, one cycle later; 0 without `takes`, and so without any other flag.

        The choice is after the registers. There it shares a LUT of six inputs with the sum.
        """
        kept = [Signal(32, name=name, reset_less=True) for name in ("a2", "b2")]
        m.d.sync += [kept[0].eq(a), kept[1].eq(b)]
        with m.If(~self.flags1.takes):
            m.d.sync += [kept[0].eq(0), kept[1].eq(0)]
        return _chosen(delayed(m, mixed, 1, "mixed"), delayed(m, other, 1, "other"), kept[0], kept[1])

    @staticmethod
    def _count_zeros(m: Module, word: Value) -> Value:
        """Return the leading zeros of 32 bits, one cycle later."""
        of_byte = [delayed(m, _byte_zeros(word[8 * i:8 * i + 8]), 1, f"byte_zeros{i}") for i in range(4)]
        zeros = Signal(6)
        with m.If(~of_byte[3][3]):
            m.d.comb += zeros.eq(of_byte[3])
        for i in (2, 1):
            with m.Elif(~of_byte[i][3]):
                m.d.comb += zeros.eq(of_byte[i] + 8 * (3 - i))
        with m.Else():
            m.d.comb += zeros.eq(Mux(of_byte[0][3], 32, of_byte[0][:3] + 24))
        return zeros
