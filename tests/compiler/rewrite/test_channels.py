"""Channel shuffles and slices of channels become weights: the same integers, without moves."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.channels import picks
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

Build = Callable[[ModelBuilder, int], list[int]]
SIDE = 5


def numbers(b: ModelBuilder, *values: int) -> int:
    return b.constant(np.array(values, np.int32))


def shuffled(b: ModelBuilder, x: int, groups: int, *, first: bool = False) -> int:
    """A channel shuffle as in Keras, or as in PyTorch, with channels first."""
    n, h, w, c = b.tensors[x].shape
    if not first:
        y = b.add("RESHAPE", [x, numbers(b, n, h, w, groups, c // groups)], shape=(n, h, w, groups, c // groups))
        y = b.add("TRANSPOSE", [y, numbers(b, 0, 1, 2, 4, 3)], shape=(n, h, w, c // groups, groups))
        return b.add("RESHAPE", [y, numbers(b, n, h, w, c)], shape=(n, h, w, c))
    y = b.add("TRANSPOSE", [x, numbers(b, 0, 3, 1, 2)], shape=(n, c, h, w))
    y = b.add("RESHAPE", [y, numbers(b, n, groups, c // groups, h, w)], shape=(n, groups, c // groups, h, w))
    y = b.add("TRANSPOSE", [y, numbers(b, 0, 2, 1, 3, 4)], shape=(n, c // groups, groups, h, w))
    y = b.add("RESHAPE", [y, numbers(b, n, c, h, w)], shape=(n, c, h, w))
    return b.add("TRANSPOSE", [y, numbers(b, 0, 2, 3, 1)], shape=(n, h, w, c))


def conv(b: ModelBuilder, x: int, channels: int, kernel: int = 1) -> int:
    rng = np.random.default_rng(channels)
    weights = b.constant(rng.integers(-127, 128, (channels, kernel, kernel, b.tensors[x].shape[3])).astype(np.int8),
                         scale=rng.uniform(0.001, 0.01, channels).tolist())
    return b.add("CONV_2D", [x, weights, b.bias(x, weights, rng.integers(-500, 500, channels).astype(np.int32))],
                 shape=(1, SIDE, SIDE, channels), scale=0.06, zero_point=-11, options={
        "padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"})


def _unit(b: ModelBuilder, x: int) -> list[int]:
    """A unit of a ShuffleNet."""
    y = shuffled(b, x, 2)
    left, right = b.add_many("SPLIT", [numbers(b, 3), y], 2, shapes=[(1, SIDE, SIDE, 12)] * 2,
                             options={"num_splits": 2})
    return [b.add("RELU", [left]), conv(b, right, 20)]


def _cut(b: ModelBuilder, x: int) -> list[int]:
    """Channels 5 to 18 of a slice, read by a padded 3x3 kernel."""
    y = b.add("SLICE", [x, numbers(b, 0, 0, 0, 5), numbers(b, 1, SIDE, SIDE, 14)], shape=(1, SIDE, SIDE, 14))
    return [conv(b, y, 6, 3)]


@pytest.mark.parametrize(("build", "left"), [
    (lambda b, x: [shuffled(b, x, 3)], ["CONV_2D"]),
    (lambda b, x: [shuffled(b, x, 4, first=True)], ["CONV_2D"]),
    (lambda b, x: [conv(b, shuffled(b, x, 2), 9)], ["CONV_2D"]),
    (lambda b, x: [shuffled(b, shuffled(b, x, 2), 3)], ["CONV_2D"]),
    (_unit, ["CONV_2D", "CONV_2D"]), (_cut, ["CONV_2D"]),
    (lambda b, x: [b.add("SLICE", [x, numbers(b, 0, 0, 0, 5), numbers(b, 1, SIDE, SIDE, 14)],
                         shape=(1, SIDE, SIDE, 14))], ["SLICE"])])
def test_no_move_is_left(build: Build, left: list[str], litert: Oracle) -> None:
    b = ModelBuilder("shuffle")
    x = b.input((1, SIDE, SIDE, 24), scale=0.04, zero_point=9)
    data = b.build(*build(b, x))
    model = parse_model(data, "shuffle")
    assert [op.op for op in rewrite(model.main, (*picks(16, 16, 16), *LIBRARY)).operators] == left
    check(model, litert.run(data, list(random_inputs(model))))


def check(model: Model, expected: Sequence[np.ndarray]) -> None:
    inputs = random_inputs(model)
    for ours, theirs in zip(run(model, inputs).outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    for config in ("n16", "n8", "tiny", "serial"):
        found = execute(compile_model(model, load_config(config)).program, inputs).outputs
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


def test_a_small_array_moves_many_channels() -> None:
    """On an array of 4 x 4, a convolution from 128 channels to 128 takes longer than a move."""
    b = ModelBuilder("shuffle")
    made = shuffled(b, b.input((1, 2, 2, 128), scale=0.04), 2)
    main = parse_model(b.build(made), "shuffle").main
    assert [op.op for op in rewrite(main, (*picks(4, 4, 4), *LIBRARY)).operators] == ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    assert [op.op for op in rewrite(main, (*picks(16, 16, 16), *LIBRARY)).operators] == ["CONV_2D"]
