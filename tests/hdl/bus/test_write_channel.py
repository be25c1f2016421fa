"""The write channel: every beat, in order, without gaps, and a halt."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from axi_rules import AxiRules
from channel_bench import CONFIGS, RESPONSES, TINY, channel_of, random_bursts
from stalls import STALLS, Stalls

from tq_hw.hdl.bus.write_channel import WriteChannel
from tq_hw.isa.config import Config


@dataclass
class Writes:
    """Beats (address, data, strobe) in the order of the bus; cycles of the answers; strobes of the channel."""

    beats: list[tuple[int, int, int]] = field(default_factory=list)
    taken: int = 0
    answered: int = 0
    errors: int = 0
    counted: int = 0
    cycles: int = 0


@dataclass(frozen=True)
class Write:
    """A burst with its beats (data, strobe); `last` as in BurstLayout; the response that it gets."""

    addr: int
    beats: tuple[tuple[int, int], ...]
    last: int = 1
    response: int = 0


def random_writes(rng: random.Random, config: Config, count: int) -> list[Write]:
    return [Write(addr, tuple((rng.getrandbits(8 * config.bus_bytes), rng.randrange(1, 1 << config.bus_bytes))
                              for _ in range(length + 1)), rng.randrange(2), rng.choice([0, 0, *RESPONSES]))
            for addr, length in random_bursts(rng, config.bus_bytes, count)]


def write_rtl(config: Config, writes: Sequence[Write], *, idle: float = 0.0, pressure: float = 0.0,
              ahead: bool = False, answers_from: int = 0, halt_at: int | None = None, limit: int = 6000) -> Writes:
    """Write bursts; `ahead`: the memory takes an address only when it has no data left to take."""
    dut, simulator = channel_of(WriteChannel, config)
    rules, result = AxiRules(config.bus_bytes, "write"), Writes()
    wanted, beats = deque(writes), deque([(*beat, int(n == len(w.beats) - 1))
                                          for w in writes for n, beat in enumerate(w.beats)])

    async def bench(ctx: Any) -> None:
        asking, taking, filling, answering = Stalls(1, idle), Stalls(2, pressure), Stalls(3, pressure), Stalls(4, idle)
        addresses: deque[int] = deque()
        datas: deque[tuple[int, int, int]] = deque()
        answers: deque[int] = deque()
        responses = deque((w.response, w.last) for w in writes)
        offers = False
        position = ended = quiet = 0
        expected: deque[tuple[int, int]] = deque([(0, 0)])
        for cycle in range(limit):
            halted = halt_at is not None and cycle >= halt_at
            ctx.set(dut.halt, halted)
            offers = bool(wanted) and (offers or asking.go())
            ctx.set(dut.bursts.valid, offers)
            if offers:
                ctx.set(dut.bursts.payload.addr, wanted[0].addr)
                ctx.set(dut.bursts.payload.length, len(wanted[0].beats) - 1)
                ctx.set(dut.bursts.payload.last, wanted[0].last)
            ctx.set(dut.beats.valid, bool(beats))
            if beats:
                for name, value in zip(("data", "strobe", "last"), beats[0], strict=True):
                    ctx.set(getattr(dut.beats.payload, name), value)
            ctx.set(dut.bus.awready, taking.go() and not (ahead and ctx.get(dut.bus.wvalid)))
            ctx.set(dut.bus.wready, filling.go())
            answers_now = bool(answers) and cycle >= answers_from and answering.go()
            ctx.set(dut.bus.bvalid, answers_now)
            ctx.set(dut.bus.bresp, answers.popleft() if answers_now else 3)
            _, _, ready, beats_ready, answered, error, is_idle, counts, *seen = await ctx.tick().sample(
                dut.bursts.ready, dut.beats.ready, dut.answered, dut.error, dut.idle, dut.beat,
                *(getattr(dut.bus, name) for name in rules.signals))
            bus = dict(zip(rules.signals, seen, strict=True))
            rules.cycle(bus)
            # The strobes come one cycle after the answer.
            assert (answered, error) == expected.popleft()
            response, last = responses.popleft() if answers_now else (0, 0)
            expected.append((last, response >> 1))
            result.answered += answered
            result.errors += error
            result.counted += counts
            ended += answers_now
            if offers and ready:
                assert not halted, "a burst was taken in a halt"
                wanted.popleft()
                offers = False
                result.taken += 1
            assert not is_idle or result.taken == ended, "idle with bursts under way"
            if beats and beats_ready:
                beats.popleft()
            if bus["awvalid"] and bus["awready"]:
                addresses += [bus["awaddr"] + n * config.bus_bytes for n in range(bus["awlen"] + 1)]
            if bus["wvalid"] and bus["wready"]:
                datas.append((bus["wdata"], bus["wstrb"], bus["wlast"]))
            while addresses and datas:
                data, strobe, last = datas.popleft()
                result.beats.append((addresses.popleft(), data, strobe))
                if last:
                    answers.append(writes[position].response)
                    position += 1
            quiet = quiet + 1 if rules.idle and (halted or not wanted) else 0
            if quiet == 3:
                assert is_idle
                result.cycles = cycle
                return
        raise AssertionError(f"stuck: {result.taken} bursts taken, {ended} ended")

    simulator.run(bench)
    return result


def write_ref(config: Config, writes: Sequence[Write]) -> list[tuple[int, int, int]]:
    """Return the beats by address."""
    return [(w.addr + n * config.bus_bytes, *beat) for w in writes for n, beat in enumerate(w.beats)]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("idle", "pressure"), STALLS)
@pytest.mark.parametrize("few_luts", [0, 1])
@pytest.mark.parametrize("bus_bytes", CONFIGS)
def test_writes_every_beat(bus_bytes: int, few_luts: int, idle: float, pressure: float, ahead: bool) -> None:
    config = replace(CONFIGS[bus_bytes], few_luts=few_luts)
    writes = random_writes(random.Random(bus_bytes), config, 8)
    result = write_rtl(config, writes, idle=idle, pressure=pressure, ahead=ahead)
    assert result.beats == write_ref(config, writes)
    assert result.answered == sum(w.last for w in writes)
    assert result.errors == sum(w.response >> 1 for w in writes)
    assert result.counted == len(result.beats)


def test_writes_follow_each_other_without_a_gap() -> None:
    for lengths in ([1] * 12, [3, 1, 1, 2, 1, 4]):
        writes = [Write(256 * n, ((5, 1),) * length) for n, length in enumerate(lengths)]
        assert write_rtl(TINY, writes).cycles <= sum(lengths) + 8


def test_sixteen_writes_are_open() -> None:
    writes = [Write(256 * n, ((n, 1),), last=n % 3 == 0, response=n % 4) for n in range(40)]
    assert write_rtl(TINY, writes, answers_from=40).beats == write_ref(TINY, writes)
    with pytest.raises(AssertionError, match="stuck: 16 bursts taken, 0 ended"):
        write_rtl(TINY, writes, answers_from=40, limit=40)


@pytest.mark.parametrize("halt_at", [0, 1, 9, 40])
@pytest.mark.parametrize("pressure", [0.0, 0.6])
def test_a_halt_lets_writes_end(halt_at: int, pressure: float) -> None:
    writes = random_writes(random.Random(2), TINY, 12)
    result = write_rtl(TINY, writes, pressure=pressure, idle=pressure, halt_at=halt_at)
    assert result.beats == write_ref(TINY, writes[:result.taken])
    assert (halt_at < 9) == (result.taken < 2)
