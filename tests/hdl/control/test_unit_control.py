"""UnitControl, alone and with the token counters: what reaches the engines, and when."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from bench import Bench
from legal_fields import legal_fields
from stalls import Stalls

from tq_hw.hdl.control.tokens import Tokens
from tq_hw.hdl.control.unit_control import IN_FLIGHT, UnitControl
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import Assembler, decode, pack
from tq_hw.isa.layout import FOLD_BASE, HEADER, UNITS, UOP_BASE, Unit, register_count

TINY = PRESETS["tiny"]
WORKERS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)


def simulate(dut: Any, *benches: Any) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for bench in benches[:-1]:
        simulator.add_testbench(bench, background=True)
    simulator.add_testbench(benches[-1])
    simulator.run()


def random_fields(rng: random.Random, unit: Unit) -> dict[str, int]:
    """Return values for all fields, tokens 0, of an operation that is not refused."""
    whole = {"acc_first": 1, "acc_last": 1} if unit is Unit.ARRAY else {}
    return legal_fields(rng, unit, TINY) | whole


def words_of(commands: bytes, unit: Unit) -> list[int]:
    """Return the words that fetch gives to `unit`."""
    words: list[int] = []
    for command in decode(commands, TINY):
        if command.unit is unit:
            words.append(pack(HEADER, {"unit": unit, "run": command.run, "first": command.first,
                                       "count": len(command.values)}))
            words += command.values
    return words


async def push(ctx: Any, port: Any, words: list[int], stalls: Stalls) -> None:
    for word in words:
        while not stalls.go():
            await ctx.tick()
        ctx.set(port.payload, word)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)


@pytest.mark.parametrize("unit", WORKERS)
def test_operations_and_tables_come_in_order(unit: Unit) -> None:
    rng = random.Random(int(unit))
    assembler = Assembler(TINY)
    expected: list[Any] = []
    for number in range(12):
        if unit is Unit.VECTOR and number % 3 == 0:
            assembler.uop(number, {"a_source": number % 4, "alu": 3})
        if unit is Unit.ARRAY and number % 3 == 0:
            assembler.fold(number, tuple({"address": 5 * number + g} for g in range(3)))
        fields = random_fields(rng, unit)
        expected.append(fields)
        assembler.run(unit, fields)
    assembler.end()
    words = words_of(assembler.to_bytes(), unit)
    m = Module()
    m.submodules.control = control = UnitControl(unit, TINY)
    m.submodules.tokens = tokens = Tokens()
    wiring.connect(m, control.tokens, getattr(tokens, unit.name.lower()))
    dut: Any = control
    held = 0
    tables: list[tuple[int, int]] = []

    async def give(ctx: Any) -> None:
        await push(ctx, dut.words, words, Stalls(1, 0.2))

    async def engine(ctx: Any) -> None:
        nonlocal held
        got = 0
        finish = False
        while got < len(expected) or held:
            ready = rng.random() < 0.3
            finish = held > 0 and rng.random() < 0.1
            ctx.set(dut.o.ready, ready)
            ctx.set(dut.done, finish)
            ctx.set(dut.engine_idle, held == 0)
            _, _, valid, payload, table, index, data, error = await ctx.tick().sample(
                dut.o.valid, dut.o.payload, dut.table.en, dut.table.index, dut.table.data, dut.error)
            assert error == Status.OK
            if table:
                assert held == 0 and not valid
                tables.append((index, data))
            held -= finish
            if valid and ready:
                assert held < IN_FLIGHT
                assert {name: payload[name] for name in expected[got]} == expected[got]
                got += 1
                held += 1
        ctx.set(dut.done, 0)
        ctx.set(dut.engine_idle, 1)
        ctx.set(dut.o.ready, 0)
        await ctx.tick()
        assert ctx.get(dut.idle) and ctx.get(dut.runs) == len(expected)

    simulate(m, give, engine)
    base = {Unit.VECTOR: UOP_BASE, Unit.ARRAY: FOLD_BASE}.get(unit, 0)
    assert tables == [(command.first + offset - base, value) for command in decode(assembler.to_bytes(), TINY)
                      for offset, value in enumerate(command.values) if base and command.first >= base]
    assert len(tables) == 4 * {Unit.VECTOR: 4, Unit.ARRAY: 3}.get(unit, 0)


def test_tokens_keep_the_order() -> None:
    """Random token traffic among four controls: nobody starts before its tokens are there, all of them start."""
    rng = random.Random(3)
    assembler = Assembler(TINY)
    # Draw an order of operations that works; tokens follow it, so there is no deadlock.
    waits: dict[Unit, list[dict[str, int]]] = {unit: [] for unit in WORKERS}
    posts: dict[Unit, list[dict[str, int]]] = {unit: [] for unit in WORKERS}
    there = dict.fromkeys(((a, b) for a in WORKERS for b in WORKERS if a is not b), 0)
    for _ in range(60):
        unit = rng.choice(WORKERS)
        others = [other for other in WORKERS if other is not unit]
        wait = {other: rng.randint(0, min(there[other, unit], 3)) for other in others}
        post = {other: rng.randint(0, 2) for other in others if there[unit, other] < 200}
        for other, count in wait.items():
            there[other, unit] -= count
        for other, count in post.items():
            there[unit, other] += count
        waits[unit].append({f"wait_{o.name.lower()}": n for o, n in wait.items()})
        posts[unit].append({f"post_{o.name.lower()}": n for o, n in post.items()})
        assembler.run(unit, random_fields(rng, unit) | waits[unit][-1] | posts[unit][-1])
    assembler.end()
    m = Module()
    m.submodules.tokens = tokens = Tokens()
    controls: dict[Unit, Any] = {}
    for unit in WORKERS:
        m.submodules[unit.name] = controls[unit] = UnitControl(unit, TINY)
        wiring.connect(m, controls[unit].tokens, getattr(tokens, unit.name.lower()))
    counts = dict.fromkeys(there, 0)
    started = dict.fromkeys(WORKERS, 0)
    finished = dict.fromkeys(WORKERS, 0)

    def give(unit: Unit) -> Any:
        async def bench(ctx: Any) -> None:
            await push(ctx, controls[unit].words, words_of(assembler.to_bytes(), unit), Stalls(int(unit), 0.2))
        return bench

    async def engines(ctx: Any) -> None:
        for _ in range(6000):
            ready = {unit: rng.random() < 0.5 for unit in WORKERS}
            done = {unit: started[unit] > finished[unit] and rng.random() < 0.1 for unit in WORKERS}
            for unit, control in controls.items():
                ctx.set(control.o.ready, ready[unit])
                ctx.set(control.done, done[unit])
                ctx.set(control.engine_idle, 1)
            _, _, *valid = await ctx.tick().sample(*(control.o.valid for control in controls.values()))
            for unit, offered in zip(WORKERS, valid, strict=True):
                if offered and ready[unit]:
                    for other in WORKERS:
                        if other is not unit:
                            counts[other, unit] -= waits[unit][started[unit]].get(f"wait_{other.name.lower()}", 0)
                            assert counts[other, unit] >= 0, "started without its tokens"
                    started[unit] += 1
            for unit in WORKERS:
                if done[unit]:
                    for other in WORKERS:
                        if other is not unit:
                            counts[unit, other] += posts[unit][finished[unit]].get(f"post_{other.name.lower()}", 0)
                    finished[unit] += 1
            if all(finished[unit] == len(waits[unit]) for unit in WORKERS):
                return
        raise AssertionError(f"stuck at {started}")

    simulate(m, *(give(unit) for unit in WORKERS), engines)
    assert counts == there


@cache
def control_of(unit: Unit) -> tuple[Any, Bench]:
    dut = UnitControl(unit, TINY)
    return dut, Bench(dut)


class Around:
    """What is around a control: queue, engine and counters, all played by the test. It notes what the control does."""

    def __init__(self, ctx: Any, dut: Any) -> None:
        self.ctx, self.dut = ctx, dut
        self.now = 0
        #: Operations offered and taken, with the cycle; tokens taken and given.
        self.offered: list[int] = []
        self.taken: list[int] = []
        self.takes: list[int] = []
        self.given: list[tuple[int, ...]] = []
        self.table: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.error = 0
        self.word = False

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.ctx.set(getattr(self.dut, name), value)

    async def tick(self, cycles: int = 1) -> None:
        dut = self.dut
        for _ in range(cycles):
            _, _, valid, ready, take, give, post, en, index, data, waiting, error, word = await self.ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.tokens.take, dut.tokens.give, dut.tokens.post, dut.table.en,
                dut.table.index, dut.table.data, dut.waiting, dut.error, dut.words.valid & dut.words.ready)
            assert self.error in (Status.OK, error), "an error was taken back"
            self.error, self.word = error, bool(word)
            for happens, notes in ((valid, self.offered), (valid and ready, self.taken), (take, self.takes),
                                   (waiting, self.waiting)):
                if happens:
                    notes.append(self.now)
            if give:
                self.given.append(tuple(post))
            if en:
                self.table.append((index, data))
            self.now += 1

    async def give(self, *words: int, limit: int = 20) -> int:
        """Offer words one after the other; return how many are taken before one is refused for `limit` cycles."""
        for number, word in enumerate(words):
            self.ctx.set(self.dut.words.payload, word)
            self.ctx.set(self.dut.words.valid, 1)
            for _ in range(limit):
                await self.tick()
                if self.word:
                    break
            self.ctx.set(self.dut.words.valid, 0)
            if not self.word:
                return number
        return len(words)


#: First of two registers that no rule is about.
FREE = {Unit.LOAD: 3, Unit.ARRAY: 3, Unit.VECTOR: 3, Unit.STORE: 9}


@cache
def legal_words(unit: Unit) -> tuple[int, ...]:
    """Return the registers of an operation that is not refused, tokens 0."""
    fields = random_fields(random.Random(int(unit)), unit)
    return tuple(pack(register, {f.name: fields[f.name] for f in register.fields})
                 for register in UNITS[unit].registers)


def play(unit: Unit, bench: Callable[[Around], Any]) -> None:
    """Run a bench on the control of `unit`, whose registers are those of an operation, with all tokens there.

    Its engine is idle and takes everything.
    """
    dut, simulator = control_of(unit)

    async def run(ctx: Any) -> None:
        around = Around(ctx, dut)
        around.set(engine_idle=1)
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.tokens.enough, 1)
        words = legal_words(unit)
        assert await around.give(header(unit, count=len(words)), *words) == 1 + len(words)
        await around.tick(2)
        around.now = 0
        await bench(around)

    simulator.run(run)


def header(unit: Unit, *, run: int = 0, first: int = 0, count: int = 0) -> int:
    return pack(HEADER, {"unit": unit, "run": run, "first": first, "count": count})


def post_words(unit: Unit, number: int) -> list[int]:
    """Return a RUN that posts `number` to every other worker, and waits for none."""
    word = sum(number << 8 * n for n, other in enumerate(WORKERS) if other is not unit)
    return [header(unit, run=1, first=0, count=2), 0, word]


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


def registers_of(unit: Unit) -> set[int]:
    """Return the numbers of all registers of a unit."""
    base = {Unit.VECTOR: UOP_BASE, Unit.ARRAY: FOLD_BASE}.get(unit, 0)
    return set(range(len(UNITS[unit].registers))) | set(range(base, register_count(unit, TINY)) if base else ())


@pytest.mark.parametrize("unit", WORKERS)
def test_a_register_that_does_not_exist_is_a_bad_command(unit: Unit) -> None:
    """Each side of every border, as the first value of a command and after one that exists."""
    there = registers_of(unit)
    borders = sorted({n for n in there if n + 1 not in there or n - 1 not in there}
                     | {n + d for n in there for d in (-1, 1) if 0 <= n + d < 1023 and n + d not in there} | {1022})
    for first in borders:
        for count in (1, 2):
            async def bench(around: Around, first: int = first, count: int = count) -> None:
                good = [n for n in range(first, first + count) if n in there]
                fits = len(good) == count
                values = dict(enumerate(legal_words(unit)))
                words = [header(unit, run=1, first=first, count=count),
                         *(values.get(first + n, 0) for n in range(count))]
                taken = await around.give(*words)
                await around.tick(5)
                assert around.error == (Status.OK if fits else Status.BAD_COMMAND)
                assert len(around.taken) == fits
                if not fits:
                    # Nothing more is taken, and it neither waits nor is idle.
                    assert taken == 1 + (good[:1] == [first])
                    assert await around.give(header(unit, run=1)) == 0
                    assert not around.taken and not around.takes and not around.ctx.get(around.dut.idle)
                    assert len(around.table) <= len(good)

            play(unit, bench)


@pytest.mark.parametrize("unit", WORKERS)
@pytest.mark.parametrize("register", [0, 1], ids=["wait", "post"])
@pytest.mark.parametrize("tokens", [1, 128])
def test_tokens_from_a_unit_to_itself_are_a_bad_operation(unit: Unit, register: int, tokens: int) -> None:
    async def bench(around: Around) -> None:
        own = WORKERS.index(unit)
        others = sum(0xFF << 8 * n for n in range(4) if n != own)
        assert await around.give(header(unit, run=1, first=register, count=1), others) == 2
        await around.tick(5)
        assert len(around.taken) == 1 and not around.error
        assert await around.give(header(unit, run=1, first=register, count=1), tokens << 8 * own) == 2
        await around.tick(20)
        # It is refused when its turn has come.
        assert not around.error and len(around.takes) == 2
        around.set(done=1)
        await around.tick()
        around.set(done=0)
        await around.tick(3)
        assert around.error == Status.BAD_OPERATION
        assert len(around.taken) == len(around.offered) == 1
        assert await around.give(header(unit, run=1, first=register, count=1), 0) == 0
        assert around.ctx.get(around.dut.runs) == 1 and not around.ctx.get(around.dut.idle)

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
