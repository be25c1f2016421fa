"""UnitControl with the token counters, and fetch: what reaches the engines, and when."""

import random
from typing import Any

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from stalls import Stalls, read_memory

from tq_hw.hdl.control import IN_FLIGHT, UnitControl
from tq_hw.hdl.fetch import Fetch
from tq_hw.hdl.tokens import Tokens
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import Assembler, decode, pack, unpack
from tq_hw.isa.layout import FOLD_BASE, HEADER, UNITS, UOP_BASE, Unit

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
    """Return values for all fields but the tokens."""
    out = {}
    for register in UNITS[unit].registers:
        if not register.name.startswith(("wait_", "post_")):
            word = rng.choice([0, rng.getrandbits(32)])
            out |= unpack(register, word & (1 << sum(f.bits for f in register.fields)) - 1)
    return out


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
        assembler.run(unit, waits[unit][-1] | posts[unit][-1])
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


def fetched(commands: bytes, size_bytes: int, *, bus_bytes: int, chance: float, addr: int = 48,
            stop: tuple[Unit, ...] = ()) -> tuple[dict[Unit, list[int]], int, bool]:
    """Return the words each unit got, the error and whether END was met; units in `stop` take nothing."""
    config = type(TINY)(**{**TINY.__dict__, "bus_bytes": bus_bytes})
    memory = np.zeros(1 << 15, np.uint8)
    memory[addr:addr + len(commands)] = np.frombuffer(commands, np.uint8)
    dut: Any = Fetch(config)
    got: dict[Unit, list[int]] = {unit: [] for unit in WORKERS}
    error = 0
    ended = False

    async def bench(ctx: Any) -> None:
        nonlocal error, ended
        ctx.set(dut.addr, addr)
        ctx.set(dut.size_bytes, size_bytes)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        rng = random.Random(4)
        quiet = 0
        while quiet < 300 and not ended and not error:
            ready = {unit: unit not in stop and rng.random() >= chance for unit in WORKERS}
            ports = [getattr(dut, unit.name.lower()) for unit in WORKERS]
            for unit, port in zip(WORKERS, ports, strict=True):
                ctx.set(port.ready, ready[unit])
            _, _, *values = await ctx.tick().sample(*(p.valid for p in ports), *(p.payload for p in ports),
                                                    dut.error, dut.ended)
            quiet += 1
            for unit, valid, word in zip(WORKERS, values[:4], values[4:8], strict=True):
                if valid and ready[unit]:
                    got[unit].append(word)
                    quiet = 0
            error, ended = values[8], bool(values[9])
        # Words that wait in the queues are still given after an error.
        for unit, port in zip(WORKERS, ports, strict=True):
            ctx.set(port.ready, unit not in stop)
        for _ in range(600):
            _, _, *values = await ctx.tick().sample(*(p.valid for p in ports), *(p.payload for p in ports))
            for unit, valid, word in zip(WORKERS, values[:4], values[4:8], strict=True):
                if valid and unit not in stop:
                    got[unit].append(word)

    simulate(dut, read_memory(dut.memory, memory, bus_bytes, 20, Stalls(1, chance), Stalls(2, chance)), bench)
    return got, error, ended


def some_commands(count: int) -> bytes:
    rng = random.Random(9)
    assembler = Assembler(TINY)
    for _ in range(count):
        unit = rng.choice(WORKERS)
        assembler.run(unit, random_fields(rng, unit) | {"wait_load": rng.randint(0, 1)})
    assembler.end()
    return assembler.to_bytes()


@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
@pytest.mark.parametrize("chance", [0.0, 0.4])
def test_fetch_deals_the_words(bus_bytes: int, chance: float) -> None:
    commands = some_commands(40)
    # What stands behind END is never looked at.
    got, error, ended = fetched(commands + b"\xFF" * 12, len(commands) + 12, bus_bytes=bus_bytes, chance=chance)
    assert error == Status.OK and ended
    assert got == {unit: words_of(commands, unit) for unit in WORKERS}


def test_fetch_waits_for_a_full_queue() -> None:
    assembler = Assembler(TINY)
    for number in range(400):
        assembler.run(Unit.LOAD, {"fill": number % 2})
    assembler.run(Unit.STORE, {"lane": 1})
    assembler.end()
    got, error, ended = fetched(assembler.to_bytes(), len(assembler.to_bytes()), bus_bytes=8, chance=0.0,
                                stop=(Unit.LOAD,))
    assert error == Status.OK and not ended and got[Unit.STORE] == []


@pytest.mark.parametrize("missing", [4, 8, 12])
def test_a_stream_without_end_stops(missing: int) -> None:
    commands = some_commands(5)
    _, error, ended = fetched(commands, len(commands) - missing, bus_bytes=8, chance=0.2)
    assert error == Status.NO_END and not ended


@pytest.mark.parametrize("word", [5, 7, 1 << 24 | 1, 0, 1 << 14 | 8])
def test_a_bad_header_stops(word: int) -> None:
    commands = word.to_bytes(4, "little") + some_commands(2)
    got, error, _ = fetched(commands, len(commands), bus_bytes=8, chance=0.0)
    assert error == Status.BAD_COMMAND and got == {unit: [] for unit in WORKERS}
