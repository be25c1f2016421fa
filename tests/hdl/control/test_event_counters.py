# amaranth: UnusedElaboratable=no
"""Counters of events against sums."""

import random
from functools import cache
from typing import Any

import pytest
from bench import Bench

from tq_hw.hdl.control.event_counters import EventCounters


@cache
def counters(number: int) -> tuple[Any, Bench]:
    dut = EventCounters(number)
    return dut, Bench(dut)


async def values(ctx: Any, dut: Any, number: int) -> list[int]:
    found = []
    for index in range(number):
        ctx.set(dut.index, index)
        await ctx.tick()
        found.append(ctx.get(dut.value))
    return found


async def run(ctx: Any, dut: Any, events: list[int]) -> None:
    """Run with these events, one set of bits a cycle; the ones around them do not count."""
    ctx.set(dut.clear, 1)
    ctx.set(dut.running, bool(events))
    ctx.set(dut.events, -1)
    await ctx.tick()
    ctx.set(dut.clear, 0)
    for left, bits in reversed(list(enumerate(events))):
        ctx.set(dut.running, left > 0)
        ctx.set(dut.events, bits)
        ctx.set(dut.index, bits)
        await ctx.tick()
        assert ctx.get(dut.value) == 0
    ctx.set(dut.events, -1)


@pytest.mark.parametrize("number", [2, 3, 17, 30])
def test_counts_the_events_of_each_run(number: int) -> None:
    """Runs of any length, rates from never to always; what is read stays until the next run."""
    rng = random.Random(number)
    dut, bench = counters(number)

    async def check(ctx: Any) -> None:
        assert await values(ctx, dut, number) == [0] * number
        for length in (1, 700, 3, 40, 0, 200, *range(2, 2 * number + 3), 90):
            rates = [rng.choice((0, 0.1, 0.9, 1)) for _ in range(number)]
            events = [sum(1 << n for n, rate in enumerate(rates) if rng.random() < rate) for _ in range(length)]
            await run(ctx, dut, events)
            counts = [sum(bits >> n & 1 for bits in events) for n in range(number)]
            assert await values(ctx, dut, number) == counts, length
            await ctx.tick().repeat(rng.randrange(1, 50))
            assert await values(ctx, dut, number) == counts, length

    bench.run(check)


def test_a_carry_reaches_all_bits() -> None:
    """2^32 events take too long: the memory is given a count shortly before."""
    dut, bench = counters(3)
    high = (1 << 32) - 32

    async def check(ctx: Any) -> None:
        await run(ctx, dut, [0] * 40)
        for index in range(3):
            ctx.set(dut.memory.data[index], high)
        assert await values(ctx, dut, 3) == [high] * 3
        ctx.set(dut.running, 1)
        await ctx.tick()
        ctx.set(dut.events, 0b101)
        await ctx.tick().repeat(39)
        ctx.set(dut.running, 0)
        await ctx.tick()
        assert await values(ctx, dut, 3) == [8, high, 8]

    bench.run(check)


@pytest.mark.parametrize("number", [1, 31])
def test_the_number_of_counters_is_bounded(number: int) -> None:
    with pytest.raises(ValueError, match=rf"^{number} counters are not between 2 and 30$"):
        EventCounters(number)
