"""The read channel: every client's own beats, its share of the bursts, a halt, and answers that are wrong."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from axi_rules import AxiRules
from channel_bench import CLIENTS, CONFIGS, TINY, Burst, channel_of, content, random_bursts
from stalls import STALLS, Stalls

from tq_hw.hdl.bus.read_channel import ReadChannel
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import Config


@dataclass
class Reads:
    """What each client got (data, error, and its burst), the order in which bursts were taken, beats counted."""

    got: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))
    order: list[int] = field(default_factory=list)
    beats: int = 0


def read_rtl(config: Config, bursts: Sequence[Sequence[Burst]], *, idle: float = 0.0, pressure: float = 0.0,
             urgent: int = 0, fetch_from: int = 0, answers_from: int = 0, halt_at: int | None = None,
             limit: int = 6000) -> Reads:
    """Read the bursts of fetch, which asks from cycle `fetch_from` on, and load; memory is silent to `answers_from`."""
    dut, simulator = channel_of(ReadChannel, config)
    rules, result = AxiRules(config.bus_bytes, "read"), Reads()
    wanted = [deque(b) for b in bursts]
    rng = random.Random(5)

    async def bench(ctx: Any) -> None:
        asking, taking, giving = Stalls(1, idle), Stalls(2, pressure), Stalls(3, idle)
        coming: list[deque[tuple[int, int]]] = [deque(), deque()]
        offers = [False, False]
        taken = ended = quiet = 0
        numbers, was_valid = [0, 0], [False, False]
        ctx.set(dut.urgent, urgent)
        for cycle in range(limit):
            halted = halt_at is not None and cycle >= halt_at
            ctx.set(dut.halt, halted)
            for n, client in enumerate((dut.fetch, dut.load)):
                begins = bool(n) or cycle >= fetch_from
                offers[n] = begins and bool(wanted[n]) and (offers[n] or asking.go())
                ctx.set(client.burst.valid, offers[n])
                if offers[n]:
                    ctx.set(client.burst.payload.addr, wanted[n][0][0])
                    ctx.set(client.burst.payload.length, wanted[n][0][1])
                    ctx.set(client.burst.payload.number, numbers[n] % (1 << NUMBER_BITS))
            ctx.set(dut.bus.arready, taking.go())
            ids = [n for n in range(2) if coming[n]]
            answers = bool(ids) and cycle >= answers_from and giving.go()
            # What stands on the bus while nothing is valid means nothing.
            number, (addr, last) = (rng.choice(ids), (0, 0)) if ids else (rng.randrange(2), (0, 1))
            if answers:
                addr, last = coming[number].popleft()
            values, response = content(number, addr, config.bus_bytes) if answers else (rng.getrandbits(32), 3)
            for name, value in (("valid", answers), ("id", number), ("data", values), ("resp", response),
                                ("last", last)):
                ctx.set(getattr(dut.bus, "r" + name), value)
            sampled = [getattr(dut.bus, name) for name in rules.signals]
            clients = [s for c in (dut.fetch, dut.load)
                       for s in (c.burst.ready, c.valid, c.data, c.error, c.error_at)]
            _, _, is_idle, beat, *seen = await ctx.tick().sample(dut.idle, dut.beat, *clients, *sampled)
            bus = dict(zip(rules.signals, seen[10:], strict=True))
            rules.cycle(bus)
            result.beats += beat
            if bus["arvalid"] and bus["arready"]:
                coming[bus["arid"]] += [(bus["araddr"] + n * config.bus_bytes, int(n == bus["arlen"]))
                                        for n in range(bus["arlen"] + 1)]
            ended += bool(bus["rvalid"] and bus["rlast"])
            for n in range(2):
                ready, valid, data, error, error_at = seen[5 * n:5 * n + 5]
                if offers[n] and ready:
                    assert not halted or cycle == halt_at, "a burst was taken after the halt"
                    wanted[n].popleft()
                    numbers[n] += 1
                    offers[n] = False
                    result.order.append(n)
                    taken += 1
                # An error is told one cycle after its beat.
                if was_valid[n]:
                    result.got[n][-1] += (error_at,) if error else (None,)
                else:
                    assert not error
                if valid:
                    result.got[n].append((data,))
                was_valid[n] = bool(valid)
            assert not is_idle or taken == ended, "idle with bursts under way"
            quiet = quiet + 1 if taken == ended and rules.idle and (halted or not any(wanted)) else 0
            if quiet == 3:
                assert is_idle
                return
        raise AssertionError(f"stuck: {taken} bursts taken, {ended} ended")

    simulator.run(bench)
    return result


def read_ref(config: Config, number: int, bursts: Sequence[Burst]) -> list[tuple[int, int | None]]:
    """Return the data of a client's beats, and low bits of the burst's number where there is an error."""
    beats = [(burst, *content(number, addr + n * config.bus_bytes, config.bus_bytes))
             for burst, (addr, length) in enumerate(bursts) for n in range(length + 1)]
    return [(data, burst % (1 << NUMBER_BITS) if response >> 1 else None) for burst, data, response in beats]


@pytest.mark.parametrize(("idle", "pressure"), STALLS)
@pytest.mark.parametrize("bus_bytes", CONFIGS)
def test_every_client_reads_its_own_beats(bus_bytes: int, idle: float, pressure: float) -> None:
    rng, config = random.Random(bus_bytes), CONFIGS[bus_bytes]
    bursts = [random_bursts(rng, bus_bytes, count) for count in (5, 7)]
    result = read_rtl(config, bursts, idle=idle, pressure=pressure, urgent=1)
    expected = tuple(read_ref(config, n, b) for n, b in enumerate(bursts))
    assert result.got == expected
    assert result.beats == sum(map(len, expected))


@pytest.mark.parametrize(("urgent", "share"), [(0, 15), (1, 1)])
def test_load_gets_its_share_of_the_bursts(urgent: int, share: int) -> None:
    turns = [n for _ in range(6) for n in [1] * share + [0]]
    loads = 6 * share + 9
    assert read_rtl(TINY, [[(0, 0)] * 6, [(0, 0)] * loads], urgent=urgent).order == turns + [1] * 9


@pytest.mark.parametrize(("urgent", "share"), [(0, 15), (1, 1)])
def test_what_load_got_while_it_was_alone_does_not_count(urgent: int, share: int) -> None:
    for fetch_from in range(6, 12):
        order = read_rtl(TINY, [[(0, 0)], [(0, 0)] * 40], urgent=urgent, fetch_from=fetch_from).order
        # Load's first burst is taken in cycle 1.
        assert order.index(0) == fetch_from - 1 + share


def test_who_asks_alone_gets_every_burst() -> None:
    for number in range(2):
        bursts: list[list[Burst]] = [[], []]
        bursts[number] = [(0, 0)] * 50
        assert read_rtl(TINY, bursts, urgent=1 - number, limit=50 + 10).order == [number] * 50


@pytest.mark.parametrize(("number", "most"), [(0, 8), (1, 64)])
@pytest.mark.parametrize("idle", [0.0, 0.5])
def test_reads_wait_while_all_are_open(number: int, most: int, idle: float) -> None:
    """No more than 8 of fetch and 64 of load are open, and all of them are followed."""
    bursts: list[list[Burst]] = [[], []]
    bursts[number] = [(256 * n, n % 3) for n in range(2 * most)]
    result = read_rtl(TINY, bursts, idle=idle, answers_from=200)
    assert result.got == tuple(read_ref(TINY, n, b) for n, b in enumerate(bursts))
    with pytest.raises(AssertionError, match=f"stuck: ({most - 1}|{most}) bursts taken, 0 ended"):
        read_rtl(TINY, bursts, idle=idle, answers_from=200, limit=200)


@pytest.mark.parametrize("halt_at", [0, 1, 9, 40])
@pytest.mark.parametrize("pressure", [0.0, 0.6])
def test_a_halt_lets_reads_end(halt_at: int, pressure: float) -> None:
    bursts = [random_bursts(random.Random(n), TINY.bus_bytes, 12) for n in range(2)]
    result = read_rtl(TINY, bursts, pressure=pressure, idle=pressure, halt_at=halt_at)
    for n in range(2):
        taken = bursts[n][:result.order.count(n)]
        assert result.got[n] == read_ref(TINY, n, taken)
    assert (halt_at < 9) == (len(result.order) < 2)


#: Where RLAST of a burst of four beats stands, by kind: the beats that come, each with its RLAST.
WRONG_LASTS = {
    "cut": [0, 1], "cut_at_once": [1], "early": [0, 1, 0, 1], "late": [0, 0, 0, 0, 1], "never": [0, 0, 0, 0],
    "twice": [0, 0, 0, 1, 1]}


@pytest.mark.parametrize("number", range(2), ids=CLIENTS)
@pytest.mark.parametrize("kind", WRONG_LASTS)
def test_a_burst_that_ends_in_the_wrong_place_is_an_error(kind: str, number: int) -> None:
    """The second of three; the channel is idle, and works again, when the memory has been quiet long enough."""
    dut, simulator = channel_of(ReadChannel, TINY)
    wrong = WRONG_LASTS[kind]

    async def bench(ctx: Any) -> None:
        client, other = (dut.fetch, dut.load)[::1 - 2 * number]
        ctx.set(dut.bus.arready, 1)
        for attempt in range(2):
            ctx.set(dut.halt, 0)
            for burst in range(3):
                ctx.set(client.burst.valid, 1)
                ctx.set(client.burst.payload.length, 3)
                ctx.set(client.burst.payload.number, burst + 4 * attempt)
                await ctx.tick().until(client.burst.ready)
            ctx.set(client.burst.valid, 0)
            ctx.set(dut.halt, 1)
            errors: list[int] = []
            for last in [0, 0, 0, 1, *wrong, None, None, None]:
                ctx.set(dut.bus.rvalid, last is not None)
                ctx.set(dut.bus.rid, number)
                ctx.set(dut.bus.rlast, last or 0)
                _, _, error, at, others, is_idle = await ctx.tick().sample(
                    client.error, client.error_at, other.error | other.valid, dut.idle)
                errors += [at] if error else []
                assert not others and not is_idle
            # Four beats that end as they should are the burst; what comes after them is the next one's.
            assert errors[0] == 4 * attempt + (2 if wrong[:4] == [0, 0, 0, 1] else 1)
            await ctx.tick().repeat(40)
            assert not ctx.get(dut.idle)
            ctx.set(dut.quiet, 1)
            await ctx.tick().repeat(3)
            assert ctx.get(dut.idle) and ctx.get(dut.open) == 0
            ctx.set(dut.quiet, 0)
            await ctx.tick()

    simulator.run(bench)


@pytest.mark.parametrize("number", range(2), ids=CLIENTS)
def test_a_beat_that_nobody_asked_for_is_an_error(number: int) -> None:
    dut, simulator = channel_of(ReadChannel, TINY)

    async def bench(ctx: Any) -> None:
        await ctx.tick().repeat(2)
        ctx.set(dut.bus.rvalid, 1)
        ctx.set(dut.bus.rlast, 1)
        ctx.set(dut.bus.rid, number)
        await ctx.tick()
        ctx.set(dut.bus.rvalid, 0)
        await ctx.tick()
        assert [ctx.get(client.error) for client in (dut.fetch, dut.load)] == [number == 0, number == 1]
        await ctx.tick()
        assert not ctx.get(dut.idle)
        ctx.set(dut.quiet, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.idle)

    simulator.run(bench)
