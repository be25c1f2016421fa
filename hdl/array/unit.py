"""The array unit: computes the sums of array operations into the accumulators."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.accumulate import Accumulators
from tq_hw.hdl.array.feeds import Feeds
from tq_hw.hdl.array.grid import MacArray
from tq_hw.hdl.array.sequencer import StepSequencer
from tq_hw.hdl.array.slots import SlotCounter
from tq_hw.hdl.array.weights import WeightLoader
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import AccReadSignature, ReadSignature, TableWriteSignature, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.latency import (
    REWRITE_CYCLES,
    SLOT_TO_PORT_CYCLES,
    STEP_LEAST_CYCLES,
    TAG_LEAD_CYCLES,
    array_latency_cycles,
    feed_cycles,
)
from tq_hw.isa.layout import Unit

__all__ = ["ArrayUnit"]

#: Most operations accepted and not yet done.
_OPERATIONS = 7


class ArrayUnit(wiring.Component):
    """Run GEMM, folded and depthwise operations as docs/reference/semantics.md defines them.

    Operations overlap: the weights of the next one load, and its slots follow, while the sums of the current one are
    still moving down the array.

    Members
    -------
    i : In(stream of operations)
    table : In, writes of the folding table, only while `idle`
    idle : Out(1), every accepted operation is done
    done : Out(1), strobe per operation, in order: its sums are written and it reads no more
    error : Out(4), 0 or the `Status` that stopped the unit, until reset; error_at : Out, low bits of the operation's
        number
    feed0, feed1, feed2 : scratchpad ports that are always granted
    weights : scratchpad port that may be refused
    acc : the vector unit's port to the accumulators
    busy, stall_acc, stall_weight : Out(1), an operation is in progress; a step waited in the cycle before for a free
        accumulator buffer; for its weights
    moved : Out(1), slots are being counted
    """

    i: Any
    table: Any
    idle: Signal
    done: Signal
    error: Signal
    error_at: Signal
    feed0: Any
    feed1: Any
    feed2: Any
    weights: Any
    acc: Any
    busy: Signal
    stall_acc: Signal
    stall_weight: Signal
    moved: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.ARRAY)), "table": In(TableWriteSignature()),
            "idle": Out(1), "done": Out(1), "error": Out(4), "error_at": Out(NUMBER_BITS),
            "feed0": Out(ReadSignature(config)), "feed1": Out(ReadSignature(config)),
            "feed2": Out(ReadSignature(config)), "weights": Out(ReadSignature(config)),
            "acc": In(AccReadSignature(config)),
            "busy": Out(1), "stall_acc": Out(1), "stall_weight": Out(1), "moved": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Connect the parts. The tags of the slots bypass the array in a delay line."""
        m = Module()
        config = self._config
        m.submodules.sequencer = sequencer = StepSequencer(config)
        m.submodules.slots = slots = SlotCounter(config)
        m.submodules.weights = weights = WeightLoader(config, SLOT_TO_PORT_CYCLES + feed_cycles(config))
        m.submodules.feeds = feeds = Feeds(config)
        m.submodules.array = array = MacArray(config)
        m.submodules.accumulators = accumulators = Accumulators(config)

        wiring.connect(m, wiring.flipped(self.i), sequencer.i)
        wiring.connect(m, wiring.flipped(self.table), sequencer.table)
        wiring.connect(m, sequencer.steps, slots.i)
        wiring.connect(m, sequencer.weights, weights.i)
        wiring.connect(m, weights.weights, wiring.flipped(self.weights))
        wiring.connect(m, wiring.flipped(self.acc), accumulators.acc)
        for g, port in enumerate((self.feed0, self.feed1, self.feed2)):
            m.d.comb += [port.en.eq(slots.en[g]), port.addr.eq(slots.addr[g]),
                         port.wants.eq(slots.wants[g]), feeds.data[g].eq(port.data)]

        # Steps of fewer slots would add to a word whose last sum is not written yet.
        assert STEP_LEAST_CYCLES >= REWRITE_CYCLES
        tag_cycles = feed_cycles(config) + array_latency_cycles(config) - TAG_LEAD_CYCLES
        m.d.comb += [
            slots.constants.eq(sequencer.constants),
            slots.weights_ready.eq(weights.ready), weights.start.eq(slots.start),
            slots.acc_free.eq(accumulators.free), accumulators.take.eq(slots.acc_take),
            feeds.slot.eq(slots.slot),
            array.a.eq(feeds.a), array.x.eq(feeds.x), array.sel.eq(feeds.sel), array.swap.eq(feeds.swap),
            array.weight.eq(weights.weight), array.weight_row.eq(weights.weight_row),
            accumulators.psum.eq(array.psum),
            accumulators.tag.eq(delayed(m, slots.slot.tag, tag_cycles, "tag", control=True)),
            self.stall_acc.eq(slots.stall_acc), self.stall_weight.eq(slots.stall_weights),
        ]
        under_way = Signal(range(_OPERATIONS + 1))
        m.d.sync += under_way.eq(under_way + sequencer.accepted - accumulators.done)
        m.d.comb += [
            sequencer.hold.eq(under_way == _OPERATIONS),  # one cycle late: the sequencer takes no two in a row
            self.done.eq(accumulators.done),
            self.idle.eq(under_way == 0), self.busy.eq(under_way != 0),
        ]
        beyond = self.feed0.beyond | self.feed1.beyond | self.feed2.beyond
        with m.If(self.error == Status.OK):
            for wrong, status, number in ((self.weights.beyond, Status.BAD_ADDRESS, weights.number),
                                          (beyond, Status.BAD_ADDRESS, slots.number),
                                          (slots.conflict, Status.BANK_CONFLICT, slots.number),
                                          (slots.cut, Status.BAD_OPERATION, slots.cut_number)):
                with m.If(wrong):
                    m.d.sync += [self.error.eq(status), self.error_at.eq(number)]
        m.d.sync += self.moved.eq(slots.live)
        return m
