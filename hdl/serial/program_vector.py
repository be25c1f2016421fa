"""Vector operations: one tile per visit, or all tiles one by one; the passes of a chunk, element after element."""

from tq_hw.hdl.serial.assembler import Label, Reg
from tq_hw.hdl.serial.encoding import Op, Place
from tq_hw.hdl.serial.program_pass import Pass, next_slot
from tq_hw.hdl.serial.shared import Shared
from tq_hw.isa.layout import UNITS, Unit, VectorKind

__all__ = ["vector"]

_STREAMS = ("a", "b", "out")


def vector(shared: Shared) -> tuple[Label, Label]:
    """Write the vector unit's part; return where an operation begins and where it goes on."""
    with shared.asm.scope("vector"):
        return _Vector(shared).write()


class _Vector:
    def __init__(self, shared: Shared) -> None:
        asm = self.asm = shared.asm
        self.shared = shared
        unused = {"kind", "sub_first", "table_first", *(
            name for name in UNITS[Unit.VECTOR].fields if name.startswith(("wait_", "post_")))}
        self.f = {name: asm.reg(f"vector {name}") for name in UNITS[Unit.VECTOR].fields if name not in unused}
        places = ("left", *(f"{stream}{row}" for stream in _STREAMS for row in ("", "_row")))
        #: Slots left of the row; each stream's word at the slot and at its row's first slot, without the block's part.
        self.tile = {name: asm.reg(f"vector tile {name}") for name in places}
        self.here = {name: asm.local(f"here {name}") for name in places}
        self.slots_left, self.blocks_left = asm.reg("vector slots left"), asm.reg("vector blocks left")
        self.block = {stream: asm.reg(f"vector block {stream}") for stream in (*_STREAMS, "param")}
        self.pointer = asm.reg("vector buffer")
        self.sums, self.size, self.repeat, self.uop = (asm.local(name) for name in ("sums", "size", "repeat", "uop"))

    def write(self) -> tuple[Label, Label]:
        asm, shared = self.asm, self.shared
        begin, resume, run = asm.label("vector"), asm.label("vector goes on"), asm.label("pass")
        self._link = asm.local("link")
        self._pass = run
        asm.place(begin)
        kind, first, sub = asm.local("kind"), asm.local("table_first"), asm.local("sub")
        shared.decode(Unit.VECTOR, self.f | {"kind": kind, "table_first": first, "sub_first": sub})
        shared.require_legal(Unit.VECTOR, self.f | {"kind": kind, "table_first": first, "sub_first": sub})
        program = asm.label()
        asm.branch(Op.BEQ, kind, VectorKind.PROGRAM, program)
        self._load_table(first)
        asm.place(program)
        self._first_slot()
        self._first_block()
        asm.place(resume)
        self._visit()
        asm.place(run)
        Pass(shared, self.f, self.block, self.here, self.sums, self.size, self.repeat, self.uop).write()
        asm.back(self._link)
        return begin, resume

    def _load_table(self, entry: Reg) -> None:
        asm, f = self.asm, self.f
        value = asm.local("value")
        asm.op(Op.OR, entry, entry, Place.TABLE)
        with asm.times(f["slots"]):
            asm.load(value, f["a_base"])
            asm.store_private(entry, value)
            asm.add(entry, entry, 1)
            asm.add(f["a_base"], f["a_base"], 1)
        asm.jump(self.shared.done)

    def _first_slot(self) -> None:
        asm, f, tile = self.asm, self.f, self.tile
        asm.move(self.slots_left, f["slots"])
        asm.move(tile["left"], f["cols"])
        for stream in _STREAMS:
            asm.move(tile[stream], f[f"{stream}_base"])
            asm.move(tile[f"{stream}_row"], f[f"{stream}_base"])

    def _first_block(self) -> None:
        asm, f = self.asm, self.f
        asm.move(self.blocks_left, f["out_blocks"])
        for stream in _STREAMS:
            asm.move(self.block[stream], 0)
        asm.move(self.block["param"], f["param_base"])

    def _next_block(self) -> None:
        asm, f = self.asm, self.f
        asm.sub(self.blocks_left, self.blocks_left, 1)
        for stream in (*_STREAMS, "param"):
            asm.add(self.block[stream], self.block[stream], f[f"{stream}_block_step"])

    def _visit(self) -> None:
        """Compute one tile. The next one is another visit, so that the array can fill buffers in between."""
        asm, f, shared, here, tile = self.asm, self.f, self.shared, self.here, self.tile
        ready = asm.label()
        asm.branch(Op.BEQ, f["use_acc"], 0, ready)
        asm.branch(Op.BEQ, shared.full, 0, shared.blocked)
        asm.place(ready)
        left, tile_size = asm.local("left"), asm.local("tile size")
        asm.op(Op.MIN, tile_size, self.slots_left, f["tile_slots"])
        asm.move(left, tile_size)
        asm.move(self.sums, self.pointer)
        for name, register in here.items():
            asm.move(register, tile[name])
        with asm.loop() as (_, all_chunks):
            asm.op(Op.MIN, self.size, left, f["chunk_slots"])
            self._chunk()
            self._skip_chunk()
            asm.sub(left, left, self.size)
            asm.branch(Op.BEQ, left, 0, all_chunks)
        with asm.when(Op.BNE, f["use_acc"], 0):
            asm.sub(shared.full, shared.full, 1)
            shared.next_buffer(self.pointer)
        self._next_tile(tile_size)

    def _chunk(self) -> None:
        """Run the program on `size` slots."""
        asm, f = self.asm, self.f
        repeat1, repeat2, row_repeat, end = (asm.local(name) for name in (
            "repeat1", "repeat2", "row repeat", "end"))
        asm.move(self.repeat, 0)
        asm.move(self.uop, f["first"])
        self._passes_below(f["body_first"])
        asm.move(row_repeat, 0)
        asm.move(repeat2, f["repeat2"])
        with asm.times(repeat2):
            asm.move(self.repeat, row_repeat)
            asm.move(repeat1, f["repeat1"])
            with asm.times(repeat1):
                asm.move(self.uop, f["body_first"])
                asm.add(end, f["body_last"], 1)
                self._passes_below(end)
                asm.add(self.repeat, self.repeat, f["a_repeat1_step"])
            asm.add(row_repeat, row_repeat, f["a_repeat2_step"])
        asm.move(self.repeat, 0)
        asm.add(end, f["last"], 1)
        self._passes_below(end)

    def _passes_below(self, end: Reg) -> None:
        asm = self.asm
        with asm.loop() as (_, leave):
            asm.branch(Op.BGEU, self.uop, end, leave)
            asm.call(self._pass, self._link)
            asm.add(self.uop, self.uop, 1)

    def _skip_chunk(self) -> None:
        """Let the places go on by `size` slots."""
        asm, f, here = self.asm, self.f, self.here
        count = asm.local("count")
        asm.op(Op.SLL, count, self.size, 2)
        asm.add(self.sums, self.sums, count)
        asm.move(count, self.size)
        with asm.times(count):
            next_slot(self.shared, f, here)

    def _next_tile(self, size: Reg) -> None:
        asm, f, shared, tile, here = self.asm, self.f, self.shared, self.tile, self.here
        by_slots, last = asm.label(), asm.label()
        asm.branch(Op.BEQ, f["blocks_inner"], 0, by_slots)
        self._next_block()
        asm.branch(Op.BNE, self.blocks_left, 0, shared.visited)
        self._first_block()
        asm.place(by_slots)
        asm.sub(self.slots_left, self.slots_left, size)
        for name, register in here.items():
            asm.move(tile[name], register)
        asm.branch(Op.BNE, self.slots_left, 0, shared.visited)
        asm.branch(Op.BNE, f["blocks_inner"], 0, last)
        self._first_slot()
        self._next_block()
        asm.branch(Op.BNE, self.blocks_left, 0, shared.visited)
        asm.place(last)
        asm.jump(shared.done)
