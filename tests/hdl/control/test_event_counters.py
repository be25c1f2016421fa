# amaranth: UnusedElaboratable=no
"""Counters of events against sums."""

import random
from typing import Any

import pytest
from bench import Bench

from tq_hw.hdl.control.event_counters import SETTLE_CYCLES, EventCounters


@pytest.mark.parametrize("number", [3, 4, 17, 29])
def test_counts_the_events_of_each_run(number: int) -> None:
    """Runs of any length, rates from never to always; a run may begin while the last one's counters settle."""
    rng = random.Random(number)
    dut = EventCounters(number)

    async def bench(ctx: Any) -> None:
        async def values() -> list[int]:
            found = []
            for index in range(number):
                ctx.set(dut.index, index)
                await ctx.tick()
                found.append(ctx.get(dut.value))
            return found

        assert await values() == [0] * number
        for length in (1, 700, 3, 40, 200, 0, 90):
            ctx.set(dut.events, -1)
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            counts, rates = [0] * number, [rng.choice((0, 0.1, 0.9, 1)) for _ in range(number)]
            ctx.set(dut.running, 1)
            for _ in range(length):
                events = [rng.random() < rate for rate in rates]
                ctx.set(dut.events, sum(1 << n for n, event in enumerate(events) if event))
                counts = [count + event for count, event in zip(counts, events, strict=True)]
                await ctx.tick()
                assert ctx.get(dut.settles) and ctx.get(dut.value) == 0
            ctx.set(dut.running, 0)
            ctx.set(dut.events, -1)
            if length == 40:
                await ctx.tick().repeat(rng.randrange(SETTLE_CYCLES))
                continue
            waited = 0
            while ctx.get(dut.settles):
                await ctx.tick()
                waited += 1
            assert waited <= SETTLE_CYCLES + 1
            assert await values() == counts
            assert await values() == counts

    Bench(dut).run(bench)


def test_a_carry_reaches_all_bits() -> None:
    """2^32 events take too long: the memory is given a count shortly before."""
    dut = EventCounters(8)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        ctx.set(dut.running, 1)
        await ctx.tick().repeat(SETTLE_CYCLES)
        # Twice, because visits under way write what they read.
        for _ in range(2):
            for index in range(8):
                ctx.set(dut.memory.data[index], (1 << 32) - 32)
            await ctx.tick().repeat(4)
        ctx.set(dut.events, 1)
        await ctx.tick().repeat(40)
        ctx.set(dut.running, 0)
        await ctx.tick().repeat(SETTLE_CYCLES + 1)
        for index, count in enumerate((8, *[(1 << 32) - 32] * 7)):
            ctx.set(dut.index, index)
            await ctx.tick()
            assert ctx.get(dut.value) == count

    Bench(dut).run(bench)


@pytest.mark.parametrize("number", [2, 30])
def test_the_number_of_counters_is_bounded(number: int) -> None:
    with pytest.raises(ValueError, match=rf"^{number} counters: a visit takes 3 cycles, "
                                         r"and 32 must be enough for all$"):
        EventCounters(number)
