"""Fetch: which words the units get, when, and what it says of a stream that is wrong."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from bench import Bench
from stalls import STALLS, Stalls, read_memory

from tq_hw.hdl.control.fetch import Fetch
from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import pack
from tq_hw.isa.layout import HEADER, QUEUE_WORDS, Unit

TINY = PRESETS["tiny"]
MEMORY_BYTES = 1 << 14
#: What a command is: its unit, and the values after its header.
Command = tuple[Unit, Sequence[int]]
END = pack(HEADER, {"unit": Unit.CONTROL, "run": 1})
#: The queues that are urgent when they run short, and the words below which they do.
HURRIED, FEW_WORDS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR), 64
#: Words of a queue that are past its level, on their way to the unit.
AHEAD_WORDS = 1


def words_of(command: Command) -> list[int]:
    """Return header and values."""
    unit, values = command
    return [pack(HEADER, {"unit": unit, "run": 1, "first": 3, "count": len(values)}), *values]


def stream(commands: Iterable[Command], *, end: bool = True) -> list[int]:
    return [word for command in commands for word in words_of(command)] + [END] * end


def dealt(commands: Iterable[Command]) -> dict[Unit, list[int]]:
    """Return the words that each unit gets."""
    out: dict[Unit, list[int]] = {unit: [] for unit in WORKERS}
    for command in commands:
        out[command[0]] += words_of(command)
    return out


def random_commands(rng: random.Random, count: int) -> list[Command]:
    """Return commands whose values look like anything: numbers, headers, bad headers, END."""
    def value() -> int:
        return rng.choice([END, 0, 5, rng.getrandbits(32), words_of((rng.choice(WORKERS), [0] * 3))[0]])
    return [(rng.choice(WORKERS), [value() for _ in range(rng.choice([0, 1, 2, rng.randint(3, 13)]))])
            for _ in range(count)]


@cache
def fetch_of(bus_bytes: int) -> tuple[Any, Bench]:
    dut = Fetch(replace(TINY, bus_bytes=bus_bytes))
    return dut, Bench(dut)


@dataclass
class Dealt:
    """Words by unit, the last error, whether END was met; cycles, those that were stalls, those that were urgent."""

    got: dict[Unit, list[int]] = field(default_factory=lambda: {unit: [] for unit in WORKERS})
    error: int = 0
    ended: bool = False
    cycles: int = 0
    stalls: list[int] = field(default_factory=list)
    urgent: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)


def fetch_rtl(words: Sequence[int], *, size_bytes: int | None = None, bus_bytes: int = 8, addr: int = 48,
              idle: float = 0.0, pressure: float = 0.0, latency: int = 20, takes: Mapping[Unit, int] | None = None,
              halt_at: int | None = None, wrong: int | None = None,
              watch: Callable[[Any, Dealt, int], None] | None = None) -> Dealt:
    """Run fetch until it is at rest.

    takes : cycle from which a unit takes words, for those that do not from the first one
    watch : is called in every cycle with the values of the outputs
    """
    memory = np.full(MEMORY_BYTES, 0xEE, np.uint8)
    memory[addr:addr + 4 * len(words)] = np.array(words, "<u4").view(np.uint8)
    dut, simulator = fetch_of(bus_bytes)
    result = Dealt()

    async def bench(ctx: Any) -> None:
        ports = [getattr(dut, unit.name.lower()) for unit in WORKERS]
        sampled = [*(p.valid for p in ports), *(p.payload for p in ports), dut.error, dut.ended, dut.stall, dut.urgent]
        ctx.set(dut.addr, addr)
        ctx.set(dut.size_bytes, 4 * len(words) if size_bytes is None else size_bytes)
        stalls = Stalls(4, pressure)
        quiet = 0
        last = max((takes or {1: 0}).values())
        for cycle in range(3000):
            ctx.set(dut.start, cycle == 1)
            ctx.set(dut.halt, halt_at is not None and cycle >= halt_at)
            ready = [cycle >= (takes or {}).get(unit, 0) and stalls.go() for unit in WORKERS]
            for port, go in zip(ports, ready, strict=True):
                ctx.set(port.ready, go)
            _, _, *values = await ctx.tick().sample(*sampled)
            quiet += 1
            for unit, valid, word, go in zip(WORKERS, values[:4], values[4:8], ready, strict=True):
                if valid and go:
                    result.got[unit].append(word)
                    quiet = 0
            error, ended, stall, urgent = values[8:]
            assert result.error in (0, error) and result.ended <= ended, "an end was taken back"
            assert not (error and ended)
            if (error, ended) != (result.error, result.ended):
                quiet = 0
            result.error, result.ended = error, bool(ended)
            result.stalls += [cycle] * stall
            result.urgent += [cycle] * urgent
            result.cycles = cycle
            if watch:
                watch(ended, result, cycle)
            if quiet > (12 if error or ended else latency + 40) and cycle > last + 20:
                return
        raise AssertionError("fetch does not come to rest")

    simulator.run(read_memory(dut.memory, memory, bus_bytes, latency, Stalls(1, idle), Stalls(2, idle),
                              wrong=wrong, asked=result.asked, most_beats=1024 // bus_bytes), bench)
    return result


@pytest.mark.parametrize(("idle", "pressure"), STALLS)
@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_deals_the_words(bus_bytes: int, idle: float, pressure: float) -> None:
    """Each word of the stream goes to its unit, each beat of it is read once; the words after END go nowhere."""
    commands = random_commands(random.Random(bus_bytes), 30)
    words = stream(commands) + [0xFFFFFFFF] * 3
    expected = dealt(commands)

    def watch(ended: int, result: Dealt, cycle: int) -> None:
        assert not ended or result.got == expected, "ended before all words were taken"

    result = fetch_rtl(words, bus_bytes=bus_bytes, idle=idle, pressure=pressure, watch=watch)
    assert result.error == Status.OK and result.ended
    assert result.got == expected
    assert result.asked == list(range(48, 48 + 4 * len(words), bus_bytes))


@pytest.mark.parametrize("unit", WORKERS)
def test_a_full_queue_holds_up_all_words_and_loses_none(unit: Unit) -> None:
    """The compiler counts on QUEUE_WORDS: as many wait for a unit that takes none, and what follows passes them."""
    other = WORKERS[int(unit) % 4]
    commands: list[Command] = [*[(unit, [n]) for n in range(QUEUE_WORDS // 2)], (other, [1]),
                               *[(unit, [n]) for n in range(20)], (other, [2])]
    held = []

    def watch(ended: int, result: Dealt, cycle: int) -> None:
        if cycle == 559:
            held.append(list(result.got[other]))

    result = fetch_rtl(stream(commands), bus_bytes=16, latency=5, takes={unit: 560}, watch=watch)
    assert result.got == dealt(commands) and result.ended
    assert held == [words_of((other, [1]))]


def test_a_queue_that_fills_slowly_loses_no_word() -> None:
    """Words come as they are taken, at about the same rate: the queue is full for long, with and without gaps."""
    commands: list[Command] = [(Unit.STORE, [n]) for n in range(360)]
    result = fetch_rtl(stream(commands), takes={Unit.STORE: 500}, idle=0.2, pressure=0.3)
    assert result.got == dealt(commands) and result.ended


def test_deals_a_word_a_cycle() -> None:
    commands = [(unit, [7]) for _ in range(40) for unit in WORKERS]
    result = fetch_rtl(stream(commands), latency=10)
    assert result.ended and result.cycles <= 2 * len(commands) + 10 + 12 + 15


@pytest.mark.parametrize("unit", WORKERS)
@pytest.mark.parametrize("words", [1, 2, 4])
def test_ends_when_the_last_word_is_taken(unit: Unit, words: int) -> None:
    """Whether the word is still on its way into the queue, in it, or stands at its end."""
    commands = [(unit, [])] * words
    ended_at: list[int] = []

    def watch(ended: int, result: Dealt, cycle: int) -> None:
        assert not ended or len(result.got[unit]) == words, "ended with a word in a queue"
        if ended:
            ended_at.append(cycle)

    result = fetch_rtl(stream(commands), takes={unit: 60}, latency=2, watch=watch)
    assert result.ended and result.got == dealt(commands)
    assert ended_at[0] <= 60 + words + 3
    fetch_rtl(stream(commands), latency=2, watch=watch)


@pytest.mark.parametrize("missing", [1, 2, 3, 7])
@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_a_stream_without_end_stops(missing: int, bus_bytes: int) -> None:
    commands = random_commands(random.Random(3), 5)
    words = stream(commands)
    result = fetch_rtl(words, size_bytes=4 * (len(words) - missing), bus_bytes=bus_bytes, idle=0.2)
    assert result.error == Status.NO_END and not result.ended
    # What came before is dealt, and nothing of the words after.
    kept = {unit: got[:len(result.got[unit])] for unit, got in dealt(commands).items()}
    assert result.got == kept and sum(map(len, kept.values())) == len(words) - max(missing, 1)


def test_no_stream_at_all_is_no_end() -> None:
    result = fetch_rtl(stream([]), size_bytes=0)
    assert result.error == Status.NO_END and not result.ended and not result.asked


#: Units that do not exist, each reserved bit, a control command that is not END.
BAD_HEADERS = [5, 6, 7, *(1 << bit | bit % 5 for bit in range(24, 32)),
               END | 1 << 31, 0, 1 << 14, 1 << 14 | END, 1 << 23 | END]


@pytest.mark.parametrize("before", [0, 3])
def test_a_bad_header_stops(before: int) -> None:
    commands = random_commands(random.Random(2), before)
    for word in BAD_HEADERS[::1 + before]:
        result = fetch_rtl([*stream(commands, end=False), word, *stream(random_commands(random.Random(1), 2))],
                           latency=3)
        assert result.error == Status.BAD_COMMAND and result.got == dealt(commands), hex(word)


def test_end_may_name_a_register() -> None:
    """The `first` of a command without values means nothing."""
    result = fetch_rtl([END | 5 << 4])
    assert result.ended and not result.error


@pytest.mark.parametrize("bus_bytes", [4, 16])
@pytest.mark.parametrize("beat", [0, 5])
def test_a_bus_error_stops(bus_bytes: int, beat: int) -> None:
    commands: list[Command] = [(Unit.ARRAY, [n]) for n in range(60)]
    at = beat * bus_bytes
    result = fetch_rtl(stream(commands), bus_bytes=bus_bytes, wrong=48 + at)
    assert result.error == Status.BUS_ERROR and not result.ended
    # The beat itself goes nowhere.
    got = result.got[Unit.ARRAY]
    assert got == dealt(commands)[Unit.ARRAY][:len(got)] and len(got) <= at // 4


@pytest.mark.parametrize("halt_at", [0, 25, 60])
def test_deals_nothing_more_after_a_halt(halt_at: int) -> None:
    commands: list[Command] = [(Unit.LOAD, [n]) for n in range(100)]
    seen: dict[int, int] = {}

    def watch(ended: int, result: Dealt, cycle: int) -> None:
        seen[cycle] = len(result.got[Unit.LOAD])

    result = fetch_rtl(stream(commands), halt_at=halt_at, watch=watch)
    # A word takes five cycles from the choice to its unit.
    assert seen[result.cycles] == seen.get(halt_at + 5, 0)
    assert not result.error and not result.ended and len(result.got[Unit.LOAD]) < 100
    assert not [cycle for cycle in result.stalls if cycle > halt_at + 1]


def test_says_when_it_has_no_word_to_deal() -> None:
    """Not when it waits for a queue, nor when END was met or it never began."""
    commands = [(Unit.LOAD, [])] * (QUEUE_WORDS + 20)
    waits = fetch_rtl(stream(commands), takes={Unit.LOAD: 640})
    # It waits from the start to the first beat, between beats because the latency is long, and then for the queue.
    assert set(range(3, 23)) < set(waits.stalls) and max(waits.stalls) < 600 and waits.ended
    quick = fetch_rtl(stream(commands[:100]), bus_bytes=16, latency=2)
    assert quick.stalls == list(range(3, quick.stalls[-1] + 1)) and quick.stalls[-1] < 12
    short = fetch_rtl(stream(commands[:4]), latency=10)
    bad = fetch_rtl([5], latency=10)
    for result in short, bad:
        assert result.stalls == list(range(3, 18)), "from the start to the first word, not after the last one"
    none = fetch_rtl([END], size_bytes=0)
    assert not none.stalls


@pytest.mark.parametrize("short", HURRIED)
@pytest.mark.parametrize("words", [FEW_WORDS - 1, FEW_WORDS])
def test_is_urgent_while_a_queue_runs_short(short: Unit, words: int) -> None:
    """Of the units but store: that gets nothing here."""
    commands = [(unit, []) for unit in HURRIED for _ in range(AHEAD_WORDS + (words if unit is short else FEW_WORDS))]
    result = fetch_rtl(stream(commands), takes=dict.fromkeys(HURRIED, 260))
    assert result.got == dealt(commands)
    calm = sorted(set(range(1, result.cycles + 1)) - set(result.urgent))
    if words < FEW_WORDS:
        assert not calm
    else:
        assert calm == list(range(calm[0], calm[-1] + 1)) and 240 < calm[-1] < 270
