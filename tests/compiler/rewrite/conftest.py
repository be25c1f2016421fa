"""The engine that what a rewrite makes is held against."""

from collections.abc import Callable

import pytest

from tq_hw.sim.oracles import Oracle


@pytest.fixture
def litert(oracles: Callable[[str], Oracle]) -> Oracle:
    """LiteRT's reference kernels."""
    return oracles("litert-ref")
