"""The assembler of the serial machine's microprogram, and the engine's arithmetic."""

import pytest
from amaranth.sim import Simulator

from tq_hw.hdl.serial.alu import Alu
from tq_hw.hdl.serial.assembler import Assembler, AssemblerError
from tq_hw.hdl.serial.encoding import CODE_WORDS, HOST_REGISTERS, Halt, Op, Size
from tq_hw.hdl.serial.program import microprogram
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import HEADER

VALUES = (0, 1, 2, 3, 31, 0x7F, 0x80, 0x7FFF, 0x8000, 0x12345678, 0x40000000, 0x7FFFFFFF, 0x80000000, 0x80000001,
          0xFFFF0000, 0xFFFFFF80, 0xFFFFFFFF)
MASK = 0xFFFFFFFF


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


EXPECTED = {
    Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.AND: lambda a, b: a & b, Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b, Op.SLL: lambda a, b: a << (b & 31), Op.SRL: lambda a, b: a >> (b & 31),
    Op.SRA: lambda a, b: signed(a) >> (b & 31), Op.MIN: lambda a, b: min(signed(a), signed(b)),
    Op.MAX: lambda a, b: max(signed(a), signed(b)), Op.MULL: lambda a, b: signed(a) * signed(b),
    Op.MULQ: lambda a, b: signed(a) * signed(b) >> 31,
}
TAKEN = {Op.BEQ: lambda a, b: a == b, Op.BNE: lambda a, b: a != b, Op.BLT: lambda a, b: signed(a) < signed(b),
         Op.BGE: lambda a, b: signed(a) >= signed(b), Op.BLTU: lambda a, b: a < b, Op.BGEU: lambda a, b: a >= b}


def test_arithmetic() -> None:
    alu = Alu()
    seen = 0

    async def bench(context):
        nonlocal seen
        for a in VALUES:
            context.set(alu.a, a)
            for b in VALUES:
                context.set(alu.b, b)
                for op, function in EXPECTED.items():
                    context.set(alu.instruction.op, op)
                    assert context.get(alu.result) == function(a, b) & MASK, (op, a, b)
                for op, function in TAKEN.items():
                    context.set(alu.instruction.op, op)
                    assert context.get(alu.taken) == function(a, b), (op, a, b)
                    seen += 1

    run(alu, bench)
    assert seen == len(VALUES) ** 2 * len(TAKEN)


def test_fields() -> None:
    alu = Alu()

    async def bench(context):
        for offset in range(32):
            for bits in range(1, 33 - offset):
                for sign in (False, True):
                    asm = Assembler()
                    asm.extract(asm.reg("d"), asm.reg("a"), offset, bits, signed=sign)
                    word, = asm.listing().code
                    context.set(alu.instruction.as_value(), word)
                    for a in (0x12345678, 0xDEADBEEF, 0xFFFFFFFF):
                        context.set(alu.a, a)
                        field = a >> offset & (1 << bits) - 1
                        wanted = field - (1 << bits) if sign and field >> bits - 1 else field
                        assert context.get(alu.result) == wanted & MASK, (offset, bits, sign, a)

    run(alu, bench)


def run(alu: Alu, bench) -> None:
    simulator = Simulator(alu)
    simulator.add_testbench(bench)
    simulator.run()


def test_instructions() -> None:
    """Registers are numbered constants first; a jump's target stands in d and x."""
    asm = Assembler()
    x, y = asm.reg("x"), asm.reg("y")
    end = asm.label("end")
    asm.add(x, y, 5)
    asm.branch(Op.BLTU, x, -1, end)
    asm.store(x, y, Size.HALF)
    asm.load_private(y, x, 200)
    asm.store_private(x, y, 201)
    asm.place(end)
    asm.sum(x, 3)
    asm.halt(Halt.DONE)
    listing = asm.listing()
    # 5, 0xFFFFFFFF, x, y.
    assert listing.registers[:4] == (5, 0xFFFFFFFF, 0, 0)
    assert len(listing.registers) == HOST_REGISTERS
    assert listing.used == 4

    def word(op: Op, d: int = 0, a: int = 0, b: int = 0, x: int = 0) -> int:
        return op << 27 | x << 24 | d << 16 | a << 8 | b

    assert listing.code == (
        word(Op.ADD, 2, 3, 0), word(Op.BLTU, 5, 2, 1), word(Op.STS, 0, 2, 3, Size.HALF), word(Op.LDP, 3, 2, 200),
        word(Op.STP, 201, 2, 3), word(Op.ACC, 2, x=3), word(Op.HALT, x=Halt.DONE))


def test_scopes_share_registers() -> None:
    asm = Assembler()
    kept = asm.reg("kept")
    for scope in ("one", "two"):
        with asm.scope(scope):
            asm.move(asm.local("first"), kept)
            asm.move(asm.local("second"), kept)
    assert asm.listing().used == 4
    targets = [code >> 16 & 0xFF for code in asm.listing().code]
    assert targets == [2, 3, 2, 3]


def test_wrong_programs() -> None:
    asm = Assembler()
    label = asm.label("here")
    asm.jump(label)
    with pytest.raises(AssemblerError, match="^label 'here' has no place$"):
        asm.listing()
    asm.place(label)
    with pytest.raises(AssemblerError, match="^label 'here' is placed twice$"):
        asm.place(label)
    with pytest.raises(AssemblerError, match=r"^bits 30\.\.33 do not exist$"):
        asm.extract(asm.reg("x"), asm.reg("x"), 30, 4)
    for number in range(HOST_REGISTERS):
        asm.reg(f"x{number}")
    with pytest.raises(AssemblerError, match="^the program has 242 registers, at most 240 fit$"):
        asm.listing()
    asm = Assembler()
    for _ in range(CODE_WORDS + 1):
        asm.clear_sums()
    with pytest.raises(AssemblerError, match="^the program has 2049 instructions, at most 2048 fit$"):
        asm.listing()


def test_the_microprogram_fits_its_block_ram() -> None:
    """12 blocks for the program; fields are those of the command layout."""
    listing = microprogram(PRESETS["serial"])
    assert 1000 < len(listing.code) <= 1536
    assert listing.used <= HOST_REGISTERS
    count = next(field for field in HEADER.fields if field.name == "count")
    place = count.offset | (count.bits - 1) << 5
    assert any(word >> 27 == Op.EXT and word & 0xFF == place & 0xFF and word >> 24 & 7 == place >> 8
               for word in listing.code)
