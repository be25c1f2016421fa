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
class Turn:
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


def tokens_rtl(turns: Sequence[Turn]) -> Seen:
    dut, reset, simulator = tokens()
    seen: Seen = []

    async def bench(ctx: Any) -> None:
        ports = {unit: getattr(dut, unit.name.lower()) for unit in WORKERS}
        for turn in turns:
            ctx.set(reset, turn.reset)
            for index, unit in enumerate(WORKERS):
                for other in WORKERS:
                    ctx.set(ports[unit].wait[WORKERS.index(other)], turn.wait.get((other, unit), 0))
                    ctx.set(ports[other].post[index], turn.post.get((other, unit), 0))
                ctx.set(ports[unit].take, unit in turn.take)
                ctx.set(ports[unit].give, unit in turn.give)
            await ctx.tick()
            errors = {unit: ctx.get(getattr(dut, f"error_{unit.name.lower()}")) for unit in WORKERS}
            assert set(errors.values()) <= {Status.OK, Status.TOKEN_OVERFLOW}
            seen.append(({unit for unit, port in ports.items() if ctx.get(port.enough)},
                         {unit for unit, error in errors.items() if error}))

    simulator.run(bench)
    return seen


def tokens_ref(turns: Sequence[Turn]) -> Seen:
    counts = dict.fromkeys(PAIRS, 0)
    seen: Seen = []
    for turn in turns:
        enough = {unit for unit in WORKERS
                  if all(counts[pair] >= turn.wait.get(pair, 0) for pair in PAIRS if pair[1] is unit)}
        over = set()
        for pair in PAIRS:
            giver, taker = pair
            counts[pair] += turn.post.get(pair, 0) * (giver in turn.give) - turn.wait.get(pair, 0) * (
                taker in turn.take)
            assert counts[pair] >= 0, "the test takes what is not there"
            if counts[pair] > MOST:
                over.add(giver)
                counts[pair] -= MOST + 1
        if turn.reset:
            counts, enough, over = dict.fromkeys(PAIRS, 0), set(), set()
        seen.append((enough, over))
    return seen


def random_turns(rng: random.Random, count: int, most_posts: int, chance: float = 0.3) -> list[Turn]:
    """Return legal turns: who takes saw in the cycle before that there is enough; full counters get some too."""
    turns: list[Turn] = []
    counts = dict.fromkeys(PAIRS, 0)
    wait = dict.fromkeys(PAIRS, 0)
    enough: set[Unit] = set()
    for _ in range(count):
        post = {pair: rng.choice([0, 1, rng.randint(0, most_posts), MOST - counts[pair]]) for pair in PAIRS}
        give = frozenset(giver for giver in WORKERS if rng.random() < chance and all(
            counts[pair] + post[pair] <= MOST for pair in PAIRS if pair[0] is giver))
        take = frozenset(unit for unit in enough if rng.random() < 0.5)
        turns.append(Turn(dict(wait), take, post, give))
        enough = {unit for unit in WORKERS if unit not in take and all(
            counts[pair] >= wait[pair] for pair in PAIRS if pair[1] is unit)}
        for pair in PAIRS:
            counts[pair] += post[pair] * (pair[0] in give) - wait[pair] * (pair[1] in take)
        for unit in take:
            wait |= {pair: rng.choice([0, rng.randint(0, most_posts), counts[pair], min(MOST, counts[pair] + 1)])
                     for pair in PAIRS if pair[1] is unit}
    return turns


@pytest.mark.parametrize("most_posts", [1, 3, 100])
def test_random_traffic(most_posts: int) -> None:
    turns = random_turns(random.Random(most_posts), 300, most_posts)
    assert any(turn.take & turn.give for turn in turns) and sum(len(turn.take) for turn in turns) > 100
    seen = tokens_rtl(turns)
    assert seen == tokens_ref(turns)
    assert not any(over for _, over in seen)


def turn(pair: Pair, *, give: int = 0, take: int = 0, wait: int = 0, reset: bool = False) -> Turn:
    """Return a turn of one pair."""
    return Turn({pair: take or wait}, frozenset(pair[1:]) if take else frozenset(), {pair: give},
                frozenset(pair[:1]) if give else frozenset(), reset)


def test_a_counter_holds_255() -> None:
    """To the limit, over it by one, by most; from the limit with as much taken as given, with one less taken."""
    turns, errors = [], []
    for pair in PAIRS:
        full = turn(pair, give=MOST)
        for then, error in ((turn(pair, wait=MOST), False), (turn(pair, give=1), True), (full, True),
                            (turn(pair, give=1, take=1), False), (turn(pair, give=MOST, take=MOST), False),
                            (turn(pair, give=2, take=1), True), (turn(pair, give=MOST, take=MOST - 1), True)):
            wanted = turn(pair, wait=then.wait[pair])
            turns += [full, wanted, then, wanted, turn(pair, reset=True)]
            errors += [set(), set(), {pair[0]} if error else set(), set(), set()]
    seen = tokens_rtl(turns)
    assert seen == tokens_ref(turns)
    assert [over for _, over in seen] == errors


def test_a_reset_takes_all_tokens_and_the_error() -> None:
    turns = [turn(pair, give=MOST) for pair in PAIRS]
    turns += [turn(PAIRS[0], give=1, reset=True)]
    turns += [turn(pair, wait=wait) for pair in PAIRS for wait in (0, 1)]
    seen = tokens_rtl(turns)
    assert seen == tokens_ref(turns)
    assert all(pair[1] not in enough for pair, (enough, _) in zip(PAIRS, seen[-2 * len(PAIRS) + 1::2], strict=True))
