"""Arithmetic and comparisons of int64: words with carries and borrows, or that are equal in one half."""

from collections.abc import Iterator

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import ENGINES, Oracle, available
from tq_hw.sim.rtl.simulate import simulate

OPERATORS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL",
             "NOT_EQUAL")


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    if not available("litert-ref"):
        pytest.skip(f'{ENGINES["litert-ref"][0]} is not installed: pip install "tq-hw[oracles]"')
    with Oracle("litert-ref") as oracle:
        yield oracle


def words(seed: int, *shape: int) -> np.ndarray:
    """Numbers of few different words: their extremes, 0, 1, -1."""
    rng, ends = np.random.default_rng(seed), np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678], np.uint64)
    made: np.ndarray = (rng.choice(ends, shape) << np.uint64(32) | rng.choice(ends, shape)).view(np.int64)
    return made


def model_of(op: str, second: np.ndarray | None = None, dims: tuple[int, ...] = (700,)) -> bytes:
    b = ModelBuilder(op)
    x = b.input((700,), "int64")
    return b.build(b.add(op, [x, b.input(dims, "int64") if second is None else b.constant(second)]))


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engine(litert: Oracle, op: str) -> None:
    data, inputs = model_of(op), [words(1, 700), words(2, 700)]
    model, expected = parse_model(data, op), litert.run(model_of(op), inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    for config in ("tiny", "n16"):
        found = execute(compile_model(model, PRESETS[config]).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)
    assert len(np.unique(expected)) > 1


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("op", ["SUB", "GREATER", "MUL", "MINIMUM"])
def test_one_number_for_all(litert: Oracle, op: str, constant: bool) -> None:
    second = words(3, 1)
    data = model_of(op, second if constant else None, (1,))
    inputs = [words(1, 700), *([] if constant else [second])]
    found = execute(compile_model(parse_model(data, op), PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


def test_a_negative_index_counts_from_the_end(litert: Oracle) -> None:
    """As in PyTorch's exports: the size is added to negative indices."""
    b = ModelBuilder("index")
    x, index = b.input((9, 4), scale=0.1), b.input((5,), "int64")
    below = b.add("LESS", [index, b.constant(np.array(0, np.int64))])
    moved = b.add("SELECT_V2", [below, b.add("ADD", [index, b.constant(np.array(9, np.int64))]), index])
    data = b.build(b.add("GATHER", [x, moved], axis=0))
    inputs = [np.arange(36, dtype=np.int8).reshape(9, 4), np.array([-9, -1, 0, 3, 8])]
    found = execute(compile_model(parse_model(data, "m"), PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "MAXIMUM", "LESS_EQUAL", "EQUAL"])
def test_equals_golden_on_the_rtl(op: str) -> None:
    model, inputs = parse_model(model_of(op), op), [words(4, 700), words(5, 700)]
    found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def test_an_activation_is_refused() -> None:
    b = ModelBuilder("m")
    x = b.input((3,), "int64")
    data = b.build(b.add("ADD", [x, b.constant(np.array(1, np.int64))], fused_activation_function="RELU6"))
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "m"), PRESETS["n8"])
    assert str(caught.value) == ("operator 0 (ADD): Do not fuse an activation into sums and products of int64; found "
                                 "RELU6")
