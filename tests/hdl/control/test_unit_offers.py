"""When the control of a unit offers operations to its engine and writes its tables, and when it is idle."""

import pytest
from control_bench import FREE, TINY, WORKERS, Around, header, play, post_words

from tq_hw.hdl.control.unit_control import IN_FLIGHT
from tq_hw.isa.layout import FOLD_BASE, UOP_BASE, Unit, register_count


@pytest.mark.parametrize("unit", WORKERS)
def test_an_engine_holds_so_many_operations(unit: Unit) -> None:
    """The next one waits, before it takes its tokens, for the first one to be done; each done gives its own tokens."""
    async def bench(around: Around) -> None:
        for number in range(IN_FLIGHT):
            assert await around.give(*post_words(unit, number + 1)) == 3
        assert await around.give(*post_words(unit, 77)) == 3
        await around.tick(20)
        assert len(around.taken) == len(around.takes) == IN_FLIGHT
        for number in range(2 * IN_FLIGHT):
            # Done once, in any cycle.
            around.set(done=1)
            await around.tick()
            around.set(done=0)
            posted = number + 1 if number < IN_FLIGHT else 77
            assert around.given.pop() == tuple(posted * (other is not unit) for other in WORKERS)
            assert not around.given
            await around.tick(20)
            assert len(around.taken) == len(around.takes) == IN_FLIGHT + number + 1
            assert await around.give(*post_words(unit, 77)) == 3
            await around.tick(5)
        assert around.ctx.get(around.dut.runs) == len(around.taken)

    play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
def test_takes_no_tokens_in_a_halt(unit: Unit) -> None:
    async def bench(around: Around) -> None:
        for halted in (1, 0, 1):
            around.takes, around.taken = [], []
            around.set(halt=halted)
            await around.tick()
            await around.give(header(unit, run=1))
            await around.tick(20)
            assert len(around.takes) == len(around.taken) == 1 - halted
            # It goes on where it was.
            around.set(halt=0)
            await around.tick(3)
            assert len(around.takes) == len(around.taken) == 1
            around.set(done=1)
            await around.tick()
            around.set(done=0)
        # A halt in the cycle before the tokens would be taken.
        for early in range(6):
            around.takes, around.offered = [], []
            await around.give(header(unit, run=1))
            begin = around.now - 1
            await around.tick(early)
            around.set(halt=1)
            halted_at = around.now
            await around.tick(10)
            assert around.takes == ([begin + 2] if begin + 2 <= halted_at else [])
            around.set(halt=0)
            await around.tick(5)
            around.set(done=1)
            await around.tick()
            around.set(done=0)

    play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
@pytest.mark.parametrize("values", [0, 1, 2])
def test_an_operation_is_offered_when_its_tokens_are_there(unit: Unit, values: int) -> None:
    """And not before; docs/units/control.md gives the cycles."""
    async def bench(around: Around) -> None:
        enough = around.dut.tokens.enough
        for late in range(8):
            around.takes, around.offered, around.waiting = [], [], []
            around.ctx.set(enough, late == 0)
            assert await around.give(header(unit, run=1, first=FREE[unit], count=values), *[0] * values) == 1 + values
            last = around.now - 1
            await around.tick(late)
            around.ctx.set(enough, 1)
            there = around.now
            await around.tick(10)
            # Values settle in one cycle more; the counters compare in one.
            takes = max(last + 2 + (values > 0), there)
            assert around.takes == [takes] and around.offered == [takes + 1]
            assert around.waiting == list(range(last + 2 + (values > 0), takes))
            around.set(done=1)
            await around.tick()
            around.set(done=0)

    play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
def test_an_offer_holds_still_until_it_is_taken(unit: Unit) -> None:
    """The words after it wait, so that its fields cannot change."""
    async def bench(around: Around) -> None:
        ctx, dut = around.ctx, around.dut
        ctx.set(dut.o.ready, 0)
        await around.give(header(unit, run=1, first=FREE[unit], count=2), 0x5A5A5A5A, 0x12345678)
        await around.tick(6)
        payload = ctx.get(dut.o.payload.as_value())
        assert await around.give(header(unit, run=1, first=FREE[unit], count=1), 0x77777777) == 0
        assert len(around.takes) == 1 and len(around.offered) > 20 and not ctx.get(dut.idle)
        assert ctx.get(dut.o.payload.as_value()) == payload and not ctx.get(dut.runs)
        ctx.set(dut.o.ready, 1)
        await around.tick()
        assert ctx.get(dut.runs) == 1 and not ctx.get(dut.o.valid)

    play(unit, bench)


