"""StoreUnit with its write channel against the reference written from semantics.md."""

import random
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from dma_reference import Fields, random_store, store_ref
from stalls import Stalls

from tq_hw.hdl.axi import WriteChannel
from tq_hw.hdl.store import StoreUnit
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.latency import READ_LATENCY_CYCLES

BASES = (0, 4096, 8192 + 16, 512)
REGION_BYTES = 8192
MEMORY_BYTES = 16384 + 16
CONFIGS = {
    "tiny": PRESETS["tiny"],
    "tiny_bus4": replace(PRESETS["tiny"], bus_bytes=4),
    "n8": PRESETS["n8"],
    "n8_bus16": replace(PRESETS["n8"], bus_bytes=16),
    "n16": PRESETS["n16"],
    "n16_bus4": replace(PRESETS["n16"], bus_bytes=4),
    "wide": Config("wide", 32, 4, 2, 32 << 10),
}


def store_rtl(config: Config, ops: list[Fields], memory: np.ndarray, scratchpad: np.ndarray, *, seed: int = 0,
              latency: int = 5, chance: float = 0.0, limit: int = 20000) -> int:
    """Write `ops` into `memory`; return the cycles from the first operation to the last done."""
    m = Module()
    m.submodules.store = dut = StoreUnit(config)
    m.submodules.channel = channel = WriteChannel(config)
    wiring.connect(m, dut.beats, channel.beats)
    wiring.connect(m, dut.bursts, channel.bursts)
    m.d.comb += [dut.answered.eq(channel.answered), dut.write_error.eq(channel.error)]
    unit: Any = dut
    cycles = 0

    async def give(ctx: Any) -> None:
        for slot, base in enumerate(BASES):
            ctx.set(unit.base[slot], base)
        for op in ops:
            for name, value in op.items():
                ctx.set(unit.i.payload[name], value)
            ctx.set(unit.i.valid, 1)
            await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)

    async def read(ctx: Any) -> None:
        grants = Stalls(seed + 1, chance)
        asked: deque[int | None] = deque([None] * (READ_LATENCY_CYCLES - 1), READ_LATENCY_CYCLES - 1)
        while True:
            grant = grants.go()
            ctx.set(unit.port.taken, 0 if grant else 15)
            _, _, en, addr, wants = await ctx.tick().sample(unit.port.en, unit.port.addr, unit.port.wants)
            assert wants == (1 << addr % 4 if en else 0)
            if (first := asked[-1]) is not None:
                ctx.set(unit.port.data, int.from_bytes(scratchpad[first].tobytes(), "little"))
            asked.appendleft(addr if en and grant else None)

    async def write(ctx: Any) -> None:
        nonlocal cycles
        asking, taking, answering = (Stalls(seed + n, chance) for n in (2, 3, 4))
        bursts: deque[tuple[int, int]] = deque()
        beats: deque[tuple[int, int, int]] = deque()
        answers: deque[int] = deque()
        beat = done = 0
        bus: Any = channel.bus
        while done < len(ops):
            awready, wready = asking.go(), taking.go()
            ctx.set(bus.awready, awready)
            ctx.set(bus.wready, wready)
            answer = bool(answers) and answers[0] <= cycles and answering.go()
            ctx.set(bus.bvalid, answer)
            if answer:
                answers.popleft()
            _, _, aw, addr, length, w, data, strobe, last, finished, error = await ctx.tick().sample(
                bus.awvalid, bus.awaddr, bus.awlen, bus.wvalid, bus.wdata, bus.wstrb, bus.wlast, unit.done, unit.error)
            assert error == 0
            if aw and awready:
                end = addr + (length + 1) * config.bus_bytes
                assert addr % config.bus_bytes == 0 and addr // 256 == (end - 1) // 256
                bursts.append((addr, length))
            if w and wready:
                beats.append((data, strobe, last))
            # Data may come before its address.
            if bursts and beats:
                addr, length = bursts[0]
                data, strobe, last = beats.popleft()
                assert strobe != 0
                for lane in range(config.bus_bytes):
                    if strobe >> lane & 1:
                        memory[addr + beat * config.bus_bytes + lane] = data >> 8 * lane & 0xFF
                assert last == (beat == length)
                beat += 1
                if last:
                    bursts.popleft()
                    answers.append(cycles + latency)
                    beat = 0
            done += finished
            cycles += 1
            assert cycles < limit, "the store unit hangs"
        assert not answers and not bursts and not beats
        await ctx.tick().repeat(2)
        assert ctx.get(unit.idle) and ctx.get(channel.idle)

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(give, background=True)
    simulator.add_testbench(read, background=True)
    simulator.add_testbench(write)
    simulator.run()
    return cycles


def check(config: Config, ops: list[Fields], seed: int, **options: Any) -> int:
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    scratchpad = rng.integers(0, 256, (config.scratchpad_words, config.word_bytes), np.uint8)
    expected = memory.copy()
    cycles = store_rtl(config, ops, memory, scratchpad, seed=seed, **options)
    for op in ops:
        store_ref(config, op, expected, BASES[op["region"]], scratchpad)
    np.testing.assert_array_equal(memory, expected)
    return cycles


@pytest.mark.parametrize("chance", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_operations(name: str, chance: float) -> None:
    rng = random.Random(f"{name} {chance}")
    ops = [random_store(rng, CONFIGS[name], REGION_BYTES) for _ in range(16)]
    check(CONFIGS[name], ops, 7, chance=chance)


def contiguous(config: Config, words: int, lane: int, **changes: int) -> dict[str, int]:
    """Return a store of `words` full words to a byte address that is `lane` beyond a multiple of 16."""
    width = config.word_bytes
    op = {"memory_offset_bytes": lane, "region": 0, "source": 3, "flip": 0, "take_bytes": width,
          "last_take_bytes": width, "lane": 0, "count0": 1, "count1": words, "count2": 1, "count3": 1, "step0": 1,
          "step1": 1, "step2": words, "step3": 0, "stride2_bytes": words * width, "stride3_bytes": 0}
    return op | changes


@pytest.mark.parametrize("lane", [0, 5])
@pytest.mark.parametrize("name", CONFIGS)
def test_contiguous_data_goes_at_the_rate_of_the_bus(name: str, lane: int) -> None:
    config = CONFIGS[name]
    words = 128
    cycles = check(config, [contiguous(config, words, lane)], 1, latency=30)
    # The last burst leaves when it is whole.
    assert cycles <= max(words, words * config.word_bytes / config.bus_bytes) + 256 / config.bus_bytes + 30 + 24


@pytest.mark.parametrize("name", ["tiny", "n8", "n16"])
def test_runs_follow_each_other_without_a_gap(name: str) -> None:
    config = CONFIGS[name]
    width, runs = config.word_bytes, 48
    op = contiguous(config, 2, 3, count2=runs, stride2_bytes=2 * width + 5, step2=2)
    beats = 2 * width // config.bus_bytes + 2
    assert check(config, [op], 1, latency=4) <= runs * max(2, beats) + 40
