"""Load and store operations."""

from collections.abc import Callable

from tq_hw.hdl.serial.assembler import Assembler, Label, Reg
from tq_hw.hdl.serial.encoding import Op, Size
from tq_hw.hdl.serial.shared import LANES, Shared
from tq_hw.isa.layout import Unit

__all__ = ["load", "store"]

_LOOPS = ("count0", "count1", "count2", "count3", "step0", "step1", "step2", "step3", "stride2_bytes", "stride3_bytes")
_BYTES = 0x01010101


class _Loops:
    """The four loops of both units: of words and of runs."""

    def __init__(self, shared: Shared, scratchpad: str) -> None:
        asm = self.asm = shared.asm
        self.shared = shared
        self.f = {name: asm.local(name) for name in (*_LOOPS, "memory_offset_bytes", "region", "flip", scratchpad)}
        self.scratchpad = self.f[scratchpad]
        #: byte address of the run, word address of the word, innermost words that are left of the pixel
        self.memory, self.word, self.left = asm.local("memory2"), asm.local("word0"), asm.local("left0")

    def run(self, before_run: Callable[[], None], one_word: Callable[[], None]) -> None:
        """Do `before_run()` for each run and `one_word()` for each of its words."""
        asm, f = self.asm, self.f
        memory3, left3, left2, left1 = (asm.local(name) for name in ("memory3", "left3", "left2", "left1"))
        word3, word2, word1 = (asm.local(name) for name in ("word3", "word2", "word1"))
        self.shared.base(memory3, f["region"])
        asm.add(memory3, memory3, f["memory_offset_bytes"])
        asm.move(word3, self.scratchpad)
        asm.move(left3, f["count3"])
        with asm.times(left3):
            asm.move(self.memory, memory3)
            asm.move(word2, word3)
            asm.move(left2, f["count2"])
            with asm.times(left2):
                before_run()
                asm.move(word1, word2)
                asm.move(left1, f["count1"])
                with asm.times(left1):
                    asm.move(self.word, word1)
                    asm.move(self.left, f["count0"])
                    with asm.times(self.left):
                        one_word()
                        asm.add(self.word, self.word, f["step0"])
                    asm.add(word1, word1, f["step1"])
                asm.add(self.memory, self.memory, f["stride2_bytes"])
                asm.add(word2, word2, f["step2"])
            asm.add(memory3, memory3, f["stride3_bytes"])
            asm.add(word3, word3, f["step3"])
        asm.jump(self.shared.done)

    def by_block(self, usual: Reg, last: Reg) -> Reg:
        """Return a register with the value of this word: the last block of a pixel has its own."""
        asm = self.asm
        value = asm.local(f"this_{usual.name}")
        asm.move(value, usual)
        with asm.when(Op.BEQ, self.left, 1):
            asm.move(value, last)
        return value


def load(shared: Shared) -> Label:
    """Write the load unit's part; return where an operation begins."""
    asm = shared.asm
    begin = asm.label("load")
    asm.place(begin)
    with asm.scope("load"):
        loops = _Loops(shared, "destination")
        own = {name: asm.local(name) for name in (
            "run_bytes", "fill", "pad_before_bytes", "emit_bytes", "advance_bytes", "last_emit_bytes",
            "last_advance_bytes")}
        shared.decode(Unit.LOAD, loops.f | own)
        shared.require_legal(Unit.LOAD, loops.f | own)
        position, flip_word = asm.local("position"), asm.local("flip_word")
        asm.op(Op.MULL, flip_word, loops.f["flip"], 0x80 * _BYTES)

        def before_run() -> None:
            asm.sub(position, 0, own["pad_before_bytes"])

        def one_word() -> None:
            _assemble(asm, loops, own, position, flip_word)
            asm.add(position, position, loops.by_block(own["advance_bytes"], own["last_advance_bytes"]))

        loops.run(before_run, one_word)
    return begin


def _assemble(asm: Assembler, loops: _Loops, own: dict[str, Reg], position: Reg, flip_word: Reg) -> None:
    """Make the word whose first byte is byte `position` of the run, and write it."""
    at, value, other, by = (asm.local(name) for name in ("at", "value", "other", "by"))
    by_bytes, made = asm.label("by bytes"), asm.label("made")
    # All four bytes inside of the run: one or two words of memory.
    asm.branch(Op.BLT, position, 0, by_bytes)
    asm.add(at, position, LANES - 1)
    asm.branch(Op.BGE, at, own["run_bytes"], by_bytes)
    asm.add(at, loops.memory, position)
    asm.load_memory(value, at)
    asm.op(Op.SLL, by, at, 3)
    asm.op(Op.AND, by, by, 0x1F)
    with asm.when(Op.BNE, by, 0):
        asm.add(at, at, LANES)
        asm.load_memory(other, at)
        asm.op(Op.SRL, value, value, by)
        asm.sub(by, 0, by)
        asm.op(Op.SLL, other, other, by)
        asm.op(Op.OR, value, value, other)
    asm.op(Op.XOR, value, value, flip_word)
    asm.jump(made)
    asm.place(by_bytes)
    asm.move(value, 0)
    asm.move(by, 0)
    asm.move(at, position)
    with asm.loop() as (_, leave):
        inside, there = asm.label(), asm.label()
        asm.branch(Op.BLTU, at, own["run_bytes"], inside)
        asm.move(other, own["fill"])
        asm.jump(there)
        asm.place(inside)
        asm.add(other, loops.memory, at)
        asm.load_memory(other, other, Size.UNSIGNED_BYTE)
        asm.op(Op.XOR, other, other, flip_word)
        asm.op(Op.AND, other, other, 0xFF)
        asm.place(there)
        asm.op(Op.SLL, other, other, by)
        asm.op(Op.OR, value, value, other)
        asm.add(at, at, 1)
        asm.add(by, by, 8)
        asm.branch(Op.BEQ, by, 32, leave)
    asm.place(made)
    asm.store(loops.word, value)


def store(shared: Shared) -> Label:
    """Write the store unit's part; return where an operation begins."""
    asm = shared.asm
    begin = asm.label("store")
    asm.place(begin)
    with asm.scope("store"):
        loops = _Loops(shared, "source")
        own = {name: asm.local(name) for name in ("take_bytes", "last_take_bytes", "lane")}
        shared.decode(Unit.STORE, loops.f | own)
        shared.require_legal(Unit.STORE, loops.f | own)
        temporary = asm.local("temporary")
        at, flip_word, value = asm.local("at"), asm.local("flip_word"), asm.local("value")
        asm.op(Op.MULL, flip_word, loops.f["flip"], 0x80 * _BYTES)
        asm.op(Op.SLL, own["lane"], own["lane"], 3)

        def before_run() -> None:
            asm.move(at, loops.memory)

        def one_word() -> None:
            asm.load(value, loops.word)
            asm.op(Op.XOR, value, value, flip_word)
            take = loops.by_block(own["take_bytes"], own["last_take_bytes"])
            by_bytes, stored = asm.label(), asm.label()
            asm.branch(Op.BNE, take, LANES, by_bytes)
            asm.op(Op.AND, temporary, at, LANES - 1)
            asm.branch(Op.BNE, temporary, 0, by_bytes)
            asm.store_memory(at, value)
            asm.add(at, at, LANES)
            asm.jump(stored)
            asm.place(by_bytes)
            asm.op(Op.SRL, value, value, own["lane"])
            with asm.times(take):
                asm.store_memory(at, value, Size.BYTE)
                asm.add(at, at, 1)
                asm.op(Op.SRL, value, value, 8)
            asm.place(stored)

        loops.run(before_run, one_word)
    return begin
