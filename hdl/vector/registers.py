"""The eight vector registers: a block memory of int32 beats with two reads and one write per cycle."""

from typing import Any

from amaranth import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.vector.steps import register_word_bits
from tq_hw.isa.config import Config
from tq_hw.isa.latency import REGISTER_READ_CYCLES

__all__ = ["VectorRegisters"]


class VectorRegisters(wiring.Component):
    """Memory of `vector_words` beats. Synthesis makes one copy per read port.

    Timing: data LATENCY_CYCLES after the address. A word whose `d` arrives in cycle t is visible to addresses from
    t + 1 on.

    Members
    -------
    a_word, b_word : In, addresses
    a, b : Out(lanes int32)
    write : In(1); d_word : In, address; d : In(lanes int32), one cycle later
    """

    LATENCY_CYCLES = REGISTER_READ_CYCLES

    a_word: Signal
    b_word: Signal
    a: Any
    b: Any
    write: Signal
    d_word: Signal
    d: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        word = register_word_bits(config)
        beat = data.ArrayLayout(signed(32), config.requantize_lanes)
        super().__init__({"a_word": In(word), "b_word": In(word), "a": Out(beat), "b": Out(beat), "write": In(1),
                          "d_word": In(word), "d": In(beat)})

    def elaborate(self, platform: object) -> Module:
        """Register the memory's outputs."""
        m = Module()
        config = self._config
        # A word is never read in the cycle in which it is written.
        memory = block_memory(32 * config.requantize_lanes, config.vector_words)
        m.submodules.memory = memory
        write = memory.write_port()
        # The write address and its comparison with reads have a high fan-out.
        m.d.sync += [write.en.eq(self.write), write.addr.eq(self.d_word)]
        m.d.comb += write.data.eq(self.d.as_value())
        for name in ("a", "b"):
            found = block_read(m, memory, 1, getattr(self, f"{name}_word"), f"{name}_found")
            m.d.comb += getattr(self, name).eq(delayed(m, found, 1, name))
        return m
