"""The inner loops of a vector operation: slots of a chunk, beats of a slot, words of a beat."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector.beat_counter import BeatCounter
from tq_hw.hdl.vector.pointers import SlotPointers
from tq_hw.hdl.vector.steps import RunLayout, StepLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit

__all__ = ["SlotWalker"]

#: Capacity of the queue of steps.
_WAITING_STEPS = 8


class SlotWalker(wiring.Component):
    """Expand runs into steps, one per cycle, without a bubble between runs.

    Members
    -------
    i : In(stream of RunLayout); operation : In(OperationLayout) of the run at `i`, kept until `operation_taken`
    o : Out(stream of StepLayout)
    operation_taken : Out(1), strobe
    moved : Out(1), strobe: a step was made
    """

    i: stream.Interface
    operation: Any
    o: stream.Interface
    operation_taken: Signal
    moved: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(RunLayout(config))), "operation": In(OperationLayout(Unit.VECTOR)),
            "o": Out(stream.Signature(StepLayout(config))), "operation_taken": Out(1), "moved": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Count, then add the addresses one cycle later. After the counter only the queue can stall."""
        m = Module()
        m.submodules.counter = counter = BeatCounter(self._config)
        m.submodules.pointers = pointers = SlotPointers(self._config)
        m.submodules.steps = steps = Queue(StepLayout(self._config), _WAITING_STEPS, registered=True)
        connect(m, flipped(self.i), counter.i)
        connect(m, steps.o, flipped(self.o))
        # Up to three steps may be in flight that the queue's level does not include.
        m.d.sync += counter.o.ready.eq(steps.level <= _WAITING_STEPS - 3)
        m.d.comb += [
            pointers.i.valid.eq(counter.o.valid & counter.o.ready), pointers.i.payload.eq(counter.o.payload),
            steps.i.valid.eq(pointers.o.valid), steps.i.payload.eq(pointers.o.payload),
        ]
        m.d.comb += [counter.operation.eq(self.operation), pointers.operation.eq(self.operation),
                     self.operation_taken.eq(pointers.operation_taken), self.moved.eq(pointers.i.valid)]
        return m
