"""The step sequencer: expands an array operation into steps, over tiles, output blocks, kernel and channels."""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.loops import Loops
from tq_hw.hdl.array.steps import COUNT, SLOT_FEEDS, Constants, Feed, Step
from tq_hw.hdl.array.weights import WeightRequest
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import TableWriteSignature, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.layout import FOLD_ENTRY, ArrayMode, Unit

__all__ = ["StepSequencer"]

#: A folding table entry in the format that the compiler writes.
_WrittenFold = data.StructLayout({f.name: f.bits for f in FOLD_ENTRY.fields})


class StepSequencer(wiring.Component):
    """Walk (output block, tile), then (kernel row, kernel column, channel block, slice), one step ahead.

    While the slot counter streams step n, step n + 1 is on `steps`, its weights are being fetched, and the weight
    request of step n + 2 waits. A step takes 5 cycles here, the first of a tile 7; this is hidden if the steps
    themselves take that long. The next operation is accepted once the last step of the current one is made and its
    first step has been taken.

    Members
    -------
    i : In(stream of operations), table : writes of the folding table
    steps : Out(stream of Step), constants : Out, of the operation whose first step is on `steps`
    weights : Out(stream of WeightRequest)
    hold : In(1), accept no operation in the next cycle
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
        """One FSM state per part of the loop bodies, most of them a method. `step` is filled one feed per cycle."""
        m = Module()
        s = Loops(self._config, self.steps.payload)
        op = s.op
        m.d.comb += [s.gemm.eq(op.mode == ArrayMode.GEMM), s.folded.eq(op.mode == ArrayMode.FOLDED),
                     s.depthwise.eq(op.mode == ArrayMode.DEPTHWISE)]
        self._make_constants(m, op)
        fold_entry, fold_index = self._fold_table(m)
        # The feed's table entry, registered: several levels of logic follow it.
        entry: Any = Signal(Feed(self._config), reset_less=True)
        tile_last = s.ends(m)

        with m.If(self.steps.ready):
            m.d.sync += self.steps.valid.eq(0)
        with m.If(self.weights.ready):
            m.d.sync += self.weights.valid.eq(0)

        # `constants` must stay until the first step of their operation is taken. `kept` is one cycle late, which is
        # enough: no step becomes valid on the way to IDLE.
        keeps = self.steps.valid & self.steps.payload.operation_first
        kept = delayed(m, keeps, 1, "kept", control=True)
        # In IDLE, neither held nor `kept`. A register, because the path of an accepted operation ends far away.
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
                m.d.sync += s.begin_operation()
                m.next = "TILE"
            with m.State("TILE"):
                m.d.sync += [*s.begin_tile(), fold_index.eq(0)]
                m.next = "REQUEST"
            # Whether the last request is taken is late in its cycle, so the next one follows a cycle later.
            with m.State("REQUEST"), m.If(~self.weights.valid):
                self._request_weights(m, s, number)
                m.d.sync += [s.walk.eq(s.kernel_row), feed.eq(0), fold_index.eq(fold_index + s.folded),
                             entry.eq(fold_entry)]
                m.next = "FEEDS"
            with m.State("FEEDS"), m.If((feed != 0) | ~self.steps.valid):
                self._fill_step(m, s, feed, entry)
                with m.If(feed == SLOT_FEEDS - 1):
                    m.next = "ADVANCE"
                with m.Else():
                    m.d.sync += [fold_index.eq(fold_index + s.folded), entry.eq(fold_entry)]
            with m.State("ADVANCE"):
                self._end_step(m, s, tile_last)
                s.advance(m)
                m.next = "REQUEST"
                with m.If(tile_last):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "TILE"
                with m.If(s.next_tile(m)):
                    m.d.sync += ready.eq(~self.hold & ~keeps)
                    m.next = "IDLE"
        return m

    def _request_weights(self, m: Module, s: Loops, number: Signal) -> None:
        request = self.weights.payload
        m.d.sync += [self.weights.valid.eq(1), request.jump.eq(s.tile_first), request.address.eq(s.weight_block),
                     request.rows.eq(s.op.weight_rows - 2), request.number.eq(number)]

    def _fill_step(self, m: Module, s: Loops, feed: Signal, entry: Any) -> None:
        """Fill one feed of the step; with the first feed, also the fields that all feeds share."""
        op, step = s.op, self.steps.payload
        self._fill_feed(m, step, feed, op=op, entry=entry, walk=s.walk, inner=s.inner, rotate=s.rotate)
        with m.If(feed == 0):
            m.d.sync += [
                step.operation_first.eq(s.first), step.tile_first.eq(s.tile_first), step.place.eq(s.place),
                step.slots.eq(Mux(s.tile_over, s.slots_left - 1, op.tile_slots - 2)),
                step.col.eq(s.kernel_col),
            ]
        m.d.sync += feed.eq(feed + 1)
        self._make_lag(m, step, feed, depthwise=s.depthwise, col_first=op.col_first, col=s.kernel_col)

    def _end_step(self, m: Module, s: Loops, tile_last: Signal) -> None:
        step = self.steps.payload
        m.d.sync += [self.steps.valid.eq(1), step.tile_last.eq(tile_last),
                     step.operation_last.eq(tile_last & s.tile_over & s.blocks_left[-1])]

    def _make_constants(self, m: Module, op: Any) -> None:
        """Derive the constants from the operation: valid after two cycles, long before its first step."""
        c = self.constants
        depthwise = op.mode == ArrayMode.DEPTHWISE
        # A row must not end before its reading has begun, up to -col_first cycles late.
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
        """Return the table entry at the returned index (3 * entry + feed), as a Feed without `used`."""
        config = self._config
        depth = SLOT_FEEDS * config.fold_steps
        memory = m.submodules.fold_table = Memory(shape=Feed(config), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        written = data.View(_WrittenFold, self.table.data[:_WrittenFold.size])
        index = Signal(range(depth + 1))
        # lane_end is limited here, because the path from the table to the step is already long.
        m.d.comb += [
            write.en.eq(self.table.en), write.addr.eq(self.table.index), read.addr.eq(index),
            write.data.offset.eq(written.address), write.data.row.eq(written.kernel_row),
            write.data.rotate.eq(written.rotate),
            write.data.lane_end.eq(Mux(written.lane_end > config.rows, config.rows, written.lane_end)),
        ]
        return read.data, index

    def _fill_feed(self, m: Module, step: Any, feed: Signal, *, op: Any, entry: Any,
                   walk: Any, inner: Signal, rotate: Signal) -> None:
        """Write feed `feed` of the step, and advance by one kernel row (GEMM: only after the first feed)."""
        config = self._config
        gemm, folded = op.mode == ArrayMode.GEMM, op.mode == ArrayMode.FOLDED
        new = Signal(Feed(config))
        covered = Signal(range(config.rows + 1))  # rows that earlier feeds drive
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
        """Compute the read lag of the step, over the cycles of the three feeds."""
        first_col, previous = Signal(signed(18)), Signal(COUNT, init=-1)
        with m.If(feed == 0):
            m.d.sync += first_col.eq(col_first + col)
        with m.If(feed == 1):
            m.d.sync += step.lag.eq(Mux(depthwise & first_col[-1], ~first_col, -1))
        with m.If(feed == 2):
            m.d.sync += [previous.eq(step.lag),
                         step.follows.eq(Mux(step.operation_first, previous[-1], step.lag >= previous))]
