"""The loop counters of the step sequencer: how they begin, advance and end."""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data

from tq_hw.hdl.array.steps import COUNT, Place
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit

__all__ = ["Loops"]

#: Offset and row of the step's kernel row, and the kernel rows left after it, less 1.
_KernelRow = data.StructLayout({"offset": 16, "row": 16, "left": signed(10)})


class Loops:
    """Counters over (output block, tile), then (kernel row, kernel column, channel block, slice).

    Counters named `left` count down to below 0, so that their sign marks the last round.

    op, gemm, folded, depthwise : the operation and its mode; place : where the tile starts, a `Place`
    blocks_left, slots_left, slots_after : output blocks; slots from this tile on, and after it (less 1)
    weight_block, in_block, sub, sub_rotate : of the output block: weight address, input offset, its part of a word
    first, tile_first, tile_over : the operation, the tile has no step yet; this tile is the last
    kernel_row, walk : the kernel row in which the step begins, and the one of the next feed
    inner, column, kernel_col : offsets of the channel block and of the kernel column; that column's number
    """

    def __init__(self, config: Config, step: Any) -> None:
        self._config = config
        self.op: Any = Signal(OperationLayout(Unit.ARRAY), reset_less=True)
        self.gemm, self.folded, self.depthwise = (Signal(name=n) for n in ("gemm", "folded", "depthwise"))

        # Loops over output blocks and tiles.
        self.blocks_left = Signal(COUNT)
        self.slots_left = Signal(signed(25))
        self.slots_after = Signal(signed(25))
        self.weight_block = Signal(16)
        self.in_block = Signal(16)
        self.sub = Signal(range(max(2, config.sub_blocks)))
        self.sub_rotate = Signal.like(step.feeds[0].rotate, name="sub_rotate")
        self.first = Signal()
        self.tile_first = Signal()
        self.place = Signal.like(step.place, name="place")
        self.tile_over: Value = self.slots_after[-1]

        # Loops inside a tile.
        self.kernel_row: Any = Signal(_KernelRow)
        self.walk: Any = Signal(_KernelRow)
        self.slices_left = Signal(signed(9))
        self.blocks_in_left = Signal(COUNT)
        self.cols_left = Signal(signed(10))
        self.rotate = Signal.like(self.sub_rotate, name="rotate")
        self.inner = Signal(16)
        self.column = Signal(16)
        self.kernel_col = Signal(16)
        self.column_step = Signal(16)
        self.triple_step = Signal(16)
        self.slice_last: Value = ~self.gemm | self.slices_left[-1]
        self.block_last: Value = self.depthwise | self.blocks_in_left[-1]
        self.col_last: Value = self.folded | self.cols_left[-1]
        self.row_last: Value = self.folded | self.walk.left[-1]

    def ends(self, m: Module) -> Signal:
        """Return whether this step is the last of its tile."""
        tile_last = Signal()
        m.d.comb += [
            self.column_step.eq(Mux(self.depthwise, self.triple_step, self.op.kernel_col_step)),
            tile_last.eq(self.slice_last & self.block_last & self.col_last & self.row_last),
        ]
        return tile_last

    def begin_operation(self) -> list[Any]:
        """Return the assignments that start at the first output block and tile."""
        op = self.op
        return [*self._first_block(), self.slots_left.eq(op.slots - 1), self.first.eq(1), self.tile_first.eq(1),
                self.place.eq(Place.FIRST), self.triple_step.eq(op.in_col_step + (op.in_col_step << 1))]

    def begin_tile(self) -> list[Any]:
        """Return the assignments that start at the first kernel row, kernel column, channel block and slice."""
        op, kernel_row = self.op, self.kernel_row
        return [
            self.slots_after.eq(self.slots_left - op.tile_slots),
            kernel_row.offset.eq(0), kernel_row.row.eq(0), kernel_row.left.eq(op.kernel_rows - 1),
            self.slices_left.eq(op.slices - 2), self.blocks_in_left.eq(op.kernel_blocks - 2),
            self.cols_left.eq(Mux(self.depthwise, op.kernel_cols - 4, op.kernel_cols - 2)),
            self.rotate.eq(Mux(self.depthwise, self.sub_rotate, 0)),
            self.inner.eq(self.in_block), self.column.eq(self.in_block), self.kernel_col.eq(0),
        ]

    def advance(self, m: Module) -> None:
        """Advance the slice; when slices end, the channel block, then the kernel column, then the kernel row."""
        op, gemm, depthwise = self.op, self.gemm, self.depthwise
        m.d.sync += [
            self.first.eq(0), self.tile_first.eq(0), self.place.eq(Place.AGAIN),
            self.slices_left.eq(self.slices_left - 1),
            self.rotate.eq(self.rotate - Mux(gemm, self._config.gemm_rows, 0)),
        ]
        with m.If(self.slice_last):
            m.d.sync += [self.slices_left.eq(op.slices - 2), self.blocks_in_left.eq(self.blocks_in_left - 1),
                         self.inner.eq(self.inner + Mux(gemm, op.kernel_block_step, 0))]
            with m.If(~depthwise):
                m.d.sync += self.rotate.eq(0)
        with m.If(self.slice_last & self.block_last):
            m.d.sync += [self.blocks_in_left.eq(op.kernel_blocks - 2),
                         self.cols_left.eq(self.cols_left - Mux(depthwise, 3, 1)),
                         self.column.eq(self.column + self.column_step), self.inner.eq(self.column + self.column_step),
                         self.kernel_col.eq(self.kernel_col + Mux(depthwise, 3, op.kernel_col_dilation))]
        with m.If(self.slice_last & self.block_last & self.col_last):
            m.d.sync += [self.kernel_row.eq(self.walk), self.column.eq(self.in_block), self.inner.eq(self.in_block),
                         self.kernel_col.eq(0),
                         self.cols_left.eq(Mux(depthwise, op.kernel_cols - 4, op.kernel_cols - 2))]

    def next_tile(self, m: Module) -> Value:
        """Advance the tile or the output block, whichever is the inner loop; return whether none is left."""
        op, tile_over, blocks_left = self.op, self.tile_over, self.blocks_left
        m.d.sync += self.tile_first.eq(1)
        next_tile, next_block = Signal(), Signal()
        with m.If(op.blocks_inner):
            m.d.comb += [next_block.eq(~blocks_left[-1]), next_tile.eq(blocks_left[-1] & ~tile_over)]
            with m.If(next_tile):
                m.d.sync += self._first_block()
        with m.Else():
            m.d.comb += [next_tile.eq(~tile_over), next_block.eq(tile_over & ~blocks_left[-1])]
            with m.If(next_block):
                m.d.sync += [self.slots_left.eq(op.slots - 1), self.place.eq(Place.FIRST)]
        with m.If(next_tile):
            m.d.sync += [self.slots_left.eq(self.slots_after), self.place.eq(Place.ON)]
        with m.If(next_block):
            m.d.sync += [blocks_left.eq(blocks_left - 1),
                         self.weight_block.eq(self.weight_block + op.weight_block_step),
                         self.sub.eq(self.sub + 1), self.sub_rotate.eq(self.sub_rotate - self._config.cols)]
            with m.If(self.sub == self._config.sub_blocks - 1):
                m.d.sync += [self.sub.eq(0), self.sub_rotate.eq(0),
                             self.in_block.eq(self.in_block + Mux(self.depthwise, op.in_block_step, 0))]
        return ~next_tile & ~next_block

    def _first_block(self) -> list[Any]:
        op, config = self.op, self._config
        # Shifts and sums, because synthesis spends a multiplier on a product with a negative constant.
        parts = [op.sub_first << bit for bit in range(config.cols.bit_length()) if config.cols >> bit & 1]
        shift = (-Value.cast(sum(parts[1:], parts[0])))[:len(self.sub_rotate)]
        return [self.blocks_left.eq(op.out_blocks - 2), self.weight_block.eq(op.weight_base), self.in_block.eq(0),
                self.sub.eq(op.sub_first), self.sub_rotate.eq(shift if config.sub_blocks > 1 else 0)]
