"""model.tflite.zeros: scales of 0 are taken where nothing but zeros has them, and refused where a scale matters."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.zeros import MIN_SCALE
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: What the converter makes of a scale of 0.
TINY = 3.587324068671532e-43


def first_step(builder: ModelBuilder, op: str, rng: np.random.Generator) -> int:
    """The first step of an RNN: a state of zeros, its product, and what the gates make of both."""
    x = builder.input((1, 8), "int16", scale=1e-4)
    state = builder.tensor((1, 8), "int16", scale=0.0)
    builder.operator("FILL", [builder.constant([1, 8]), builder.constant(np.array(0, np.int16), scale=0.0)], [state])
    weights = builder.constant(rng.integers(-127, 128, (16, 8)).astype(np.int8), scale=0.01)
    product = builder.tensor((1, 16), "int16", scale=TINY)
    builder.operator("FULLY_CONNECTED", [state, weights, -1], [product], {"fused_activation_function": "NONE"})
    halves = [builder.tensor((1, 8), "int16", scale=TINY) for _ in range(2)]
    builder.operator("SPLIT", [builder.constant(np.array(1, np.int32)), product], halves, {"num_splits": 2})
    gated = builder.tensor((1, 8), "int16", scale=TINY)
    builder.operator("MUL", [x, halves[1]], [gated], {"fused_activation_function": "NONE"})
    made = builder.tensor((1, 8), "int16", scale=1.3e-4)
    builder.operator(op, [x, gated], [made], {"fused_activation_function": "NONE", "pot_scale_int16": False})
    return made


@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_the_first_step_of_an_rnn_equals_litert(op: str, oracles: Callable[[str], Oracle]) -> None:
    rng, builder = np.random.default_rng(7), ModelBuilder("rnn")
    data = builder.build(first_step(builder, op, rng))
    model = parse_model(data, "rnn").under("litert")
    sets = [[rng.integers(-32768, 32768, (1, 8)).astype(np.int16)] for _ in range(4)]
    program = compile_model(model, PRESETS["n8"]).program
    for inputs, expected in zip(sets, oracles("litert-ref").run_sets(data, sets), strict=True):
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected[0])
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected[0])


def test_zeros_have_the_least_normal_scale() -> None:
    builder = ModelBuilder("rnn")
    model = parse_model(builder.build(first_step(builder, "ADD", np.random.default_rng(7))), "rnn", check=False)
    scales = [tensor.scale for tensor in model.main.tensors if tensor.quantization is not None]
    assert scales.count(MIN_SCALE) == 6
    assert min(scales) == MIN_SCALE


def constant(builder: ModelBuilder, number: int) -> int:
    return builder.constant(np.full((1, 8), number, np.int16), scale=0.0, name="state")


def added(builder: ModelBuilder) -> int:
    """A sum with something that is not zero."""
    return builder.add("ADD", [builder.input((1, 8), "int16", scale=0.1), constant(builder, 3)], scale=0.1)


def both(builder: ModelBuilder) -> int:
    """A sum of zeros, whose larger scale is too small."""
    builder.input((1, 8), "int16", scale=0.1)
    return builder.add("ADD", [constant(builder, 0), constant(builder, 0)], scale=0.1)


def looked_up(builder: ModelBuilder) -> int:
    """A function whose table depends on the scale."""
    builder.input((1, 8), "int16", scale=0.1)
    return builder.add("TANH", [constant(builder, 0)], scale=2.0**-15)


def moved(builder: ModelBuilder) -> int:
    """Bytes that are not the zero point of what they become."""
    return builder.add("RESHAPE", [builder.input((1, 8), "int16", scale=0.1), builder.constant([8])], shape=(8,),
                       scale=0.0)


@pytest.mark.parametrize(("make", "tensor"), [
    (added, "1 'state'"), (both, "1 'state'"), (looked_up, "1 'state'"), (moved, "2 't2'")])
def test_a_scale_that_matters_is_refused(make: Callable[[ModelBuilder], int], tensor: str) -> None:
    builder = ModelBuilder("m")
    with pytest.raises(ModelError) as caught:
        parse_model(builder.build(make(builder)), "m.tflite")
    assert str(caught.value) == (f"m.tflite: subgraph 0, tensor {tensor}, quantization: scale is 0, expected a finite "
                                 "normal float32 above 0")


@pytest.mark.parametrize("inputs", [(), (0,)])
def test_damaged_operators_make_no_zeros(inputs: tuple[int, ...]) -> None:
    """Operators without the inputs that they need are refused for that, or for the scale."""
    builder = ModelBuilder("m")
    builder.input((1, 8), "int16", scale=0.1)
    made = builder.tensor((1, 8), "int16", scale=0.0)
    builder.operator("FILL", inputs, [made])
    with pytest.raises(ModelError, match="scale is 0, expected"):
        parse_model(builder.build(made), "m.tflite")
