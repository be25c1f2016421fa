"""The arithmetic of one element in a micro-operation: ALU, shifts and product, as isa/uop.py defines them."""

from collections.abc import Mapping

from tq_hw.hdl.serial.assembler import Assembler, Label, Reg
from tq_hw.hdl.serial.encoding import Op, Size
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource

__all__ = ["LEAST", "MOST", "Arithmetic"]

#: The bounds of an int32, as words.
MOST, LEAST = 0x7FFFFFFF, 0x80000000
#: Words of a parameter block before multipliers and shifts.
_MULTIPLIERS, _SHIFTS = 4, 8
#: Low bits of a parameter that are its shift; the least value means no shift.
_SHIFT_BITS = 6


class Arithmetic:
    """Writes the arithmetic of an element.

    Parameters
    ----------
    u : fields of the micro-operation
    param, channel : word address of the parameter block, and the element's index in it
    a, b : operands; x : result; t, amount : temporaries
    """

    def __init__(self, asm: Assembler, u: Mapping[str, Reg], param: Reg, channel: Reg, *, a: Reg, b: Reg, x: Reg,
                 t: Reg, amount: Reg) -> None:
        self.asm, self.u, self.param, self.channel = asm, u, param, channel
        self.a, self.b, self.x, self.t, self.amount = a, b, x, t, amount

    def alu(self) -> None:
        """Set x to the ALU's result for a and b."""
        asm, a, b, x, t = self.asm, self.a, self.b, self.x, self.t
        done = asm.label()
        labels = {alu: asm.label(alu.name) for alu in Alu}
        # One lane has no neighbour: no pair difference comes as far as this.
        asm.select(self.u["alu"], [label for alu, label in labels.items() if alu is not Alu.PAIR_DIFFERENCE])
        for alu, op in ((Alu.ADD, Op.ADD), (Alu.SUB, Op.SUB), (Alu.MAX, Op.MAX), (Alu.MIN, Op.MIN), (Alu.AND, Op.AND)):
            asm.place(labels[alu])
            asm.op(op, x, a, b)
            asm.jump(done)
        asm.place(labels[Alu.CLZ])
        asm.move(x, 32)
        asm.add(t, a, b)
        with asm.loop() as (_, _leave):
            asm.branch(Op.BEQ, t, 0, done)
            asm.sub(x, x, 1)
            asm.op(Op.SRL, t, t, 1)
        for alu, op, (left, right) in ((Alu.LESS, Op.BLT, (a, b)), (Alu.LESS_EQUAL, Op.BGE, (b, a)),
                                       (Alu.EQUAL, Op.BEQ, (a, b)), (Alu.NOT_EQUAL, Op.BNE, (a, b))):
            asm.place(labels[alu])
            asm.move(x, 1)
            asm.branch(op, left, right, done)
            asm.move(x, 0)
            asm.jump(done)
        asm.place(labels[Alu.SELECT_NEGATIVE])
        asm.move(x, b)
        asm.branch(Op.BLT, a, 0, done)
        asm.place(labels[Alu.PASS])
        asm.move(x, a)
        asm.place(done)

    def multiply_and_shift(self) -> None:
        """Multiply x or shift it left, and shift it right, as the micro-operation says."""
        asm, u, t, amount = self.asm, self.u, self.t, self.amount
        # The shift; a negative one is to the right.
        found = asm.label()
        labels = {source: asm.label(source.name) for source in ShiftSource}
        asm.select(u["shift_source"], list(labels.values()))
        asm.place(labels[ShiftSource.PARAM])
        asm.add(t, self.param, _SHIFTS)
        asm.op(Op.SLL, t, t, 2)
        asm.add(t, t, self.channel)
        asm.load(amount, t, Size.BYTE)
        asm.extract(amount, amount, 0, _SHIFT_BITS, signed=True)
        asm.branch(Op.BNE, amount, -1 << _SHIFT_BITS - 1, found)
        asm.move(amount, 0)
        asm.jump(found)
        asm.place(labels[ShiftSource.SHIFT_B])
        asm.op(Op.AND, amount, self.b, 31)
        asm.sub(amount, 0, amount)
        asm.jump(found)
        asm.place(labels[ShiftSource.IMMEDIATE])
        asm.move(amount, u["shift"])
        asm.jump(found)
        asm.place(labels[ShiftSource.NONE])
        asm.move(amount, 0)
        asm.place(found)
        self._multiply()
        self._shift_right()

    def _multiply(self) -> None:
        asm, u, x, t = self.asm, self.u, self.x, self.t
        done, high = asm.label(), asm.label()
        labels = {multiply: asm.label(multiply.name) for multiply in Multiply}
        labels[Multiply.NONE] = done
        asm.select(u["multiply"], list(labels.values()))
        m = asm.local("m")
        asm.place(labels[Multiply.LOW_B])
        asm.op(Op.MULL, x, x, self.b)
        asm.jump(done)
        self._shift_left(labels, done)
        asm.place(labels[Multiply.HIGH_IMMEDIATE])
        asm.move(m, u["immediate"])
        asm.jump(high)
        asm.place(labels[Multiply.HIGH_B])
        asm.move(m, self.b)
        asm.jump(high)
        asm.place(labels[Multiply.HIGH_PARAM])
        asm.add(t, self.param, _MULTIPLIERS)
        asm.add(t, t, self.channel)
        asm.load(m, t)
        asm.place(high)
        asm.op(Op.MULL, t, x, m)
        asm.op(Op.MULQ, x, x, m)
        asm.branch(Op.BNE, u["truncate"], 0, done)
        asm.extract(t, t, 30, 1)
        asm.add(x, x, t)
        # Only 2^31, the square of -2^31, becomes -2^31.
        with asm.when(Op.BEQ, x, LEAST):
            asm.move(x, MOST)
        asm.place(done)

    def _shift_left(self, labels: Mapping[Multiply, Label], done: Label) -> None:
        asm, x, t, amount = self.asm, self.x, self.t, self.amount
        by, shift = asm.local("by left"), asm.label()
        asm.place(labels[Multiply.SHL])
        asm.op(Op.MAX, by, amount, 0)
        with asm.when(Op.BNE, self.u["shift_source"], ShiftSource.SHIFT_B):
            asm.move(amount, 0)
        asm.jump(shift)
        asm.place(labels[Multiply.SHL_B_SATURATE])
        asm.op(Op.SLL, t, x, self.b)
        asm.op(Op.SRA, t, t, self.b)
        with asm.when(Op.BNE, t, x):
            asm.op(Op.SRA, t, x, 31)
            asm.op(Op.XOR, x, t, MOST)
            asm.jump(done)
        asm.place(labels[Multiply.SHL_B])
        asm.op(Op.AND, by, self.b, 31)
        asm.place(shift)
        asm.op(Op.SLL, x, x, by)
        asm.jump(done)

    def _shift_right(self) -> None:
        asm, u, x, t, amount = self.asm, self.u, self.x, self.t, self.amount
        done = asm.label()
        half, by = asm.local("half"), asm.local("by")
        asm.branch(Op.BGE, amount, 0, done)
        asm.sub(by, 0, amount)
        asm.move(t, x)
        asm.op(Op.SRA, x, t, by)
        asm.branch(Op.BEQ, u["rounding"], Rounding.FLOOR, done)
        # The highest bit shifted out is the half.
        asm.sub(half, by, 1)
        asm.op(Op.SRA, half, t, half)
        asm.op(Op.AND, half, half, 1)
        asm.add(x, x, half)
        asm.branch(Op.BEQ, u["rounding"], Rounding.HALF_UP, done)
        # A negative tie rounds down.
        asm.branch(Op.BGE, t, 0, done)
        asm.op(Op.SLL, t, t, amount)
        with asm.when(Op.BEQ, t, LEAST):
            asm.sub(x, x, 1)
        asm.place(done)
