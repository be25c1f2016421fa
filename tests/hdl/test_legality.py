"""The rules in hardware against the same rules on numbers: every rule of every unit, kept and broken."""

import random
from typing import Any

import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator
from legal_fields import legal_fields, random_value

from tq_hw.hdl.legality import CHUNK_REGISTERS, Legality, broken_by_word, chunk_registers_of, uop_rules
from tq_hw.hdl.vector.steps import uop_layout
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.legality import RULES, UOP_RULES, Test, bound, chunk_registers, names, value
from tq_hw.isa.refusals import broken_rule, holding
from tq_hw.isa.uop import UOP

CONFIGS = (PRESETS["tiny"], PRESETS["n16x8"], Config("r6c3a3o2", 6, 3, 3, 4096, acc_words=16, acc_buffers=2,
                                                     activation_lanes=3, acc_open=2, compressed_weights=1))


def simulate(dut: Any, bench: Any) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def breaking(rng: random.Random, unit: Unit, test: Test, fields: dict[str, int],
             state: dict[str, int]) -> dict[str, int]:
    """Return fields like these that break one rule, or these where no operation can."""
    own = sorted(names(test) & set(fields))
    for _ in range(3000):
        tried = fields | {name: random_value(rng, unit, name) for name in own}
        if not value(test, tried | state):
            return tried
    return fields


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("unit", list(UNITS), ids=lambda unit: unit.name)
def test_operations(config: Config, unit: Unit) -> None:
    """Legal operations, and for each rule some that break it; what the operation before left open goes on."""
    rng = random.Random(config.name + unit.name)
    dut: Any = Legality(unit, config)
    tests = [test for rule, test in bound(RULES[unit], config) if not rule.running]
    broken = [0] * len(tests)
    kept = 0

    async def bench(ctx: Any) -> None:
        nonlocal kept
        open_buffers = 0
        for number in range(8 * len(tests)):
            state = {"open_buffers": open_buffers}
            fields = legal_fields(rng, unit, config, open_buffers)
            if number % 2:
                fields = breaking(rng, unit, tests[number // 2 % len(tests)], fields, state)
            for name, number in fields.items():
                ctx.set(dut.op[name], number)
            await ctx.tick().repeat(2)
            legal = not broken_rule(config, unit, fields, open_buffers)
            assert ctx.get(dut.legal) == legal, fields
            kept += legal
            for number, test in enumerate(tests):
                broken[number] += not value(test, fields | state)
            if legal:
                ctx.set(dut.taken, 1)
                await ctx.tick()
                ctx.set(dut.taken, 0)
                if unit is Unit.ARRAY:
                    open_buffers = 0 if fields["acc_last"] else fields["out_blocks"]

    simulate(dut, bench)
    # Without `acc_open` nothing leaves several buffers open; with one, an operation of the other kind may not follow.
    never = [test for count, test in zip(broken, tests, strict=True) if not count]
    assert kept >= 4 * len(tests) and all("open_buffers" in names(test) for test in never), never


@pytest.mark.parametrize(("config", "buffers"), [(config, buffers) for config in CONFIGS
                                               for buffers in sorted({1, config.acc_open or 1})],
                         ids=lambda of: of.name if isinstance(of, Config) else str(of))
def test_buffers_that_stay_open_are_gone_on_with(config: Config, buffers: int) -> None:
    """An operation on other buffers than those that are open is refused, until one that leaves none open."""
    dut: Any = Legality(Unit.ARRAY, config)
    whole = legal_fields(random.Random(1), Unit.ARRAY, config) | {
        "acc_first": 1, "acc_last": 1, "out_blocks": buffers, "slots": 1, "out_cols": 1, "tile_slots": 1}
    other = whole | {"out_blocks": buffers + 1}

    async def bench(ctx: Any) -> None:
        async def offer(fields: dict[str, int], taken: int) -> bool:
            for name, number in fields.items():
                ctx.set(dut.op[name], number)
            ctx.set(dut.taken, taken)
            await ctx.tick()
            ctx.set(dut.taken, 0)
            await ctx.tick()
            return bool(ctx.get(dut.legal))

        for _ in range(2):
            assert await offer(other, 0)
            assert await offer(whole | {"acc_last": 0}, 1)
            for goes_on in ({}, {"acc_first": 0}, {"acc_last": 0}):
                assert not broken_rule(config, Unit.ARRAY, whole | goes_on, buffers)
                assert await offer(whole | goes_on, 0)
                assert broken_rule(config, Unit.ARRAY, other | goes_on, buffers)
                assert not await offer(other | goes_on, 0)
            assert await offer(whole | {"acc_first": 0}, 1)

    simulate(dut, bench)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_micro_operations(config: Config) -> None:
    """The rules about each word, with and without what the operation has; every rule stands in one of them."""
    rng = random.Random(config.name)
    assert sum(len(uop_rules(config, word)) for word in range(len(UOP))) == len(bound(UOP_RULES, config))
    for word in (0, 2):
        tests = uop_rules(config, word)
        m = Module()
        fields: Any = Signal(uop_layout(word))
        own = {"use_acc": Signal(), "use_params": Signal(), "chunk_registers": Signal(range(CHUNK_REGISTERS + 1))}
        out = Signal(len(tests))
        m.d.comb += out.eq(broken_by_word(tests, {f.name: fields[f.name] for f in UOP[word].fields} | own))
        seen = 0

        async def bench(ctx: Any, word: int = word, tests: Any = tests, fields: Any = fields, own: Any = own,
                        out: Any = out) -> None:
            nonlocal seen
            for _ in range(1000):
                values = {f.name: rng.randint(f.low, f.high) for f in UOP[word].fields}
                values |= {"use_acc": rng.randint(0, 1), "use_params": rng.randint(0, 1),
                           "chunk_registers": rng.randint(1, CHUNK_REGISTERS)}
                for name, number in values.items():
                    ctx.set(own[name] if name in own else fields[name], number)
                expected = sum((not value(test, values)) << bit for bit, test in enumerate(tests))
                assert ctx.get(out) == expected, values
                seen |= expected

        simulator = Simulator(m)
        simulator.add_testbench(bench)
        simulator.run()
        assert seen == (1 << len(tests)) - 1


@pytest.mark.parametrize("config", [*CONFIGS, Config("r4c6", 4, 6, 2, 8192, vector_words=256)],
                         ids=lambda config: config.name)
def test_registers_of_a_chunk(config: Config) -> None:
    m = Module()
    slots, use_acc, out = Signal(16), Signal(), Signal(range(CHUNK_REGISTERS + 1))
    m.d.comb += out.eq(chunk_registers_of(config, use_acc, slots))
    rng = random.Random(1)

    async def bench(ctx: Any) -> None:
        for number in (*range(1, 1100), *(rng.randint(1, 65535) for _ in range(200)), 65535):
            for acc in (0, 1):
                ctx.set(slots, number)
                ctx.set(use_acc, acc)
                assert ctx.get(out) == min(chunk_registers(config, bool(acc), number), CHUNK_REGISTERS)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("unit", [*UNITS, None], ids=lambda unit: unit.name if unit else "uop")
def test_rules_as_functions_are_the_same(config: Config, unit: Unit | None) -> None:
    """As `value` says, for small and large fields at random."""
    rng = random.Random(f"{config.name} {unit}")
    found = set()
    for _, test in bound(UOP_RULES if unit is None else RULES[unit], config):
        holds = holding(test)
        for _ in range(300):
            fields = {name: rng.choice((rng.randrange(1, 17), rng.randrange(1, 1 << 16))) for name in names(test)}
            wanted = bool(value(test, fields))
            assert bool(holds(fields)) == wanted, fields
            found.add(wanted)
    assert found == {True, False}
