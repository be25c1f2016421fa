"""The control of a unit with its queue, tokens and engine played by a test."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from amaranth.sim import Simulator
from bench import Bench
from legal_fields import legal_fields
from stalls import Stalls

from tq_hw.hdl.control.unit_control import UnitControl
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import decode, pack
from tq_hw.isa.layout import HEADER, UNITS, Unit

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
    return tuple(pack(register, {f.name: fields.get(f.name, 0) for f in register.fields})
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
