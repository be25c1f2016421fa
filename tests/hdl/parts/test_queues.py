"""The queue with a register at its output against the standard library's, cycle by cycle; the register of a stream."""

import random
from typing import Any

import pytest
from amaranth import Module
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.sim import Simulator
from stalls import STALLS

from tq_hw.hdl.parts.queues import Queue, Stage

_CYCLES = 300
_BITS = 12


@pytest.mark.parametrize(("idle", "refuses"), [*STALLS, (0.0, 1.0), (0.9, 0.1)])
@pytest.mark.parametrize("depth", [3, 8])
def test_is_the_buffered_fifo_of_the_standard_library(depth: int, idle: float, refuses: float) -> None:
    m = Module()
    m.submodules.queue = queue = Queue(_BITS, depth, registered=True)
    m.submodules.other = other = SyncFIFOBuffered(width=_BITS, depth=depth)
    m.d.comb += [other.w_data.eq(queue.i.payload), other.w_en.eq(queue.i.valid), other.r_en.eq(queue.o.ready)]
    pairs = ((queue.i.ready, other.w_rdy), (queue.o.valid, other.r_rdy), (queue.level, other.r_level))

    async def process(ctx: Any) -> None:
        rng = random.Random(f"{depth} {idle} {refuses}")
        for number in range(_CYCLES):
            # Long times of one kind fill the queue and empty it.
            busy = number // 50 % 2
            ctx.set(queue.i.valid, rng.random() >= (idle if busy else 1 - idle / 2))
            ctx.set(queue.o.ready, rng.random() >= refuses)
            ctx.set(queue.i.payload, rng.randrange(1 << _BITS))
            assert all(ctx.get(mine) == ctx.get(theirs) for mine, theirs in pairs), f"cycle {number}"
            if ctx.get(queue.o.valid):
                assert ctx.get(queue.o.payload) == ctx.get(other.r_data), f"cycle {number}"
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.parametrize(("idle", "refuses"), STALLS)
@pytest.mark.parametrize("registers", [1, 2, 4])
def test_a_stage_passes_all_entries_at_full_rate(registers: int, idle: float, refuses: float) -> None:
    """Each in its order. A register is loaded whenever it is free or its entry leaves."""
    dut = Stage(_BITS, registers)
    rng = random.Random(f"{registers} {idle} {refuses}")
    sent: list[int] = []
    got: list[int] = []
    holds = [False] * registers

    async def process(ctx: Any) -> None:
        for _ in range(_CYCLES):
            valid, ready, entry = rng.random() >= idle, rng.random() >= refuses, rng.randrange(1 << _BITS)
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.o.ready, ready)
            ctx.set(dut.i.payload, entry)
            takes = ready or not all(holds)
            assert (ctx.get(dut.o.valid), ctx.get(dut.i.ready)) == (holds[-1], takes)
            if holds[-1] and ready:
                got.append(ctx.get(dut.o.payload))
                holds[-1] = False
            for number in reversed(range(registers - 1)):
                if holds[number] and not holds[number + 1]:
                    holds[number], holds[number + 1] = False, True
            if valid and takes:
                sent.append(entry)
                holds[0] = True
            await ctx.tick()
        assert got == sent[:len(got)] and len(got) > 30

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
