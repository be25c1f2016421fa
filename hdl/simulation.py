"""The accelerator for simulators: with a register on its reset.

When an input of the top changes, a simulator evaluates all logic between that input and the next registers. Reset
reaches the next state of nearly every register, so a direct reset would double the work of a cycle.
"""

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring

from tq_hw.hdl.machine import machine
from tq_hw.isa.config import Config

__all__ = ["SimulatedAccelerator", "late_reset"]


def late_reset(m: Module) -> None:
    """Add the domain `core`: the clock of `sync`, the reset one cycle later."""
    m.domains.core = core = ClockDomain()
    reset = Signal(init=1, reset_less=True)
    m.d.sync += reset.eq(ResetSignal())
    m.d.comb += [core.clk.eq(ClockSignal()), core.rst.eq(reset)]


class SimulatedAccelerator(wiring.Component):
    """A machine with the same ports; its reset comes one cycle after the top's."""

    def __init__(self, config: Config) -> None:
        self.accelerator = machine(config)
        super().__init__(dict(self.accelerator.signature.members))

    def elaborate(self, platform: object) -> Module:
        """Put the accelerator into a domain of its own, with the same clock."""
        m = Module()
        late_reset(m)
        m.submodules.accelerator = DomainRenamer("core")(self.accelerator)
        wiring.connect(m, wiring.flipped(self), self.accelerator)
        return m
