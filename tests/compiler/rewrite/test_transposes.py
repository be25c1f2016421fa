"""Two TRANSPOSE with a RESHAPE in between: merged where that is faster, with the same bytes."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

#: A list is a TRANSPOSE, a tuple a RESHAPE.
Step = Sequence[int]
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
PIXEL_SHUFFLE: list[Step] = [FIRST, (1, 3, 2, 2, 6, 5), [0, 1, 4, 2, 5, 3], (1, 3, 12, 10), LAST]


def chain(shape: tuple[int, ...], steps: Sequence[Step], *, also: int | None = None) -> Model:
    """A model of moves; with `also` the tensor after that number of moves is an output, too."""
    builder = ModelBuilder("chain")
    x = builder.input(shape, scale=0.5, zero_point=3)
    made = [x]
    for step in steps:
        op = "RESHAPE" if isinstance(step, tuple) else "TRANSPOSE"
        x = builder.add(op, [x, builder.constant(list(step))])
        made.append(x)
    return parse_model(builder.build(*([] if also is None else [made[also]]), x), "chain")


def rewritten(model: Model) -> list[str]:
    """Names of the remaining operators; the outputs are compared with the golden model's."""
    shape = model.main.tensors[model.main.inputs[0]].shape
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    expected = golden.run(model, [data]).outputs
    for name in ("n16", "tiny"):
        found = execute(compile_model(model, PRESETS[name]).program, [data]).outputs
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
    return [op.op for op in rewrite(model.main, LIBRARY).operators if op.op != "RESHAPE"]


def test_pixel_shuffle_of_channels_first() -> None:
    assert rewritten(chain((1, 6, 5, 12), PIXEL_SHUFFLE[:4])) == ["TRANSPOSE"]
    assert rewritten(chain((1, 6, 5, 12), PIXEL_SHUFFLE)) == ["TRANSPOSE"]


def test_several_reshapes() -> None:
    assert rewritten(chain((1, 6, 5, 12), [FIRST, (12, 30), (1, 3, 2, 2, 6, 5), *PIXEL_SHUFFLE[2:]])) == ["TRANSPOSE"]


def test_patches_of_a_transformer() -> None:
    """Channels first, flat, channels last: nothing moves."""
    assert rewritten(chain((1, 6, 5, 12), [FIRST, (1, 12, 30), [0, 2, 1]])) == []


def test_what_others_need_stays() -> None:
    assert rewritten(chain((1, 6, 5, 12), [FIRST, (1, 12, 30), [0, 2, 1]], also=1)) == ["TRANSPOSE"]
    assert rewritten(chain((1, 6, 5, 12), PIXEL_SHUFFLE, also=1)) == ["TRANSPOSE", "TRANSPOSE"]


@pytest.mark.parametrize(("shape", "steps"), [
    ((1, 6, 5, 12), [FIRST, (1, 8, 45), [0, 2, 1]]),  # no axes of which both shapes are products
    ((1, 8, 8, 64), [FIRST, (1, 2, 32, 64), [0, 2, 1, 3]])])  # two fast ones are better than a slow one
def test_what_stays(shape: tuple[int, ...], steps: Sequence[Step]) -> None:
    assert rewritten(chain(shape, steps)) == ["TRANSPOSE", "TRANSPOSE"]


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [int(each) for each in rng.choice([1, 2, 3, 4, 5], rng.integers(3, 7))]
    # Each axis is given by factors; RESHAPE groups these differently, or uses others that need not fit.
    axes = [[each] for each in factors]
    steps = list[Step]()
    for _ in range(3):
        order = [int(axis) for axis in rng.permutation(len(axes))]
        flat = [each for axis in order for each in axes[axis]]
        if rng.random() < 0.2:
            flat = [int(each) for each in rng.permutation(flat)]
        ends = [0, *sorted(rng.choice(range(1, len(flat)), min(len(flat) - 1, 3), replace=False)), len(flat)]
        axes = [flat[begin:end] for begin, end in itertools.pairwise(ends)]
        steps += [order, tuple(math.prod(axis) for axis in axes)]
    left = rewritten(chain(tuple(factors), steps))
    assert left.count("TRANSPOSE") == len(left) <= 3
