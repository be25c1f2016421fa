"""The register bus and the states of the machine, with the units played by the test."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from bench import Bench

from tq_hw.hdl.control.registers import EVENTS, RESET_CYCLES, Registers
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import (
    COUNTERS,
    MAGIC,
    NO_RUN,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR,
    STATUS_OWED,
    Status,
)
from tq_hw.isa.layout import Unit

TINY = PRESETS["tiny"]
OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
START, STOP = 1, 2
#: Written registers, and the bits that they keep.
KEPT = {"command_offset": 0xFFFFFFF0, "command_bytes": 0xFFFFFFFC, "watchdog": 0xFFFFFFFF,
        **{f"base{n}": 0xFFFFFFF0 for n in range(4)}}
#: Cycles from an error or END of the units to `status`.
NEWS_CYCLES = 4


class Host:
    """The machine seen from its bus; it notes what goes to the units in each cycle."""

    def __init__(self, ctx: Any, dut: Any) -> None:
        self.ctx, self.dut = ctx, dut
        self.starts: list[int] = []
        self.resets: list[int] = []
        self.halts: list[int] = []
        self.now = 0

    async def tick(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            *_, start, reset, halt = await self.ctx.tick().sample(
                self.dut.start, self.dut.reset_units, self.dut.halt)
            for seen, value in ((self.starts, start), (self.resets, reset), (self.halts, halt)):
                if value:
                    seen.append(self.now)
            self.now += 1

    async def write(self, name: str | int, value: int) -> None:
        self.ctx.set(self.dut.addr, OFFSETS[name] if isinstance(name, str) else name)
        self.ctx.set(self.dut.write_data, value)
        self.ctx.set(self.dut.write_en, 1)
        await self.tick()
        self.ctx.set(self.dut.write_en, 0)

    async def read(self, name: str | int) -> int:
        self.ctx.set(self.dut.addr, OFFSETS[name] if isinstance(name, str) else name)
        await self.tick(2)
        return self.ctx.get(self.dut.read_data)

    async def rest(self) -> None:
        """Wait until the machine must be at rest: it was drained, the units were reset and are ready."""
        self.ctx.set(self.dut.channels_idle, 1)
        await self.tick(2 * RESET_CYCLES + 4)
        self.starts, self.resets, self.halts = [], [], []

    async def begin(self) -> None:
        """Start a machine at rest; the cycle that follows is the first of the run."""
        await self.write("control", START)
        await self.tick()
        assert self.starts == [self.now - 1]

    async def fail(self, unit: Unit, code: Status, run: int = 0, started: int | None = None) -> None:
        """Let a unit say an error about a RUN, by default the last one it started, and let that come to the status."""
        started = run + 1 if started is None else started
        self.ctx.set(self.dut.errors[unit], code)
        self.ctx.set(self.dut.error_at[unit], run % (1 << NUMBER_BITS))
        self.ctx.set(self.dut.runs[unit], started)
        await self.tick()
        self.ctx.set(self.dut.errors[unit], 0)
        self.ctx.set(self.dut.error_at[unit], (run + 3) % (1 << NUMBER_BITS))
        self.ctx.set(self.dut.runs[unit], started + 5)
        await self.tick(NEWS_CYCLES)

    async def finish(self, cycles: int = NEWS_CYCLES) -> None:
        """Let the units say that END was met and all is done; that stays so until they are reset."""
        self.ctx.set(self.dut.finished, 1)
        await self.tick(cycles)
        self.ctx.set(self.dut.finished, 0)

    async def status(self) -> tuple[int, int, int, int]:
        status, code, unit, index = [await self.read(name) for name in (
            "status", "error_code", "error_unit", "error_index")]
        return status, code, unit, index


@cache
def registers() -> tuple[Any, Bench]:
    dut = Registers(TINY)
    return dut, Bench(dut)


def simulate(bench: Callable[[Host], Any], *, rested: bool = True) -> None:
    dut, simulator = registers()

    async def run(ctx: Any) -> None:
        host = Host(ctx, dut)
        if rested:
            await host.rest()
        await bench(host)

    simulator.run(run)


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


async def until_reset(host: Host) -> int:
    """Return the cycle in which the reset of the units begins."""
    host.resets = []
    while not host.resets:
        await host.tick()
        assert host.now < 1000
    return host.resets[0]


@pytest.mark.parametrize("end", ["finish", "fail", "stop"])
@pytest.mark.parametrize("open_cycles", [0, 1, 40])
def test_open_bursts_end_before_the_units_are_reset(end: str, open_cycles: int) -> None:
    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        for again in range(2):
            await host.begin()
            ctx.set(dut.channels_idle, 0)
            await host.tick(5)
            assert not host.resets and not ctx.get(dut.halt)
            before = host.now
            if end == "finish":
                await host.finish()
            elif end == "fail":
                await host.fail(Unit.LOAD, Status.BUS_ERROR)
            else:
                await host.write("control", STOP)
                await host.tick(1)
            # From now on no unit is given anything, until the next start.
            assert ctx.get(dut.halt) and host.halts[0] <= before + NEWS_CYCLES
            await host.tick(open_cycles)
            assert not host.resets, "reset with open bursts"
            assert (await host.read("status") == STATUS_BUSY) == (end == "stop")
            # Idle for one cycle, between two bursts, is not idle either when it is seen a cycle late.
            last_open = host.now
            ctx.set(dut.channels_idle, 1)
            first = await until_reset(host)
            assert first == last_open + 2
            await host.tick(2 * RESET_CYCLES + 2)
            assert host.resets == list(range(first, first + RESET_CYCLES))
            assert host.halts[-1] == host.now - 1 and len(host.starts) == 1
            status = {"finish": STATUS_DONE, "fail": STATUS_ERROR, "stop": 0}[end]
            assert await host.read("status") == status, again
            assert ctx.get(dut.interrupt) == (end != "stop")
            await host.rest()

    simulate(bench)


@pytest.mark.parametrize("end", ["finish", "fail", "stop"])
@pytest.mark.parametrize("writes", [[START], [STOP], [START, STOP], [STOP, START], [START | STOP],
                                    [START, START | STOP], [START, STOP, START]],
                         ids=lambda writes: "".join(map(str, writes)))
def test_a_start_at_the_end_of_a_run_waits_and_a_stop_undoes_it(end: str, writes: list[int]) -> None:
    """Written in every cycle of draining and resetting: the last write counts."""
    async def one(host: Host, wait: int, *, drains: bool) -> None:
        ctx, dut = host.ctx, host.dut
        await host.begin()
        ctx.set(dut.channels_idle, not drains)
        if end == "finish":
            await host.finish()
        elif end == "fail":
            await host.fail(Unit.STORE, Status.BAD_ADDRESS, 3)
        else:
            await host.write("control", STOP)
            await host.tick()
        host.starts = []
        await host.tick(wait)
        for value in writes:
            await host.write("control", value)
            assert ctx.get(dut.interrupt) == 0
        after = host.now
        if drains:
            assert await host.read("status") == STATUS_BUSY
            assert not host.starts and host.resets == []
            ctx.set(dut.channels_idle, 1)
        await host.tick(3 * RESET_CYCLES)
        # A start that is stopped at once gives fetch its strobe, but the units stay halted.
        begun = [start for start in host.starts if start + 1 not in host.halts]
        if writes[-1] == START:
            # Not before the units are reset and ready.
            assert len(begun) == 1 and begun[0] >= max(host.resets[-1] + RESET_CYCLES + 1, after)
            assert await host.status() == (STATUS_BUSY, 0, 0, 0)
            await host.write("control", STOP)
        else:
            assert not begun, f"a stop started the machine, {wait} cycles after the end"
            assert await host.status() == (0, 0, 0, 0)
        await host.rest()

    async def bench(host: Host) -> None:
        await one(host, 3, drains=True)
        for wait in range(0, 2 * RESET_CYCLES + 3, 1 if end == "finish" else 5):
            await one(host, wait, drains=False)

    simulate(bench)


@pytest.mark.parametrize("unit", Unit, ids=lambda unit: unit.name)
def test_the_first_error_stops_the_machine(unit: Unit) -> None:
    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        for code in list(Status)[1:]:
            run = -1 if code == 1 else 10 * code
            await host.begin()
            ctx.set(dut.channels_idle, 0)
            # Operations of others, and of this unit a cycle later, do not count.
            for other in Unit:
                ctx.set(dut.runs[other], 77)
            await host.fail(unit, code, run)
            assert ctx.get(dut.interrupt) and ctx.get(dut.halt)
            expected = (STATUS_ERROR, code, unit, run % (1 << 32))
            assert await host.status() == expected
            # What comes later does not count.
            await host.fail(Unit.CONTROL, Status.BAD_COMMAND, 5)
            await host.finish()
            assert await host.status() == expected
            await host.rest()
            assert await host.status() == expected

    simulate(bench)


@pytest.mark.parametrize("behind", range(1 << NUMBER_BITS))
def test_an_error_names_its_run_by_the_low_bits_of_its_number(behind: int) -> None:
    """From the next RUN to the seventh before it."""
    async def bench(host: Host) -> None:
        for started in (0, 1, 7, 8, 77):
            await host.begin()
            await host.fail(Unit.VECTOR, Status.BAD_OPERATION, started - behind, started)
            assert await host.status() == (
                STATUS_ERROR, Status.BAD_OPERATION, Unit.VECTOR, (started - behind) % (1 << 32))
            await host.rest()

    simulate(bench)


def test_of_errors_in_one_cycle_that_of_the_lowest_unit_counts() -> None:
    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        for first in Unit:
            for second in [unit for unit in Unit if unit > first]:
                await host.begin()
                ctx.set(dut.errors[second], Status.BAD_OPERATION)
                ctx.set(dut.runs[second], 9)
                await host.fail(first, Status.BAD_ADDRESS, first)
                ctx.set(dut.errors[second], 0)
                assert await host.status() == (STATUS_ERROR, Status.BAD_ADDRESS, first, first)
                await host.rest()

    simulate(bench)


@pytest.mark.parametrize("done_at", [0, 1, 2])
def test_an_error_before_or_with_the_end_is_an_error(done_at: int) -> None:
    """`finished` comes one cycle late."""
    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        await host.begin()
        ctx.set(dut.runs[Unit.STORE], 4)
        ctx.set(dut.error_at[Unit.STORE], 3)
        for cycle in range(4):
            ctx.set(dut.errors[Unit.STORE], Status.BUS_ERROR if cycle == 1 else 0)
            ctx.set(dut.finished, cycle > done_at)
            await host.tick()
        await host.tick(NEWS_CYCLES)
        expected = (STATUS_ERROR, Status.BUS_ERROR, Unit.STORE, 3) if done_at >= 1 else (STATUS_DONE, 0, 0, 0)
        assert await host.status() == expected

    simulate(bench)


@pytest.mark.parametrize("early", range(NEWS_CYCLES + 1))
def test_a_stop_undoes_an_end_that_comes_with_it(early: int) -> None:
    async def bench(host: Host) -> None:
        for end in ("finished", "error"):
            await host.begin()
            host.ctx.set(host.dut.channels_idle, 0)
            host.ctx.set(host.dut.finished, end == "finished")
            host.ctx.set(host.dut.errors[Unit.ARRAY], Status.BANK_CONFLICT if end == "error" else 0)
            await host.tick(early)
            await host.write("control", STOP)
            assert await host.status() == (STATUS_BUSY, 0, 0, 0)
            host.ctx.set(host.dut.finished, 0)
            host.ctx.set(host.dut.errors[Unit.ARRAY], 0)
            await host.rest()
            assert await host.status() == (0, 0, 0, 0) and not host.ctx.get(host.dut.interrupt)

    simulate(bench)


@pytest.mark.parametrize("then", [START, STOP])
def test_status_stays_until_the_next_start_or_stop(then: int) -> None:
    async def bench(host: Host) -> None:
        for end in ("finish", "fail"):
            await host.begin()
            await (host.finish() if end == "finish" else host.fail(Unit.ARRAY, Status.BANK_CONFLICT, 8))
            await host.rest()
            await host.write("base1", 0x40)
            await host.write("control", 0)
            await host.write("status", 0)
            expected = (STATUS_DONE, 0, 0, 0) if end == "finish" else (
                STATUS_ERROR, Status.BANK_CONFLICT, Unit.ARRAY, 8)
            assert await host.status() == expected and host.ctx.get(host.dut.interrupt)
            await host.write("control", then)
            assert not host.ctx.get(host.dut.interrupt)
            await host.tick(2)
            assert len(host.starts) == (then == START)
            assert await host.status() == (STATUS_BUSY if then == START else 0, 0, 0, 0)
            await host.write("control", STOP)
            await host.tick()
            await host.rest()

    simulate(bench)


def counted(events: Sequence[int]) -> list[int]:
    """Return the counters after a run with these events, one set of bits a cycle."""
    return [len(events), *(sum(bits >> n & 1 for bits in events) for n in range(len(EVENTS)))]


def test_counters_count_the_cycles_of_a_run() -> None:
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
            before = counted(events)
            assert [await host.read(f"counter_{name}") for name in COUNTERS] == before

    simulate(bench)


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


@pytest.mark.parametrize("write", [None, START, STOP], ids=lambda write: f"write{write}")
def test_memory_that_is_given_up(write: int | None) -> None:
    """A stop comes back, a start ends in NO_ANSWER, and `status` says what memory owes until the answers come."""
    async def bench(host: Host) -> None:
        ctx, dut = host.ctx, host.dut
        await host.begin()
        ctx.set(dut.channels_idle, 0)
        await host.fail(Unit.STORE, Status.NO_ANSWER, 3)
        await host.tick(5)
        assert ctx.get(dut.draining) and not ctx.get(dut.running)
        expected = (STATUS_ERROR, Status.NO_ANSWER, Unit.STORE, 3)
        for _ in range(2):
            if write is not None:
                await host.write("control", write)
                await host.tick(20)
                assert await host.status() == (STATUS_BUSY | (expected[0] & STATUS_OWED), 0, 0, 0)
            ctx.set(dut.given_up, 1)
            ctx.set(dut.owed, Unit.LOAD)
            await host.tick()
            ctx.set(dut.given_up, 0)
            ctx.set(dut.owed, 0)
            expected = {None: expected, STOP: (0, 0, 0, 0),
                        START: (STATUS_ERROR, Status.NO_ANSWER, Unit.LOAD, NO_RUN)}[write]
            expected = (expected[0] | STATUS_OWED, *expected[1:])
            assert await host.status() == expected
            assert ctx.get(dut.interrupt) == (write != STOP)
        host.starts = []
        ctx.set(dut.channels_idle, 1)
        await host.tick(2 * RESET_CYCLES + 4)
        assert await host.status() == (expected[0] & ~STATUS_OWED, *expected[1:]) and not host.starts
        await host.rest()
        await host.begin()

    simulate(bench)


def test_asked_is_a_start_or_a_stop() -> None:
    async def bench(host: Host) -> None:
        for name, value, asks in (("control", START, 1), ("base0", 3, 0), ("control", 0, 0), ("control", STOP, 1)):
            await host.write(name, value)
            assert host.ctx.get(host.dut.asked) == asks
            await host.tick()
            assert not host.ctx.get(host.dut.asked)

    simulate(bench)
