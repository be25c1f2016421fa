"""Products of two run-time matrices == golden, of any depth: what the scratchpad does not hold comes in parts."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

ODD = Config("odd", 4, 12, 4, 16 << 10)
CONFIGS = [load_config("tiny"), load_config("n9x8"), ODD]
SMALLEST = Config("smallest", 4, 4, 2, 2 << 10)


def _compare(shapes: tuple[tuple[int, ...], tuple[int, ...]], points: tuple[int, int], config: Config) -> None:
    b = ModelBuilder("m")
    left, right = (b.input(shape, scale=0.05, zero_point=point) for shape, point in zip(shapes, points, strict=True))
    out = b.add("BATCH_MATMUL", [left, right], scale=0.2 * float(np.sqrt(shapes[0][-1])), zero_point=-11)
    model = parse_model(b.build(out), "m")
    rng = np.random.default_rng(shapes[0][-1])
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    found = execute(compile_model(model, config).program, inputs, seed=1, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("points", [(0, 0), (-128, -128), (127, 3), (5, 0), (0, -9)])
def test_deep_products(points: tuple[int, int], config: Config) -> None:
    for shapes in (((1, 3, 5001), (5001, 5)), ((2, 2, 4800), (2, 4800, 13))):
        _compare(shapes, points, config)


@pytest.mark.parametrize(("rows", "depth", "cols"), [(1, 9, 1), (300, 77, 3), (2, 500, 90), (70, 4, 70)])
def test_the_smallest_scratchpad(rows: int, depth: int, cols: int) -> None:
    _compare(((rows, depth), (depth, cols)), (3, -128), SMALLEST)
