"""StoreUnit with its write channel against the reference written from semantics.md."""

import random
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from axi_rules import AxiRules
from bench import Bench
from dma_reference import Fields, random_store, runs, store_ref
from stalls import Stalls

from tq_hw.hdl.bus.write_channel import WriteChannel
from tq_hw.hdl.dma.store import StoreUnit
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.latency import READ_LATENCY_CYCLES
from tq_hw.isa.layout import BURST_BYTES, UNITS, Unit
from tq_hw.isa.refusals import broken_rule

BASES = (0, 4096, 8192 + 16, 512)
REGION_BYTES = 8192
MEMORY_BYTES = 16384 + 16
CONFIGS = {
    "tiny": PRESETS["tiny"],
    "tiny_bus4": replace(PRESETS["tiny"], bus_bytes=4),
    "n8": PRESETS["n8"],
    "n8_bus16": replace(PRESETS["n8"], bus_bytes=16),
    "n16": PRESETS["n16"],
    "n16_bus4": replace(PRESETS["n16"], bus_bytes=4),
    "wide": Config("wide", 32, 4, 2, 32 << 10),
}


@cache
def store_of(config: Config) -> tuple[Any, Any, Bench]:
    m = Module()
    m.submodules.store = dut = StoreUnit(config)
    m.submodules.channel = channel = WriteChannel(config)
    wiring.connect(m, dut.beats, channel.beats)
    wiring.connect(m, dut.bursts, channel.bursts)
    unit: Any = dut
    m.d.comb += [unit.answered.eq(channel.answered), unit.write_error.eq(channel.error)]
    return dut, channel, Bench(m, 4)


@dataclass
class Stored:
    """Bursts (address, beats) in order; cycles to the last done, those that were stalls.

    errors : by cycle, status and low bits of the operation's number
    taken, done : cycles of each operation's start and end; answered : of each burst's answer; reads : of each word's
    """

    bursts: list[tuple[int, int]] = field(default_factory=list)
    cycles: int = 0
    stalls: list[int] = field(default_factory=list)
    errors: dict[int, tuple[int, int]] = field(default_factory=dict)
    taken: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class _Memory:
    """What takes the unit's beats: their bytes go to memory, and each burst is answered `latency` cycles later."""

    def __init__(self, config: Config, memory: np.ndarray, latency: int) -> None:
        self.bus_bytes, self.memory, self.latency = config.bus_bytes, memory, latency
        self.addresses: deque[tuple[int, int]] = deque()
        self.beats: deque[tuple[int, int, int]] = deque()
        #: cycles from which bursts may be answered
        self.answers: deque[int] = deque()

    def take(self, values: dict[str, int], result: Stored) -> None:
        """Take what the bus transfers in a cycle."""
        if values["awvalid"] and values["awready"]:
            self.addresses.append((values["awaddr"], values["awlen"] + 1))
            result.bursts.append((values["awaddr"], values["awlen"] + 1))
        if values["wvalid"] and values["wready"]:
            self.beats.append((values["wdata"], values["wstrb"], values["wlast"]))
        # Data may come before its address.
        while self.addresses and self.beats:
            addr, left = self.addresses.popleft()
            data, strobe, last = self.beats.popleft()
            for lane in range(self.bus_bytes):
                if strobe >> lane & 1:
                    self.memory[addr + lane] = data >> 8 * lane & 0xFF
            if not last:
                self.addresses.appendleft((addr + self.bus_bytes, left - 1))
            else:
                self.answers.append(result.cycles + self.latency)


