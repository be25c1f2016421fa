"""How runs end: done, stopped, with an error, or with memory that never answers; and what comes right after it."""

import pytest
from registers_bench import NEWS_CYCLES, START, STOP, Host, simulate, until_reset

from tq_hw.hdl.control.registers import RESET_CYCLES
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.control import (
    NO_RUN,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR,
    STATUS_OWED,
    Status,
)
from tq_hw.isa.layout import Unit


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


@pytest.mark.parametrize(("behind", "grows"), [
    (behind, grows) for behind in range(1 << NUMBER_BITS) for grows in (0, 1) if behind + grows < 1 << NUMBER_BITS])
def test_an_error_names_its_run_by_the_low_bits_of_its_number(behind: int, grows: int) -> None:
    """From the next RUN to the seventh before it, also if the unit starts another one meanwhile."""
    async def bench(host: Host) -> None:
        for started in (0, 1, 7, 8, 77):
            await host.begin()
            await host.fail(Unit.VECTOR, Status.BAD_OPERATION, started - behind, started, grows)
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
