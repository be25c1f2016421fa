"""Chains of registers."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["DelayLine", "delayed"]


def delayed(m: Module, value: Any, cycles: int, name: str, *, control: bool = False) -> Any:
    """Return `value` (an Amaranth value or view) as it was `cycles` clock cycles ago, of the same shape.

    `control`: the registers are reset to 0; otherwise they have no reset, which saves its logic.
    """
    for n in range(cycles):
        register = Signal(value.shape(), name=f"{name}_delay{n + 1}", reset_less=not control)
        m.d.sync += register.eq(value)
        value = register
    return value


class DelayLine(wiring.Component):
    """Return `i` as it was `cycles` clock cycles ago; after a reset the first `cycles` values are stale.

    Members
    -------
    i : In(bits), o : Out(bits)
    """

    i: Signal
    o: Signal

    def __init__(self, bits: int, cycles: int) -> None:
        if cycles < 3:
            raise ValueError(f"a delay line is worth three or more cycles, not {cycles}")
        self._bits, self._cycles = bits, cycles
        super().__init__({"i": In(bits), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        """Write to a ring buffer; a word that is read just before it is overwritten is one round old."""
        m = Module()
        depth = self._cycles - 1
        memory: Any = Memory(shape=self._bits, depth=depth, init=[], attrs={"ram_style": "distributed"})
        m.submodules.memory = memory
        read, write = memory.read_port(), memory.write_port()
        at = Signal(range(depth))
        m.d.sync += at.eq(Mux(at == depth - 1, 0, at + 1))
        m.d.comb += [
            write.en.eq(1), write.addr.eq(at), write.data.eq(self.i),
            read.addr.eq(at), self.o.eq(read.data),
        ]
        return m
