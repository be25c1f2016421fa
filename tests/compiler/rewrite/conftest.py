"""LiteRT's reference kernels, which what a rewrite makes is held against."""

from collections.abc import Iterator

import pytest

from tq_hw.sim.oracles import Oracle


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    with Oracle("litert-ref") as oracle:
        yield oracle
