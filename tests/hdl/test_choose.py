"""Parts of a word by their place in it, and multiples of it."""

from typing import Any

import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator

from tq_hw.hdl.parts.choose import part_at
from tq_hw.hdl.parts.numbers import multiple


@pytest.mark.parametrize(("bits", "count"), [(5, 3), (8, 4), (96, 4), (1, 7)])
def test_a_part_is_where_it_was_put(bits: int, count: int) -> None:
    m = Module()
    word, index, out = Signal(bits * count), Signal(range(count)), Signal(bits)
    m.d.comb += out.eq(part_at(word, index, bits))
    value = sum((number * 0x9E3779B97F4A7C15F39CC060 + 1) % (1 << bits) << bits * number for number in range(count))

    async def bench(sim: Any) -> None:
        sim.set(word, value)
        for number in range(count):
            sim.set(index, number)
            assert sim.get(out) == value >> bits * number & (1 << bits) - 1

    simulation = Simulator(m)
    simulation.add_testbench(bench)
    simulation.run()


@pytest.mark.parametrize("factor", [1, 3, 4, 7, 10])
def test_a_multiple_is_a_product(factor: int) -> None:
    m = Module()
    number = Signal(4)
    out = Signal(8)
    m.d.comb += out.eq(multiple(number, factor))

    async def bench(sim: Any) -> None:
        for value in range(16):
            sim.set(number, value)
            assert sim.get(out) == value * factor

    simulation = Simulator(m)
    simulation.add_testbench(bench)
    simulation.run()
