"""The engine's combinational arithmetic: sums, logic, shifts, bit fields, products."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.serial.encoding import InstructionLayout, Op

__all__ = ["Alu"]


class Alu(wiring.Component):
    """Results of the instructions that write a register without using memory, and the conditions of jumps.

    Everything is combinational.

    Members
    -------
    instruction : In(InstructionLayout)
    a, b : In(32), contents of its registers
    result : Out(32), for ADD to EXT
    taken : Out(1), for BEQ to BGEU
    """

    instruction: Any
    a: Signal
    b: Signal
    result: Signal
    taken: Signal

    def __init__(self) -> None:
        super().__init__({"instruction": In(InstructionLayout()), "a": In(32), "b": In(32), "result": Out(32),
                          "taken": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """One adder, one shifter, one multiplier."""
        m = Module()
        op, a, b = self.instruction.op, self.a, self.b
        # Sum and difference; the sign of the difference gives the comparison.
        total = Signal(33)
        subtract = Signal()
        m.d.comb += [subtract.eq(op != Op.ADD), total.eq(a + (b ^ subtract.replicate(32)) + subtract)]
        equal, less, less_unsigned = Signal(), Signal(), Signal()
        m.d.comb += [equal.eq(a == b), less_unsigned.eq(~total[32]),
                     less.eq(Mux(a[31] == b[31], total[31], a[31]))]
        # op ^ 1 is the opposite.
        test = op[1:3]
        m.d.comb += self.taken.eq(Mux(test == Op.BEQ >> 1 & 3, equal,
                                      Mux(test == Op.BLT >> 1 & 3, less, less_unsigned)) ^ op[0])

        # One right shifter. SLL passes through it bit-reversed.
        is_field = op == Op.EXT
        by = Mux(is_field, self.instruction.b[:5], b[:5])
        turned = Signal(32)
        fill = Signal()
        m.d.comb += [turned.eq(Mux(op == Op.SLL, a[::-1], a)), fill.eq((op == Op.SRA) & a[31])]
        shifted = turned
        for level in range(5):
            after = Signal(32, name=f"shifted{level}")
            m.d.comb += after.eq(Mux(by[level], Cat(shifted[1 << level:], fill.replicate(1 << level)), shifted))
            shifted = after
        last = Cat(self.instruction.b[5:], self.instruction.x[:2])
        sign = Signal()
        m.d.comb += sign.eq(shifted.bit_select(last, 1) & self.instruction.x[2])
        field = Cat(Mux(last >= bit, shifted[bit], sign) for bit in range(32))

        # Products of unsigned halves, and the correction for negative operands.
        low_a, high_a, low_b, high_b = a[:16], a[16:], b[:16], b[16:]
        middle, top = Signal(33), Signal(32)
        product = Signal(64)
        m.d.comb += [
            middle.eq(low_a * high_b + high_a * low_b),
            top.eq(high_a * high_b - Mux(a[31], b, 0) - Mux(b[31], a, 0)),
            product.eq(Cat(low_a * low_b, top) + Cat(Const(0, 16), middle)),
        ]

        with m.Switch(op):
            with m.Case(Op.ADD, Op.SUB):
                m.d.comb += self.result.eq(total[:32])
            with m.Case(Op.AND):
                m.d.comb += self.result.eq(a & b)
            with m.Case(Op.OR):
                m.d.comb += self.result.eq(a | b)
            with m.Case(Op.XOR):
                m.d.comb += self.result.eq(a ^ b)
            with m.Case(Op.SLL):
                m.d.comb += self.result.eq(shifted[::-1])
            with m.Case(Op.SRL, Op.SRA):
                m.d.comb += self.result.eq(shifted)
            with m.Case(Op.MIN, Op.MAX):
                m.d.comb += self.result.eq(Mux(less ^ (op == Op.MAX), a, b))
            with m.Case(Op.MULL):
                m.d.comb += self.result.eq(product[:32])
            with m.Case(Op.MULQ):
                m.d.comb += self.result.eq(product[31:63])
            with m.Default():
                m.d.comb += self.result.eq(field)
        return m
