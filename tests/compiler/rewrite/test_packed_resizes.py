"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of computed float32, as in feature pyramids: LiteRT's bits."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_comparisons import floats
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.packed_floats import check_packed
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

FLAGS = {"legacy": (False, False), "corners": (True, False), "half_pixel": (False, True)}
RESIZES = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
Size = tuple[int, int]


def resized(b: ModelBuilder, x: int, op: str, size: Size, flags: str) -> int:
    align_corners, half_pixel_centers = FLAGS[flags]
    return b.add(op, [x, b.constant(np.array(size, np.int32))], options={
        "align_corners": align_corners, "half_pixel_centers": half_pixel_centers})


def total(b: ModelBuilder, size: Size, *scales: float, channels: int = 3) -> int:
    """A float32 sum of as many tensors as there are scales."""
    x, *others = (floats(b, (1, *size, channels), "int8", scale, round(1 / scale) % 100 - 50) for scale in scales)
    for other in others:
        x = b.add("ADD", [x, other])
    return x


def hold(b: ModelBuilder, litert: Oracle, *outputs: int, seed: int = 0) -> None:
    """Compare golden model and executor with LiteRT; floats by their bits."""
    data, rng = b.build(*outputs), np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, b.tensors[index].shape).astype(np.int8) for index in b.inputs]
    model, expected = parse_model(data, "resized"), litert.run(data, inputs)
    program = compile_model(model, load_config("n8")).program
    for made in (run(model, inputs).outputs, execute(program, inputs, check_races=True).outputs):
        for ours, theirs in zip(made, expected, strict=True):
            np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8), strict=True)


@pytest.mark.parametrize("seed", range(30))
def test_any_sizes(seed: int, litert: Oracle) -> None:
    """Quantized, and as an output in float32."""
    rng, b = np.random.default_rng([8, seed]), ModelBuilder("resized")
    before, after = ((int(rng.integers(1, 9)), int(rng.integers(1, 9))) for _ in range(2))
    x = resized(b, total(b, before, 0.031, 0.047), RESIZES[seed % 2], after, list(FLAGS)[seed % 3])
    y = b.add("ADD", [x, total(b, after, 0.021)])
    hold(b, litert, b.add("QUANTIZE", [y], scale=0.07, zero_point=3), x, seed=seed)


@pytest.mark.parametrize("op", RESIZES)
def test_pyramid(op: str, litert: Oracle) -> None:
    """Each level is the one above it, enlarged twofold, plus features of its own; each one is read by a head."""
    b, heads = ModelBuilder("pyramid"), []
    x = total(b, (2, 3), 0.031)
    for level, scale in enumerate((0.023, 0.041, 0.017), 1):
        size = (2 << level, 3 << level)
        x = b.add("ADD", [total(b, size, scale), resized(b, x, op, size, "half_pixel")])
        heads.append(b.add("QUANTIZE", [x], scale=0.05 * level, zero_point=-level))
    hold(b, litert, *heads)


def test_weights_of_one_and_none(litert: Oracle) -> None:
    """Positions that are pixels, and one row for all."""
    for before, after in (((3, 4), (3, 4)), ((3, 4), (5, 4)), ((1, 4), (6, 7)), ((1, 1), (4, 4)), ((6, 8), (3, 4))):
        for flags in FLAGS:
            b = ModelBuilder("weights")
            hold(b, litert, resized(b, total(b, before, 0.031, 0.047), RESIZES[0], after, flags))


def test_relu_and_a_quotient(litert: Oracle) -> None:
    """A mean of four numbers has the same bounds as these, so it can be a divisor."""
    b = ModelBuilder("quotient")
    x = b.add("ADD", [b.add("EXP", [total(b, (2, 2), 0.011)]), b.add("EXP", [total(b, (2, 2), 0.013)])])
    y = b.add("DIV", [total(b, (4, 4), 0.03, 0.02), resized(b, x, RESIZES[0], (4, 4), "half_pixel")])
    hold(b, litert, b.add("QUANTIZE", [y], scale=0.1))


def test_a_mean_of_numbers_from_1_on_may_be_less() -> None:
    """By a rounding error, so its logarithm is not supported."""
    b = ModelBuilder("logarithm")
    x = b.add("MAXIMUM", [total(b, (2, 2), 0.011, 0.013), b.constant(np.array(1, np.float32))])
    y = b.add("LOG", [resized(b, x, RESIZES[0], (5, 5), "half_pixel")])
    main = parse_model(b.build(b.add("QUANTIZE", [y], scale=0.1)), "logarithm").main
    with pytest.raises(UnsupportedError, match=r"\(LOG\) is the logarithm of numbers between 1 and .*; it is computed "
                                               "from 1 to 2"):
        check_packed(Subject(main), main.operators[-1])


def test_on_the_rtl() -> None:
    b = ModelBuilder("rtl")
    x = b.add("ADD", [resized(b, total(b, (2, 3), 0.031, 0.05), RESIZES[0], (4, 6), "half_pixel"),
                      resized(b, total(b, (2, 3), 0.07, 0.02), RESIZES[1], (4, 6), "half_pixel")])
    model = parse_model(b.build(b.add("QUANTIZE", [x], scale=0.1)), "rtl")
    inputs = [np.random.default_rng(at).integers(-128, 128, b.tensors[index].shape).astype(np.int8)
              for at, index in enumerate(b.inputs)]
    found = simulate(compile_model(model, load_config("tiny")).program, inputs).outputs
    np.testing.assert_array_equal(found[0], run(model, inputs).outputs[0], strict=True)
