"""LoadUnit against the reference written from semantics.md."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator
from dma_reference import Fields, load_ref, random_load
from stalls import Stalls, read_memory

from tq_hw.hdl.load import LoadUnit
from tq_hw.isa.config import PRESETS, Config

BASES = (0, 4096, 8192 + 16, 512)
MEMORY_BYTES = 16384
CONFIGS = {
    "tiny": PRESETS["tiny"],
    "tiny_bus4": replace(PRESETS["tiny"], bus_bytes=4),
    "n8": PRESETS["n8"],
    "n8_bus16": replace(PRESETS["n8"], bus_bytes=16),
    "n16": PRESETS["n16"],
    "n16_bus4": replace(PRESETS["n16"], bus_bytes=4),
    "wide": Config("wide", 32, 4, 2, 32 << 10),
}


def memory_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, MEMORY_BYTES, np.uint8)


def load_rtl(config: Config, ops: list[Fields], memory: np.ndarray, *, seed: int = 0, latency: int = 5,
             chance: float = 0.0, limit: int = 20000) -> tuple[dict[int, list[int]], int]:
    """Return the words written by `ops` and the cycles from the first operation to the last done."""
    dut: Any = LoadUnit(config)
    written: dict[int, list[int]] = {}
    cycles = 0

    async def give(ctx: Any) -> None:
        for slot, base in enumerate(BASES):
            ctx.set(dut.base[slot], base)
        for op in ops:
            for name, value in op.items():
                ctx.set(dut.i.payload[name], value)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def watch(ctx: Any) -> None:
        nonlocal cycles
        grants = Stalls(seed + 1, chance)
        done = 0
        while done < len(ops):
            grant = grants.go()
            ctx.set(dut.port.grant, grant)
            _, _, en, addr, data, finished, error = await ctx.tick().sample(
                dut.port.en, dut.port.addr, dut.port.data, dut.done, dut.error)
            assert error == 0
            if en and grant:
                written[addr] = list(data.to_bytes(config.word_bytes, "little"))
            done += finished
            cycles += 1
            assert cycles < limit, "the load unit hangs"
        await ctx.tick().repeat(40 + latency)
        assert ctx.get(dut.idle), "not idle after the last operation"

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(give, background=True)
    simulator.add_testbench(read_memory(dut.memory, memory, config.bus_bytes, latency, Stalls(seed + 2, chance),
                                        Stalls(seed + 3, chance)), background=True)
    simulator.add_testbench(watch)
    simulator.run()
    return written, cycles


def check(config: Config, ops: list[Fields], seed: int, **options: Any) -> int:
    memory = memory_of(seed)
    written, cycles = load_rtl(config, ops, memory, seed=seed, **options)
    expected: dict[int, list[int | None]] = {}
    for op in ops:
        load_ref(config, op, memory, BASES[op["region"]], expected)
    assert written.keys() == expected.keys()
    for address, word in expected.items():
        for lane, byte in enumerate(word):
            assert byte is None or written[address][lane] == byte, (address, lane, ops)
    return cycles


@pytest.mark.parametrize("chance", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_operations(name: str, chance: float) -> None:
    rng = random.Random(f"{name} {chance}")
    ops = [random_load(rng, CONFIGS[name], 4000) for _ in range(16)]
    check(CONFIGS[name], ops, 7, chance=chance)


def contiguous(config: Config, words: int, lane: int, **changes: int) -> dict[str, int]:
    """Return a load of `words` full words from a byte address that is `lane` beyond a multiple of 16."""
    width = config.word_bytes
    op = {"memory_offset_bytes": lane, "region": 0, "run_bytes": words * width, "fill": 0, "pad_before_bytes": 0,
          "pad_after_bytes": 0, "destination": 3, "flip": 0, "emit_bytes": width, "advance_bytes": width,
          "last_emit_bytes": width, "last_advance_bytes": width, "count0": 1, "count1": words, "count2": 1,
          "count3": 1, "step0": 1, "step1": 1, "step2": words, "step3": 0, "stride2_bytes": words * width,
          "stride3_bytes": 0}
    return op | changes


@pytest.mark.parametrize("lane", [0, 5])
@pytest.mark.parametrize("name", CONFIGS)
def test_contiguous_data_comes_at_the_rate_of_the_bus(name: str, lane: int) -> None:
    config = CONFIGS[name]
    words = 128
    cycles = check(config, [contiguous(config, words, lane)], 1, latency=30)
    assert cycles <= max(words, words * config.word_bytes / config.bus_bytes) + 30 + 20


@pytest.mark.parametrize("name", ["tiny", "n8", "n16"])
def test_runs_follow_each_other_without_a_gap(name: str) -> None:
    config = CONFIGS[name]
    width, runs = config.word_bytes, 48
    op = contiguous(config, 2, 3, count2=runs, stride2_bytes=2 * width + 5, step2=2)
    # Each run of 2 words touches at most one beat more than it has.
    beats = 2 * width // config.bus_bytes + 2
    assert check(config, [op], 1, latency=30) <= runs * max(2, beats) + 30 + 20


def test_windows_come_one_word_per_cycle() -> None:
    config = PRESETS["n16"]
    op = contiguous(config, 100, 1, emit_bytes=9, last_emit_bytes=9, advance_bytes=3, last_advance_bytes=3,
                    run_bytes=306, pad_before_bytes=3)
    assert check(config, [op], 1, latency=30) <= 100 + 30 + 20


def test_a_fill_reads_no_memory() -> None:
    config = PRESETS["n16"]
    op = contiguous(config, 100, 1, run_bytes=0, fill=0x85)
    assert check(config, [op], 1, latency=1000) <= 100 + 20
