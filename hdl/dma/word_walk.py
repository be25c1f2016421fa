"""The scratchpad addresses of an operation's words: four loops, the two inner ones within a run."""

from typing import Any

from amaranth import Module, Mux, Signal, Value

from tq_hw.hdl.dma.runs import Rounds

__all__ = ["WordWalk"]


class WordWalk:
    """Registers of the walk, for a plan that steps them once a word.

    Parameters
    ----------
    op : fields count0, count1, and step0..step3: words from one round of a loop to its next

    Attributes
    ----------
    addr : word address
    end0, end1 : the word is the last of the innermost loop, of its run
    """

    def __init__(self, op: Any) -> None:
        self._op = op
        self._loop0, self._loop1 = Rounds(op.count0, "left0"), Rounds(op.count1, "left1")
        #: Address at which the current round of each loop began.
        self._bases = [Signal(16, name=f"base{level}") for level in range(4)]
        self._steps = [(base + op[f"step{level}"])[:16] for level, base in enumerate(self._bases)]
        #: A register, because of its fan-out.
        self.end1 = Signal()

    @property
    def end0(self) -> Value:
        """Whether the word is the last of the innermost loop."""
        return self._loop0.last

    @property
    def addr(self) -> Signal:
        """Word address in the scratchpad."""
        return self._bases[0]

    def elaborate(self, m: Module) -> None:
        """Add the adders of the loops."""
        for loop in (self._loop0, self._loop1):
            loop.elaborate(m)

    def start(self, m: Module, base: Value) -> None:
        """Go to word `base`, before an operation: `count` then begins its loops."""
        m.d.sync += [self._loop0.stop(), self._loop1.stop()]
        m.d.sync += [register.eq(base) for register in self._bases]

    def count(self, m: Module) -> None:
        """Count the word; `step` then advances the address."""
        inner, outer = self._loop0, self._loop1
        m.d.sync += [inner.step(), self.end1.eq(inner.next_last & Mux(inner.last, outer.next_last, outer.last))]
        with m.If(inner.last):
            m.d.sync += outer.step()

    def step(self, m: Module, last_run2: Value) -> None:
        """Step the innermost loop that has rounds left; the loops inside it restart from there.

        `last_run2`: this run is the last of the third loop.
        """
        bases, steps = self._bases, self._steps
        with m.If(~self.end0):
            m.d.sync += bases[0].eq(steps[0])
        with m.Elif(~self.end1):
            m.d.sync += [base.eq(steps[1]) for base in bases[:2]]
        with m.Elif(~last_run2):
            m.d.sync += [base.eq(steps[2]) for base in bases[:3]]
        with m.Else():
            m.d.sync += [base.eq(steps[3]) for base in bases]
