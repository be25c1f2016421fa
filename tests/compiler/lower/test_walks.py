"""Reductions in the vector unit equal golden: of any length, also prime, in one or two layers, with ties."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

ODD = Config("odd", 4, 12, 4, 16 << 10)
CONFIGS = [load_config("n16"), load_config("tiny"), ODD]
OPS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")


def _model(op: str, shape: tuple[int, ...], axes: list[int], dtype: str = "int32") -> bytes:
    b = ModelBuilder(op)
    x = b.input(shape, scale=0.1, zero_point=-77)
    if op.startswith("ARG"):
        return b.build(b.add(op, [x, b.constant(axes[0])], output_type=dtype))
    scale = {"MEAN": 0.02, "SUM": 0.1 * float(np.sqrt(np.prod(shape)))}.get(op)
    return b.build(b.add(op, [x, b.constant(axes)], scale=scale, zero_point=None if scale is None else 9))


def _compare(data: bytes, config: Config, seed: int) -> list[type]:
    model = parse_model(data, "m")
    compiled = compile_model(model, config)
    shape, rng = model.main.tensors[0].shape, np.random.default_rng(seed)
    # Random values, then few different ones, so that extremes are repeated.
    for values in (rng.integers(-128, 128, shape), rng.integers(3, 5, shape), np.full(shape, -128)):
        inputs = [values.astype(np.int8)]
        found = execute(compiled.program, inputs, seed=seed, check_races=True).outputs[0]
        np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
    return [type(layer) for layer in compiled.emitter.graph.layers]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("op", OPS)
def test_axes_and_lengths(op: str, config: Config) -> None:
    for seed, (shape, axes) in enumerate([
            ((9973,), [0]), ((1001,), [0]), ((7, 1, 5), [1]), ((2, 50, 9, 7), [1]), ((3, 1500), [1]), ((40, 300), [1]),
            ((300, 40), [0]), ((6, 33, 300), [1]), ((5, 4, 3, 2, 6), [2])]):
        _compare(_model(op, shape, axes), config, seed)


@pytest.mark.parametrize("op", OPS[:4])
def test_axes_apart(op: str) -> None:
    for seed, (shape, axes) in enumerate([((6, 5, 40, 9), [0, 2]), ((6, 5, 40, 9), [1, 3]), ((80, 3, 90), [0, 2])]):
        _compare(_model(op, shape, axes), load_config("n8"), seed)


@pytest.mark.parametrize("op", OPS)
def test_more_than_the_scratchpad_holds(op: str) -> None:
    shape = (1, 317, 317, 1)
    _compare(_model(op, (317 * 317,) if op.startswith("ARG") else shape, [0] if op.startswith("ARG") else [1, 2]),
             load_config("tiny"), 5)


def test_indices_of_64_bits() -> None:
    assert _compare(_model("ARG_MAX", (3, 700, 5), [1], "int64"), load_config("n8"), 1)[-1] is Move


def test_who_takes_what() -> None:
    n16 = load_config("n16")
    assert _compare(_model("MEAN", (1, 7, 7, 64), [1, 2]), n16, 0) == [Mac]
    assert _compare(_model("MEAN", (20, 300), [1]), n16, 0) == [Mac]
    assert _compare(_model("MEAN", (1, 64, 64, 3), [1, 2]), n16, 0) == [Flat, Flat]
    assert _compare(_model("REDUCE_MAX", (50, 600), [0]), n16, 0) == [Flat]


def test_an_axis_that_is_too_long() -> None:
    model = parse_model(_model("ARG_MAX", (1 << 23,), [0]), "m")
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("n16"))
    assert str(caught.value) == ("operator 0 (ARG_MAX): axis 0 must have less than 8388608 elements, found 8388608")


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(("shape", "options"), [
    ((1, 300, 3, 5), {"filter_height": 300, "filter_width": 3}),
    ((2, 1, 512, 6), {"filter_height": 1, "filter_width": 512, "fused_activation_function": "RELU"}),
    ((1, 9, 8, 3), {"filter_height": 300, "filter_width": 400, "stride_h": 9, "stride_w": 300, "padding": "SAME"})])
def test_windows_as_large_as_the_image(op: str, shape: tuple[int, ...], options: dict[str, str | int]) -> None:
    b = ModelBuilder(op)
    b.add(op, [b.input(shape, scale=0.05, zero_point=-20)], options={"padding": "VALID", **options})
    assert _compare(b.build(1), ODD, 2)[-1] is Flat


def test_a_window_that_is_too_large() -> None:
    b = ModelBuilder("m")
    x = b.input((1, 300, 300, 1), scale=0.05)
    out = b.add("AVERAGE_POOL_2D", [x], filter_height=299, filter_width=3, padding="VALID")
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(out), "m"), load_config("n16"))
    assert str(caught.value) == ("operator 0 (AVERAGE_POOL_2D): Filters must have at most 255 rows and columns, unless "
                                 "one filter covers the whole image; found 299x3")


@pytest.mark.parametrize("op", OPS)
def test_an_axis_of_one(op: str) -> None:
    """There is no walk along an axis: all elements are lanes."""
    data = _model(op, (1, 60, 30, 24), [0])
    _compare(data, load_config("n16"), 0)
    assert len(compile_model(parse_model(data, "m"), load_config("n16")).emitter.stream.items) < 200
