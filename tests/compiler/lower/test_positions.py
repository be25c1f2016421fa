"""DYNAMIC_UPDATE_SLICE and SLICE at computed positions: for every start, in or out of range, equal to LiteRT."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import ENGINES, Oracle, available
from tq_hw.sim.rtl.simulate import simulate

Shape = tuple[int, ...]


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    if not available("litert-ref"):
        pytest.skip(f'{ENGINES["litert-ref"][0]} is not installed: pip install "tq-hw[oracles]"')
    with Oracle("litert-ref") as oracle:
        yield oracle


def like(dtype: str) -> dict[str, Any]:
    return {"scale": 0.1} if dtype in ("int8", "int16") else {}


def updated(shape: Shape, part: Shape, dtype: str = "int8", index: str = "int32") -> bytes:
    b = ModelBuilder("updated")
    x, update = (b.input(dims, dtype, **like(dtype)) for dims in (shape, part))
    return b.build(b.add("DYNAMIC_UPDATE_SLICE", [x, update, b.input((len(shape),), index)]))


def sliced(shape: Shape, sizes: Shape, dtype: str = "int8", index: str = "int32") -> bytes:
    b = ModelBuilder("sliced")
    begin, size = b.input((len(shape),), index), b.constant(np.array(sizes, index))
    x = b.input(shape, dtype, **like(dtype))
    return b.build(b.add("SLICE", [x, begin, size], shape=[abs(each) for each in sizes]))


def numbers(shape: Shape, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize(("shape", "part", "dtype", "index"), [
    ((1, 2, 7, 4), (1, 2, 1, 4), "int8", "int32"), ((1, 7, 3, 5), (1, 3, 3, 5), "int8", "int64"),
    ((9,), (4,), "int32", "int32"), ((5, 6), (5, 2), "int16", "int32"), ((3, 4), (3, 4), "int8", "int32"),
    ((2, 3, 8), (2, 3, 1), "bool", "int32"), ((4, 20), (1, 20), "int8", "int32"),
    ((2, 6, 3), (2, 5, 3), "int32", "int32"),
])
def test_updates_equal_the_engine(litert: Oracle, shape: Shape, part: Shape, dtype: str, index: str) -> None:
    data = updated(shape, part, dtype, index)
    model = parse_model(data, "m")
    programs = [compile_model(model, PRESETS[config]).program for config in ("tiny", "n16")]
    most = max(a - b for a, b in zip(shape, part, strict=True))
    far = (-1 << 63, -(1 << 32) + 1, -(1 << 31) - 1, 1 << 31, 1 << 32, (1 << 32) + 1, (1 << 63) - 1)
    for start in (*range(-2, most + 3), -1 << 31, (1 << 31) - 1, *(far if index == "int64" else ())):
        inputs = [numbers(shape, dtype, 1), numbers(part, dtype, 2), np.full(len(shape), start, index)]
        expected = litert.run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
        for program in programs:
            np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected, strict=True)


@pytest.mark.parametrize(("shape", "sizes", "dtype", "index"), [
    ((1, 9, 4), (1, 1, 4), "int8", "int32"), ((2, 7, 3), (2, 4, 3), "int16", "int64"), ((9,), (4,), "int32", "int32"),
    ((3, 5, 6), (2, 5, 3), "int8", "int32"), ((4, 4), (4, 4), "int8", "int32"), ((2, 2, 8), (2, 2, 5), "int8", "int32"),
])
def test_slices_equal_the_engine(litert: Oracle, shape: Shape, sizes: Shape, dtype: str, index: str) -> None:
    data = sliced(shape, sizes, dtype, index)
    model = parse_model(data, "m")
    programs = [compile_model(model, PRESETS[config]).program for config in ("tiny", "n16")]
    most = np.array(shape) - np.array(sizes)
    for seed in range(6):
        begin = np.random.default_rng(seed).integers(0, most, endpoint=True).astype(index)
        inputs = [begin, numbers(shape, dtype, 3)]
        expected = litert.run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
        for program in programs:
            np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected, strict=True)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("width", [1, 3])
def test_equals_golden_on_the_rtl(width: int) -> None:
    shape, part = (1, 2, 7, 4), (1, 2, width, 4)
    start = np.array([0, 0, 4, 0], np.int32)
    for data, inputs in ((updated(shape, part), [numbers(shape, "int8", 1), numbers(part, "int8", 2), start]),
                         (sliced(shape, part), [start, numbers(shape, "int8", 1)])):
        model = parse_model(data, "m")
        found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize(("data", "message"), [
    (updated((4, 5), (3, 4)), "DYNAMIC_UPDATE_SLICE): An update at a computed start must be smaller than the input "
     "along at most one axis; found [3, 4] in [4, 5]"),
    (sliced((4, 5), (4, -1)), "SLICE): Sizes must be constants of the model, and none of them -1 where the begin is "
     "computed; found sizes [4, -1]")])
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "m", check=False), PRESETS["n8"])
    assert str(caught.value) == f"operator 0 ({message}"


def test_a_begin_that_there_is_not() -> None:
    with pytest.raises(InputError) as caught:
        run(parse_model(sliced((4, 5), (4, 2)), "m"), [np.array([0, 4], np.int32), numbers((4, 5), "int8", 1)])
    assert str(caught.value) == "operator 0 (SLICE): slice of axis 1 from 4 of size 2 is out of range of 5"
