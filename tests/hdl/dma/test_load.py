"""LoadUnit against the reference written from semantics.md."""

import random
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from bench import Bench
from dma_reference import Fields, load_ref, random_coded_load, random_load, runs
from stalls import Stalls, read_memory

from tq_hw.hdl.dma.load import LoadUnit
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.fields import fields_of
from tq_hw.isa.latency import CODED_WORD_CYCLES
from tq_hw.isa.layout import Unit
from tq_hw.isa.refusals import broken_rule
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.weight_code import encode_rows

BASES = (0, 4096, 8192 + 16, 512)
MEMORY_BYTES = 16384
CONFIGS = {
    "tiny": PRESETS["tiny"],
    "tiny_bus4": replace(PRESETS["tiny"], bus_bytes=4),
    "n8": PRESETS["n8"],
    "n8_bus16": replace(PRESETS["n8"], bus_bytes=16),
    "n16": PRESETS["n16"],
    "n16_bus4": replace(PRESETS["n16"], bus_bytes=4),
    "wide": Config("wide", 32, 4, 2, 32 << 10),
}
#: With a decoder: pieces of it are beats, several of them, and a part of one; columns fewer than lanes.
CODED = {
    "tiny_bus4": replace(CONFIGS["tiny_bus4"], compressed_weights=1),
    "n9x8": replace(PRESETS["n9x8"], compressed_weights=1),
    "n16": replace(PRESETS["n16"], compressed_weights=1),
    "n16x8_bus16": replace(PRESETS["n16x8"], bus_bytes=16, compressed_weights=1),
    "cols12": Config("cols12", 12, 12, 4, 64 << 10, compressed_weights=1),
}


def memory_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, MEMORY_BYTES, np.uint8)


@cache
def load_of(config: Config) -> tuple[Any, Bench]:
    dut = LoadUnit(config)
    return dut, Bench(dut)


@dataclass
class Loaded:
    """Words written, the order of their addresses, beats asked for; cycles to the last done, those that were stalls.

    taken, done, granted : cycles of each operation's start and end, and of each word
    errors : by cycle, status and low bits of the operation's number
    """

    written: dict[int, list[int]] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    cycles: int = 0
    stalls: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    granted: list[int] = field(default_factory=list)
    errors: dict[int, tuple[int, int]] = field(default_factory=dict)


