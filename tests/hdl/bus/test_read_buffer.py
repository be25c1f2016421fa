# amaranth: UnusedElaboratable=no
"""ReadBuffer: beats in order, never more of them asked for than there is room, and no fewer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from bench import Bench
from stalls import STALLS, Stalls

from tq_hw.hdl.bus.read_buffer import ReadBuffer
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import BURST_BYTES

TINY = PRESETS["tiny"]
CONFIGS = {bus_bytes: Config(f"bus{bus_bytes}", 4, 4, 2, 8 << 10, bus_bytes=bus_bytes) for bus_bytes in (4, 8, 16)}
#: First beat and number of beats.
Burst = tuple[int, int]


@dataclass
class Read:
    """Beats that came out, the cycle of each; bursts asked for, and the most beats that were under way or held."""

    got: list[int] = field(default_factory=list)
    when: list[int] = field(default_factory=list)
    asked: list[Burst] = field(default_factory=list)
    most: int = 0


@cache
def buffer_of(bus_bytes: int, bursts: int, cut: bool) -> tuple[Any, Bench]:
    dut = ReadBuffer(CONFIGS[bus_bytes], bursts, cut=cut)
    return dut, Bench(dut)


def buffer_rtl(bus_bytes: int, room: int, bursts: Sequence[Burst], *, idle: float = 0.0, pressure: float = 0.0,
               latency: int = 3, answers_from: int = 0, takes_from: int = 0, until: int = 3000,
               cut: bool = True) -> Read:
    """Read bursts; memory is silent before `answers_from`, and nobody takes beats before `takes_from`.

    The beats that memory sends count up; while it sends none, other data stands there.
    """
    dut, simulator = buffer_of(bus_bytes, room, cut)
    wanted, result = list(bursts), Read()
    expected = sum(count for _, count in bursts)

    async def bench(ctx: Any) -> None:
        offering, asking, giving, taking = (Stalls(n, chance) for n, chance in enumerate(
            (idle, pressure, idle, pressure)))
        coming: list[tuple[int, int]] = []
        offers = False
        for cycle in range(until):
            offers = bool(wanted) and (offers or offering.go())
            ctx.set(dut.i.valid, offers)
            if offers:
                ctx.set(dut.i.payload.addr, wanted[0][0] * bus_bytes)
                ctx.set(dut.i.payload.length, wanted[0][1] - 1)
            asks, takes = asking.go(), cycle >= takes_from and taking.go()
            ctx.set(dut.memory.burst.ready, asks)
            ctx.set(dut.o.ready, takes)
            gives = bool(coming) and coming[0][0] <= cycle and cycle >= answers_from and giving.go()
            ctx.set(dut.memory.valid, gives)
            ctx.set(dut.memory.data, coming.pop(0)[1] if gives else 0xFFFF)
            _, _, ready, valid, burst, out, beat = await ctx.tick().sample(
                dut.i.ready, dut.memory.burst.valid, dut.memory.burst.payload, dut.o.valid, dut.o.payload)
            assert not valid or offers
            assert bool(offers and ready) == bool(valid and asks), "a burst was lost, or asked for twice"
            if valid and asks:
                assert (burst.addr, burst.length) == (wanted[0][0] * bus_bytes, wanted[0][1] - 1)
                first, count = wanted.pop(0)
                result.asked.append((first, count))
                coming += [(cycle + latency, first + n) for n in range(count)]
                offers = False
            if out and takes:
                result.got.append(beat)
                result.when.append(cycle)
            asked = sum(count for _, count in result.asked)
            result.most = max(result.most, asked - len(result.got))
            if len(result.got) == expected:
                return

    simulator.run(bench)
    return result


def random_bursts(rng: random.Random, bus_bytes: int, count: int) -> list[Burst]:
    longest = BURST_BYTES // bus_bytes
    return [(rng.randrange(1000), rng.choice([1, longest, rng.randint(1, longest)])) for _ in range(count)]


def beats(bursts: Sequence[Burst]) -> list[int]:
    return [first + n for first, count in bursts for n in range(count)]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(("idle", "pressure"), STALLS)
@pytest.mark.parametrize("bus_bytes", CONFIGS)
def test_gives_the_beats_in_order(bus_bytes: int, idle: float, pressure: float, cut: bool) -> None:
    bursts = random_bursts(random.Random(bus_bytes), bus_bytes, 2 + bus_bytes)
    result = buffer_rtl(bus_bytes, 4, bursts, idle=idle, pressure=pressure, cut=cut)
    assert result.asked == bursts and result.got == beats(bursts)


@pytest.mark.parametrize("room", [4, 5, 16])
@pytest.mark.parametrize("beats_each", [1, 5, 16])
def test_asks_for_what_it_has_room_for_and_no_more(room: int, beats_each: int) -> None:
    """Nobody takes beats for long; then all of them are there. With bursts of 16 beats."""
    longest = BURST_BYTES // 16
    bursts = [(100 * n, beats_each) for n in range(room * longest // beats_each + 4)]
    late = len(bursts) + 40
    silent = buffer_rtl(16, room, bursts, answers_from=late, until=late)
    assert not silent.got
    # Two bursts less than there is room for, of the longest kind, wait for answers at least.
    asked = sum(count for _, count in silent.asked)
    assert (room - 3) * longest < asked <= room * longest
    assert len(silent.asked) >= min(room - 2, len(bursts))
    full = buffer_rtl(16, room, bursts, takes_from=late + room * longest)
    assert full.got == beats(bursts)


@pytest.mark.parametrize(("cut", "latency"), [(True, 3), (False, 2)])
def test_takes_a_beat_every_cycle(cut: bool, latency: int) -> None:
    bursts = [(16 * n, 16) for n in range(12)]
    result = buffer_rtl(16, 8, bursts, latency=5, cut=cut)
    assert result.got == beats(bursts)
    assert result.when == list(range(result.when[0], result.when[0] + len(result.got)))
    # Asked in the cycle after the reset, on the bus 5 later; the rest is from there to the output.
    assert result.when[0] == 1 + 5 + latency


def test_short_bursts_come_as_fast_as_long_ones() -> None:
    bursts = [(2 * n, 2) for n in range(60)]
    result = buffer_rtl(16, 8, bursts, latency=5)
    assert result.got == beats(bursts) and result.when[-1] - result.when[0] == len(result.got) - 1


@pytest.mark.parametrize("bursts", [0, 3])
def test_room_for_three_bursts_is_too_little(bursts: int) -> None:
    with pytest.raises(ValueError, match=f"^a read buffer has room for 4 or more bursts, not {bursts}$"):
        ReadBuffer(TINY, bursts)
