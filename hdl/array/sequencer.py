"""Turns an array operation into its steps: the loops over tiles, output blocks, kernel and channels."""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.steps import COUNT, SLOT_FEEDS, Constants, Feed, Place, Step
from tq_hw.hdl.array.weights import WeightRequest
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import OperationLayout, TableWriteSignature, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.layout import FOLD_ENTRY, ArrayMode, Unit

__all__ = ["StepSequencer"]

#: A folding table entry as the compiler writes it.
_WrittenFold = data.StructLayout({f.name: f.bits for f in FOLD_ENTRY.fields})
#: Start of a kernel row of the step, and what is left: kernel rows below it, less 1.
_KernelRow = data.StructLayout({"offset": 16, "row": 16, "left": signed(10)})


class StepSequencer(wiring.Component):
    """Walks (output block, tile), then (kernel row, kernel column, channel block, slice), one step ahead.

    While the slot counter streams step n, the step n + 1 stands on `steps` and the weights of n + 1 are being
    fetched; the request for the weights of n + 2 waits. A step takes 5 cycles here, the first of a tile 7: hidden
    after steps that are as long. The next operation is taken as soon as the last step of this one is made and
    the first one has been taken.

    Members
    -------
    i : In(stream of operations), table : writes of the folding table
    steps : Out(stream of Step), constants : Out, those of the operation whose first step is on `steps`
    weights : Out(stream of WeightRequest)
    hold : In(1), take no operation in the next cycle
    accepted : Out(1), strobe
    """

    i: Any
    table: Any
    steps: Any
    constants: Any
    weights: Any
    hold: Signal
    accepted: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.ARRAY)), "table": In(TableWriteSignature()),
            "steps": Out(stream.Signature(Step(config))), "constants": Out(Constants),
            "weights": Out(stream.Signature(WeightRequest(config))),
            "hold": In(1), "accepted": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """One state per row of the loops' bodies; `step` is filled feed by feed."""
        m = Module()
        config = self._config
        op, step = Signal(OperationLayout(Unit.ARRAY), reset_less=True), self.steps.payload
        gemm, folded, depthwise = (Signal(name=n) for n in ("gemm", "folded", "depthwise"))
        m.d.comb += [gemm.eq(op.mode == ArrayMode.GEMM), folded.eq(op.mode == ArrayMode.FOLDED),
                     depthwise.eq(op.mode == ArrayMode.DEPTHWISE)]
        self._make_constants(m, op)
        fold_entry, fold_index = self._fold_table(m)
        # The feed's entry, in a register: what it tells the step takes a few levels of logic.
        entry: Any = Signal(Feed(config), reset_less=True)

        # Loops over output blocks and tiles.
        blocks_left = Signal(COUNT)
        slots_left, slots_after = Signal(signed(25)), Signal(signed(25))  # less 1
        weight_block, in_block = Signal(16), Signal(16)
        sub, sub_rotate = Signal(range(max(2, config.sub_blocks))), Signal.like(step.feeds[0].rotate)
        first, tile_first = Signal(), Signal()
        place = Signal.like(step.place)
        tile_over = slots_after[-1]

        # Loops inside a tile. inner, column: offsets of the channel block and of the kernel column.
        kernel_row, walk = Signal(_KernelRow), Signal(_KernelRow)
        slices_left, blocks_in_left, cols_left = Signal(signed(9)), Signal(COUNT), Signal(signed(10))
        rotate = Signal.like(sub_rotate)
        inner, column, kernel_col = Signal(16), Signal(16), Signal(16)
        column_step, triple_step = Signal(16), Signal(16)
        m.d.comb += column_step.eq(Mux(depthwise, triple_step, op.kernel_col_step))
        slice_last = ~gemm | slices_left[-1]
        block_last = depthwise | blocks_in_left[-1]
        col_last = folded | cols_left[-1]
        row_last = folded | walk.left[-1]
        tile_last = Signal()
        m.d.comb += tile_last.eq(slice_last & block_last & col_last & row_last)

        with m.If(self.steps.ready):
            m.d.sync += self.steps.valid.eq(0)
        with m.If(self.weights.ready):
            m.d.sync += self.weights.valid.eq(0)

        def first_block() -> list[Any]:
            shift = (-config.cols * op.sub_first)[:len(sub_rotate)]
            return [blocks_left.eq(op.out_blocks - 2), weight_block.eq(op.weight_base), in_block.eq(0),
                    sub.eq(op.sub_first), sub_rotate.eq(shift if config.sub_blocks > 1 else 0)]

        # The constants of the last operation are asked for until its first step is taken; known one cycle late, which
        # is soon enough, for no step becomes valid on the way to IDLE.
        keeps = self.steps.valid & step.operation_first
        kept = delayed(m, keeps, 1, "kept", control=True)
        # In IDLE, and neither on hold nor `kept`: a register, for whether an operation is taken ends far away.
        ready = Signal()
        # Low bits of the operation's number; -1 before the first.
        number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)

        m.d.comb += [self.i.ready.eq(ready), self.accepted.eq(self.i.valid & ready)]
        m.d.sync += number.eq(number + self.accepted)

        feed = Signal(range(SLOT_FEEDS))
        with m.FSM():
            with m.State("IDLE"):
                # Loaded speculatively; reloaded until an operation is accepted.
                m.d.sync += ready.eq(~self.accepted & ~self.hold & ~keeps)
                with m.If(~kept):
                    m.d.sync += op.eq(self.i.payload)
                with m.If(self.accepted):
                    m.next = "PREPARE"

            with m.State("PREPARE"):
                m.d.sync += [first_block(), slots_left.eq(op.slots - 1), first.eq(1), tile_first.eq(1),
                             place.eq(Place.FIRST), triple_step.eq(op.in_col_step + (op.in_col_step << 1))]
                m.next = "TILE"

            with m.State("TILE"):
                m.d.sync += [
                    slots_after.eq(slots_left - op.tile_slots),
                    kernel_row.offset.eq(0), kernel_row.row.eq(0), kernel_row.left.eq(op.kernel_rows - 1),
                    slices_left.eq(op.slices - 2), blocks_in_left.eq(op.kernel_blocks - 2),
                    cols_left.eq(Mux(depthwise, op.kernel_cols - 4, op.kernel_cols - 2)),
                    rotate.eq(Mux(depthwise, sub_rotate, 0)),
                    inner.eq(in_block), column.eq(in_block), kernel_col.eq(0), fold_index.eq(0),
                ]
                m.next = "REQUEST"

            # Whether the last one is taken comes late in its cycle: the next one goes on a cycle later.
            with m.State("REQUEST"), m.If(~self.weights.valid):
                request = self.weights.payload
                m.d.sync += [self.weights.valid.eq(1), request.jump.eq(tile_first),
                             request.address.eq(weight_block), request.rows.eq(op.weight_rows - 2),
                             request.number.eq(number),
                             walk.eq(kernel_row), feed.eq(0), fold_index.eq(fold_index + folded), entry.eq(fold_entry)]
                m.next = "FEEDS"

            with m.State("FEEDS"), m.If((feed != 0) | ~self.steps.valid):
                self._fill_feed(m, step, feed, op=op, entry=entry, walk=walk, inner=inner, rotate=rotate)
                with m.If(feed == 0):
                    m.d.sync += [
                        step.operation_first.eq(first), step.tile_first.eq(tile_first), step.place.eq(place),
                        step.slots.eq(Mux(tile_over, slots_left - 1, op.tile_slots - 2)),
                        step.col.eq(kernel_col),
                    ]
                m.d.sync += feed.eq(feed + 1)
                self._make_lag(m, step, feed, depthwise=depthwise, col_first=op.col_first, col=kernel_col)
                with m.If(feed == SLOT_FEEDS - 1):
                    m.next = "ADVANCE"
                with m.Else():
                    m.d.sync += [fold_index.eq(fold_index + folded), entry.eq(fold_entry)]

            with m.State("ADVANCE"):
                m.d.sync += [
                    self.steps.valid.eq(1), step.tile_last.eq(tile_last),
                    step.operation_last.eq(tile_last & tile_over & blocks_left[-1]),
                    first.eq(0), tile_first.eq(0), place.eq(Place.AGAIN),
                    slices_left.eq(slices_left - 1), rotate.eq(rotate - Mux(gemm, config.gemm_rows, 0)),
                ]
                with m.If(slice_last):
                    m.d.sync += [slices_left.eq(op.slices - 2), blocks_in_left.eq(blocks_in_left - 1),
                                 inner.eq(inner + Mux(gemm, op.kernel_block_step, 0))]
                    with m.If(~depthwise):
                        m.d.sync += rotate.eq(0)
                with m.If(slice_last & block_last):
                    m.d.sync += [blocks_in_left.eq(op.kernel_blocks - 2),
                                 cols_left.eq(cols_left - Mux(depthwise, 3, 1)),
                                 column.eq(column + column_step), inner.eq(column + column_step),
                                 kernel_col.eq(kernel_col + Mux(depthwise, 3, op.kernel_col_dilation))]
                with m.If(slice_last & block_last & col_last):
                    m.d.sync += [kernel_row.eq(walk), column.eq(in_block), inner.eq(in_block), kernel_col.eq(0),
                                 cols_left.eq(Mux(depthwise, op.kernel_cols - 4, op.kernel_cols - 2))]
                m.next = "REQUEST"
                with m.If(tile_last):
                    m.next = "NEXT"

            with m.State("NEXT"):
                m.d.sync += tile_first.eq(1)
                m.next = "TILE"
                next_tile, next_block = Signal(), Signal()
                with m.If(op.blocks_inner):
                    m.d.comb += [next_block.eq(~blocks_left[-1]), next_tile.eq(blocks_left[-1] & ~tile_over)]
                    with m.If(next_tile):
                        m.d.sync += first_block()
                with m.Else():
                    m.d.comb += [next_tile.eq(~tile_over), next_block.eq(tile_over & ~blocks_left[-1])]
                    with m.If(next_block):
                        m.d.sync += [slots_left.eq(op.slots - 1), place.eq(Place.FIRST)]
                with m.If(next_tile):
                    m.d.sync += [slots_left.eq(slots_after), place.eq(Place.ON)]
                with m.If(next_block):
                    m.d.sync += [blocks_left.eq(blocks_left - 1), weight_block.eq(weight_block + op.weight_block_step),
                                 sub.eq(sub + 1), sub_rotate.eq(sub_rotate - config.cols)]
                    with m.If(sub == config.sub_blocks - 1):
                        m.d.sync += [sub.eq(0), sub_rotate.eq(0),
                                     in_block.eq(in_block + Mux(depthwise, op.in_block_step, 0))]
                with m.If(~next_tile & ~next_block):
                    m.d.sync += ready.eq(~self.hold & ~keeps)
                    m.next = "IDLE"
        return m

    def _make_constants(self, m: Module, op: Any) -> None:
        """Derive them once an operation is in: ready two cycles later, long before its first step."""
        c = self.constants
        depthwise = op.mode == ArrayMode.DEPTHWISE
        # A row must not end before its reading has begun, which is -col_first cycles behind.
        period = Signal(COUNT)
        m.d.sync += period.eq(op.period - 2)
        m.d.sync += [
            c.depthwise.eq(depthwise), c.folded.eq(op.mode == ArrayMode.FOLDED),
            c.next_row_base.eq(op.in_base + op.in_row_step),
            c.col_advance.eq(Mux(depthwise, 1, op.col_stride)), c.stride.eq(op.col_stride - 2),
            c.out_cols.eq(op.out_cols - 2), c.period.eq(Mux(period < ~op.col_first, ~op.col_first, period)),
        ]
        for name in ("acc_first", "acc_last", "zero_point", "in_base", "in_col_step", "in_row_step", "row_first",
                     "col_first", "row_stride", "in_rows", "in_cols"):
            m.d.comb += c[name].eq(op[name])

    def _fold_table(self, m: Module) -> tuple[Any, Signal]:
        """Return the entry at the returned index (3 * entry + feed), as a Feed without `used`."""
        config = self._config
        depth = SLOT_FEEDS * config.fold_steps
        memory = m.submodules.fold_table = Memory(shape=Feed(config), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        written = data.View(_WrittenFold, self.table.data[:_WrittenFold.size])
        index = Signal(range(depth + 1))
        # lane_end is cut here, because the way from the table to the step is long enough.
        m.d.comb += [
            write.en.eq(self.table.en), write.addr.eq(self.table.index), read.addr.eq(index),
            write.data.offset.eq(written.address), write.data.row.eq(written.kernel_row),
            write.data.rotate.eq(written.rotate),
            write.data.lane_end.eq(Mux(written.lane_end > config.rows, config.rows, written.lane_end)),
        ]
        return read.data, index

    def _fill_feed(self, m: Module, step: Any, feed: Signal, *, op: Any, entry: Any,
                   walk: Any, inner: Signal, rotate: Signal) -> None:
        """Write feed `feed` of the step, and walk on by one kernel row (GEMM: only after the first feed)."""
        config = self._config
        gemm, folded = op.mode == ArrayMode.GEMM, op.mode == ArrayMode.FOLDED
        new = Signal(Feed(config))
        covered = Signal(range(config.rows + 1))  # rows that the feeds before drive
        above = Signal(range(config.rows + 1))
        m.d.comb += [above.eq(Mux(feed == 0, 0, covered)),
                     new.row.eq(walk.row), new.offset.eq(walk.offset + inner), new.rotate.eq(rotate)]
        with m.If(gemm):
            m.d.comb += [new.used.eq(feed == 0), new.lane_end.eq(config.rows)]
        with m.Elif(folded):
            m.d.comb += [new.eq(entry), new.used.eq(entry.lane_end > above)]
            m.d.sync += covered.eq(Mux(new.used, entry.lane_end, above))
        with m.Else():
            m.d.comb += new.used.eq((feed < config.groups) & ~walk.left[-1])
        for g in range(SLOT_FEEDS):
            with m.If(feed == g):
                m.d.sync += step.feeds[g].eq(new)
        with m.If(feed < Mux(gemm, 1, config.groups)):
            m.d.sync += [walk.offset.eq(walk.offset + op.kernel_row_step),
                         walk.row.eq(walk.row + op.kernel_row_dilation), walk.left.eq(walk.left - 1)]

    def _make_lag(self, m: Module, step: Any, feed: Signal, *, depthwise: Signal, col_first: Signal,
                  col: Signal) -> None:
        """Find, in the cycles of the three feeds, how far reading is behind."""
        first_col, previous = Signal(signed(18)), Signal(COUNT, init=-1)
        with m.If(feed == 0):
            m.d.sync += first_col.eq(col_first + col)
        with m.If(feed == 1):
            m.d.sync += step.lag.eq(Mux(depthwise & first_col[-1], ~first_col, -1))
        with m.If(feed == 2):
            m.d.sync += [previous.eq(step.lag),
                         step.follows.eq(Mux(step.operation_first, previous[-1], step.lag >= previous))]
