"""REVERSE_SEQUENCE, MATRIX_DIAG, DILATE and similar operators, compiled: equal to golden and LiteRT; messages."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import InputError, ModelError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import ENGINES, Oracle, available
from tq_hw.sim.rtl.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[2] / "sim/golden"))
from random_places import PLACES


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    if not available("litert-ref"):
        pytest.skip(f'{ENGINES["litert-ref"][0]} is not installed: pip install "tq-hw[oracles]"')
    with Oracle("litert-ref") as oracle:
        yield oracle


def made(op: str, seed: int) -> tuple[bytes, Model, list[np.ndarray]]:
    rng = np.random.default_rng([17, seed, *op.encode()])
    data = PLACES[op](rng, op)
    model = parse_model(data, op)
    inputs = []
    for index in model.main.inputs:
        tensor = model.main.tensors[index]
        numbers = rng.integers(-100, 100, tensor.shape) if tensor.dtype != "bool" else rng.integers(0, 2, tensor.shape)
        inputs.append(np.asarray(numbers).astype(tensor.dtype))
    return data, model, inputs


@pytest.mark.parametrize("op", PLACES)
def test_equals_the_engine(litert: Oracle, op: str) -> None:
    for seed in range(12):
        data, model, inputs = made(op, seed)
        expected = litert.run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
        found = execute(compile_model(model, PRESETS[("tiny", "n8", "n16")[seed % 3]]).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("op", PLACES)
def test_equals_golden_on_the_rtl(op: str) -> None:
    _, model, inputs = made(op, 100)
    found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def sequences(lengths: list[int] | None, **axes: int) -> bytes:
    b = ModelBuilder("m")
    x = b.input((2, 6), "int32")
    second = b.input((2,), "int32") if lengths is None else b.constant(lengths)
    return b.build(b.add("REVERSE_SEQUENCE", [x, second], shape=(2, 6), options={"seq_dim": 1, "batch_dim": 0} | axes))


def diagonals(shape: tuple[int, ...]) -> bytes:
    b = ModelBuilder("m")
    return b.build(b.add("MATRIX_SET_DIAG", [b.input((2, 3, 4), "int32"), b.input(shape, "int32")], shape=(2, 3, 4)))


def dense(indices: list[list[int]], values: int = 2) -> bytes:
    b = ModelBuilder("m")
    inputs = [b.constant(indices), b.constant([3, 4]), b.input((values,), "int32"), b.constant(0)]
    return b.build(b.add("SPARSE_TO_DENSE", inputs, shape=(3, 4)))


def dilated(steps: list[int] | np.ndarray, shape: tuple[int, ...] = (2, 3)) -> bytes:
    b = ModelBuilder("m")
    return b.build(b.add("DILATE", [b.input(shape, "int32"), b.constant(steps), b.constant(0)], shape=shape))


@pytest.mark.parametrize(("data", "message"), [
    (sequences([7, 1]), "REVERSE_SEQUENCE: lengths are up to 7, expected at most 6"),
    (sequences([1, 2, 3]), "REVERSE_SEQUENCE: lengths have shape [3], expected [2]"),
    (sequences([1, 2], seq_dim=0), "REVERSE_SEQUENCE: seq_dim is 0 and batch_dim 0, expected two axes of [2, 6]"),
    (sequences([1, 2], seq_dim=-1), "REVERSE_SEQUENCE: seq_dim is -1 and batch_dim 0, expected two axes of [2, 6]"),
    (diagonals((2, 4)), "MATRIX_SET_DIAG: input has shape [2, 3, 4] and the diagonal [2, 4], expected matrices, and a "
     "diagonal of one rank less, as long as the smaller side"),
    (dense([[0, 1], [3, 0]]), "SPARSE_TO_DENSE: indices of axis 0 run from 0 to 3, expected 0 to 2"),
    (dense([[0], [1]]), "SPARSE_TO_DENSE: indices have shape [2, 1], output shape is [3, 4]: expected a number for "
     "each size"),
    (dense([[0, 1], [2, 0]], 3), "SPARSE_TO_DENSE: values have shape [3] and the default [], expected [2] or one "
     "element, and one element"),
    (dilated([1, 0]), "DILATE: dilations is [1, 0], expected 1 or more"),
    (dilated([], ()), "DILATE: input is a scalar, expected rank 1 or more"),
    (dilated(np.array([1, 2])), "DILATE: input 1, tensor 1 't1', has type int64, expected int32")])
def test_broken_rules(data: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_model(data, "m")
    assert str(caught.value) == f"m: subgraph 0, operator 0 {message}"


def computed(op: str) -> bytes:
    b = ModelBuilder("m")
    if op == "SPARSE_TO_DENSE":
        return b.build(b.add(op, [b.input((2,), "int32"), b.constant([3]), b.input((2,), "int32"), b.constant(0)]))
    if op == "FILL":
        return b.build(b.add(op, [b.input((1,), "int32"), b.input((), "int32")], shape=(3,)))
    return b.build(b.add(op, [b.input((2,), "int32"), b.input((1,), "int32"), b.constant(0)], shape=(3,)))


@pytest.mark.parametrize(("data", "message"), [
    (sequences(None), "REVERSE_SEQUENCE): The lengths must be constants of the model; found input 1 (tensor 1, 't1')"),
    (computed("SPARSE_TO_DENSE"), "SPARSE_TO_DENSE): Indices and shape must be constants of the model; found input 0 "
     "(tensor 0, 't0')"),
    (computed("DILATE"), "DILATE): Steps and sizes must be constants of the model; found input 1 (tensor 1, 't1')"),
    (computed("FILL"), "FILL): Steps and sizes must be constants of the model; found input 0 (tensor 0, 't0')")])
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "m"), PRESETS["n8"])
    assert str(caught.value) == f"operator 0 ({message} computed at run time"


def test_lengths_that_there_are_not() -> None:
    with pytest.raises(InputError) as caught:
        run(parse_model(sequences(None), "m"), [np.zeros((2, 6), np.int32), np.array([2, 7], np.int32)])
    assert str(caught.value) == "operator 0 (REVERSE_SEQUENCE): lengths are up to 7, expected at most 6"


def test_where_has_no_shape() -> None:
    b = ModelBuilder("m")
    data = b.build(b.add("WHERE", [b.input((4,), "bool")], shape=(4, 1), dtype="int64"))
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "m"), PRESETS["n8"])
    assert str(caught.value) == (
        "not supported: WHERE (operator 0); `tq-hw ops` lists the operators that are; WHERE has one result per true "
        "element, so its shape is not known: choose by a mask with SELECT_V2, or keep a fixed number with TOPK_V2")
