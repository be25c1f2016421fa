"""The engine with which results of rewrites are compared."""

from collections.abc import Callable

import pytest

from tq_hw.sim.oracles import Oracle


@pytest.fixture
def litert(oracles: Callable[[str], Oracle]) -> Oracle:
    """LiteRT's reference kernels."""
    return oracles("litert-ref")
