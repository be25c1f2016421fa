"""The slot counter: streams the slots of one step after another, and asks the scratchpad for their words."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.accumulate import SlotTag
from tq_hw.hdl.array.steps import COLUMN, COUNT, ROW, SLOT_FEEDS, Constants, Place, Slot, Step
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import bank_of
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import SLOT_TO_PORT_CYCLES

__all__ = ["SlotCounter"]


#: address: of the slot, without the step's offsets; next_row: of the next output row's first slot;
#: row, col: input row and column of the slot, without the step's; cols: output columns left.
_Position = data.StructLayout({"address": 16, "next_row": 16, "row": ROW, "col": COLUMN, "cols": COUNT})


class SlotCounter(wiring.Component):
    """Counts slots, one a cycle without a stall, from the start of a step to its end.

    GEMM and folded: one slot an output word. Depthwise: `period` slots an output row, of which each
    `stride`-th counts; the bus carries one input column a slot, and reading is `lag` slots behind where the row
    begins with padding: the end of a row is read while the next one, or nothing, has begun.

    Waiting happens between steps: for weights, for a free accumulator buffer, for the rest of the last row.

    Members
    -------
    i : In(stream of Step); with operation_first, `constants` become those of the operation
    weights_ready, start : to the weight loader
    acc_free, acc_take : to the accumulators
    en, addr, wants : Out, the three feeds' ports; slot : Out(Slot), the same cycle; all come from registers
    number : Out, low bits of the number of the operation whose words the feeds asked for in the cycle before
    conflict : Out(1), two feeds asked one bank in the cycle before
    cut : Out(1), strobe: a row of a depthwise tile ended before its last output column; cut_number : Out, as `number`
    live : Out(1), slots go on
    stall_weights, stall_acc : Out(1), a step waited in the cycle before for weights, for a buffer
    """

    i: Any
    constants: Any
    weights_ready: Signal
    start: Signal
    acc_free: Signal
    acc_take: Signal
    en: Signal
    addr: Any
    wants: Any
    slot: Any
    number: Signal
    conflict: Signal
    cut: Signal
    cut_number: Signal
    live: Signal
    stall_weights: Signal
    stall_acc: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Step(config))), "constants": In(Constants),
            "weights_ready": In(1), "start": Out(1), "acc_free": In(1), "acc_take": Out(1),
            "en": Out(SLOT_FEEDS), "addr": Out(data.ArrayLayout(16, SLOT_FEEDS)),
            "wants": Out(data.ArrayLayout(BANKS, SLOT_FEEDS)), "slot": Out(Slot(config)),
            "number": Out(NUMBER_BITS), "conflict": Out(1), "cut": Out(1), "cut_number": Out(NUMBER_BITS),
            "live": Out(1), "stall_weights": Out(1), "stall_acc": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Stage 0 counts, stage 1 adds the step's offsets, stage 2 (the ports) compares with the image."""
        m = Module()
        new = self.i.payload
        step: Any = Signal(Step(self._config), reset_less=True)
        constants: Any = Signal(Constants, reset_less=True)  # of `step`
        after: Any = Signal(Constants, reset_less=True)      # of `new`
        m.d.comb += after.eq(Mux(new.operation_first, self.constants.as_value(), constants.as_value()))

        # Stage 0. `slots` and `cols` go one further than their last (-1) in depthwise mode: none left (-2).
        live, fresh, took, closing = (Signal(name=n) for n in ("live", "fresh", "took", "closing"))
        position: Any = Signal(_Position)
        advanced: Any = Signal(_Position)
        begun: Any = Signal(_Position)
        period, lead = Signal(COUNT), Signal(COUNT)
        tail = Signal(COUNT, init=-1)
        slots = Signal.like(new.slots)
        stride = Signal(signed(9))
        depthwise, cols = constants.depthwise, position.cols
        keep, row_end, ending, leads, tails = (
            Signal(name=n) for n in ("keep", "row_end", "ending", "leads", "tails"))
        m.d.comb += [
            keep.eq(live & (~depthwise | (stride[-1] & (~cols[-1] | cols[0]) & (~slots[-1] | slots[0])))),
            row_end.eq(live & Mux(depthwise, period[-1], cols[-1])),
            # Depthwise: no slot is left, or this one is kept and the last.
            ending.eq(live & slots[-1] & (~depthwise | (
                period[-1] & (~slots[0] | (stride[-1] & (~cols[-1] | cols[0])))))),
            leads.eq(live & lead[-1]),
            tails.eq(~leads & ~tail[-1]),
            advanced.address.eq(Mux(row_end, position.next_row, position.address + constants.in_col_step)),
            advanced.next_row.eq(position.next_row + Mux(row_end, constants.in_row_step, 0)),
            advanced.row.eq(position.row + Mux(row_end, constants.row_stride, 0)),
            advanced.col.eq(Mux(row_end, constants.col_first, position.col + constants.col_advance)),
            advanced.cols.eq(Mux(row_end, constants.out_cols, cols - keep)),
        ]

        begin, may_begin, begins_operation, took_buffer = self._admit(
            m, live=live, ending=ending, tail_over=tail[-1], after=after)
        m.d.sync += [tail.eq(tail - ~tail[-1]), fresh.eq(begin)]
        with m.If(live):
            m.d.sync += [live.eq(~ending), position.eq(advanced), slots.eq(slots - keep), period.eq(period - 1),
                         lead.eq(lead - ~lead[-1]), stride.eq(Mux(stride[-1], constants.stride, stride - 1))]
        with m.If(row_end):
            m.d.sync += [period.eq(constants.period), stride.eq(-1), lead.eq(step.lag), tail.eq(step.lag)]
        with m.If(begin):
            m.d.sync += live.eq(1)
        # The wide registers do not ask for weights and buffers: what they copy before the step begins is copied again.
        with m.If(begins_operation):
            m.d.sync += constants.eq(self.constants)
        with m.If(may_begin):
            m.d.sync += [step.eq(new), took.eq(took_buffer),
                         slots.eq(new.slots), period.eq(after.period), stride.eq(-1), lead.eq(new.lag)]
            with m.If(new.place == Place.FIRST):
                m.d.sync += [position.address.eq(after.in_base), position.next_row.eq(after.next_row_base),
                             position.row.eq(after.row_first), position.col.eq(after.col_first),
                             position.cols.eq(after.out_cols)]
            with m.If(new.place == Place.AGAIN):
                m.d.sync += position.eq(begun)
        with m.If(fresh & step.tile_first):
            m.d.sync += begun.eq(position)

        # A tile is whole rows, and a row's slots reach its last column: the last column is kept here or has been.
        number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        with m.If(begin & new.operation_first):
            m.d.sync += number.eq(number + 1)
        m.d.comb += self.live.eq(live)
        m.d.sync += [self.cut.eq(row_end & depthwise & ~(cols[-1] & (keep | ~cols[0]))), self.cut_number.eq(number),
                     self.number.eq(delayed(m, number, SLOT_TO_PORT_CYCLES, "number"))]

        # An operation is over when the rest of its last row has been read, too.
        tag: Any = Signal(SlotTag)
        m.d.comb += [
            tag.keep.eq(keep), tag.start.eq(fresh), tag.take.eq(took),
            tag.overwrite.eq(step.tile_first & constants.acc_first),
            tag.full.eq(keep & slots[-1] & step.tile_last & constants.acc_last),
            tag.operation_end.eq(closing & tail[-1]),
        ]
        with m.If(tag.operation_end):
            m.d.sync += closing.eq(0)
        with m.If(ending & step.operation_last):
            m.d.sync += closing.eq(1)

        # Stage 1. Where reading does not lead, it goes on after the column read last.
        leads1 = delayed(m, leads, 1, "leads", control=True)
        tails1 = delayed(m, tails, 1, "tails", control=True)
        image1 = delayed(m, Cat(constants.in_rows, constants.in_cols), 1, "image")
        in_rows1, in_cols1 = image1[:16], image1[16:]
        folded1 = delayed(m, constants.folded, 1, "folded")
        used1 = delayed(m, Cat(feed.used for feed in step.feeds), 1, "used")
        read_col1 = Signal(COLUMN, reset_less=True)
        cols1 = [Signal(COLUMN, name=f"col{k}", reset_less=True) for k in range(3)]
        rows1 = [Signal(ROW, name=f"row{g}", reset_less=True) for g in range(SLOT_FEEDS)]
        addresses1 = [Signal(16, name=f"address{g}", reset_less=True) for g in range(SLOT_FEEDS)]
        tap_cols = [Signal(17, name=f"tap_col{k}", reset_less=True) for k in range(3)]
        with m.If(may_begin):
            m.d.sync += [tap_cols[k].eq(new.col + k) for k in range(3)]
        m.d.sync += read_col1.eq(Mux(leads, position.col, read_col1) + Mux(leads, step.col, 1))
        m.d.sync += [cols1[k].eq(position.col + tap_cols[k]) for k in range(3)]
        for g, feed in enumerate(step.feeds):
            m.d.sync += [
                rows1[g].eq(position.row + feed.row),
                addresses1[g].eq(Mux(leads, position.address, addresses1[g])
                                 + Mux(leads, feed.offset, constants.in_col_step)),
            ]

        # Stage 2.
        slot = self.slot
        depthwise1 = delayed(m, depthwise, 1, "depthwise")
        col_valid = [Signal(name=f"col_valid{k}") for k in range(3)]
        m.d.comb += [col_valid[k].eq(cols1[k].as_unsigned() < in_cols1) for k in range(3)]
        read_col_valid = Signal()
        m.d.comb += read_col_valid.eq(folded1 | (read_col1.as_unsigned() < in_cols1))
        m.d.sync += slot.col_valid.eq(Cat(col_valid))
        for g in range(SLOT_FEEDS):
            row_valid, last_row_valid = Signal(name=f"row_valid{g}"), Signal(name=f"last_row_valid{g}")
            reads = Signal(name=f"reads{g}")
            m.d.comb += [row_valid.eq(used1[g] & (rows1[g].as_unsigned() < in_rows1)),
                         reads.eq(((leads1 & row_valid) | (tails1 & last_row_valid)) & read_col_valid)]
            with m.If(leads1):
                m.d.sync += last_row_valid.eq(row_valid)
            m.d.sync += [
                slot.row_valid[g].eq(row_valid & (folded1 | depthwise1 | col_valid[0])),
                self.en[g].eq(reads), self.addr[g].eq(addresses1[g]), self.wants[g].eq(bank_of(reads, addresses1[g])),
            ]
        m.d.comb += [
            slot.depthwise.eq(delayed(m, depthwise1, 1, "depthwise_late")),
            slot.zero_point.eq(delayed(m, constants.zero_point, SLOT_TO_PORT_CYCLES, "zero_point")),
            slot.swap.eq(delayed(m, fresh, SLOT_TO_PORT_CYCLES, "swap", control=True)),
            slot.tag.eq(delayed(m, tag, SLOT_TO_PORT_CYCLES, "tag", control=True)),
        ]
        for g, feed in enumerate(step.feeds):
            rotate1 = Signal.like(feed.rotate, name=f"rotate{g}")
            with m.If(leads):
                m.d.sync += rotate1.eq(feed.rotate)
            m.d.comb += [
                slot.rotate[g].eq(delayed(m, rotate1, 1, f"rotate{g}")),
                slot.lane_end[g].eq(delayed(m, feed.lane_end, SLOT_TO_PORT_CYCLES, f"lane_end{g}")),
            ]

        pairs = [(a, b) for b in range(SLOT_FEEDS) for a in range(b)]
        m.d.sync += self.conflict.eq(Cat(self.wants[a] & self.wants[b] for a, b in pairs).any())
        return m

    def _admit(self, m: Module, *, live: Signal, ending: Signal, tail_over: Value,
               after: Any) -> tuple[Signal, Signal, Signal, Value]:
        """Return the strobe that the next step begins in the following cycle, and that the present one allows it.

        The first step of an operation begins when no step is live, one cycle later than others may: the constants are
        many. The third value is that the present step allows such a step, the last one that the step that begins goes
        on to the next buffer.
        """
        new = self.i.payload
        begin, may_begin, begins_operation, room, behind = (
            Signal(name=name) for name in ("begin", "may_begin", "begins_operation", "room", "behind"))
        over = Signal()
        opened = Signal()  # the last operation left its buffers open
        m.d.comb += [
            room.eq(~new.tile_first | opened | self.acc_free),
            behind.eq(new.follows | (~live & tail_over)),
            over.eq(~live | (ending & ~new.operation_first)),
            may_begin.eq(self.i.valid & behind & over),
            begins_operation.eq(self.i.valid & new.operation_first & ~live & (new.follows | tail_over)),
            self.i.ready.eq(self.weights_ready & room & behind & over),
            begin.eq(self.i.valid & self.i.ready),
            self.start.eq(begin),
            self.acc_take.eq(begin & new.tile_first & ~opened),
        ]
        m.d.sync += [
            self.stall_weights.eq(self.i.valid & ~live & ~self.weights_ready),
            self.stall_acc.eq(self.i.valid & ~live & self.weights_ready & ~room),
        ]
        with m.If(begin & (new.operation_last if self._config.acc_open else new.tile_first)):
            m.d.sync += opened.eq(~after.acc_last)
        if not self._config.acc_open:
            return begin, may_begin, begins_operation, self.acc_take
        # All buffers are open, or one: after the last of all comes the first.
        all_open = Signal()
        with m.If(begin & new.tile_first):
            m.d.sync += all_open.eq(~new.operation_first)
        goes_round = opened & new.tile_first & (all_open | ~new.operation_first)
        return begin, may_begin, begins_operation, self.acc_take | goes_round
