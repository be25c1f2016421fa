"""The token counters against plain numbers."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from amaranth import ResetInserter, Signal
from bench import Bench

from tq_hw.hdl.control.tokens import WORKERS, Tokens
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit

#: Giver and taker.
Pair = tuple[Unit, Unit]
PAIRS = [(giver, taker) for giver in WORKERS for taker in WORKERS if giver is not taker]
MOST = 255


@dataclass(frozen=True)
class Cycle:
    """One cycle: what each unit waits for and takes, what it posts and gives; `reset` undoes all."""

    wait: Mapping[Pair, int]
    take: frozenset[Unit]
    post: Mapping[Pair, int]
    give: frozenset[Unit]
    reset: bool = False


#: Of each cycle: whom the counters hold enough for, and who is told of an overflow.
Seen = list[tuple[set[Unit], set[Unit]]]


@cache
def tokens() -> tuple[Any, Signal, Bench]:
    dut, reset = Tokens(), Signal()
    return dut, reset, Bench(ResetInserter(reset)(dut))


def tokens_rtl(cycles: Sequence[Cycle]) -> Seen:
    dut, reset, simulator = tokens()
    seen: Seen = []

    async def bench(ctx: Any) -> None:
        ports = {unit: getattr(dut, unit.name.lower()) for unit in WORKERS}
        for cycle in cycles:
            ctx.set(reset, cycle.reset)
            for index, unit in enumerate(WORKERS):
                for other in WORKERS:
                    ctx.set(ports[unit].wait[WORKERS.index(other)], cycle.wait.get((other, unit), 0))
                    ctx.set(ports[other].post[index], cycle.post.get((other, unit), 0))
                ctx.set(ports[unit].take, unit in cycle.take)
                ctx.set(ports[unit].give, unit in cycle.give)
            await ctx.tick()
            errors = {unit: ctx.get(getattr(dut, f"error_{unit.name.lower()}")) for unit in WORKERS}
            assert set(errors.values()) <= {Status.OK, Status.TOKEN_OVERFLOW}
            seen.append(({unit for unit, port in ports.items() if ctx.get(port.enough)},
                         {unit for unit, error in errors.items() if error}))

    simulator.run(bench)
    return seen


def tokens_ref(cycles: Sequence[Cycle]) -> Seen:
    counts = dict.fromkeys(PAIRS, 0)
    seen: Seen = []
    for cycle in cycles:
        enough = {unit for unit in WORKERS
                  if all(counts[pair] >= cycle.wait.get(pair, 0) for pair in PAIRS if pair[1] is unit)}
        over = set()
        for pair in PAIRS:
            giver, taker = pair
            counts[pair] += cycle.post.get(pair, 0) * (giver in cycle.give) - cycle.wait.get(pair, 0) * (
                taker in cycle.take)
            assert counts[pair] >= 0, "the test takes what is not there"
            if counts[pair] > MOST:
                over.add(giver)
                counts[pair] -= MOST + 1
        if cycle.reset:
            counts, enough, over = dict.fromkeys(PAIRS, 0), set(), set()
        seen.append((enough, over))
    return seen


def random_cycles(rng: random.Random, count: int, most_posts: int, chance: float = 0.3) -> list[Cycle]:
    """Return legal cycles: who takes saw in the cycle before that there is enough; full counters get some too."""
    cycles: list[Cycle] = []
    counts = dict.fromkeys(PAIRS, 0)
    wait = dict.fromkeys(PAIRS, 0)
    enough: set[Unit] = set()
    for _ in range(count):
        post = {pair: rng.choice([0, 1, rng.randint(0, most_posts), MOST - counts[pair]]) for pair in PAIRS}
        give = frozenset(giver for giver in WORKERS if rng.random() < chance and all(
            counts[pair] + post[pair] <= MOST for pair in PAIRS if pair[0] is giver))
        take = frozenset(unit for unit in enough if rng.random() < 0.5)
        cycles.append(Cycle(dict(wait), take, post, give))
        enough = {unit for unit in WORKERS if unit not in take and all(
            counts[pair] >= wait[pair] for pair in PAIRS if pair[1] is unit)}
        for pair in PAIRS:
            counts[pair] += post[pair] * (pair[0] in give) - wait[pair] * (pair[1] in take)
        for unit in take:
            wait |= {pair: rng.choice([0, rng.randint(0, most_posts), counts[pair], min(MOST, counts[pair] + 1)])
                     for pair in PAIRS if pair[1] is unit}
    return cycles


@pytest.mark.parametrize("most_posts", [1, 3, 100])
def test_random_traffic(most_posts: int) -> None:
    cycles = random_cycles(random.Random(most_posts), 300, most_posts)
    assert any(cycle.take & cycle.give for cycle in cycles) and sum(len(cycle.take) for cycle in cycles) > 100
    seen = tokens_rtl(cycles)
    assert seen == tokens_ref(cycles)
    assert not any(over for _, over in seen)


def cycle(pair: Pair, *, give: int = 0, take: int = 0, wait: int = 0, reset: bool = False) -> Cycle:
    """Return a cycle of one pair."""
    return Cycle({pair: take or wait}, frozenset(pair[1:]) if take else frozenset(), {pair: give},
                frozenset(pair[:1]) if give else frozenset(), reset)


def test_a_counter_holds_255() -> None:
    """To the limit, over it by one, by most; from the limit with as much taken as given, with one less taken."""
    cycles, errors = [], []
    for pair in PAIRS:
        full = cycle(pair, give=MOST)
        for then, error in ((cycle(pair, wait=MOST), False), (cycle(pair, give=1), True), (full, True),
                            (cycle(pair, give=1, take=1), False), (cycle(pair, give=MOST, take=MOST), False),
                            (cycle(pair, give=2, take=1), True), (cycle(pair, give=MOST, take=MOST - 1), True)):
            wanted = cycle(pair, wait=then.wait[pair])
            cycles += [full, wanted, then, wanted, cycle(pair, reset=True)]
            errors += [set(), set(), {pair[0]} if error else set(), set(), set()]
    seen = tokens_rtl(cycles)
    assert seen == tokens_ref(cycles)
    assert [over for _, over in seen] == errors


def test_a_reset_takes_all_tokens_and_the_error() -> None:
    cycles = [cycle(pair, give=MOST) for pair in PAIRS]
    cycles += [cycle(PAIRS[0], give=1, reset=True)]
    cycles += [cycle(pair, wait=wait) for pair in PAIRS for wait in (0, 1)]
    seen = tokens_rtl(cycles)
    assert seen == tokens_ref(cycles)
    assert all(pair[1] not in enough for pair, (enough, _) in zip(PAIRS, seen[-2 * len(PAIRS) + 1::2], strict=True))
