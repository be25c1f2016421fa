"""The control of a unit: operations in order, tokens, and commands that are refused."""

import random
from typing import Any

import pytest
from amaranth import Module
from amaranth.lib import wiring
from control_bench import TINY, WORKERS, Around, header, legal_words, play, push, random_fields, simulate, words_of
from stalls import Stalls

from tq_hw.hdl.control.tokens import Tokens
from tq_hw.hdl.control.unit_control import IN_FLIGHT, UnitControl
from tq_hw.isa.control import Status
from tq_hw.isa.encode import Assembler, decode
from tq_hw.isa.layout import FOLD_BASE, UNITS, UOP_BASE, Unit, register_count


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


def registers_of(unit: Unit) -> set[int]:
    """Return the numbers of all registers of a unit."""
    base = {Unit.VECTOR: UOP_BASE, Unit.ARRAY: FOLD_BASE}.get(unit, 0)
    return set(range(len(UNITS[unit].registers))) | set(range(base, register_count(unit, TINY)) if base else ())


@pytest.mark.parametrize("unit", WORKERS)
def test_a_register_that_does_not_exist_is_a_bad_command(unit: Unit) -> None:
    """Both sides of every border, as the first value of a command and after one or two existing registers."""
    there = registers_of(unit)
    borders = sorted({n for n in there if not there.issuperset({n - 1, n + 1, n + 2})}
                     | {n + d for n in there for d in (-1, 1) if 0 <= n + d < 1022 and n + d not in there} | {1021})
    for first in borders:
        for count in (1, 2, 3):
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
                    assert taken == 1 + next(n for n in range(count) if first + n not in there)
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
        # It is refused when it would start, not before.
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
