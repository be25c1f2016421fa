"""Array operations: a tile a turn, all steps of one slot after the other."""

from tq_hw.hdl.serial.assembler import Assembler, Label, Reg
from tq_hw.hdl.serial.encoding import Op, Place, Sink
from tq_hw.hdl.serial.shared import LANES, Shared
from tq_hw.isa.control import Status
from tq_hw.isa.layout import FOLD_ENTRY, UNITS, ArrayMode, Unit

__all__ = ["array"]

#: Where a slot is: slots left in its row, its input row and column, its input word, that of its row's first slot.
_PLACE = ("left", "row", "col", "word", "row_word")
#: Kernel columns of a depthwise step.
_TAPS = 3


def array(shared: Shared) -> tuple[Label, Label]:
    """Write the array unit's part; return where an operation begins and where it goes on."""
    with shared.asm.scope("array"):
        return _Array(shared).write()


class _Array:
    def __init__(self, shared: Shared) -> None:
        asm = self.asm = shared.asm
        self.shared = shared
        #: The operation's fields keep their values from turn to turn.
        unused = {"tile_rows", *(name for name in UNITS[Unit.ARRAY].fields if name.startswith(("wait_", "post_")))}
        self.f = {name: asm.reg(f"array {name}") for name in UNITS[Unit.ARRAY].fields if name not in unused}
        self.tile = {name: asm.reg(f"array tile {name}") for name in _PLACE}
        self.here = {name: asm.local(f"here {name}") for name in _PLACE}
        self.slots_left, self.blocks_left = asm.reg("array slots left"), asm.reg("array blocks left")
        self.weights, self.block = asm.reg("array weights"), asm.reg("array block")
        self.pointer = asm.reg("array buffer")
        self.slot_step, self.weight_step = asm.reg("array slot step"), asm.reg("array weight step")
        self.zeros = asm.reg("array zeros")
        self.weight, self.x = asm.local("weight"), asm.local("x")

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
        self._turn()
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

    def _turn(self) -> None:
        """Do one tile."""
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
            for mode, write in ((ArrayMode.GEMM, self._gemm), (ArrayMode.DEPTHWISE, self._depthwise),
                                (ArrayMode.FOLDED, self._folded)):
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
        asm.branch(Op.BNE, self.blocks_left, 0, shared.turn)
        self._first_block()
        asm.place(by_slots)
        asm.sub(self.slots_left, self.slots_left, size)
        for name in _PLACE:
            asm.move(tile[name], here[name])
        asm.branch(Op.BNE, self.slots_left, 0, shared.turn)
        asm.branch(Op.BNE, f["blocks_inner"], 0, last)
        self._first_slot()
        self._next_block()
        asm.branch(Op.BNE, self.blocks_left, 0, shared.turn)
        asm.place(last)
        asm.jump(shared.done)

    def _gemm(self) -> None:
        asm, f, here, weight, x = self.asm, self.f, self.here, self.weight, self.x
        row, col, row_word, col_word, word = (asm.local(name) for name in (
            "row", "col", "row word", "col word", "word0"))
        rows, cols, blocks = asm.local("rows"), asm.local("cols"), asm.local("blocks")
        asm.move(row, here["row"])
        asm.move(row_word, here["word"])
        asm.move(rows, f["kernel_rows"])
        with asm.times(rows):
            asm.move(col, here["col"])
            asm.move(col_word, row_word)
            asm.move(cols, f["kernel_cols"])
            with asm.times(cols):
                outside, after = asm.label(), asm.label()
                asm.move(blocks, f["kernel_blocks"])
                # What is negative is a large unsigned number.
                asm.branch(Op.BGEU, row, f["in_rows"], outside)
                asm.branch(Op.BGEU, col, f["in_cols"], outside)
                asm.move(word, col_word)
                with asm.times(blocks):
                    asm.load(x, word)
                    asm.multiply_rows(weight, x)
                    asm.add(word, word, f["kernel_block_step"])
                    asm.add(weight, weight, self.weight_step)
                asm.jump(after)
                asm.place(outside)
                with asm.times(blocks):
                    asm.multiply_rows(weight, self.zeros)
                    asm.add(weight, weight, self.weight_step)
                asm.place(after)
                asm.add(col, col, f["kernel_col_dilation"])
                asm.add(col_word, col_word, f["kernel_col_step"])
            asm.add(row, row, f["kernel_row_dilation"])
            asm.add(row_word, row_word, f["kernel_row_step"])

    def _depthwise(self) -> None:
        asm, f, here, weight, x = self.asm, self.f, self.here, self.weight, self.x
        row, col, row_word, word = (asm.local(name) for name in ("row", "col", "row word", "word0"))
        rows, cols, taps, used, tap = (asm.local(name) for name in ("rows", "cols", "taps", "used", "tap"))
        skipped, skipped_words = asm.local("skipped"), asm.local("skipped words")
        # Taps beyond weight_rows have no weights.
        asm.op(Op.MIN, used, f["weight_rows"], _TAPS)
        asm.sub(skipped, _TAPS, used)
        asm.op(Op.MULL, skipped_words, skipped, f["in_col_step"])
        asm.move(row, here["row"])
        asm.add(row_word, here["word"], self.block)
        asm.move(rows, f["kernel_rows"])
        with asm.times(rows):
            asm.move(col, here["col"])
            asm.move(word, row_word)
            asm.move(cols, f["kernel_cols"])
            with asm.loop() as (_, all_cols):
                asm.move(tap, weight)
                asm.move(taps, used)
                with asm.loop() as (_, all_taps):
                    outside, multiply = asm.label(), asm.label()
                    asm.branch(Op.BGEU, row, f["in_rows"], outside)
                    asm.branch(Op.BGEU, col, f["in_cols"], outside)
                    asm.load(x, word)
                    asm.jump(multiply)
                    asm.place(outside)
                    asm.move(x, self.zeros)
                    asm.place(multiply)
                    asm.multiply_lanes(tap, x)
                    asm.add(tap, tap, 1)
                    asm.add(word, word, f["in_col_step"])
                    asm.add(col, col, 1)
                    asm.sub(cols, cols, 1)
                    asm.sub(taps, taps, 1)
                    asm.branch(Op.BEQ, cols, 0, all_taps)
                    asm.branch(Op.BEQ, taps, 0, all_taps)
                asm.add(weight, weight, f["weight_rows"])
                asm.sub(cols, cols, skipped)
                asm.add(col, col, skipped)
                asm.add(word, word, skipped_words)
                asm.branch(Op.BGE, 0, cols, all_cols)
            asm.add(row, row, f["kernel_row_dilation"])
            asm.add(row_word, row_word, f["kernel_row_step"])

    def _folded(self) -> None:
        asm, f, weight, x = self.asm, self.f, self.weight, self.x
        entry, steps, covered, mask, banks = (asm.local(name) for name in (
            "entry", "steps", "covered", "mask", "banks"))
        asm.move(entry, Place.FOLDS)
        asm.move(steps, f["kernel_blocks"])
        with asm.times(steps):
            asm.move(x, self.zeros)
            asm.move(covered, 0)
            asm.move(mask, 0)
            asm.move(banks, 0)
            for feed in range(3):
                self._feed(asm, entry, feed, covered, mask, banks)
            asm.multiply_rows(weight, x)
            asm.add(weight, weight, f["weight_rows"])
            asm.add(entry, entry, 3)

    def _feed(self, asm: Assembler, entry: Reg, feed: int, covered: Reg, mask: Reg, banks: Reg) -> None:
        """Put one feed's lanes into x; `covered` lanes, the bytes of `mask`, have been driven."""
        here, x = self.here, self.x
        word, end, row, value, by, own, bank = (asm.local(name) for name in (
            "fold", "end", "fold row", "value", "by", "own mask", "bank"))
        skip = asm.label()
        asm.load_private(word, entry, feed)
        asm.field(end, word, FOLD_ENTRY, "lane_end")
        asm.op(Op.MIN, end, end, LANES)
        asm.branch(Op.BGE, covered, end, skip)
        asm.move(covered, end)
        # Bytes below lane_end.
        asm.sub(end, LANES, end)
        asm.op(Op.SLL, end, end, 3)
        asm.op(Op.SRL, own, 0xFFFFFFFF, end)
        asm.op(Op.XOR, end, own, mask)
        asm.move(mask, own)
        asm.field(row, word, FOLD_ENTRY, "kernel_row")
        asm.add(row, row, here["row"])
        asm.branch(Op.BGEU, row, self.f["in_rows"], skip)
        asm.field(value, word, FOLD_ENTRY, "address")
        asm.add(value, value, here["word"])
        asm.op(Op.AND, bank, value, 3)
        asm.op(Op.SLL, bank, 1, bank)
        asm.op(Op.AND, row, bank, banks)
        asm.branch(Op.BNE, row, 0, self.shared.error(Status.BANK_CONFLICT))
        asm.op(Op.OR, banks, banks, bank)
        asm.load(value, value)
        asm.field(by, word, FOLD_ENTRY, "rotate")
        asm.op(Op.SLL, by, by, 3)
        asm.op(Op.SLL, row, value, by)
        asm.sub(by, 0, by)
        asm.op(Op.SRL, value, value, by)
        asm.op(Op.OR, value, value, row)
        asm.op(Op.XOR, value, value, x)
        asm.op(Op.AND, value, value, end)
        asm.op(Op.XOR, x, x, value)
        asm.place(skip)
