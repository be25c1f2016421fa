"""The registers of the slot counter, and how their signs show the end of a count."""

from typing import Any

from amaranth import Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data

from tq_hw.hdl.array.steps import COLUMN, COUNT, ROW, Constants, Step
from tq_hw.isa.config import Config

__all__ = ["Counters", "last", "some_left"]

#: address: of the slot, without the step's offsets; next_row: address of the next output row's first slot;
#: row, col: the slot's input row and column, without the step's offsets; cols: output columns left.
_Position = data.StructLayout({"address": 16, "next_row": 16, "row": ROW, "col": COLUMN, "cols": COUNT})


def last(counter: Any) -> Value:
    """Whether a counter is at its last value (-1) or past it (-2), by its sign."""
    sign: Value = counter[-1]
    return sign


def some_left(counter: Any) -> Value:
    """Whether a counter whose last value is -1 has not yet gone to -2, none left."""
    left: Value = ~counter[-1] | counter[0]
    return left


class Counters:
    """Registers and decisions of stage 0. `slots` and `cols` count one further, to -2, in depthwise mode.

    step, constants : the current step, and the constants of its operation
    position, advanced, begun : of this slot; of the step's next slot; of the tile's first slot
    slots, period : slots left of the step and of the row, less 1
    stride, lead, tail : slots until the next kept one, until reading begins, until the last row is read, less 1
    live, fresh, took : slots are being counted; this is a step's first slot; it takes a buffer
    keep, row_end, ending : this slot is kept; it is the last of its row, of its step
    leads, tails : the slot's own column is read; the rest of a row that has ended is read
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
