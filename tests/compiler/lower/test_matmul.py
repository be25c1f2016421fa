"""Products of two computed matrices of any depth equal golden; those larger than the scratchpad are split."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.emit.matmul_programs import zeros
from tq_hw.compiler.ir.staged import MatMul, Move
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

ODD = Config("odd", 4, 12, 4, 16 << 10)
CONFIGS = [load_config("tiny"), load_config("n9x8"), ODD]
#: Two output blocks per word; two beats per word of accumulators.
HALVES = Config("halves", 16, 8, 4, 64 << 10)
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
@pytest.mark.parametrize("points", [(-128, -128), (127, 3), (5, 0)])
def test_deep_products(points: tuple[int, int], config: Config) -> None:
    for shapes in (((1, 3, 5001), (5001, 5)), ((2, 2, 4800), (2, 4800, 13))):
        _compare(shapes, points, config)


@pytest.mark.parametrize(("rows", "depth", "cols"), [(1, 9, 1), (300, 77, 3), (2, 500, 90), (70, 4, 70)])
def test_the_smallest_scratchpad(rows: int, depth: int, cols: int) -> None:
    _compare(((rows, depth), (depth, cols)), (3, -128), SMALLEST)


@pytest.mark.parametrize("config", [load_config("n16"), load_config("n8"), HALVES, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("points", [(0, 0), (-128, -128), (127, 3), (5, 0), (0, -128), (-128, 6)])
def test_zero_points_of_many_rows_and_columns(points: tuple[int, int], config: Config) -> None:
    # Several tiles of rows in one buffer and in two, part of a block of columns, a depth with an incomplete block.
    for shapes in (((1, 65, 16), (16, 50)), ((3, 300, 40), (3, 40, 70)), ((2, 49, 130), (2, 130, 17))):
        _compare(shapes, points, config)


def test_how_zero_points_are_taken_off() -> None:
    def ways(rows: int, depth: int, cols: int, points: tuple[int, int], name: str = "n16") -> tuple[bool, bool]:
        sides = [Value(side, 0, shape) for side, shape in (("a", (1, 1, rows, depth)), ("b", (1, 1, depth, cols)))]
        found = zeros(MatMul(0, "BATCH_MATMUL", tuple(sides), Value("c", 0, (1, 1, rows, cols)), ((0, 0),), points,
                             1 << 30, -3, 5), load_config(name))
        return found.rows, found.columns

    assert ways(196, 64, 196, (3, 4)) == (True, True)
    assert ways(196, 64, 196, (0, 4)) == (True, False)
    assert ways(196, 64, 196, (3, 0)) == (False, True)
    assert ways(196, 64, 196, (0, 0)) == (False, False)
    # With few rows and columns, the array has as much work either way.
    assert ways(4, 16, 8, (3, 4)) == (False, False)
    # With a depth of one word, more micro-operations would take longer than another pass of the array.
    assert ways(64, 16, 64, (3, 4)) == (True, False)


@pytest.mark.parametrize(("profile", "engine"), [("canon", "tflm"), ("tflm", "tflm"), ("litert", "litert-ref")])
@pytest.mark.parametrize(("rows", "depth", "units", "point", "fused"), [
    (8, 16, 48, 13, "NONE"), (1, 33, 5, -128, "RELU"), (5, 7, 1, 127, "NONE"), (1, 300, 20, -1, "RELU6")])
def test_constant_weights_with_a_zero_point(oracles: Callable[[str], Oracle], rows: int, depth: int, units: int,
                                            point: int, fused: str, profile: str, engine: str) -> None:
    """As in PyTorch's exports of weights that belong to no Linear; with and without bias."""
    rng, b = np.random.default_rng(depth), ModelBuilder("m")
    x = b.input((rows, depth), scale=0.02, zero_point=-6)
    outputs = []
    for has_bias in (False, True):
        weights = b.constant(rng.integers(-128, 128, (units, depth)).astype(np.int8), scale=0.0005, zero_point=point)
        bias = b.bias(x, weights, rng.integers(-9999, 9999, units)) if has_bias else -1
        outputs.append(b.add("FULLY_CONNECTED", [x, weights, bias], scale=0.0023 * float(np.sqrt(depth)), zero_point=4,
                             fused_activation_function=fused))
    data = b.build(*outputs)
    model = parse_model(data, "m").under(profile)
    inputs = [rng.integers(-128, 128, (rows, depth)).astype(np.int8)]
    for config in (load_config("tiny"), load_config("n16")):
        found = execute(compile_model(model, config).program, inputs, seed=1, check_races=True).outputs
        for one, other in zip(found, oracles(engine).run(data, inputs), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("shape", [(9, 20), (3, 9, 20)])
@pytest.mark.parametrize(("dtype", "point"), [("int8", 5), ("int8", 0), ("int16", 0)])
def test_constant_matrices_lie_transposed(oracles: Callable[[str], Oracle], dtype: str, point: int,
                                          shape: tuple[int, ...]) -> None:
    """The image stores them transposed, so no move is needed at run time."""
    rng, b, limits = np.random.default_rng(len(shape)), ModelBuilder("m"), np.iinfo(dtype)
    x = b.input((3, 7, 20), dtype, scale=0.02, zero_point=-point)
    matrix = b.constant(rng.integers(limits.min, limits.max + 1, shape).astype(dtype), scale=0.0005, zero_point=point)
    data = b.build(b.add("BATCH_MATMUL", [x, matrix], scale=0.02 if dtype == "int8" else 0.9, zero_point=0, adj_y=True))
    model = parse_model(data, "m")
    inputs = [rng.integers(limits.min, limits.max + 1, (3, 7, 20)).astype(dtype)]
    found = execute(compile_model(model, load_config("n8")).program, inputs, seed=1, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, oracles("litert-ref").run(data, inputs)[0], strict=True)
    assert not any(isinstance(layer, Move) for layer in legalize(model).layers)


@pytest.mark.parametrize(("dtype", "scales"), [("int16", [0.1]), ("int8", [0.1, 0.2])])
def test_weights_with_zero_points_that_kernels_do_not_heed(dtype: str, scales: list[float]) -> None:
    b = ModelBuilder("m")
    x = b.input((1, 3), dtype, scale=0.1)
    weights = b.constant(np.ones((2, 3), np.int8), scale=scales, zero_point=[5] * len(scales), name="w")
    with pytest.raises(ModelError) as error:
        parse_model(b.build(b.add("FULLY_CONNECTED", [x, weights, -1], scale=0.1)), "m")
    assert str(error.value) == (
        "m: subgraph 0, operator 0 FULLY_CONNECTED: Give weights scales, and constant ones zero point 0 where they "
        "have several or activations are int16. Found zero point 5 for tensor 1 'w'.")