def store_rtl(config: Config, ops: list[Fields], memory: np.ndarray, scratchpad: np.ndarray, *, seed: int = 0,
              latency: int = 5, chance: float = 0.0, grants_from: int = 0, takes_from: int = 0,
              wrong: int | None = None, beyond: int | None = None, limit: int = 20000) -> Stored:
    """Write `ops` into `memory`.

    grants_from, takes_from : cycles from which words are granted, and addresses and data taken
    wrong : burst that is answered with an error; beyond : address beyond the scratchpad
    """
    dut, channel, simulator = store_of(config)
    rules, result = AxiRules(config.bus_bytes, "write", runs=True), Stored()
    most_done = len(ops)

    async def read(ctx: Any) -> None:
        grants = Stalls(seed + 1, chance)
        asked: deque[int | None] = deque([None] * (READ_LATENCY_CYCLES - 1), READ_LATENCY_CYCLES - 1)
        held = None
        while True:
            grant = result.cycles >= grants_from and grants.go()
            ctx.set(dut.port.taken, 0 if grant else 15)
            _, _, en, addr, wants = await ctx.tick().sample(dut.port.en, dut.port.addr, dut.port.wants)
            assert wants == (1 << addr % 4 if en else 0)
            assert held is None or en and addr == held, "a word that was refused is not asked for again"
            held = addr if en and not grant else None
            # Nothing but the cycle of the answer may count.
            first = asked[-1]
            ctx.set(dut.port.data, 0x55 if first is None else int.from_bytes(scratchpad[first].tobytes(), "little"))
            asked.appendleft(addr if en and grant else None)
            ctx.set(dut.port.beyond, en and grant and addr == beyond)
            result.reads += [result.cycles] * (en and grant)

    async def write(ctx: Any) -> None:
        asking, taking, answering = (Stalls(seed + n, chance) for n in (2, 3, 4))
        target, bus, rest = _Memory(config, memory, latency), channel.bus, 0
        while rest < 30:
            takes = result.cycles >= takes_from
            ctx.set(bus.awready, takes and asking.go())
            ctx.set(bus.wready, takes and taking.go())
            answer = bool(target.answers) and target.answers[0] <= result.cycles and answering.go()
            ctx.set(bus.bvalid, answer)
            ctx.set(bus.bresp, 2 if len(result.answered) == wrong else 0)
            if answer:
                target.answers.popleft()
                result.answered.append(result.cycles)
            _, _, finished, error, at, idle, idle_channel, stall, take, *seen = await ctx.tick().sample(
                dut.done, dut.error, dut.error_at, dut.idle, channel.idle, dut.stall, dut.i.valid & dut.i.ready,
                *(getattr(bus, name) for name in rules.signals))
            values = dict(zip(rules.signals, seen, strict=True))
            rules.cycle(values)
            target.take(values, result)
            assert not idle or len(result.taken) == len(result.done), "idle too early"
            for happens, cycles in ((finished, result.done), (take, result.taken), (stall, result.stalls)):
                if happens:
                    cycles.append(result.cycles)
            if error:
                result.errors[result.cycles] = (error, at)
            rest += len(result.done) == most_done
            result.cycles += 1
            assert result.cycles < limit, "the store unit hangs"
        assert idle and idle_channel and rules.idle and not target.beats
        result.cycles = result.done[-1] + 1
        assert len(result.taken) == len(result.done) == most_done

    simulator.run(partial(_give, dut, ops), read, write)
    return result


async def _give(dut: Any, ops: list[Fields], ctx: Any) -> None:
    """Offer the operations, one after the other."""
    for slot, base in enumerate(BASES):
        ctx.set(dut.base[slot], base)
    for op in ops:
        for name in UNITS[Unit.STORE].fields:
            ctx.set(dut.i.payload[name], op.get(name, 0))
        ctx.set(dut.i.valid, 1)
        ready = False
        while not ready:
            _, _, ready = await ctx.tick().sample(dut.i.ready)
    ctx.set(dut.i.valid, 0)


