"""AVERAGE_POOL_2D and MAX_POOL_2D of computed float32: LiteRT's bits for all windows."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_resizes import hold, total
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")


def pooled(b: ModelBuilder, x: int, op: str, size: tuple[int, int], strides: tuple[int, int], *,
           padding: str = "SAME", activation: str = "NONE") -> int:
    return b.add(op, [x], options={
        "padding": padding, "stride_h": strides[0], "stride_w": strides[1], "filter_height": size[0],
        "filter_width": size[1], "fused_activation_function": activation})


@pytest.mark.parametrize("seed", range(32))
def test_any_windows(seed: int, litert: Oracle) -> None:
    """Quantized, and as an output in float32, with all activations of packed numbers."""
    rng, b = np.random.default_rng([9, seed]), ModelBuilder("pooled")
    size, filters, strides = ((int(rng.integers(1, high)), int(rng.integers(1, high))) for high in (9, 5, 4))
    padding = "SAME" if seed % 4 < 3 or filters[0] > size[0] or filters[1] > size[1] else "VALID"
    x = pooled(b, total(b, size, 0.031, 0.047), POOLS[seed % 2], filters, strides, padding=padding,
               activation=("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")[seed % 5])
    hold(b, litert, b.add("QUANTIZE", [x], scale=0.07, zero_point=3), x, seed=seed)


def test_of_the_whole_image(litert: Oracle) -> None:
    for op in POOLS:
        b = ModelBuilder("whole")
        x = pooled(b, total(b, (4, 6), 0.031, 0.047), op, (4, 6), (1, 1), padding="VALID")
        hold(b, litert, b.add("QUANTIZE", [x], scale=0.02), x)


def test_less_the_image_itself(litert: Oracle) -> None:
    """As in the mixers of PoolFormer."""
    b = ModelBuilder("mixer")
    x = total(b, (6, 5), 0.031, 0.047)
    y = b.add("SUB", [pooled(b, x, POOLS[0], (3, 3), (1, 1)), x])
    hold(b, litert, b.add("QUANTIZE", [b.add("ADD", [x, y])], scale=0.07))


def test_large_windows_are_refused() -> None:
    b = ModelBuilder("large")
    x = pooled(b, total(b, (40, 40), 0.031, 0.047), POOLS[0], (17, 17), (1, 1))
    data = b.build(b.add("QUANTIZE", [x], scale=0.07))
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "large"), load_config("n8"))
    assert ("(operator 3 (AVERAGE_POOL_2D) has windows of 289 elements, of float32 at most 256)") in str(caught.value)


def test_on_the_rtl() -> None:
    b = ModelBuilder("rtl")
    x = total(b, (4, 3), 0.031, 0.05)
    x = b.add("ADD", [pooled(b, x, op, (2, 2), (2, 1)) for op in POOLS])
    model = parse_model(b.build(b.add("QUANTIZE", [x], scale=0.1)), "rtl")
    inputs = [np.random.default_rng(at).integers(-128, 128, b.tensors[index].shape).astype(np.int8)
              for at, index in enumerate(b.inputs)]
    found = simulate(compile_model(model, load_config("tiny")).program, inputs).outputs
    np.testing.assert_array_equal(found[0], run(model, inputs).outputs[0], strict=True)
