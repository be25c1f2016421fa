"""The table of a lane: 512 int32, two look-ups per cycle."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import TABLE_CYCLES

__all__ = ["LaneTable"]


class LaneTable(wiring.Component):
    """Pass the operands a and b of a lane through its table, or around it.

    Table 1 is entries 0..255 and table 2 entries 256..511, indexed by the operand's low 8 bits. Table 3, only for a, is
    all entries, indexed by the low 9 bits. Synthesis makes one copy of the memory per operand.

    Timing: LATENCY_CYCLES, one beat a cycle. An entry written in cycle t is visible to operands from t + 1 on.

    Parameters
    ----------
    parts : words whose OR is an operand, all but one of which are 0. One, or as many as fit a LUT of six inputs with
        the entry and the complement: they come a cycle earlier, because the memory needs their OR

    Members
    -------
    a_in, b_in : In(signed(32 * parts)); a_table, b_table : In(2), with the OR
    a_used, b_used : In(1), one cycle later: there is a table
    a_inverted : In(1), one cycle later: output the complement of a
    a, b : Out(signed(32))
    write : In(1); index : In(9); entry : In(signed(32))
    """

    LATENCY_CYCLES = TABLE_CYCLES

    a_in: Signal
    b_in: Signal
    a_table: Signal
    b_table: Signal
    a_used: Signal
    b_used: Signal
    a_inverted: Signal
    a: Signal
    b: Signal
    write: Signal
    index: Signal
    entry: Signal

    def __init__(self, parts: int = 1) -> None:
        self._parts = parts
        super().__init__({
            "a_in": In(signed(32 * parts)), "b_in": In(signed(32 * parts)), "a_table": In(2), "b_table": In(2),
            "a_used": In(1), "b_used": In(1), "a_inverted": In(1), "a": Out(signed(32)), "b": Out(signed(32)),
            "write": In(1), "index": In(9), "entry": In(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """One cycle for the memory, one for the choice."""
        m = Module()
        memory: Any = Memory(shape=signed(32), depth=512, init=[])
        m.submodules.memory = memory
        write = memory.write_port()
        m.d.comb += [write.en.eq(self.write), write.addr.eq(self.index), write.data.eq(self.entry)]
        for operand, table, used, turned, out in (
                (self.a_in, self.a_table, self.a_used, self.a_inverted, self.a),
                (self.b_in, self.b_table, self.b_used, Const(0, 1), self.b)):
            index = operand if self._parts == 1 else self._index(m, operand, out.name)
            # No look-up happens while an entry is written. Disabling the read then shows this to synthesis, which would
            # otherwise build a bypass; with its register the read becomes a port of the block memory.
            read = memory.read_port(domain="comb")
            found = Signal(signed(32), name=f"{out.name}_found", reset_less=True)
            top = Mux(table[0] & table[1], index[8], table[1])
            m.d.comb += read.addr.eq(Cat(index[:8], top))
            with m.If(~self.write):
                m.d.sync += found.eq(read.data)
            chosen = Signal(signed(32), name=f"{out.name}_chosen", reset_less=True)
            m.d.comb += out.eq(chosen)
            if self._parts == 1:
                either = Mux(used, found, delayed(m, operand, 1, f"{out.name}_past"))
            else:
                # The entry, or all parts, is 0.
                with m.If(table == 0):
                    m.d.sync += found.eq(0)
                either = _any_of([found, *self._past(m, operand, table, out.name)])
            m.d.sync += chosen.eq(either ^ turned.replicate(32))
        return m

    def _index(self, m: Module, operand: Value, name: str) -> Value:
        """Return the low bits of an operand of several parts, one cycle later: 9 of a, 8 of b and a zero."""
        bits = 9 if name == "a" else 8
        index = Signal(bits, name=f"{name}_index", reset_less=True)
        m.d.sync += index.eq(_any_of(operand.word_select(part, 32)[:bits] for part in range(self._parts)))
        return Cat(index, Const(0, 9 - bits))

    def _past(self, m: Module, operand: Value, table: Value, name: str) -> list[Value]:
        """Return the parts two cycles later; 0 where there is a table."""
        parts: list[Value] = []
        for part in range(self._parts):
            past = Signal(32, name=f"{name}_past{part}", reset_less=True)
            m.d.sync += past.eq(delayed(m, operand.word_select(part, 32), 1, f"{name}{part}"))
            with m.If(table != 0):
                m.d.sync += past.eq(0)
            parts.append(past)
        return parts


def _any_of(words: Iterable[Value]) -> Value:
    """Return the OR of words."""
    return reduce(or_, words)
