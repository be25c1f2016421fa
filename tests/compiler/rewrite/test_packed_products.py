"""FULLY_CONNECTED of two computed float32 matrices, as in exports of attention with one head: LiteRT's bits."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_resizes import hold
from tests.compiler.rewrite.test_packed_rows import codes, real, sums
from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.oracles import Oracle


def product(b: ModelBuilder, x: int, y: int, *, keep: bool = True, activation: str = "NONE",
            bias: tuple[float, ...] = ()) -> int:
    units, depth = b.tensors[y].shape
    shape = b.tensors[x].shape
    inputs = [x, y, b.constant(np.array(bias, np.float32))] if bias else [x, y]
    return b.add("FULLY_CONNECTED", inputs, shape=(*shape[:-1], units) if keep else (np.prod(shape) // depth, units),
                 options={"keep_num_dims": keep, "fused_activation_function": activation})


@pytest.mark.parametrize(("keep", "activation", "bias"), [
    (True, "NONE", ()), (False, "NONE", ()), (True, "RELU", (0.5, -3.0, 0.0)), (False, "RELU6", (1e-3, 7.0, -0.0))])
def test_rows_by_rows(keep: bool, activation: str, bias: tuple[float, ...], litert: Oracle) -> None:
    """Quantized, and as an output in float32."""
    b = ModelBuilder("product")
    made = product(b, sums(b, (1, 2, 5, 7)), sums(b, (3, 7)), keep=keep, activation=activation, bias=bias)
    hold(b, litert, codes(b, made, 0.3, 3), made)


def test_attention_of_one_head(litert: Oracle) -> None:
    """As in PVTv2: few keys, and values that are transposed."""
    b = ModelBuilder("attention")
    scores = product(b, sums(b, (1, 1, 6, 4)), b.add("RESHAPE", [sums(b, (1, 1, 3, 4)), b.constant([3, 4])],
                                                     shape=(3, 4)))
    values = b.add("TRANSPOSE", [real(b, (3, 5)), b.constant([1, 0])], shape=(5, 3))
    hold(b, litert, codes(b, product(b, b.add("SOFTMAX", [scores]), values), 0.02, 3))


@pytest.mark.parametrize("position", [0, 1])
def test_constants(position: int, litert: Oracle) -> None:
    """As the edges of a graph, which PyTorch's PT2E leaves in float32."""
    b = ModelBuilder("edges")
    sides = [b.constant(np.linspace(-1, 1, 21, dtype=np.float32).reshape(3, 7)), real(b, (2, 7))]
    made = product(b, sides[position], sides[1 - position])
    hold(b, litert, codes(b, made, 0.02, 3))


def test_layers_of_float32_are_refused() -> None:
    """A layer that was not quantized."""
    b = ModelBuilder("dense")
    made = product(b, real(b, (129, 16)), b.constant(np.ones((32, 16), np.float32)))
    data = b.build(codes(b, made))
    with pytest.raises(ModelError, match=r"operator 1 FULLY_CONNECTED: input 0, .* has type float32, expected int8 or "
                       "int16; quantize the whole model to int8, or leave the operator to LiteRT on the host by "
                       "`tq-hw compile --partition`"):
        parse_model(data, "dense", check=True)


def test_models_of_float32_are_refused() -> None:
    b = ModelBuilder("float")
    made = product(b, b.input((2, 7), "float32"), b.constant(np.ones((3, 7), np.float32)))
    with pytest.raises(ModelError, match=r"operator 0 FULLY_CONNECTED: input 0, .* has type float32, expected int8 or "
                       "int16; quantize the whole model to int8$"):
        parse_model(b.build(made), "float")
