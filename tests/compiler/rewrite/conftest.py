"""Engines that what a rewrite makes is held against."""

from collections.abc import Callable, Iterator

import pytest

from tq_hw.sim.oracles import ENGINES, Oracle, available


@pytest.fixture(scope="module")
def oracle() -> Iterator[Callable[[str], Oracle]]:
    started: dict[str, Oracle] = {}

    def get(engine: str) -> Oracle:
        if not available(engine):
            pytest.skip(f'{ENGINES[engine][0]} is not installed: pip install "tq-hw[oracles]"')
        if engine not in started:
            started[engine] = Oracle(engine)
        return started[engine]

    yield get
    for each in started.values():
        each.close()


@pytest.fixture(scope="module")
def litert(oracle: Callable[[str], Oracle]) -> Oracle:
    """LiteRT's reference kernels."""
    return oracle("litert-ref")
