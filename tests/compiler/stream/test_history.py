"""The search for dependences gives the same as a comparison with every earlier operation."""

import numpy as np

from tq_hw.compiler.stream.history import Access, History

Rng = np.random.Generator
Pair = tuple[tuple[Access, ...], tuple[Access, ...]]


def _conflict(a: Access, b: Access) -> bool:
    if a.space != b.space or max(a.low, b.low) >= min(a.high, b.high):
        return False
    if a.buffer < 0 or a.buffer != b.buffer:
        return True
    return all(max(one[0], other[0]) < min(one[1], other[1]) for one, other in ((a.rows, b.rows), (a.blocks, b.blocks)))


def _must_wait(later: Pair, earlier: Pair) -> bool:
    return (any(_conflict(a, b) for a in later[0] + later[1] for b in earlier[1])
            or any(_conflict(a, b) for a in later[1] for b in earlier[0]))


def _span(rng: Rng, limit: int) -> tuple[int, int]:
    low = int(rng.integers(0, limit))
    return low, low + int(rng.integers(1, 3))


def _access(rng: Rng) -> Access:
    low = 8 * int(rng.integers(0, 12))
    return Access(str(rng.choice(("pad", "pad", "region1"))), low, low + int(rng.choice((0, 8, 8, 20))),
                  int(rng.integers(-1, 4)), _span(rng, 4), _span(rng, 4))


def _pair(rng: Rng) -> Pair:
    return (tuple(_access(rng) for _ in range(int(rng.integers(0, 3)))),
            tuple(_access(rng) for _ in range(int(rng.integers(0, 2)))))


def test_latest_equals_brute_force() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        history, earlier = History(), []
        for index in range(80):
            later, after = _pair(rng), int(rng.integers(-1, max(index, 1)))
            expected = max((at for at in range(after + 1, index) if _must_wait(later, earlier[at])), default=after)
            assert history.latest(*later, after) == expected
            earlier.append(_pair(rng))
            history.add(index, *earlier[index])
