"""What a run must wait for, as far as it follows from the order of the runs."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.vector.steps import CountedStep, Waits
from tq_hw.isa.config import Config

__all__ = ["WaitMarks"]


class WaitMarks(wiring.Component):
    """Follow the steps in order, long before they are issued, so that Issue only has to check timers.

    Members
    -------
    valid : In(1), strobe: `counted` is the next step; counted : In(CountedStep)
    waits : Out(Waits), with it, of its run if it is the first step of one
    """

    valid: Signal
    counted: Any
    waits: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({"valid": In(1), "counted": In(CountedStep(config)), "waits": Out(Waits)})

    def elaborate(self, platform: object) -> Module:
        """Track which register was written last, and whether the chunk has outputs."""
        m = Module()
        counted = self.counted
        step, registers = counted.step, counted.registers
        newest, newest_long, writing, in_chunk = (Signal(shape, name=name) for name, shape in (
            ("newest", 3), ("newest_long", 1), ("writing", 1), ("in_chunk", 1)))
        with m.If(self.valid & step.fire):
            m.d.sync += writing.eq(step.writes & ~step.run_last)
        with m.If(self.valid & step.writes & ~writing):
            m.d.sync += [newest.eq(registers.d), newest_long.eq(registers.long)]
        with m.If(self.valid & step.run_first & counted.chunk_first):
            m.d.sync += in_chunk.eq(0)
        outputs = step.outputs | step.activates if self._config.activation_lanes else step.outputs
        with m.If(self.valid & outputs):
            m.d.sync += in_chunk.eq(1)

        def reads(of_newest: int) -> Value:
            a: Value = Mux(registers.a == newest, of_newest, not of_newest) & registers.a_uses
            b: Value = Mux(registers.b == newest, of_newest, not of_newest) & registers.b_uses
            return a | b

        waits: dict[str, Value] = {
            "newest_beat": reads(1), "newest_run": reads(0) & (newest_long | registers.long),
            "older_runs": registers.a_uses | registers.b_uses,
            "outputs": counted.streams & (step.op_first | (~counted.chunk_first & in_chunk)),
            "operation": counted.streams & ~step.op_first,
        }
        m.d.comb += [self.waits[name].eq(step.run_first & wait) for name, wait in waits.items()]
        return m
