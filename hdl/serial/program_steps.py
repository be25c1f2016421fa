"""The steps of an array slot, by mode: words of the feature map times weights, added to the sums."""

from collections.abc import Mapping

from tq_hw.hdl.serial.assembler import Assembler, Reg
from tq_hw.hdl.serial.encoding import Op, Place
from tq_hw.hdl.serial.shared import LANES, Shared
from tq_hw.isa.control import Status
from tq_hw.isa.layout import FOLD_ENTRY

__all__ = ["Steps"]

#: Kernel columns of a depthwise step.
_TAPS = 3


class Steps:
    """Writes all steps of a slot.

    Parameters
    ----------
    f : fields of the operation
    here : where the slot is: row, col, word
    block : words from block 0 to the output block, in DEPTHWISE
    weight : word address of the weights; it goes on
    weight_step : words of weights of a GEMM step
    zeros : a word of input zero points
    """

    def __init__(self, shared: Shared, f: Mapping[str, Reg], here: Mapping[str, Reg], *, block: Reg, weight: Reg,
                 weight_step: Reg, zeros: Reg) -> None:
        self.asm, self.shared, self.f, self.here = shared.asm, shared, f, here
        self.block, self.weight, self.weight_step, self.zeros = block, weight, weight_step, zeros
        self.x = self.asm.local("x")

    def gemm(self) -> None:
        """Write the steps of GEMM: kernel rows, kernel columns, blocks of input channels."""
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
                # A negative number is a large unsigned one.
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

    def depthwise(self) -> None:
        """Write the steps of DEPTHWISE: kernel rows, kernel columns in groups of the taps of a step."""
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

    def folded(self) -> None:
        """Write the steps of FOLDED: each assembles the bytes that its table entries select."""
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