def load_rtl(config: Config, ops: list[Fields], memory: np.ndarray, *, seed: int = 0, latency: int = 5,
             chance: float = 0.0, grants_from: int = 0, wrong: int | None = None, beyond: int | None = None,
             limit: int = 20000) -> Loaded:
    """Run `ops`; no word is granted before cycle `grants_from`; `beyond` is an address beyond the scratchpad."""
    dut, simulator = load_of(config)
    result = Loaded()
    waiting: deque[tuple[int, int, int]] = deque()
    most_done = len(ops)

    async def give(ctx: Any) -> None:
        for slot, base in enumerate(BASES):
            ctx.set(dut.base[slot], base)
        for op in ops:
            for f in fields_of(Unit.LOAD, config):
                ctx.set(dut.i.payload[f.name], op.get(f.name, 0))
            ctx.set(dut.i.valid, 1)
            ready = False
            while not ready:
                _, _, ready = await ctx.tick().sample(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def watch(ctx: Any) -> None:
        grants = Stalls(seed + 1, chance)
        rest = 0
        while rest < 30 or waiting:
            cycle = result.cycles + rest
            grant = cycle >= grants_from and grants.go()
            ctx.set(dut.port.grant, grant)
            _, _, en, addr, data, mask, finished, error, at, idle, stall, take = await ctx.tick().sample(
                dut.port.en, dut.port.addr, dut.port.data, dut.port.mask, dut.done, dut.error, dut.error_at, dut.idle,
                dut.stall, dut.i.valid & dut.i.ready)
            ctx.set(dut.port.beyond, en and grant and addr == beyond)
            if en and grant:
                assert mask == (1 << config.word_bytes) - 1
                result.written[addr] = list(data.to_bytes(config.word_bytes, "little"))
                result.granted.append(cycle)
            # An operation is under way from the cycle after its start to its `done`, and as long as beats are owed.
            assert not idle or len(result.taken) == len(result.done) and not waiting, "idle too early"
            for happens, cycles in ((finished, result.done), (take, result.taken), (stall, result.stalls)):
                if happens:
                    cycles.append(cycle)
            if error:
                result.errors[cycle] = (error, at)
            if len(result.done) == most_done:
                rest += 1
            else:
                result.cycles += 1
            assert cycle < limit, "the load unit hangs"
        result.cycles += 1
        assert ctx.get(dut.idle), "not idle after the last operation"
        assert len(result.taken) == len(result.done) == most_done

    simulator.run(give, read_memory(dut.memory, memory, config.bus_bytes, latency, Stalls(seed + 2, chance),
                                    Stalls(seed + 3, chance), wrong=wrong, asked=result.asked, waiting=waiting,
                                    most_beats=4096 // config.bus_bytes), watch)
    return result


def load_words(config: Config, ops: list[Fields], memory: np.ndarray) -> dict[int, list[int | None]]:
    """Return the words that `ops` leave; None is undefined."""
    expected: dict[int, list[int | None]] = {}
    for op in ops:
        load_ref(config, op, memory, BASES[op["region"]], expected)
    return expected


def load_beats(config: Config, ops: list[Fields]) -> list[int]:
    """Return the addresses of the beats that the runs of `ops` touch, in order."""
    beats: list[int] = []
    for op in ops:
        for _, _, offset in runs(op):
            first = BASES[op["region"]] + offset
            if op["run_bytes"]:
                beats += range(first - first % config.bus_bytes, first + op["run_bytes"], config.bus_bytes)
    return beats


def compare(result: Loaded, expected: dict[int, list[int | None]]) -> None:
    assert result.written.keys() == expected.keys()
    for address, word in expected.items():
        for lane, byte in enumerate(word):
            assert byte is None or result.written[address][lane] == byte, (address, lane)


def check(config: Config, ops: list[Fields], seed: int, **options: Any) -> int:
    memory = memory_of(seed)
    result = load_rtl(config, ops, memory, seed=seed, **options)
    compare(result, load_words(config, ops, memory))
    assert result.asked == load_beats(config, ops) and not result.errors
    # `done` comes in the cycle after the last word of an operation.
    granted = set(result.granted)
    assert all(cycle - 1 in granted for cycle in result.done) and result.done[-1] == result.granted[-1] + 1
    return result.cycles


@pytest.mark.parametrize("chance", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_operations(name: str, chance: float) -> None:
    rng = random.Random(f"{name} {chance}")
    ops: list[Fields] = [random_load(rng, CONFIGS[name], 4000) for _ in range(16)]
    check(CONFIGS[name], ops, 7, chance=chance)


def coded_weights(config: Config, memory: np.ndarray, offset: int, rows: np.ndarray) -> dict[str, int]:
    """Write rows to the memory, coded, and return the load of them."""
    data, _ = encode_rows(rows.astype(np.int8).tobytes(), config.cols)
    data = data.ljust(ceil_div(len(data), config.bus_bytes) * config.bus_bytes, b"\0")
    memory[BASES[0] + offset:BASES[0] + offset + len(data)] = np.frombuffer(data, np.uint8)
    return contiguous(config, len(rows), offset, run_bytes=len(data), coded=1)


@pytest.mark.parametrize("chance", [0.0, 0.4])
@pytest.mark.parametrize("name", CODED)
def test_coded_runs_between_others(name: str, chance: float) -> None:
    """What the memory holds is noise but for some: any bytes have rows."""
    config, rng = CODED[name], random.Random(f"{name} {chance}")
    memory, draws = memory_of(7), np.random.default_rng(1)
    ops: list[Fields] = []
    for number in range(20):
        kind = rng.choice(["plain", "noise", "rows"])
        if kind == "rows":
            spread = draws.choice([0.2, 2, 20])
            rows = draws.normal(0, spread, (draws.integers(1, 60), config.cols)).clip(-128, 127)
            ops.append(coded_weights(config, memory, 160 * number, rows[:160 // config.cols // 2])
                       | {"destination": rng.randint(0, 300)})
        else:
            make = random_load if kind == "plain" else random_coded_load
            ops.append(make(rng, config, 4000))
    result = load_rtl(config, ops, memory, seed=7, chance=chance)
    compare(result, load_words(config, ops, memory))
    assert result.asked == load_beats(config, ops) and not result.errors


@pytest.mark.parametrize("name", CODED)
def test_coded_rows_come_one_a_cycle(name: str) -> None:
    """If the memory is fast enough for their bytes; a plain load of them would take as long or longer."""
    config, memory = CODED[name], memory_of(1)
    rows = np.random.default_rng(1).choice([-1, 0, 0, 0, 1], (300, config.cols))
    op = coded_weights(config, memory, 0, rows)
    result = load_rtl(config, [op], memory, latency=30)
    compare(result, load_words(config, [op], memory))
    assert 2 * op["run_bytes"] <= rows.size and result.cycles <= 300 + 30 + 30


def test_the_first_coded_row_is_a_little_later() -> None:
    config, memory = CODED["n9x8"], memory_of(1)
    ops = coded_weights(config, memory, 0, np.ones((8, 8))), contiguous(config, 8, 0)
    coded, plain = (load_rtl(config, [op], memory).granted[0] for op in ops)
    assert coded == plain + CODED_WORD_CYCLES


@pytest.mark.parametrize(("changes", "broken"), [
    ({}, False), ({"run_bytes": 0}, True), ({"run_bytes": 12}, True), ({"memory_offset_bytes": 4}, True),
    ({"count2": 2}, True), ({"count3": 2}, True), ({"coded": 0, "run_bytes": 12, "count2": 2}, False)])
def test_rules_of_coded_runs(changes: dict[str, int], broken: bool) -> None:
    config = CODED["n9x8"]
    op = contiguous(config, 3, 0) | {"run_bytes": 16, "coded": 1} | changes
    assert bool(broken_rule(config, Unit.LOAD, op)) == broken
    assert not broken_rule(CONFIGS["n8"], Unit.LOAD, op)


def contiguous(config: Config, words: int, lane: int, **changes: int) -> dict[str, int]:
    """Return a load of `words` full words from a byte address that is `lane` beyond a multiple of 16."""
    width = config.word_bytes
    op = {"memory_offset_bytes": lane, "region": 0, "run_bytes": words * width, "fill": 0, "pad_before_bytes": 0,
          "pad_after_bytes": 0, "destination": 3, "flip": 0, "emit_bytes": width, "advance_bytes": width,
          "last_emit_bytes": width, "last_advance_bytes": width, "count0": 1, "count1": words, "count2": 1,
          "count3": 1, "step0": 1, "step1": 1, "step2": words, "step3": 0, "stride2_bytes": words * width,
          "stride3_bytes": 0}
    return op | changes


@pytest.mark.parametrize("lane", [0, 5])
@pytest.mark.parametrize("name", CONFIGS)
def test_contiguous_data_comes_at_the_rate_of_the_bus(name: str, lane: int) -> None:
    config = CONFIGS[name]
    words = 128
    cycles = check(config, [contiguous(config, words, lane)], 1, latency=30)
    assert cycles <= max(words, words * config.word_bytes / config.bus_bytes) + 30 + 20


@pytest.mark.parametrize("name", ["tiny", "n8", "n16"])
def test_runs_follow_each_other_without_a_gap(name: str) -> None:
    config = CONFIGS[name]
    width, runs = config.word_bytes, 48
    op = contiguous(config, 2, 3, count2=runs, stride2_bytes=2 * width + 5, step2=2)
    # Each run of 2 words touches at most one beat more than it has.
    beats = 2 * width // config.bus_bytes + 2
    assert check(config, [op], 1, latency=30) <= runs * max(2, beats) + 30 + 20


def test_windows_come_one_word_per_cycle() -> None:
    config = PRESETS["n16"]
    op = contiguous(config, 100, 1, emit_bytes=9, last_emit_bytes=9, advance_bytes=3, last_advance_bytes=3,
                    run_bytes=306, pad_before_bytes=3)
    assert check(config, [op], 1, latency=30) <= 100 + 30 + 20


def test_a_fill_reads_no_memory() -> None:
    config = PRESETS["n16"]
    op = contiguous(config, 100, 1, run_bytes=0, fill=0x85)
    assert check(config, [op], 1, latency=1000) <= 100 + 20


def test_operations_are_taken_ahead_of_their_words() -> None:
    """Of four operations all beats are asked for, though no word is granted."""
    config = PRESETS["tiny"]
    ops: list[Fields] = [contiguous(config, 4, 5 * n, destination=20 * n) for n in range(8)]
    memory = memory_of(1)
    result = load_rtl(config, ops, memory, grants_from=150)
    compare(result, load_words(config, ops, memory))
    assert len([cycle for cycle in result.taken if cycle < 150]) >= 4
    assert result.granted[0] == 150


@pytest.mark.parametrize("grants_from", [0, 300])
def test_more_bytes_than_the_buffer_holds(grants_from: int) -> None:
    config = CONFIGS["n8_bus16"]
    ops: list[Fields] = [contiguous(config, 600, 3, destination=8)]
    memory = memory_of(2)
    result = load_rtl(config, ops, memory, grants_from=grants_from)
    compare(result, load_words(config, ops, memory))
    assert result.asked == load_beats(config, ops)


def test_waits_for_beats_that_no_word_needs() -> None:
    """Done comes with the last word; but the unit is not idle before the rest of the run came."""
    config = PRESETS["tiny"]
    op = contiguous(config, 2, 0, run_bytes=200)
    result = load_rtl(config, [op], memory_of(3), latency=30)
    assert result.asked == load_beats(config, [op])
    check(config, [op, contiguous(config, 2, 7), op | {"count1": 1, "count2": 3, "stride2_bytes": 65, "step2": 9}], 3,
          latency=30)


@pytest.mark.parametrize("name", ["tiny", "wide"])
def test_says_when_a_word_waits(name: str) -> None:
    config = CONFIGS[name]
    fill = load_rtl(config, [contiguous(config, 40, 1, run_bytes=0)], memory_of(1))
    assert not fill.stalls
    refused = load_rtl(config, [contiguous(config, 4, 1, run_bytes=0)], memory_of(1), grants_from=60)
    assert set(range(20, 60)) <= set(refused.stalls) and max(refused.stalls) < 60
    late = load_rtl(config, [contiguous(config, 4, 1)], memory_of(1), latency=90)
    assert set(range(20, 90)) <= set(late.stalls) and max(late.stalls) < late.cycles


#: Changes of an operation that are at the border of the rules, and whether they break one. `W` stands for word_bytes.
RULES = [
    *(({f"count{level}": 0}, True) for level in range(4)),
    ({"count0": 2, "step0": 50, "emit_bytes": 0}, True), ({"count0": 2, "step0": 50, "emit_bytes": "W"}, False),
    ({"count0": 2, "step0": 50, "emit_bytes": "W+1"}, True), ({"count0": 2, "step0": 50, "emit_bytes": 64}, True),
    ({"count0": 2, "step0": 50, "emit_bytes": 255}, True), ({"count0": 2, "step0": 50, "advance_bytes": 0}, False),
    ({"count0": 2, "step0": 50, "advance_bytes": "W+1"}, True),
    ({"count0": 2, "step0": 50, "advance_bytes": 128}, True),
    # Of a single block there is nothing but the last one.
    ({"count0": 1, "emit_bytes": 0, "advance_bytes": "W+1"}, False), ({"count0": 1, "emit_bytes": 255}, False),
    ({"last_emit_bytes": 0}, True), ({"last_emit_bytes": 1}, False), ({"last_emit_bytes": "W+1"}, True),
    ({"last_emit_bytes": 64}, True), ({"last_advance_bytes": 0}, False), ({"last_advance_bytes": "W+1"}, True),
    ({"last_advance_bytes": 192}, True),
]


@pytest.mark.parametrize(("changes", "broken"), RULES, ids=range(len(RULES)))
def test_what_the_rules_allow_works(changes: dict[str, Any], broken: bool) -> None:
    """The unit is given nothing else."""
    config = CONFIGS["wide"]
    sizes: dict[Any, int] = {"W": config.word_bytes, "W+1": config.word_bytes + 1}
    op = contiguous(config, 3, 2) | {key: sizes.get(value) or value for key, value in changes.items()}
    assert bool(broken_rule(config, Unit.LOAD, op)) == broken
    if not broken:
        check(config, [contiguous(config, 2, 1, destination=100), op], 1)


@pytest.mark.parametrize("beat", [0, 3, 8])
def test_a_bus_error_is_told(beat: int) -> None:
    """Also that of a beat which no word needs; of the operation that asked for it, and not of those around it."""
    config = PRESETS["tiny"]
    for before in (0, 1, 9):
        ops: list[Fields] = [contiguous(config, 3, 5 * n, run_bytes=24 * (n % 2)) for n in range(before)]
        ops += [contiguous(config, 8, 0, region=1, run_bytes=72), contiguous(config, 3, 1), contiguous(config, 3, 2)]
        result = load_rtl(config, ops, memory_of(1), wrong=BASES[1] + 8 * beat)
        assert list(result.errors.values()) == [(Status.BUS_ERROR, before % (1 << NUMBER_BITS))]


def test_a_word_beyond_the_scratchpad_is_told() -> None:
    """In the cycle after the port told it, with the number of the operation that it is of."""
    config = PRESETS["tiny"]
    for before in (0, 1, 9):
        ops: list[Fields] = [contiguous(config, 3, n, destination=100) for n in range(before)]
        for word in (0, 7):
            last: list[Fields] = [contiguous(config, 8, 0, destination=300), contiguous(config, 3, 1)]
            result = load_rtl(config, ops + last, memory_of(1), beyond=300 + word)
            granted = result.granted[3 * before + word]
            assert result.errors == {granted + 2: (Status.BAD_ADDRESS, before % (1 << NUMBER_BITS))}
