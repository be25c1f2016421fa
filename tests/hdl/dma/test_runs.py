"""RunGenerator and BurstSplitter against plain loops."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from bench import Bench
from hypothesis import given, settings
from hypothesis import strategies as st
from stalls import Stalls

from tq_hw.hdl.bus.bursts import BurstSplitter
from tq_hw.hdl.dma.runs import RunGenerator
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import Config
from tq_hw.isa.layout import BURST_BYTES

CONFIGS = {bus_bytes: Config(f"bus{bus_bytes}", 4, 4, 2, 8 << 10, bus_bytes=bus_bytes) for bus_bytes in (4, 8, 16)}
#: base, stride2, stride3, count2, count3
Loops = tuple[int, int, int, int, int]
#: address, whether it is the last of its inner loop, whether it is the last of all
Run = tuple[int, int, int]
#: address, bytes
Span = tuple[int, int]
#: address, beats less one, low bits of its span's number
Burst = tuple[int, int, int]


@cache
def generator_of(bits: int) -> tuple[Any, Bench]:
    dut = RunGenerator(bits)
    return dut, Bench(dut)


def runs_rtl(bits: int, loops: Sequence[Loops], pressure: float = 0.0) -> list[list[Run]]:
    """Return the runs of several operations, one after the other."""
    dut, simulator = generator_of(bits)
    got: list[list[Run]] = []
    rng = random.Random(7)

    async def bench(ctx: Any) -> None:
        taking = Stalls(3, pressure)
        for base, stride2, stride3, count2, count3 in loops:
            for name, value in (("base", base), ("stride2", stride2), ("stride3", stride3), ("count2", count2),
                                ("count3", count3), ("start", 1)):
                ctx.set(getattr(dut, name), value)
            await ctx.tick()
            ctx.set(dut.start, 0)
            # The base is read with the start alone.
            ctx.set(dut.base, rng.getrandbits(bits))
            runs: list[Run] = []
            cycles = 0
            while ctx.get(dut.o.valid):
                go = taking.go()
                ctx.set(dut.o.ready, go)
                if go:
                    run = ctx.get(dut.o.payload)
                    runs.append((run.addr, run.last2, run.last))
                await ctx.tick()
                cycles += 1
                assert cycles < 1000
            assert pressure or cycles == len(runs)
            got.append(runs)

    simulator.run(bench)
    return got


def runs_ref(bits: int, loops: Sequence[Loops]) -> list[list[Run]]:
    return [[((base + n3 * stride3 + n2 * stride2) % (1 << bits), int(n2 == count2 - 1),
              int(n2 == count2 - 1 and n3 == count3 - 1)) for n3 in range(count3) for n2 in range(count2)]
            for base, stride2, stride3, count2, count3 in loops]


@pytest.mark.parametrize("pressure", [0.0, 0.5])
@pytest.mark.parametrize("bits", [3, 32])
def test_runs_follow_the_loops(bits: int, pressure: float) -> None:
    rng = random.Random(bits)
    loops = [(rng.getrandbits(bits), rng.getrandbits(bits), rng.getrandbits(bits), rng.choice([1, 2, 3, 9]),
              rng.choice([1, 2, 3, 5])) for _ in range(20)]
    assert runs_rtl(bits, loops, pressure) == runs_ref(bits, loops)


def test_counts_of_all_bits() -> None:
    loops = [(0, 1, 2, 300, 1), (0, 1, 2, 1, 300)]
    assert runs_rtl(32, loops) == runs_ref(32, loops)


@cache
def splitter_of(bus_bytes: int, size_bits: int) -> tuple[Any, Bench]:
    dut = BurstSplitter(CONFIGS[bus_bytes], size_bits)
    return dut, Bench(dut)


def split_rtl(bus_bytes: int, size_bits: int, spans: Sequence[Span], *, idle: float = 0.0,
              pressure: float = 0.0) -> tuple[list[Burst], int]:
    """Return the bursts, and the cycles from the first span to the last burst."""
    dut, simulator = splitter_of(bus_bytes, size_bits)
    got: list[Burst] = []
    wanted = list(spans)
    of_burst = [index for index, span in enumerate(spans) for _ in split_ref(bus_bytes, [span])]
    cycles = 0

    async def bench(ctx: Any) -> None:
        nonlocal cycles
        giving, taking = Stalls(1, idle), Stalls(2, pressure)
        offers = False
        held = None
        assert ctx.get(dut.idle)
        while len(got) < len(of_burst):
            offers = bool(wanted) and (offers or giving.go())
            ctx.set(dut.i.valid, offers)
            if offers:
                ctx.set(dut.i.payload.addr, wanted[0][0])
                ctx.set(dut.i.payload.size_bytes, wanted[0][1])
                ctx.set(dut.i.payload.number, number_of(len(spans) - len(wanted)))
            takes = taking.go()
            ctx.set(dut.o.ready, takes)
            _, _, ready, valid, o, idles = await ctx.tick().sample(dut.i.ready, dut.o.valid, dut.o.payload, dut.idle)
            burst = (int(o.addr), int(o.length), int(o.number))
            assert held is None or valid and burst == held
            held = burst if valid and not takes else None
            assert bool(idles) == (of_burst[len(got)] == len(spans) - len(wanted))
            if valid and takes:
                got.append(burst)
            if offers and ready:
                wanted.pop(0)
                offers = False
            cycles += 1
            assert cycles < 20000, "stuck"
        assert ctx.get(dut.idle) and not ctx.get(dut.o.valid)

    simulator.run(bench)
    return got, cycles


def number_of(index: int) -> int:
    return index % (1 << NUMBER_BITS)


def split_ref(bus_bytes: int, spans: Sequence[Span]) -> list[Burst]:
    bursts = []
    for index, (addr, size_bytes) in enumerate(spans):
        first, end = addr // bus_bytes * bus_bytes, addr + size_bytes
        while first < end:
            block = min((first // BURST_BYTES + 1) * BURST_BYTES, end)
            beats = -(-(block - first) // bus_bytes)
            bursts.append((first % (1 << 32), beats - 1, number_of(index)))
            first = block
    return bursts


@pytest.mark.parametrize("idle, pressure", [(0.0, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize("bus_bytes", CONFIGS)
def test_bursts_cover_the_spans(bus_bytes: int, idle: float, pressure: float) -> None:
    """Corners of first byte and length: a byte, to the end of a block, over it, whole blocks; the longest spans."""
    rng = random.Random(bus_bytes)
    most = (1 << 10) - 1
    corners = [(first, size) for first in (0, 1, bus_bytes - 1, bus_bytes, 255, 256 - bus_bytes, 4095)
               for size in (1, 2, bus_bytes, 255, 256, 257, 512, most)]
    spans = [(block * BURST_BYTES + first, size) for block in (0, 1 << 16) for first, size in corners]
    spans += [(rng.getrandbits(20), rng.randint(1, most)) for _ in range(60)]
    spans = rng.sample(spans, 80) if pressure else spans
    got, _ = split_rtl(bus_bytes, 10, spans, idle=idle, pressure=pressure)
    assert got == split_ref(bus_bytes, spans)


@pytest.mark.parametrize("size_bits", range(1, 10))
def test_spans_of_few_bits(size_bits: int) -> None:
    """From every byte of a block, the longest span that its size can say."""
    spans = [(first, (1 << size_bits) - 1) for first in range(BURST_BYTES)]
    got, _ = split_rtl(8, size_bits, spans)
    assert got == split_ref(8, spans)


@given(st.lists(st.tuples(st.integers(0, (1 << 32) - 5000), st.integers(1, 1023)), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_any_spans(spans: list[Span]) -> None:
    assert split_rtl(8, 10, spans)[0] == split_ref(8, spans)


def test_a_burst_every_cycle() -> None:
    spans = [(256 * n + 3, 1 + 7 * n) for n in range(40)]
    got, cycles = split_rtl(8, 10, spans)
    assert got == split_ref(8, spans) and cycles == len(got) + 2
