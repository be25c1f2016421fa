"""Registers: what a host writes and reads, when a run begins, and what the counters count."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from registers_bench import KEPT, OFFSETS, START, STOP, TINY, Host, simulate

from tq_hw.hdl.control.registers import EVENTS, RESET_CYCLES
from tq_hw.isa.control import (
    COUNTERS,
    MAGIC,
    STATUS_BUSY,
    STATUS_DONE,
)


def test_reads_what_was_written() -> None:
    """Every register by its address; low bits of the address do not matter; what does not exist reads 0."""
    rng = random.Random(1)

    async def bench(host: Host) -> None:
        expected = {"magic": MAGIC, "fingerprint": TINY.fingerprint} | dict.fromkeys(KEPT, 0)
        for _ in range(3):
            for name in OFFSETS:
                assert await host.read(name) == expected.get(name, 0), name
            for address in set(range(0, 256, 4)) - set(OFFSETS.values()):
                assert await host.read(address) == 0
            for name, offset in OFFSETS.items():
                if name != "control":
                    value = rng.getrandbits(32)
                    await host.write(offset + rng.randrange(4), value)
                    if name in KEPT:
                        expected[name] = value & KEPT[name]
        await host.tick(2)
        for region in range(4):
            assert host.ctx.get(host.dut.base[region]) == expected[f"base{region}"]
        assert host.ctx.get(host.dut.command_bytes) == expected["command_bytes"]
        assert host.ctx.get(host.dut.command_addr) == (expected["base0"] + expected["command_offset"]) % (1 << 32)
        assert not host.starts

    simulate(bench)


def test_the_word_comes_two_cycles_after_its_address() -> None:
    async def bench(host: Host) -> None:
        names = ["magic", "fingerprint", "status", "fingerprint", "magic"]
        seen = []
        for name in [*names, "status", "status"]:
            host.ctx.set(host.dut.addr, OFFSETS[name])
            seen.append(host.ctx.get(host.dut.read_data))
            await host.tick()
        values = {"magic": MAGIC, "fingerprint": TINY.fingerprint, "status": 0}
        assert seen[2:] == [values[name] for name in names]

    simulate(bench)


def test_units_are_reset_at_power_on() -> None:
    async def bench(host: Host) -> None:
        await host.tick(3 * RESET_CYCLES)
        assert host.resets == list(range(RESET_CYCLES))
        assert host.halts == list(range(3 * RESET_CYCLES)) and not host.starts
        await host.begin()

    simulate(bench, rested=False)


def test_a_start_goes_to_fetch_in_the_next_cycle() -> None:
    async def bench(host: Host) -> None:
        before = host.now
        await host.begin()
        assert host.halts == [before, before + 1] and host.starts == [before + 1]
        assert await host.read("status") == STATUS_BUSY
        await host.tick(50)
        assert len(host.starts) == 1 and len(host.halts) == 2
        assert not host.resets and not host.ctx.get(host.dut.interrupt)

    simulate(bench)


def test_writes_while_busy_are_ignored() -> None:
    async def write(host: Host, value: int) -> None:
        for name in KEPT:
            await host.write(name, value)

    async def kept(host: Host) -> set[int]:
        return {await host.read(name) for name in KEPT}

    async def bench(host: Host) -> None:
        channels_idle = host.dut.channels_idle
        await write(host, 0x1230)
        for name in KEPT:
            await host.write("control", START)
            await host.write(name, 0x4560)
            assert await host.read(name) == 0x1230
            await write(host, 0x4560)
            assert await kept(host) == {0x1230}
            # Busy too: a stop that waits for open bursts.
            host.ctx.set(channels_idle, 0)
            await host.write("control", STOP)
            await host.write(name, 0x4560)
            assert await host.read(name) == 0x1230
            await host.rest()
        await host.begin()
        host.ctx.set(channels_idle, 0)
        await host.finish()
        await write(host, 0x4560)
        assert await kept(host) == {0x4560}
        # Busy too: a start that waits.
        await host.write("control", START)
        await write(host, 0x1230)
        assert await kept(host) == {0x4560}

    simulate(bench)


def test_a_start_while_busy_is_ignored() -> None:
    async def bench(host: Host) -> None:
        await host.begin()
        await host.write("control", START)
        await host.tick(30)
        assert len(host.starts) == 1 and not host.resets
        await host.finish()
        assert await host.read("status") == STATUS_DONE
        await host.tick(40)
        assert len(host.starts) == 1, "a start was remembered that came while busy"

    simulate(bench)


def counted(events: Sequence[int]) -> list[int]:
    """Return the counters after a run with these events, one set of bits a cycle."""
    return [len(events), *(sum(bits >> n & 1 for bits in events) for n in range(len(EVENTS)))]


@pytest.mark.parametrize("few", [0, 1])
def test_counters_count_the_cycles_of_a_run(few: int) -> None:
    """Of few counters the others read as 0."""
    rng = random.Random(4)

    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        before = [0] * len(COUNTERS)
        for length in (1, 2, 60, 7):
            # What happens while the machine is at rest, or ends a run, is not counted.
            ctx.set(dut.events, -1)
            await host.tick(5)
            assert [await host.read(f"counter_{name}") for name in COUNTERS] == before
            await host.begin()
            events = []
            for cycle in range(length + 2):
                events.append(rng.getrandbits(len(EVENTS)))
                ctx.set(dut.events, events[-1])
                ctx.set(dut.finished, cycle >= length - 1)
                await host.tick()
            ctx.set(dut.events, -1)
            await host.tick(2)
            ctx.set(dut.finished, 0)
            await host.rest()
            before = [count * (number == 0 or not few) for number, count in enumerate(counted(events))]
            assert [await host.read(f"counter_{name}") for name in COUNTERS] == before

    simulate(bench, replace(TINY, few_counters=few))


def test_a_start_clears_the_counters_and_a_stop_keeps_them() -> None:
    async def bench(host: Host) -> None:
        host.ctx.set(host.dut.events, -1)
        await host.begin()
        await host.tick(20)
        await host.write("control", STOP)
        await host.tick()
        await host.rest()
        kept = [await host.read(f"counter_{name}") for name in COUNTERS]
        assert kept == [kept[0]] * len(COUNTERS) and kept[0] > 20
        await host.begin()
        host.ctx.set(host.dut.events, 0)
        await host.write("control", STOP)
        await host.tick()
        await host.rest()
        assert max([await host.read(f"counter_{name}") for name in COUNTERS]) < 5

    simulate(bench)


def test_asked_is_a_start_or_a_stop() -> None:
    async def bench(host: Host) -> None:
        for name, value, asks in (("control", START, 1), ("base0", 3, 0), ("control", 0, 0), ("control", STOP, 1)):
            await host.write(name, value)
            assert host.ctx.get(host.dut.asked) == asks
            await host.tick()
            assert not host.ctx.get(host.dut.asked)

    simulate(bench)
