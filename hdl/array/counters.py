"""What the slot counter counts: its registers, and how a counter says that it is at its end."""

from typing import Any

from amaranth import Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data

from tq_hw.hdl.array.steps import COLUMN, COUNT, ROW, Constants, Step
from tq_hw.isa.config import Config

__all__ = ["Counters", "last", "some_left"]

#: address: of the slot, without the step's offsets; next_row: of the next output row's first slot;
#: row, col: input row and column of the slot, without the step's; cols: output columns left.
_Position = data.StructLayout({"address": 16, "next_row": 16, "row": ROW, "col": COLUMN, "cols": COUNT})


def last(counter: Any) -> Value:
    """Whether a counter is at its last (-1) or past it (-2): it counts down to below 0, and its sign says so."""
    sign: Value = counter[-1]
    return sign


def some_left(counter: Any) -> Value:
    """Whether a counter that goes one further than its last (-1), to none left (-2), is not there."""
    left: Value = ~counter[-1] | counter[0]
    return left


class Counters:
    """Registers and decisions of stage 0. `slots` and `cols` go one further than their last in depthwise mode.

    step, constants : that stream, and of its operation; position : of this slot; advanced : of the next one of the
    step; begun : of the tile's first slot
    slots, period, stride, lead, tail : less 1: slots of the step, of the row; until the next one that counts; until
    reading begins; until the last row is read
    live, fresh, took : slots go on; this is a step's first slot; it takes a buffer
    keep, row_end, ending : this slot counts; it is its row's last, its step's last
    leads, tails : it is read where it is counted; a row that has ended is read on
    """

    def __init__(self, config: Config) -> None:
        self.step: Any = Signal(Step(config), reset_less=True)
        self.constants: Any = Signal(Constants, reset_less=True)
        self.live, self.fresh, self.took = (Signal(name=n) for n in ("live", "fresh", "took"))
        self.position: Any = Signal(_Position)
        self.advanced: Any = Signal(_Position)
        self.begun: Any = Signal(_Position)
        self.slots = Signal.like(self.step.slots, name="slots")
        self.stride = Signal(signed(9))
        period, lead = Signal(COUNT), Signal(COUNT)
        self.period, self.lead = period, lead
        self.tail = Signal(COUNT, init=-1)
        self.keep, self.row_end, self.ending, self.leads, self.tails = (
            Signal(name=n) for n in ("keep", "row_end", "ending", "leads", "tails"))
