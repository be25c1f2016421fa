"""The assembler of the engine's instructions: named registers, constants in registers, labels, blocks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tq_hw.hdl.serial.encoding import CODE_WORDS, HOST_REGISTERS, Halt, Op, Size
from tq_hw.isa.layout import Register

__all__ = ["Assembler", "AssemblerError", "Label", "Listing", "Reg"]


class AssemblerError(ValueError):
    """The microprogram breaks a rule."""


@dataclass(frozen=True, eq=False)
class Reg:
    """A register. With `scope` "" it keeps its value; registers of different scopes share numbers."""

    name: str
    scope: str = ""
    value: int | None = None
    number: int | None = None


@dataclass(frozen=True, eq=False)
class Label:
    """An address in the program."""

    name: str


@dataclass(frozen=True)
class Listing:
    """The result: instructions, and the registers' initial contents."""

    code: tuple[int, ...]
    registers: tuple[int, ...]
    used: int


@dataclass
class _Line:
    op: Op
    d: Reg | int = 0
    a: Reg | int = 0
    b: Reg | int = 0
    x: int = 0
    target: Label | None = None


class Assembler:
    """Collects instructions; `listing` assigns numbers to registers and labels.

    Operands are registers or integers. An integer becomes a register initialized with it.
    """

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._labels: dict[Label, int] = {}
        self._registers: dict[tuple[str, str], Reg] = {}
        self._constants: dict[int, Reg] = {}
        self._scope = ""

    def reg(self, name: str) -> Reg:
        """Return the register of that name, which has a number of its own."""
        return self._registers.setdefault((name, ""), Reg(name))

    def local(self, name: str) -> Reg:
        """Return the register of that name in the current scope; it shares its number with those of other scopes."""
        return self._registers.setdefault((name, self._scope), Reg(name, self._scope))

    def host(self, offset_bytes: int) -> Reg:
        """Return the register with the value that the host wrote at a byte offset."""
        name = f"host{offset_bytes:#x}"
        return self._registers.setdefault((name, "host"), Reg(name, "host", number=HOST_REGISTERS + offset_bytes // 4))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Set the scope of `local`."""
        before, self._scope = self._scope, name
        yield
        self._scope = before

    def label(self, name: str = "") -> Label:
        """Return a new label; `place` defines it."""
        return Label(name)

    def place(self, label: Label) -> None:
        """Define a label here."""
        if label in self._labels:
            raise AssemblerError(f"label {label.name!r} is placed twice")
        self._labels[label] = len(self._lines)

    def op(self, op: Op, d: Reg, a: Reg | int, b: Reg | int) -> None:
        """Add d = op(a, b)."""
        self._add(op, d, self._operand(a), self._operand(b))

    def move(self, d: Reg, a: Reg | int) -> None:
        """Add d = a."""
        self.op(Op.OR, d, a, 0)

    def add(self, d: Reg, a: Reg | int, b: Reg | int) -> None:
        """Add d = a + b."""
        self.op(Op.ADD, d, a, b)

    def sub(self, d: Reg, a: Reg | int, b: Reg | int) -> None:
        """Add d = a - b."""
        self.op(Op.SUB, d, a, b)

    def extract(self, d: Reg, a: Reg, offset: int, bits: int, *, signed: bool = False) -> None:
        """Add d = bits offset..offset+bits-1 of a."""
        if not (offset >= 0 and bits >= 1 and offset + bits <= 32):
            raise AssemblerError(f"bits {offset}..{offset + bits - 1} do not exist")
        place = offset | (bits - 1) << 5
        self._add(Op.EXT, d, a, place & 0xFF, place >> 8 | int(signed) << 2)

    def field(self, d: Reg, a: Reg, register: Register, name: str) -> None:
        """Add d = a field of the word a of `register`."""
        field = next(f for f in register.fields if f.name == name)
        if field.bits == 32:
            self.move(d, a)
        else:
            self.extract(d, a, field.offset, field.bits, signed=field.signed)

    def load(self, d: Reg, a: Reg | int, size: Size = Size.WORD) -> None:
        """Add a read of the scratchpad."""
        self._add(Op.LDS, d, self._operand(a), 0, size)

    def store(self, a: Reg | int, b: Reg | int, size: Size = Size.WORD) -> None:
        """Add a write of the scratchpad."""
        self._add(Op.STS, 0, self._operand(a), self._operand(b), size)

    def load_private(self, d: Reg, a: Reg | int, offset: int = 0) -> None:
        """Add a read of private word a + offset."""
        self._add(Op.LDP, d, self._operand(a), offset)

    def store_private(self, a: Reg | int, b: Reg | int, offset: int = 0) -> None:
        """Add a write of private word a + offset."""
        self._add(Op.STP, offset, self._operand(a), self._operand(b))

    def load_memory(self, d: Reg, a: Reg | int, size: Size = Size.WORD) -> None:
        """Add a read of system memory."""
        self._add(Op.LDX, d, self._operand(a), 0, size)

    def store_memory(self, a: Reg | int, b: Reg | int, size: Size = Size.WORD) -> None:
        """Add a write of system memory."""
        self._add(Op.STX, 0, self._operand(a), self._operand(b), size)

    def multiply_rows(self, a: Reg, b: Reg) -> None:
        """Add MACW."""
        self._add(Op.MACW, 0, a, b)

    def multiply_lanes(self, a: Reg, b: Reg) -> None:
        """Add MACD."""
        self._add(Op.MACD, 0, a, b)

    def clear_sums(self) -> None:
        """Add CLR."""
        self._add(Op.CLR)

    def sum(self, d: Reg, number: int) -> None:
        """Add d = sum `number`."""
        self._add(Op.ACC, d, 0, 0, number)

    def out(self, number: int, b: Reg | int) -> None:
        """Add OUT."""
        self._add(Op.OUT, number, 0, self._operand(b))

    def halt(self, why: Halt) -> None:
        """Add HALT."""
        self._add(Op.HALT, x=why)

    def branch(self, op: Op, a: Reg | int, b: Reg | int, label: Label) -> None:
        """Add a jump to `label` if op(a, b)."""
        self._lines.append(_Line(op, 0, self._operand(a), self._operand(b), target=label))

    def jump(self, label: Label) -> None:
        """Add a jump to `label`."""
        self.branch(Op.BEQ, 0, 0, label)

    def select(self, a: Reg | int, labels: list[Label]) -> None:
        """Add a jump to labels[a]."""
        table = self.label("table")
        self._lines.append(_Line(Op.JR, 0, self._operand(a), 0, target=table))
        self.place(table)
        for label in labels:
            self.jump(label)

    def call(self, label: Label, link: Reg) -> None:
        """Add a jump to `label`, which returns here with `back(link)`."""
        here = self.label("return")
        self.address(link, here)
        self.jump(label)
        self.place(here)

    def address(self, d: Reg, label: Label) -> None:
        """Add d = the address of `label`."""
        self._lines.append(_Line(Op.OR, d, self._operand(0), 0, target=label))

    def back(self, link: Reg) -> None:
        """Add the return to where `link` was set."""
        self._lines.append(_Line(Op.JR, 0, link, 0))

    @contextmanager
    def when(self, op: Op, a: Reg | int, b: Reg | int) -> Iterator[None]:
        """Run the block if op(a, b)."""
        end = self.label("end of when")
        self.branch(Op(op ^ 1), a, b, end)
        yield
        self.place(end)

    @contextmanager
    def loop(self) -> Iterator[tuple[Label, Label]]:
        """Repeat the block forever; give the labels of its start and of the code after it."""
        start, end = self.label("loop"), self.label("end of loop")
        self.place(start)
        yield start, end
        self.jump(start)
        self.place(end)

    @contextmanager
    def times(self, count: Reg) -> Iterator[None]:
        """Run the block `count` (1 or more) times; counts it down to 0."""
        start = self.label("times")
        self.place(start)
        yield
        self.sub(count, count, 1)
        self.branch(Op.BNE, count, 0, start)

    def _operand(self, operand: Reg | int) -> Reg:
        if isinstance(operand, Reg):
            return operand
        value = operand & 0xFFFFFFFF
        return self._constants.setdefault(value, Reg(f"{value:#x}", value=value))

    def _add(self, op: Op, d: Reg | int = 0, a: Reg | int = 0, b: Reg | int = 0, x: int = 0) -> None:
        if isinstance(d, Reg) and d.value is not None:
            raise AssemblerError(f"the constant {d.name} is written")
        self._lines.append(_Line(op, d, a, b, x))

    def listing(self) -> Listing:
        """Return the program; AssemblerError if it or its registers do not fit."""
        if len(self._lines) > CODE_WORDS:
            raise AssemblerError(f"the program has {len(self._lines)} instructions, at most {CODE_WORDS} fit")
        for line in self._lines:
            # A return address is a constant like any other.
            if line.op is Op.OR and line.target is not None:
                line.b, line.target = self._operand(self._labels[line.target]), None
        numbers, used = self._numbers()
        contents = [0] * HOST_REGISTERS
        for constant in self._constants.values():
            contents[numbers[constant]] = constant.value or 0
        return Listing(tuple(self._encode(line, numbers) for line in self._lines), tuple(contents), used)

    def _numbers(self) -> tuple[dict[Reg, int], int]:
        numbers = {register: number for number, register in enumerate(
            [*self._constants.values(), *(r for r in self._registers.values() if not r.scope)])}
        base = most = len(numbers)
        taken: dict[str, int] = {}
        for register in self._registers.values():
            if register.number is not None:
                numbers[register] = register.number
            elif register.scope:
                at = taken.get(register.scope, base)
                numbers[register], taken[register.scope] = at, at + 1
                most = max(most, at + 1)
        if most > HOST_REGISTERS:
            raise AssemblerError(f"the program has {most} registers, at most {HOST_REGISTERS} fit")
        return numbers, most

    def _encode(self, line: _Line, numbers: dict[Reg, int]) -> int:
        d, a, b = (numbers[part] if isinstance(part, Reg) else part for part in (line.d, line.a, line.b))
        x = line.x
        if line.target is not None:
            if line.target not in self._labels:
                raise AssemblerError(f"label {line.target.name!r} has no place")
            at = self._labels[line.target]
            d, x = at & 0xFF, at >> 8
        if not (0 <= d < 256 and 0 <= a < 256 and 0 <= b < 256 and 0 <= x < 8):
            raise AssemblerError(f"{line.op.name}: {d}, {a}, {b}, {x} do not fit")
        return b | a << 8 | d << 16 | x << 24 | line.op << 27