@pytest.mark.parametrize(("unit", "base"), [(Unit.ARRAY, FOLD_BASE), (Unit.VECTOR, UOP_BASE)])
def test_tables_are_written_when_nothing_is_in_flight_and_the_engine_is_idle(unit: Unit, base: int) -> None:
    last = register_count(unit, TINY) - 1
    words = [header(unit, first=base, count=2), 11, 12, header(unit, first=last, count=1), 13]
    written = [(0, 11), (1, 12), (last - base, 13)]

    async def bench(around: Around) -> None:
        # The engine says that it is not idle, though it holds no operation of which this control knows.
        around.set(engine_idle=0)
        assert await around.give(*words) == 1 and not around.table
        around.set(engine_idle=1)
        assert await around.give(*words[1:]) == 4 and around.table == written
        # Operations in flight, whatever the engine says; none of them done, then one, then both.
        around.table = []
        assert await around.give(header(unit, run=1), header(unit, run=1)) == 2
        await around.tick(5)
        assert len(around.taken) == 2
        assert await around.give(*words) == 1 and not around.table
        for done in range(2):
            assert not around.table
            around.set(done=1)
            await around.tick()
            around.set(done=0)
            assert await around.give(words[1]) == done
        assert await around.give(*words[2:]) == 3 and around.table == written
        # The operation's own registers wait for none of this.
        around.set(engine_idle=0)
        assert await around.give(header(unit, first=FREE[unit], count=2), 1, 2, header(unit, run=1)) == 4
        await around.tick(5)
        assert await around.give(header(unit, first=FREE[unit], count=2), 1, 2) == 3 and not around.error

    play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
def test_is_idle_when_no_operation_waits_or_is_under_way(unit: Unit) -> None:
    async def bench(around: Around) -> None:
        ctx, dut = around.ctx, around.dut
        idle = dut.idle
        assert ctx.get(idle)
        # Values without a RUN leave nothing.
        await around.give(header(unit, first=FREE[unit], count=2), 1, 2)
        assert ctx.get(idle)
        around.set(engine_idle=0)
        assert not ctx.get(idle)
        around.set(engine_idle=1)
        # From the header to the last done.
        ctx.set(dut.tokens.enough, 0)
        ctx.set(dut.o.ready, 0)
        await around.give(header(unit, run=1, first=FREE[unit], count=1))
        assert not ctx.get(idle)
        await around.give(5)
        for _ in range(6):
            assert not ctx.get(idle)
            await around.tick()
        ctx.set(dut.tokens.enough, 1)
        await around.tick(4)
        assert not ctx.get(idle) and len(around.takes) == 1
        ctx.set(dut.o.ready, 1)
        await around.give(header(unit, run=1))
        await around.tick(6)
        for held in (2, 1):
            assert not ctx.get(idle), held
            around.set(done=1)
            await around.tick()
            around.set(done=0)
        assert ctx.get(idle) and len(around.taken) == 2

    play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
def test_counts_operations_that_start_and_end_in_one_cycle(unit: Unit) -> None:
    async def bench(around: Around) -> None:
        ctx, dut = around.ctx, around.dut
        ctx.set(dut.o.ready, 0)
        await around.give(header(unit, run=1))
        await around.tick(4)
        ctx.set(dut.o.ready, 1)
        await around.tick()
        for number in range(10):
            ctx.set(dut.o.ready, 0)
            await around.give(header(unit, run=1))
            await around.tick(4)
            ctx.set(dut.o.ready, 1)
            around.set(done=1)
            await around.tick()
            around.set(done=0)
            assert not ctx.get(dut.idle) and ctx.get(dut.runs) == number + 2
        around.set(done=1)
        await around.tick()
        around.set(done=0)
        assert ctx.get(dut.idle) and ctx.get(dut.runs) == 11

    play(unit, bench)
