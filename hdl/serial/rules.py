"""The rules of isa/legality.py as instructions."""

from collections.abc import Mapping, Sequence

from tq_hw.hdl.serial.assembler import Assembler, Label, Reg
from tq_hw.hdl.serial.encoding import Op
from tq_hw.isa.legality import AllOf, Compare, Name, Term, Test, names
from tq_hw.isa.uop import UOP

__all__ = ["require_all"]

#: A comparison as a jump, and whether its operands change places.
_JUMPS = {"==": (Op.BEQ, False), "!=": (Op.BNE, False), "<": (Op.BLTU, False), ">=": (Op.BGEU, False),
          ">": (Op.BLTU, True), "<=": (Op.BGEU, True)}
#: Fields that may be negative, and the jumps that compare them.
_SIGNED = frozenset(field.name for register in UOP for field in register.fields if field.signed)
_SIGNED_JUMPS = {Op.BLTU: Op.BLT, Op.BGEU: Op.BGE}


def require_all(asm: Assembler, tests: Sequence[Test], fields: Mapping[str, Reg], wrong: Label) -> None:
    """Add a jump to `wrong` unless all tests hold for registers that hold the fields."""
    for test in tests:
        _Rules(asm, fields).unless(test, wrong)


class _Rules:
    def __init__(self, asm: Assembler, fields: Mapping[str, Reg]) -> None:
        self.asm, self.fields = asm, fields

    def unless(self, test: Test, target: Label) -> None:
        """Jump unless the test holds."""
        if isinstance(test, Compare):
            self._jump(test, target, opposite=True)
        elif isinstance(test, AllOf):
            for part in test.tests:
                self.unless(part, target)
        elif not test.tests:
            self.asm.jump(target)
        else:
            good = self.asm.label("good")
            for part in test.tests[:-1]:
                self.when(part, good)
            self.unless(test.tests[-1], target)
            self.asm.place(good)

    def when(self, test: Test, target: Label) -> None:
        """Jump if the test holds."""
        if isinstance(test, Compare):
            self._jump(test, target, opposite=False)
        elif isinstance(test, AllOf) and test.tests:
            other = self.asm.label("other")
            for part in test.tests[:-1]:
                self.unless(part, other)
            self.when(test.tests[-1], target)
            self.asm.place(other)
        else:
            for part in test.tests:
                self.when(part, target)

    def _jump(self, test: Compare, target: Label, *, opposite: bool) -> None:
        op, turned = _JUMPS[test.symbol]
        if names(test) & _SIGNED:
            op = _SIGNED_JUMPS.get(op, op)
        left, right = self._term(test.left, "left"), self._term(test.right, "right")
        if turned:
            left, right = right, left
        self.asm.branch(Op(op ^ opposite), left, right, target)

    def _term(self, term: Term, side: str) -> Reg | int:
        if isinstance(term, int):
            return term
        if isinstance(term, Name):
            return self.fields[term.name]
        assert term.symbol == "+"
        total = self.asm.local(f"{side} of a rule")
        self.asm.add(total, self._term(term.left, side), self._term(term.right, side))
        return total
