"""compiler.lower.wide_pixels: convolutions of int16 with few channels, several pixels at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.sixteen import PlaneMac
from tq_hw.compiler.lower.wide_pixels import find_wide_pixels
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


@dataclass(frozen=True)
class Case:
    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    outputs: int
    stride: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    dilation: tuple[int, int] = (1, 1)
    activation: str = "NONE"
    has_bias: bool = True
    per_channel: bool = True

    def build(self) -> Model:
        """A convolution with random weights."""
        b, rng = ModelBuilder("m"), np.random.default_rng(3)
        x = b.input(self.shape, "int16", scale=0.001)
        scale: Any = rng.uniform(0.001, 0.01, self.outputs).tolist() if self.per_channel else 0.004
        weights = b.constant(rng.integers(-127, 128, (self.outputs, *self.kernel, self.shape[3])).astype(np.int8),
                             scale=scale)
        bias = [b.bias(x, weights, rng.integers(-9999, 9999, self.outputs))] if self.has_bias else []
        made = b.add("CONV_2D", [x, weights, *bias], dtype="int16", scale=0.002, padding=self.padding,
                     stride_h=self.stride[0], stride_w=self.stride[1], dilation_h_factor=self.dilation[0],
                     dilation_w_factor=self.dilation[1], fused_activation_function=self.activation)
        return parse_model(b.build(made), "m")


#: The columns of the kernel and the channels of the wide pixels.
CASES = {
    "audio": (Case((1, 1, 400, 1), (1, 80), 8, (1, 4)), (7, 16)),
    "audio, no padding": (Case((1, 1, 480, 1), (1, 64), 8, (1, 16), "VALID"), (4, 16)),
    "an image": (Case((2, 8, 12, 3), (3, 3), 24, (2, 2), activation="RELU6"), (2, 12)),
    "an image, no padding": (Case((1, 7, 18, 3), (3, 3), 16, (1, 2), "VALID"), (2, 6)),
    "super-resolution": (Case((1, 9, 24, 1), (9, 9), 16, has_bias=False), (3, 4)),
    "few results": (Case((1, 6, 16, 16), (5, 5), 1, per_channel=False), (3, 32)),
    "rows apart": (Case((1, 9, 16, 2), (3, 5), 8, dilation=(2, 1)), (3, 4)),
    "one channel of each": (Case((1, 3, 16, 1), (3, 3), 1), (3, 16)),
}


@pytest.mark.parametrize(("case", "wide"), CASES.values(), ids=CASES)
def test_equals_the_golden_model(case: Case, wide: tuple[int, int]) -> None:
    model = case.build()
    for config in ("n16", "n8", "n9x8", "tiny", "serial"):
        for profile in ("canon", "litert", "tflm") if case.has_bias else ("canon",):
            under = model.under(profile)
            compiled = compile_model(under, load_config(config))
            inputs = random_inputs(under)
            np.testing.assert_array_equal(execute(compiled.program, inputs).outputs[0], run(under, inputs).outputs[0],
                                          strict=True)
    layer = next(each for each in compiled.emitter.graph.layers if isinstance(each, PlaneMac))
    assert layer.high.weights.shape[2:] == wide
    assert layer.macs == np.prod(model.main.tensors[model.main.outputs[0]].shape) * np.prod(case.kernel) * case.shape[3]


@pytest.mark.parametrize("case", [
    Case((1, 6, 16, 16), (3, 3), 16), Case((1, 6, 16, 2), (3, 3), 8, dilation=(1, 2)), Case((1, 6, 17, 3), (3, 3), 16),
    Case((1, 6, 16, 3), (1, 1), 16)],
    ids=["whole words", "columns apart", "a prime width", "single pixels"])
def test_what_stays(case: Case) -> None:
    compiled = compile_model(case.build(), load_config("n16"))
    layer = next(each for each in compiled.emitter.graph.layers if isinstance(each, PlaneMac))
    assert layer.high.weights.shape == (case.outputs, *case.kernel, case.shape[3])


def test_weights_are_at_their_places() -> None:
    """Results 2 and 3 of each wide pixel begin 2 and 4 pixels later; the image begins a pixel after the kernel."""
    found = find_wide_pixels((1, 1, 8, 1), (1, 1, 4, 1), (1, 1, 5, 1), 2, 1)
    assert found is not None and (found.inputs, found.outputs, found.taps, found.pad) == (8, 4, 3, 1)
    made = found.weights(np.arange(1, 6).reshape(1, 1, 5, 1))
    assert made.shape == (4, 1, 3, 8)
    assert [np.flatnonzero(row).tolist() for row in made.reshape(4, 24)] == [
        [7, 8, 9, 10, 11], [9, 10, 11, 12, 13], [11, 12, 13, 14, 15], [13, 14, 15, 16, 17]]
