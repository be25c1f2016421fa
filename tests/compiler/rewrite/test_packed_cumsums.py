"""CUMSUM of computed float32, as in transmittances of rays: LiteRT's bits, along any axis, in both directions."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_comparisons import floats
from tests.compiler.rewrite.test_packed_resizes import hold, total
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate


def so_far(b: ModelBuilder, x: int, axis: int, *, exclusive: bool = False, reverse: bool = False) -> int:
    return b.add("CUMSUM", [x, b.constant(np.array(axis, np.int32))], shape=b.tensors[x].shape, dtype="float32",
                 options={"exclusive": exclusive, "reverse": reverse})


@pytest.mark.parametrize("seed", range(16))
def test_any_axis(seed: int, litert: Oracle) -> None:
    """Quantized, and as an output in float32."""
    rng, b = np.random.default_rng([11, seed]), ModelBuilder("sums")
    size = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    x = so_far(b, total(b, size, 0.031, 0.047), seed % 4 - 4 * (seed // 8), exclusive=seed % 3 == 0,
               reverse=seed // 2 % 2 == 1)
    hold(b, litert, b.add("QUANTIZE", [x], scale=0.17, zero_point=3), x, seed=seed)


def test_between_int8_where_no_integers_prove_it(litert: Oracle) -> None:
    """With these scales every sum of five steps lies exactly between two codes."""
    b = ModelBuilder("sums")
    x = so_far(b, floats(b, (40, 8), "int8", 0.1, -13), 1)
    hold(b, litert, b.add("QUANTIZE", [x], scale=1.0, zero_point=-17))


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_sum_begins_with_0(litert: Oracle, exclusive: bool) -> None:
    """No output is -0."""
    b = ModelBuilder("zeros")
    x = b.add("MUL", [floats(b, (4, 5), "int8", 0.5, 0), floats(b, (4, 5), "int8", 0.5, 0)])
    data = b.build(so_far(b, x, 1, exclusive=exclusive))
    inputs = [np.tile(np.array([0, 0, -2, 0, 2], np.int8), (4, 1)), np.repeat(np.int8([[-1], [1], [0], [-3]]), 5, 1)]
    expected, model = litert.run(data, inputs), parse_model(data, "zeros")
    for made in (run(model, inputs).outputs[0],
                 simulate(compile_model(model, load_config("tiny")).program, inputs).outputs[0]):
        np.testing.assert_array_equal(made.view(np.uint32), expected[0].view(np.uint32))


def test_many_terms_are_refused() -> None:
    b = ModelBuilder("many")
    x = b.add("ADD", [floats(b, (1, 513), "int8", scale, 0) for scale in (0.03, 0.05)])
    data = b.build(b.add("QUANTIZE", [so_far(b, x, 1)], scale=0.07))
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "many"), load_config("n8"))
    assert "(operator 3 (CUMSUM) has 513 elements along its axis, of float32 at most 512)" in str(caught.value)
