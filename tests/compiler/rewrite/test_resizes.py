"""RESIZE_BILINEAR of float32 between codes: every result equals LiteRT's, including exact halves."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_comparisons import floats, hold
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

SCALE = 0.0371
FLAGS = {"legacy": (False, False), "corners": (True, False), "half_pixel": (False, True)}


def resized(b: ModelBuilder, x: int, size: tuple[int, int], flags: str = "half_pixel") -> int:
    align_corners, half_pixel_centers = FLAGS[flags]
    return b.add("RESIZE_BILINEAR", [x, b.constant(np.array(size, np.int32))], options={
        "align_corners": align_corners, "half_pixel_centers": half_pixel_centers})


def codes(b: ModelBuilder, x: int, scale: float = SCALE, point: int = 3) -> int:
    return b.add("QUANTIZE", [x], scale=scale, zero_point=point)


def drawn(b: ModelBuilder, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, b.tensors[index].shape).astype(np.int8) for index in b.inputs]


@pytest.mark.parametrize("seed", range(24))
def test_golden_equals_litert(seed: int, litert: Oracle) -> None:
    """For any sizes, with any flags."""
    rng = np.random.default_rng([7, seed])
    b = ModelBuilder("resize")
    (n, h, w), size = rng.integers(1, 12, 3), (int(rng.integers(1, 24)), int(rng.integers(1, 24)))
    x = floats(b, (1 + int(n) % 2, int(h), int(w), 5), "int8", SCALE, 3)
    data = b.build(resized(b, x, size, list(FLAGS)[seed % 3]))
    inputs = drawn(b, seed)
    np.testing.assert_array_equal(run(parse_model(data, "resize"), inputs).outputs[0], litert.run(data, inputs)[0],
                                  strict=True)


@pytest.mark.parametrize(("flags", "factor"), [("legacy", 2), ("corners", 2), ("half_pixel", 2), ("legacy", 4),
                                                ("corners", 4), ("half_pixel", 4), ("half_pixel", 8)])
def test_between_codes_of_one_scale(flags: str, factor: int, litert: Oracle) -> None:
    """Where exact results are halves, the roundings of float32 decide."""
    size = (3, 3) if flags == "corners" else (3, 4)
    b = ModelBuilder("resize")
    x = floats(b, (1, *size, 5), "int8", SCALE, 3)
    data = b.build(codes(b, resized(b, x, (factor * size[0], factor * size[1]), flags)))
    assert hold(data, drawn(b), litert) == ["FLOAT_RESIZE"]


@pytest.mark.parametrize("flags", ["legacy", "half_pixel"])
def test_large_images(flags: str, litert: Oracle) -> None:
    """Each pair of fractions alone, to codes and to words, with and without RELU."""
    b = ModelBuilder("resize")
    made = resized(b, floats(b, (1, 10, 11, 48), "int8", SCALE, 3), (20, 22), flags)
    other = floats(b, (48,), "int8", 0.02, 1)
    total = b.add("ADD", [other, made])
    hold(b.build(codes(b, made), codes(b, b.add("RELU", [made]), 0.02, -128), codes(b, total)), drawn(b), litert)


@pytest.mark.parametrize("seed", range(9))
def test_any_sizes_between_codes(seed: int, litert: Oracle) -> None:
    """With many fractions, rows are computed before columns."""
    rng = np.random.default_rng([9, seed])
    b = ModelBuilder("resize")
    (h, w), size = rng.integers(1, 9, 2), (int(rng.integers(1, 20)), int(rng.integers(1, 20)))
    made = resized(b, floats(b, (2, int(h), int(w), 3), "int8", SCALE, -11), size, list(FLAGS)[seed % 3])
    other = floats(b, (1, 1, 1, 3), "int8", 0.02, 1)
    total = b.add("ADD", [made, other], options={"fused_activation_function": "RELU"})
    hold(b.build(codes(b, made, 0.03, 5), codes(b, b.add("RELU", [made]), 0.02, -128), codes(b, total)), drawn(b, seed),
         litert)


def test_sums_functions_and_moves(litert: Oracle) -> None:
    """A sum with the interpolated tensor, a difference, RELU after it, a function before it, a CONCATENATION."""
    b = ModelBuilder("resize")
    x, skipped = floats(b, (1, 3, 4, 8), "int8", SCALE, 3), floats(b, (1, 6, 8, 8), "int8", 0.05, -9)
    first = resized(b, x, (6, 8))
    second = resized(b, b.add("TANH", [x]), (6, 8), "legacy")
    total = b.add("ADD", [skipped, first], options={"fused_activation_function": "RELU"})
    joined = b.add("CONCATENATION", [first, skipped], options={"axis": 3})
    outputs = [codes(b, total, 0.06), codes(b, b.add("SUB", [skipped, second])), codes(b, joined),
               codes(b, b.add("RELU", [second]), 0.004, -128), codes(b, b.add("SUB", [first, second]))]
    hold(b.build(*outputs), drawn(b), litert)


def test_one_pixel_and_fewer_pixels(litert: Oracle) -> None:
    b = ModelBuilder("resize")
    one, many = floats(b, (2, 1, 1, 6), "int8", SCALE, 3), floats(b, (2, 8, 8, 6), "int8", SCALE, 3)
    outputs = [codes(b, resized(b, one, (4, 3))), codes(b, resized(b, many, (4, 2))),
               codes(b, b.add("RELU", [resized(b, many, (2, 8), "legacy")]), 0.05, -128)]
    hold(b.build(*outputs), drawn(b), litert)


def test_a_mean_of_interpolated(litert: Oracle) -> None:
    b = ModelBuilder("resize")
    made = resized(b, floats(b, (1, 3, 3, 8), "int8", SCALE, 3), (6, 6), "legacy")
    mean = b.add("MEAN", [made, b.constant(np.array([1, 2], np.int32))], options={"keep_dims": True})
    hold(b.build(codes(b, mean, 0.01)), drawn(b), litert)


def test_a_function_after_it_is_computed_by_itself(litert: Oracle) -> None:
    b = ModelBuilder("resize")
    made = b.add("ABS", [resized(b, floats(b, (1, 7, 9, 2), "int8", SCALE, 3), (14, 18))])
    data, inputs = b.build(codes(b, made)), drawn(b)
    found = execute(compile_model(parse_model(data, "resize"), load_config("n16")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


@pytest.mark.parametrize(("size", "flags"), [((4, 6), "half_pixel"), ((5, 7), "corners")])
def test_the_circuit_gives_the_same(size: tuple[int, int], flags: str) -> None:
    b = ModelBuilder("resize")
    data = b.build(codes(b, resized(b, floats(b, (1, 2, 3, 9), "int8", SCALE, 3), size, flags)))
    model, inputs = parse_model(data, "resize"), drawn(b)
    found = simulate(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def test_many_fractions_are_computed_one_by_one(litert: Oracle) -> None:
    b = ModelBuilder("resize")
    data = b.build(codes(b, resized(b, floats(b, (1, 7, 9, 2), "int8", SCALE, 3), (97, 101))))
    inputs, compiled = drawn(b), compile_model(parse_model(data, "resize"), load_config("n16"))
    np.testing.assert_array_equal(execute(compiled.program, inputs).outputs[0], litert.run(data, inputs)[0],
                                  strict=True)
    assert "PACKED_CODES" in {layer.op for layer in compiled.emitter.graph.layers}
