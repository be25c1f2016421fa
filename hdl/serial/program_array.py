"""Array operations: one tile per visit, all steps of one slot after the other."""

from tq_hw.hdl.serial.assembler import Label, Reg
from tq_hw.hdl.serial.encoding import Op, Sink
from tq_hw.hdl.serial.program_steps import Steps
from tq_hw.hdl.serial.shared import LANES, Shared
from tq_hw.isa.layout import UNITS, ArrayMode, Unit

__all__ = ["array"]

#: Where a slot is: slots left in its row, its input row and column, its input word, that of its row's first slot.
_PLACE = ("left", "row", "col", "word", "row_word")


def array(shared: Shared) -> tuple[Label, Label]:
    """Write the array unit's part; return where an operation begins and where it goes on."""
    with shared.asm.scope("array"):
        return _Array(shared).write()


class _Array:
    def __init__(self, shared: Shared) -> None:
        asm = self.asm = shared.asm
        self.shared = shared
        #: The operation's fields keep their values from visit to visit.
        unused = {"tile_rows", *(name for name in UNITS[Unit.ARRAY].fields if name.startswith(("wait_", "post_")))}
        self.f = {name: asm.reg(f"array {name}") for name in UNITS[Unit.ARRAY].fields if name not in unused}
        self.tile = {name: asm.reg(f"array tile {name}") for name in _PLACE}
        self.here = {name: asm.local(f"here {name}") for name in _PLACE}
        self.slots_left, self.blocks_left = asm.reg("array slots left"), asm.reg("array blocks left")
        self.weights, self.block = asm.reg("array weights"), asm.reg("array block")
        self.pointer = asm.reg("array buffer")
        self.slot_step, self.weight_step = asm.reg("array slot step"), asm.reg("array weight step")
        self.zeros = asm.reg("array zeros")
        self.weight = asm.local("weight")
        self.steps = Steps(shared, self.f, self.here, block=self.block, weight=self.weight,
                           weight_step=self.weight_step, zeros=self.zeros)

    def write(self) -> tuple[Label, Label]:
        asm, f, shared = self.asm, self.f, self.shared
        begin, resume = asm.label("array"), asm.label("array goes on")
        asm.place(begin)
        shared.decode(Unit.ARRAY, f)
        self._check()
        asm.op(Op.AND, self.zeros, f["zero_point"], 0xFF)
        asm.op(Op.MULL, self.zeros, self.zeros, 0x01010101)
        asm.op(Op.MULL, self.weight_step, f["weight_rows"], f["slices"])
        asm.move(self.slot_step, f["in_col_step"])
        with asm.when(Op.BEQ, f["mode"], ArrayMode.DEPTHWISE):
            asm.op(Op.MULL, self.slot_step, self.slot_step, f["col_stride"])
        self._first_slot()
        self._first_block()
        asm.place(resume)
        self._visit()
        return begin, resume

    def _check(self) -> None:
        """Refuse what breaks a rule: here the period, too, for which this machine has no use."""
        asm, f, shared = self.asm, self.f, self.shared
        shared.require_legal(Unit.ARRAY, f | {"open_buffers": shared.open_buffer})
        good, reach = asm.label(), asm.local("reach")
        asm.branch(Op.BNE, f["mode"], ArrayMode.DEPTHWISE, good)
        asm.sub(reach, f["out_cols"], 1)
        asm.op(Op.MULL, reach, reach, f["col_stride"])
        asm.branch(Op.BLTU, reach, f["period"], good)
        asm.add(reach, reach, f["col_first"])
        shared.require(Op.BLT, reach, 1)
        asm.place(good)

    def _first_slot(self) -> None:
        asm, f, tile = self.asm, self.f, self.tile
        asm.move(self.slots_left, f["slots"])
        for name, field in (("left", "out_cols"), ("row", "row_first"), ("col", "col_first"), ("word", "in_base"),
                            ("row_word", "in_base")):
            asm.move(tile[name], f[field])

    def _first_block(self) -> None:
        asm, f = self.asm, self.f
        asm.move(self.blocks_left, f["out_blocks"])
        asm.move(self.weights, f["weight_base"])
        asm.op(Op.MULL, self.block, f["sub_first"], f["in_block_step"])

    def _next_block(self) -> None:
        asm, f = self.asm, self.f
        asm.sub(self.blocks_left, self.blocks_left, 1)
        asm.add(self.weights, self.weights, f["weight_block_step"])
        asm.add(self.block, self.block, f["in_block_step"])

    def _visit(self) -> None:
        """Compute one tile."""
        asm, f, shared, here, tile = self.asm, self.f, self.shared, self.here, self.tile
        free = asm.label()
        asm.branch(Op.BNE, shared.open_buffer, 0, free)
        asm.branch(Op.BEQ, shared.full, shared.config.acc_buffers, shared.blocked)
        asm.place(free)
        left, size, sums = asm.local("left"), asm.local("size"), asm.local("sums")
        asm.out(Sink.ROWS, f["weight_rows"])
        asm.op(Op.MIN, size, self.slots_left, f["tile_slots"])
        asm.move(left, size)
        asm.move(sums, self.pointer)
        for name in _PLACE:
            asm.move(here[name], tile[name])
        with asm.times(left):
            asm.clear_sums()
            asm.move(self.weight, self.weights)
            added = asm.label("added")
            labels = {mode: asm.label(mode.name) for mode in ArrayMode}
            asm.select(f["mode"], list(labels.values()))
            for mode, write in ((ArrayMode.GEMM, self.steps.gemm), (ArrayMode.DEPTHWISE, self.steps.depthwise),
                                (ArrayMode.FOLDED, self.steps.folded)):
                asm.place(labels[mode])
                write()
                if mode is not ArrayMode.FOLDED:
                    asm.jump(added)
            asm.place(added)
            self._keep(sums)
            self._next_slot()
        asm.move(shared.open_buffer, 1)
        with asm.when(Op.BNE, f["acc_last"], 0):
            asm.move(shared.open_buffer, 0)
            asm.add(shared.full, shared.full, 1)
            shared.next_buffer(self.pointer)
        # Depthwise tiles are whole rows.
        whole = asm.label()
        asm.branch(Op.BNE, f["mode"], ArrayMode.DEPTHWISE, whole)
        shared.require(Op.BEQ, here["left"], f["out_cols"])
        asm.place(whole)
        self._next_tile(size)

    def _keep(self, sums: Reg) -> None:
        """Write or add the sums to the accumulators at `sums`, which goes on."""
        asm = self.asm
        value, other = asm.local("value"), asm.local("other")
        add, kept = asm.label(), asm.label()
        asm.branch(Op.BEQ, self.f["acc_first"], 0, add)
        for column in range(LANES):
            asm.sum(value, column)
            asm.store_private(sums, value, column)
        asm.jump(kept)
        asm.place(add)
        for column in range(LANES):
            asm.sum(value, column)
            asm.load_private(other, sums, column)
            asm.add(value, value, other)
            asm.store_private(sums, value, column)
        asm.place(kept)
        asm.add(sums, sums, LANES)

    def _next_slot(self) -> None:
        asm, f, here = self.asm, self.f, self.here
        asm.sub(here["left"], here["left"], 1)
        asm.add(here["col"], here["col"], f["col_stride"])
        asm.add(here["word"], here["word"], self.slot_step)
        with asm.when(Op.BEQ, here["left"], 0):
            asm.move(here["left"], f["out_cols"])
            asm.move(here["col"], f["col_first"])
            asm.add(here["row"], here["row"], f["row_stride"])
            asm.add(here["row_word"], here["row_word"], f["in_row_step"])
            asm.move(here["word"], here["row_word"])

    def _next_tile(self, size: Reg) -> None:
        asm, f, shared, tile, here = self.asm, self.f, self.shared, self.tile, self.here
        by_slots, last = asm.label(), asm.label()
        asm.branch(Op.BEQ, f["blocks_inner"], 0, by_slots)
        self._next_block()
        asm.branch(Op.BNE, self.blocks_left, 0, shared.visited)
        self._first_block()
        asm.place(by_slots)
        asm.sub(self.slots_left, self.slots_left, size)
        for name in _PLACE:
            asm.move(tile[name], here[name])
        asm.branch(Op.BNE, self.slots_left, 0, shared.visited)
        asm.branch(Op.BNE, f["blocks_inner"], 0, last)
        self._first_slot()
        self._next_block()
        asm.branch(Op.BNE, self.blocks_left, 0, shared.visited)
        asm.place(last)
        asm.jump(shared.done)
