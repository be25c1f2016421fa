"""The slot counter: streams the slots of each step, and requests their words from the scratchpad."""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.accumulate import SlotTag
from tq_hw.hdl.array.counters import Counters, last, some_left
from tq_hw.hdl.array.steps import COLUMN, ROW, SLOT_FEEDS, Constants, Place, Slot, Step
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import bank_of
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import SLOT_TO_PORT_CYCLES

__all__ = ["SlotCounter"]


class _Offset(NamedTuple):
    """What stage 1 passes to stage 2: positions with the step's offsets, and the image size to compare them with."""

    leads: Value
    tails: Value
    in_rows: Value
    in_cols: Value
    folded: Value
    used: Value
    read_col: Signal
    cols: list[Signal]
    rows: list[Signal]
    addresses: list[Signal]


class SlotCounter(wiring.Component):
    """Count slots, one per cycle without a stall, from the start of a step to its end.

    GEMM and folded: one slot per output word. Depthwise: `period` slots per output row, of which every `stride`-th is
    kept, and one input column per slot. Where a row begins with padding, reading is `lag` slots behind the count: the
    end of a row is read while the next row has begun, or after the last one.

    The counter waits only between steps: for weights, for a free accumulator buffer, for the rest of the last row.

    Members
    -------
    i : In(stream of Step); with operation_first, `constants` are taken for the operation
    weights_ready, start : to the weight loader
    acc_free, acc_take : to the accumulators
    en, addr, wants : Out, ports of the three feeds; slot : Out(Slot), in the same cycle; all are registers
    number : Out, low bits of the number of the operation that the feeds read for in the cycle before
    conflict : Out(1), two feeds read one bank in the cycle before
    cut : Out(1), strobe: a row of a depthwise tile ended before its last output column; cut_number : Out, as `number`
    live : Out(1), slots are being counted
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
        """Stage 0 counts, stage 1 adds the step's offsets, stage 2 (the ports) compares with the image size."""
        m = Module()
        new = self.i.payload
        s = Counters(self._config)
        self._advance(m, s)
        begin, may_begin = self._begin(m, s)

        # A tile is whole rows, whose slots must reach the last column: it is kept now, or was kept before.
        number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        with m.If(delayed(m, begin & new.operation_first, 1, "began", control=True)):
            m.d.sync += number.eq(number + 1)
        m.d.comb += [self.live.eq(s.live), self.cut_number.eq(number)]
        cols, depthwise = s.position.cols, s.constants.depthwise
        m.d.sync += [self.cut.eq(s.row_end & depthwise & ~(last(cols) & (s.keep | ~cols[0]))),
                     self.number.eq(delayed(m, number, SLOT_TO_PORT_CYCLES - 1, "number"))]

        tag = self._tag(m, s)
        self._ports(m, s, tag, self._add_offsets(m, s, may_begin))
        pairs = [(a, b) for b in range(SLOT_FEEDS) for a in range(b)]
        m.d.sync += self.conflict.eq(Cat(self.wants[a] & self.wants[b] for a, b in pairs).any())
        return m

    def _advance(self, m: Module, s: Counters) -> None:
        """Classify this slot, and compute the position of the step's next one."""
        advanced, position, constants = s.advanced, s.position, s.constants
        depthwise, cols, slots = constants.depthwise, position.cols, s.slots
        m.d.comb += [
            s.keep.eq(s.live & (~depthwise | (last(s.stride) & some_left(cols) & some_left(slots)))),
            s.row_end.eq(s.live & Mux(depthwise, last(s.period), last(cols))),
            # Depthwise: no slot is left, or this one is kept and is the last.
            s.ending.eq(s.live & last(slots) & (~depthwise | (
                last(s.period) & (~slots[0] | (last(s.stride) & some_left(cols)))))),
            s.leads.eq(s.live & last(s.lead)),
            s.tails.eq(~s.leads & ~last(s.tail)),
            advanced.address.eq(Mux(s.row_end, position.next_row, position.address + constants.in_col_step)),
            advanced.next_row.eq(position.next_row + Mux(s.row_end, constants.in_row_step, 0)),
            advanced.row.eq(position.row + Mux(s.row_end, constants.row_stride, 0)),
            advanced.col.eq(Mux(s.row_end, constants.col_first, position.col + constants.col_advance)),
            advanced.cols.eq(Mux(s.row_end, constants.out_cols, cols - s.keep)),
        ]

    def _begin(self, m: Module, s: Counters) -> tuple[Signal, Signal]:
        """Count, and begin steps; return the strobe of a new step, and whether the present step permits one."""
        new, position, constants = self.i.payload, s.position, s.constants
        begin, may_begin, begins_operation, took_buffer = self._admit(
            m, live=s.live, ending=s.ending, tail_over=last(s.tail), constants=constants)
        m.d.sync += [s.tail.eq(s.tail - ~last(s.tail)), s.fresh.eq(begin)]
        with m.If(s.live):
            m.d.sync += [
                s.live.eq(~s.ending), position.eq(s.advanced), s.slots.eq(s.slots - s.keep),
                s.period.eq(s.period - 1), s.lead.eq(s.lead - ~last(s.lead)),
                s.stride.eq(Mux(last(s.stride), constants.stride, s.stride - 1))]
        with m.If(s.row_end):
            m.d.sync += [s.period.eq(constants.period), s.stride.eq(-1), s.lead.eq(s.step.lag), s.tail.eq(s.step.lag)]
        with m.If(begin):
            m.d.sync += s.live.eq(1)
        # The wide registers are loaded speculatively, before weights and buffers are known to be ready, and reloaded
        # until the step begins. So their enables do not depend on these late signals.
        with m.If(begins_operation):
            m.d.sync += constants.eq(self.constants)
        with m.If(may_begin):
            m.d.sync += [s.step.eq(new), s.took.eq(took_buffer),
                         s.slots.eq(new.slots), s.period.eq(constants.period), s.stride.eq(-1), s.lead.eq(new.lag)]
            with m.If(new.place == Place.FIRST):
                m.d.sync += [position.address.eq(constants.in_base), position.next_row.eq(constants.next_row_base),
                             position.row.eq(constants.row_first), position.col.eq(constants.col_first),
                             position.cols.eq(constants.out_cols)]
            with m.If(new.place == Place.AGAIN):
                m.d.sync += position.eq(s.begun)
        with m.If(s.fresh & s.step.tile_first):
            m.d.sync += s.begun.eq(position)
        return begin, may_begin

    def _tag(self, m: Module, s: Counters) -> Any:
        """Return the accumulators' tag. An operation ends when the rest of its last row has been read too."""
        tag: Any = Signal(SlotTag)
        closing = Signal()
        m.d.comb += [
            tag.keep.eq(s.keep), tag.start.eq(s.fresh), tag.take.eq(s.took),
            tag.overwrite.eq(s.step.tile_first & s.constants.acc_first),
            tag.full.eq(s.keep & last(s.slots) & s.step.tile_last & s.constants.acc_last),
            tag.operation_end.eq(closing & last(s.tail)),
        ]
        with m.If(tag.operation_end):
            m.d.sync += closing.eq(0)
        with m.If(s.ending & s.step.operation_last):
            m.d.sync += closing.eq(1)
        return tag

    def _add_offsets(self, m: Module, s: Counters, may_begin: Signal) -> _Offset:
        """Stage 1. Where the slot does not lead, reading continues with the column after the last one read."""
        new, position, constants = self.i.payload, s.position, s.constants
        leads1 = delayed(m, s.leads, 1, "leads", control=True)
        tails1 = delayed(m, s.tails, 1, "tails", control=True)
        image1 = delayed(m, Cat(constants.in_rows, constants.in_cols), 1, "image")
        folded1 = delayed(m, constants.folded, 1, "folded")
        used1 = delayed(m, Cat(feed.used for feed in s.step.feeds), 1, "used")
        read_col1 = Signal(COLUMN, reset_less=True)
        cols1 = [Signal(COLUMN, name=f"col{k}", reset_less=True) for k in range(3)]
        rows1 = [Signal(ROW, name=f"row{g}", reset_less=True) for g in range(SLOT_FEEDS)]
        addresses1 = [Signal(16, name=f"address{g}", reset_less=True) for g in range(SLOT_FEEDS)]
        tap_cols = [Signal(17, name=f"tap_col{k}", reset_less=True) for k in range(3)]
        with m.If(may_begin):
            m.d.sync += [tap_cols[k].eq(new.col + k) for k in range(3)]
        m.d.sync += read_col1.eq(Mux(s.leads, position.col, read_col1) + Mux(s.leads, s.step.col, 1))
        m.d.sync += [cols1[k].eq(position.col + tap_cols[k]) for k in range(3)]
        for g, feed in enumerate(s.step.feeds):
            m.d.sync += [
                rows1[g].eq(position.row + feed.row),
                addresses1[g].eq(Mux(s.leads, position.address, addresses1[g])
                                 + Mux(s.leads, feed.offset, constants.in_col_step)),
            ]
        return _Offset(leads1, tails1, image1[:16], image1[16:], folded1, used1, read_col1, cols1, rows1, addresses1)

    def _ports(self, m: Module, s: Counters, tag: Any, o: _Offset) -> None:
        """Stage 2: read the words that lie in the image. The slot and its tag are delayed to match."""
        slot, constants = self.slot, s.constants
        depthwise1 = delayed(m, constants.depthwise, 1, "depthwise")
        col_valid = [Signal(name=f"col_valid{k}") for k in range(3)]
        m.d.comb += [col_valid[k].eq(o.cols[k].as_unsigned() < o.in_cols) for k in range(3)]
        read_col_valid = Signal()
        m.d.comb += read_col_valid.eq(o.folded | (o.read_col.as_unsigned() < o.in_cols))
        m.d.sync += slot.col_valid.eq(Cat(col_valid))
        for g in range(SLOT_FEEDS):
            row_valid, last_row_valid = Signal(name=f"row_valid{g}"), Signal(name=f"last_row_valid{g}")
            reads = Signal(name=f"reads{g}")
            m.d.comb += [row_valid.eq(o.used[g] & (o.rows[g].as_unsigned() < o.in_rows)),
                         reads.eq(((o.leads & row_valid) | (o.tails & last_row_valid)) & read_col_valid)]
            with m.If(o.leads):
                m.d.sync += last_row_valid.eq(row_valid)
            m.d.sync += [
                slot.row_valid[g].eq(row_valid & (o.folded | depthwise1 | col_valid[0])),
                self.en[g].eq(reads), self.addr[g].eq(o.addresses[g]),
                self.wants[g].eq(bank_of(reads, o.addresses[g])),
            ]
        m.d.comb += [
            slot.depthwise.eq(delayed(m, depthwise1, 1, "depthwise_late")),
            slot.zero_point.eq(delayed(m, constants.zero_point, SLOT_TO_PORT_CYCLES, "zero_point")),
            slot.swap.eq(delayed(m, s.fresh, SLOT_TO_PORT_CYCLES, "swap", control=True)),
            slot.tag.eq(delayed(m, tag, SLOT_TO_PORT_CYCLES, "tag", control=True)),
        ]
        for g, feed in enumerate(s.step.feeds):
            rotate1 = Signal.like(feed.rotate, name=f"rotate{g}")
            with m.If(s.leads):
                m.d.sync += rotate1.eq(feed.rotate)
            m.d.comb += [
                slot.rotate[g].eq(delayed(m, rotate1, 1, f"rotate{g}")),
                slot.lane_end[g].eq(delayed(m, feed.lane_end, SLOT_TO_PORT_CYCLES, f"lane_end{g}")),
            ]

    def _admit(self, m: Module, *, live: Signal, ending: Signal, tail_over: Value,
               constants: Any) -> tuple[Signal, Signal, Signal, Value]:
        """Decide when the next step begins.

        A step waits until its tile has a buffer (`room`), until it would not read before the rest of the last row is
        read (`behind`), and until the previous step is at its last slot (`over`). The first step of an operation waits
        until no step is live and the constants have changed, two cycles more than others.

        Returns: the strobe that the step begins in the following cycle; that the previous step permits it; the same for
        the first step of an operation; whether the step goes on to the next buffer.
        """
        new = self.i.payload
        begin, may_begin, begins_operation, room, behind, over = (
            Signal(name=name) for name in ("begin", "may_begin", "begins_operation", "room", "behind", "over"))
        opened = Signal()  # the last operation left its buffers open
        changed = Signal()  # the constants are those of `new`, the first step of an operation
        ends: Value = ending
        if self._config.dsp_packing:
            # The array takes the slots of a step in pairs: after the first slot of a pair, one more passes.
            second = Signal()
            m.d.sync += second.eq(live & ~second & ~begin)
            ends = ending & second
        m.d.comb += [
            room.eq(~new.tile_first | opened | self.acc_free),
            behind.eq(new.follows | (~live & tail_over)),
            over.eq(Mux(new.operation_first, changed, ~live | ends)),
            may_begin.eq(self.i.valid & behind & over),
            begins_operation.eq(self.i.valid & new.operation_first & ~live & (new.follows | tail_over)),
            self.i.ready.eq(self.weights_ready & room & behind & over),
            begin.eq(self.i.valid & self.i.ready),
            self.start.eq(begin),
            self.acc_take.eq(begin & new.tile_first & ~opened),
        ]
        m.d.sync += [
            changed.eq(begins_operation & ~begin),
            self.stall_weights.eq(self.i.valid & ~live & ~self.weights_ready),
            self.stall_acc.eq(self.i.valid & ~live & self.weights_ready & ~room),
        ]
        with m.If(begin & (new.operation_last if self._config.acc_open else new.tile_first)):
            m.d.sync += opened.eq(~constants.acc_last)
        if not self._config.acc_open:
            return begin, may_begin, begins_operation, self.acc_take
        # Either all buffers are open or one. If all are, the buffer after the last one is the first.
        all_open = Signal()
        with m.If(begin & new.tile_first):
            m.d.sync += all_open.eq(~new.operation_first)
        goes_round = opened & new.tile_first & (all_open | ~new.operation_first)
        return begin, may_begin, begins_operation, self.acc_take | goes_round
