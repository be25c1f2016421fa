"""Scratchpad: priorities, latency, errors, against a plain model."""

import random
from dataclasses import replace
from typing import Any

import pytest
from amaranth.sim import Simulator

from tq_hw.hdl.scratchpad import READ_CLIENTS, Scratchpad
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.latency import ARRAY_READ_LATENCY_CYCLES, READ_LATENCY_CYCLES, shares_ports

TINY = PRESETS["tiny"]
#: A word is four beats: store and b share a port, load and out, too.
SHARED = replace(TINY, requantize_lanes=1, few_luts=1)
FEEDS = ("feed0", "feed1", "feed2")
ARRAY = (*FEEDS, "weights")


def simulate(config: Any, bench: Any) -> None:
    dut: Any = Scratchpad(config)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)

    async def run(ctx: Any) -> None:
        await bench(ctx, dut)
    simulator.add_testbench(run)
    simulator.run()


async def write(ctx: Any, dut: Any, addr: int, data: int) -> None:
    ctx.set(dut.out.en, 1)
    ctx.set(dut.out.addr, addr)
    ctx.set(dut.out.data, data)
    ctx.set(dut.out.mask, (1 << TINY.word_bytes) - 1)
    await ctx.tick()
    ctx.set(dut.out.en, 0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("config", [pytest.param(TINY, id="own"), pytest.param(SHARED, id="shared")])
def test_random_traffic(config: Config, seed: int) -> None:
    assert shares_ports(config) == (config is SHARED)
    rng = random.Random(seed)
    words, width = 64, TINY.word_bytes

    async def bench(ctx: Any, dut: Any) -> None:
        model = [rng.getrandbits(8 * width) for _ in range(words)]
        for addr, data in enumerate(model):
            await write(ctx, dut, addr, data)
        await ctx.tick()
        pending: list[tuple[int, str, int, int | None]] = []
        waiting: dict[str, int] = {}
        array: set[int] = set()  # banks that the array unit asked for in the cycle before
        for now in range(300):
            asked = {name: rng.randrange(words) for name in READ_CLIENTS if rng.random() < 0.5}
            # A client that waits keeps its address.
            asked |= waiting
            banks = [asked[name] % 4 for name in FEEDS if name in asked]
            if len(set(banks)) < len(banks):
                for name in FEEDS:
                    asked.pop(name, None)
            for name in READ_CLIENTS:
                ctx.set(getattr(dut, name).en, name in asked)
                ctx.set(getattr(dut, name).addr, asked.get(name, 0))
                ctx.set(getattr(dut, name).wants, 1 << asked[name] % 4 if name in asked else 0)
            # Expected grants: a client waits if one before it uses its bank.
            wins = {name for name in asked if name in FEEDS}
            for names, taken in ((["weights"], {asked[name] % 4 for name in wins}), (["a", "b", "store"], set(array))):
                for name in names:
                    if name == "store" and shares_ports(config) and "b" in asked:
                        taken |= {0, 1, 2, 3}
                    if name in asked and asked[name] % 4 not in taken:
                        wins.add(name)
                    taken |= {asked[name] % 4} if name in asked else set()
            array = {asked[name] % 4 for name in ARRAY if name in asked}
            writes = {}
            for name in ("out", "load"):
                if rng.random() < 0.4:
                    writes[name] = (rng.randrange(words), rng.getrandbits(8 * width), rng.getrandbits(width))
                port = getattr(dut, name)
                addr, data, mask = writes.get(name, (0, 0, 0))
                ctx.set(port.en, name in writes)
                ctx.set(port.addr, addr)
                ctx.set(port.data, data)
                ctx.set(port.mask, mask)
            await ctx.delay(1e-10)
            assert {name for name in asked if not ctx.get(getattr(dut, name).wants & getattr(dut, name).taken)} == wins
            # What was asked for this many cycles ago is there.
            for _, name, _, data in (p for p in pending if p[0] == now):
                assert data is None or ctx.get(getattr(dut, name).data) == data, name
            pending = [p for p in pending if p[0] > now]
            for name in wins:
                addr = asked[name]
                latency = ARRAY_READ_LATENCY_CYCLES if name in ARRAY else READ_LATENCY_CYCLES
                pending.append((now + latency, name, addr, model[addr]))
            waiting = {name: addr for name, addr in asked.items() if name not in wins}
            if "out" in writes and "load" in writes and (
                    shares_ports(config) or writes["out"][0] % 4 == writes["load"][0] % 4):
                assert not ctx.get(dut.load.grant)
                del writes["load"]
            for name, (addr, data, mask) in writes.items():
                assert ctx.get(getattr(dut, name).grant)
                for lane in range(width):
                    if mask >> lane & 1:
                        model[addr] = model[addr] & ~(0xFF << 8 * lane) | data & 0xFF << 8 * lane
            # A write of the cycle in which the bank is asked meets the read in it; of the array, one before it too.
            pending = [(when, name, addr, None if when >= now + READ_LATENCY_CYCLES and any(
                addr == w[0] for w in writes.values()) else data) for when, name, addr, data in pending]
            await ctx.tick()
            assert not any(ctx.get(getattr(dut, name).beyond) for name in (*READ_CLIENTS, "out", "load"))

    simulate(config, bench)


@pytest.mark.parametrize("name", [*READ_CLIENTS, "out", "load"])
def test_an_address_beyond_the_end_is_reported(name: str) -> None:
    async def bench(ctx: Any, dut: Any) -> None:
        for addr, beyond in ((TINY.scratchpad_words - 1, 0), (TINY.scratchpad_words, 1), (0xFFFF, 1)):
            ctx.set(getattr(dut, name).addr, addr)
            ctx.set(getattr(dut, name).en, 1)
            await ctx.tick()
            ctx.set(getattr(dut, name).en, 0)
            for other in (*READ_CLIENTS, "out", "load"):
                assert ctx.get(getattr(dut, other).beyond) == (beyond if other == name else 0)
            await ctx.tick()
            assert not ctx.get(getattr(dut, name).beyond)

    simulate(TINY, bench)


def test_a_scratchpad_of_all_addresses_has_no_end() -> None:
    config = replace(TINY, scratchpad_bytes=65536 * TINY.word_bytes)

    async def bench(ctx: Any, dut: Any) -> None:
        ctx.set(dut.load.addr, 0xFFFF)
        ctx.set(dut.load.en, 1)
        await ctx.tick()
        assert not ctx.get(dut.load.beyond)

    simulate(config, bench)
