"""LiteDRAM's PHY of a 7 series without what nobody changes: a core of 2,055 LUTs instead of 2,688, 23.5 % fewer.

Registers of that PHY choose the phases of commands, and shift what is read and written by whole bits, each pin by a
counter of its own. Here the phases stay as they are after a reset; of the leveller's settings (gateware/levelling.py)
only shifts of what is read are made, and those of a byte's pins are the same.
"""

from collections.abc import Callable
from typing import Any

from migen import Case, Cat, If, Module, Signal
from migen.fhdl.structure import _Operator, _Slice, _Value

__all__ = ["Slip", "make_lean"]


def make_lean(phy: Any) -> None:
    """Let LiteDRAM's module `phy`, which has the PHY, make its shifts by `Slip` and tell phases as numbers."""
    Slip.counts = {}
    phy.BitSlip = Slip
    settings: Callable[..., Any] = phy.PhySettings

    def with_numbers(**values: Any) -> Any:
        return settings(**{**values, **{name: values[name].reset.value for name in ("rdphase", "wrphase")}})

    phy.PhySettings = with_numbers


def _same(value: Any) -> Any:
    """Return what is equal for expressions of the same signals."""
    if isinstance(value, _Operator):
        return value.op, *map(_same, value.operands)
    if isinstance(value, _Slice):
        return value.start, value.stop, _same(value.value)
    return value.duid if isinstance(value, Signal) else value


class Slip(Module):
    """Take LiteDRAM's `BitSlip`: words of `dw` bits that begin at any bit of those that came in.

    What is to be written comes with `i`, and is shifted as after a reset, whatever `rst` and `slp` say.

    Members
    -------
    i : a word; o : in the next cycle, the `dw` bits from bit 1 + count on of the last `cycles` + 1 words, the last one
        on top
    slp : count up, from the greatest number, which is that after a reset, to 0; rst : count as after a reset
    """

    counts: dict[Any, Any] = {}

    def __init__(self, dw: int, i: _Value | None = None, o: _Value | None = None, rst: _Value | None = None,
                 slp: _Value | None = None, cycles: int = 1) -> None:
        self.i = Signal(dw) if i is None else i
        self.o = Signal(dw) if o is None else o
        words, most = Signal((cycles + 1) * dw, reset_less=True), cycles * dw - 1
        self.sync += words.eq(Cat(words[dw:], self.i))
        if i is not None:
            self.comb += self.o.eq(words[most + 1:])
        else:
            self.comb += Case(self._count(most, rst, slp),
                              {bit: self.o.eq(words[bit + 1:bit + 1 + dw]) for bit in range(most + 1)})

    def _count(self, most: int, rst: Any, slp: Any) -> Any:
        """Return the counter of these strobes; those that are alike have one."""
        key = most, _same(rst), _same(slp)
        if key not in self.counts:
            self.counts[key] = Signal(max=most + 1, reset=most)
            self.sync += [If(slp, self.counts[key].eq(self.counts[key] + 1)), If(rst, self.counts[key].eq(most))]
        return self.counts[key]
