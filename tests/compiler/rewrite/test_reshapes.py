"""compiler.rewrite.reshapes: elementwise operators before a RESHAPE compute the same."""

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler.rewrite.reshapes import before_reshape
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder


def _heads(op: str, constant: tuple[int, ...], *, twice: bool = False, swapped: bool = False) -> Model:
    """A dense layer of 12 channels, as 3 heads of 4, then an operator with a constant of some shape, and a table."""
    b, rng = ModelBuilder("heads"), np.random.default_rng(3)
    x = b.input((10, 7), scale=0.05)
    weights = b.constant(rng.integers(-127, 128, (12, 7), np.int8), scale=0.01)
    made = b.add("FULLY_CONNECTED", [x, weights], scale=0.04, zero_point=3)
    split = b.add("RESHAPE", [made, b.constant(np.array([2, 5, 3, 4], np.int32))])
    other = b.constant(rng.integers(-128, 128, constant, np.int8), scale=0.03, zero_point=-7)
    result = b.add(op, [other, split] if swapped else [split, other], scale=0.06, zero_point=1)
    outputs = [b.add("LOGISTIC", [result], scale=1 / 256, zero_point=-128)]
    return b.model(*outputs, *([split] if twice else []))


def _operators(model: Model) -> list[str]:
    return [op.op for op in rewrite(model.main, (before_reshape,)).operators]


def _runs(model: Model) -> None:
    for config in ("n16", "n9x8", "tiny"):
        compared(model, config)


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "MAXIMUM"])
@pytest.mark.parametrize("constant", [(3, 4), (1, 1, 3, 4), (3, 1), (1,)])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_constant_of_each_channel(op: str, constant: tuple[int, ...], swapped: bool) -> None:
    model = _heads(op, constant, swapped=swapped)
    assert _operators(model) == ["FULLY_CONNECTED", op, "LOGISTIC", "RESHAPE"]
    _runs(model)


@pytest.mark.parametrize("constant", [(5, 1, 1), (2, 1, 3, 4)])
def test_constants_that_differ_from_pixel_to_pixel_stay(constant: tuple[int, ...]) -> None:
    model = _heads("ADD", constant)
    assert _operators(model) == ["FULLY_CONNECTED", "RESHAPE", "ADD", "LOGISTIC"]
    _runs(model)


def test_a_reshape_that_others_read_stays() -> None:
    model = _heads("ADD", (3, 4), twice=True)
    assert _operators(model) == ["FULLY_CONNECTED", "RESHAPE", "ADD", "LOGISTIC"]
    _runs(model)