def bursts_of(config: Config, op: Fields) -> list[tuple[int, int]]:
    """Return the bursts of an operation: each run is cut where a block of 256 bytes ends."""
    bursts = []
    size = op["count1"] * ((op["count0"] - 1) * op["take_bytes"] + op["last_take_bytes"])
    for _, _, offset in runs(op):
        first, end = BASES[op["region"]] + offset, BASES[op["region"]] + offset + size
        while first < end:
            block = min((first // BURST_BYTES + 1) * BURST_BYTES, end)
            start = first // config.bus_bytes * config.bus_bytes
            bursts.append((start, -(-(block - start) // config.bus_bytes)))
            first = block
    return bursts


def words_of(op: Fields) -> int:
    return op["count0"] * op["count1"] * op["count2"] * op["count3"]


def check(config: Config, ops: list[Fields], seed: int, *, wrong: int | None = None, **options: Any) -> Stored:
    """Compare the memory, the bursts, and when each operation was done."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    scratchpad = rng.integers(0, 256, (config.scratchpad_words, config.word_bytes), np.uint8)
    expected = memory.copy()
    result = store_rtl(config, ops, memory, scratchpad, seed=seed, wrong=wrong, **options)
    for op in ops:
        store_ref(config, op, expected, BASES[op["region"]], scratchpad)
    np.testing.assert_array_equal(memory, expected)
    bursts = [bursts_of(config, op) for op in ops]
    assert result.bursts == [burst for part in bursts for burst in part]
    # Each is done in the cycle after the answer to its last burst.
    assert result.done == [result.answered[sum(map(len, bursts[:n + 1])) - 1] + 1 for n in range(len(ops))]
    assert len(result.reads) == sum(map(words_of, ops))
    return result


@pytest.mark.parametrize("chance", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_operations(name: str, chance: float) -> None:
    rng = random.Random(f"{name} {chance}")
    ops: list[Fields] = [random_store(rng, CONFIGS[name], REGION_BYTES) for _ in range(16)]
    assert not check(CONFIGS[name], ops, 7, chance=chance).errors


def contiguous(config: Config, words: int, lane: int, **changes: int) -> dict[str, int]:
    """Return a store of `words` full words to a byte address that is `lane` beyond a multiple of 16."""
    width = config.word_bytes
    op = {"memory_offset_bytes": lane, "region": 0, "source": 3, "flip": 0, "take_bytes": width,
          "last_take_bytes": width, "lane": 0, "count0": 1, "count1": words, "count2": 1, "count3": 1, "step0": 1,
          "step1": 1, "step2": words, "step3": 0, "stride2_bytes": words * width, "stride3_bytes": 0}
    return op | changes


@pytest.mark.parametrize("lane", [0, 5])
@pytest.mark.parametrize("name", CONFIGS)
def test_contiguous_data_goes_at_the_rate_of_the_bus(name: str, lane: int) -> None:
    config = CONFIGS[name]
    words = 128
    cycles = check(config, [contiguous(config, words, lane)], 1, latency=30).cycles
    # The last burst leaves when it is whole.
    assert cycles <= max(words, words * config.word_bytes / config.bus_bytes) + 256 / config.bus_bytes + 30 + 24


@pytest.mark.parametrize("name", ["tiny", "n8", "n16"])
def test_runs_follow_each_other_without_a_gap(name: str) -> None:
    config = CONFIGS[name]
    width, count = config.word_bytes, 48
    op = contiguous(config, 2, 3, count2=count, stride2_bytes=2 * width + 5, step2=2)
    beats = 2 * width // config.bus_bytes + 2
    assert check(config, [op], 1, latency=4).cycles <= count * max(2, beats) + 40


@pytest.mark.parametrize("lane", [0, 1])
def test_a_memory_that_takes_nothing_for_long_loses_no_beat(lane: int) -> None:
    """More beats than wait in the unit, of few bursts."""
    config = CONFIGS["tiny_bus4"]
    result = check(config, [contiguous(config, 620, lane)], 3, takes_from=700)
    assert len(result.bursts) == 10


def test_a_memory_that_takes_nothing_for_long_loses_no_burst() -> None:
    """More bursts than wait in the unit, of one beat each, and of two where a run crosses a block."""
    config = CONFIGS["tiny_bus4"]
    for size in (1, 4):
        op = contiguous(config, 1, 0, last_take_bytes=size, count2=60, stride2_bytes=9)
        check(config, [op], 3, takes_from=200)


@pytest.mark.parametrize("takes_from", [0, 60])
def test_operations_are_done_when_their_writes_are_answered(takes_from: int) -> None:
    """The next ones start before that."""
    config = CONFIGS["tiny"]
    ops: list[Fields] = [contiguous(config, 2, 50 * n + n % 3) for n in range(6)]
    result = check(config, ops, 3, latency=60, takes_from=takes_from)
    assert result.taken[3] < result.done[0]


def test_says_when_a_word_or_a_beat_waits() -> None:
    config = CONFIGS["tiny_bus4"]
    free = check(config, [contiguous(config, 60, 0)], 1)
    # After a reset memory takes nothing for one cycle.
    assert free.stalls == [0]
    refused = check(config, [contiguous(config, 60, 0)], 1, grants_from=50)
    assert set(range(10, 50)) <= set(refused.stalls) and max(refused.stalls) == 50
    full = check(config, [contiguous(config, 620, 0)], 1, takes_from=700)
    assert set(range(600, 700)) <= set(full.stalls) and full.stalls[1] > 500


#: Changes of an operation that are at the border of the rules, and whether they break one. `W` stands for word_bytes.
RULES = [
    *(({f"count{level}": 0}, True) for level in range(4)),
    ({"last_take_bytes": 0}, True), ({"last_take_bytes": 1}, False), ({"last_take_bytes": "W+1"}, True),
    ({"last_take_bytes": 64}, True), ({"last_take_bytes": "W", "lane": 1}, True),
    ({"last_take_bytes": 1, "lane": "W-1"}, False), ({"last_take_bytes": 1, "lane": "W"}, True),
    ({"last_take_bytes": 1, "lane": 128}, True), ({"last_take_bytes": "W", "lane": 128}, True),
    *(({"count0": 2, "step0": 50, "last_take_bytes": 1} | changes, broken) for changes, broken in (
        ({"take_bytes": 0}, True), ({"take_bytes": "W"}, False), ({"take_bytes": "W+1"}, True),
        ({"take_bytes": 64}, True), ({"take_bytes": "W", "lane": 1}, True), ({"take_bytes": "W-1", "lane": 1}, False))),
    # Of a single block there is nothing but the last one.
    ({"take_bytes": 0}, False), ({"take_bytes": 255}, False),
]


@pytest.mark.parametrize(("changes", "broken"), RULES, ids=range(len(RULES)))
def test_what_the_rules_allow_works(changes: dict[str, Any], broken: bool) -> None:
    """The unit is given nothing else."""
    config = CONFIGS["wide"]
    width = config.word_bytes
    sizes: dict[Any, int] = {"W": width, "W+1": width + 1, "W-1": width - 1}
    op = contiguous(config, 3, 300) | {key: sizes.get(value) or value for key, value in changes.items()}
    assert bool(broken_rule(config, Unit.STORE, op)) == broken
    if not broken:
        assert not check(config, [contiguous(config, 2, 1), op], 1).errors


@pytest.mark.parametrize("burst", [0, 1, 2])
def test_a_bus_error_is_told(burst: int) -> None:
    """Of the operation that wrote the burst, though the next ones are under way."""
    config = CONFIGS["tiny"]
    for before in (0, 1, 9):
        ops: list[Fields] = [contiguous(config, 3, 256 + 40 * n) for n in range(before)]
        ops += [contiguous(config, 100, 200 + 1024), contiguous(config, 3, 5000)]
        wrong = sum(len(bursts_of(config, op)) for op in ops[:before]) + burst
        result = check(config, ops, 1, wrong=wrong)
        assert result.errors == {result.answered[wrong] + 2: (Status.BUS_ERROR, before % (1 << NUMBER_BITS))}


def test_a_word_beyond_the_scratchpad_is_told() -> None:
    """Two cycles after it was granted, with the number of the operation that it is of."""
    config = CONFIGS["tiny"]
    for before in (0, 1, 9):
        for word in (0, 7):
            ops: list[Fields] = [contiguous(config, 3, 40 * n, source=100) for n in range(before)]
            ops += [contiguous(config, 8, 2000, source=300), contiguous(config, 3, 3000)]
            result = check(config, ops, 1, beyond=300 + word, grants_from=20)
            assert list(result.errors.values()) == [(Status.BAD_ADDRESS, before % (1 << NUMBER_BITS))]
            assert abs(list(result.errors)[0] - result.reads[3 * before + word] - 2) <= 1
