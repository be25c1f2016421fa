"""Slices at repeated constant indices, SCATTER_ND and segments, equal LiteRT."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

SEGMENTS = np.array([0, 3, 0, 2, -1, 3, 3], np.int32)


def check(oracle: Oracle, data: bytes, inputs: list[np.ndarray]) -> None:
    model = parse_model(data, "met")
    expected = oracle.run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.3
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool"])
@pytest.mark.parametrize(("indices", "rest", "target"), [
    ([[0], [2], [2], [5], [2]], (6,), (8, 6)), ([[1], [1]], (3, 2), (2, 3, 2)),
    ([[0, 1], [2, 0], [0, 1], [2, 1]], (5,), (3, 2, 5)), ([[[1, 2], [0, 0]], [[1, 2], [1, 0]]], (), (2, 3))])
def test_codes_at_one_index_are_added_and_wrap(litert: Oracle, indices: list[list[int]], rest: tuple[int, ...],
                                               target: tuple[int, ...], dtype: str) -> None:
    """A bool is true if any slice is; codes are added as they are, whatever the zero point."""
    b, places = ModelBuilder("met"), np.array(indices, np.int32)
    codes = {"scale": 0.1, "zero_point": 7} if dtype.endswith("int8") else {}
    shape = (*places.shape[:-1], *rest)
    x = b.input(shape, dtype, **codes)
    data = b.build(b.add("SCATTER_ND", [b.constant(places), x, b.constant(np.array(target, np.int32))]))
    check(litert, data, [drawn(shape, dtype)])


@pytest.mark.parametrize("indices", [[4, 0, 2], [4, 0, 4]])
def test_float32_between_codes(litert: Oracle, indices: list[int]) -> None:
    b = ModelBuilder("met")
    x = b.add("DEQUANTIZE", [b.input((3, 5), scale=0.1, zero_point=7)])
    places, shape = (b.constant(np.array(each, np.int32)) for each in ([[at] for at in indices], [6, 5]))
    data = b.build(b.add("QUANTIZE", [b.add("SCATTER_ND", [places, x, shape])], scale=0.13, zero_point=-30))
    check(litert, data, [drawn((3, 5), "int8")])


@pytest.mark.parametrize("op", ["SUM", "MAX", "MIN"])
def test_segments_of_float32_between_codes(litert: Oracle, op: str) -> None:
    """For a segment without rows the sum is 0, and the maximum an extreme of float32, which has no code."""
    b, segments = ModelBuilder("met"), SEGMENTS if op == "SUM" else np.minimum(SEGMENTS, 1)
    x = b.add("DEQUANTIZE", [b.input((7, 3, 2), scale=0.1, zero_point=7)])
    made = b.add(f"UNSORTED_SEGMENT_{op}", [x, b.constant(segments), b.constant(np.array(max(segments) + 1, np.int32))])
    check(litert, b.build(b.add("QUANTIZE", [made], scale=0.17, zero_point=-3)), [drawn((7, 3, 2), "int8")])


@pytest.mark.parametrize("op", ["SUM", "MAX", "MIN"])
def test_segments_of_int32(litert: Oracle, op: str) -> None:
    b = ModelBuilder("met")
    ends = [b.input((7, 3), "int32"), b.constant(SEGMENTS), b.constant(np.array(5, np.int32))]
    check(litert, b.build(b.add(f"UNSORTED_SEGMENT_{op}", ends)), [drawn((7, 3), "int32")])


def test_a_sum_of_sorted_segments() -> None:
    """LiteRT's reference resolver has no such kernel, so this is compared with the sum of unsorted segments."""
    rows, segments = drawn((6, 4), "int8"), np.array([0, 0, 1, 3, 3, 3], np.int32)
    outputs = []
    for op, more in (("SEGMENT_SUM", ()), ("UNSORTED_SEGMENT_SUM", (4,))):
        b = ModelBuilder("met")
        x = b.add("DEQUANTIZE", [b.input((6, 4), scale=0.1, zero_point=7)])
        made = b.add(op, [x, b.constant(segments), *(b.constant(np.array(each, np.int32)) for each in more)])
        model = parse_model(b.build(b.add("QUANTIZE", [made], scale=0.2, zero_point=-3)), "met")
        outputs += [run(model, [rows]).outputs[0],
                    execute(compile_model(model, load_config("n8")).program, [rows]).outputs[0]]
    for each in outputs:
        np.testing.assert_array_equal(each, outputs[0], strict=True)


def test_computed_segments_are_refused() -> None:
    b = ModelBuilder("met")
    ends = [b.input((7, 3), "int32"), b.input((7,), "int32"), b.constant(np.array(5, np.int32))]
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(b.add("UNSORTED_SEGMENT_MAX", ends)), "met"), load_config("n8"))
    assert str(caught.value) == (
        "not supported: UNSORTED_SEGMENT_MAX (operator 0); `tq-hw ops` lists the operators that are; "
        "UNSORTED_SEGMENT_MAX is supported for int32, or for float32 between codes, with constant segments")
