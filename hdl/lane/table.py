"""The table of a lane: 512 int32, two look-ups per cycle."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
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

    Members
    -------
    a_in, b_in : In(signed(32)); a_table, b_table : In(2), with them; a_used, b_used : In(1), one cycle later: else 0
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

    def __init__(self) -> None:
        super().__init__({
            "a_in": In(signed(32)), "b_in": In(signed(32)), "a_table": In(2), "b_table": In(2), "a_used": In(1),
            "b_used": In(1), "a_inverted": In(1), "a": Out(signed(32)), "b": Out(signed(32)), "write": In(1),
            "index": In(9), "entry": In(signed(32)),
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
            # No look-up happens while an entry is written. Disabling the read then shows this to synthesis, which would
            # otherwise build a bypass; with its register the read becomes a port of the block memory.
            read = memory.read_port(domain="comb")
            found = Signal(signed(32), name=f"{out.name}_found", reset_less=True)
            top = Mux(table[0] & table[1], operand[8], table[1])
            m.d.comb += read.addr.eq(Cat(operand[:8], top))
            with m.If(~self.write):
                m.d.sync += found.eq(read.data)
            chosen = Signal(signed(32), name=f"{out.name}_chosen", reset_less=True)
            m.d.comb += out.eq(chosen)
            past = delayed(m, operand, 1, f"{out.name}_past")
            m.d.sync += chosen.eq(Mux(used, found, past) ^ turned.replicate(32))
        return m
