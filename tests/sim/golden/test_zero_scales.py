"""model.tflite.zeros: scales of 0, and infinite ones, are accepted for tensors that are all zeros, else rejected."""

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

#: The scale that the converter writes for a scale of 0.
TINY = 3.587324068671532e-43


def first_step(builder: ModelBuilder, op: str, rng: np.random.Generator) -> int:
    """The first step of an RNN: a state of zeros, its product, and what the gates compute from both."""
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


def test_rescaled_zeros_equal_litert(oracles: Callable[[str], Oracle]) -> None:
    """A product with a constant 0, added to a tensor of another scale."""
    builder, rng = ModelBuilder("rescaled"), np.random.default_rng(7)
    x = builder.input((1, 8), "int16", scale=1e-4)
    product = builder.tensor((1, 8), "int16", scale=TINY)
    builder.operator("MUL", [x, constant(builder, 0)], [product], {"fused_activation_function": "NONE"})
    data = builder.build(builder.add("ADD", [builder.add("QUANTIZE", [product], dtype="int16", scale=1.5e-4), x],
                                     scale=2e-4))
    model, inputs = parse_model(data, "rescaled"), [rng.integers(-32768, 32768, (1, 8)).astype(np.int16)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    for found in (run(model, inputs), execute(compile_model(model, PRESETS["n8"]).program, inputs)):
        np.testing.assert_array_equal(found.outputs[0], expected)


@pytest.mark.parametrize("op", ["FILL", "ZEROS_LIKE", "constant"])
def test_float32_zeros_that_are_quantized_equal_litert(op: str, oracles: Callable[[str], Oracle]) -> None:
    """A state from Keras' `zeros_like` or `zeros`, moved, in a 16x8 model with unsupported operators in float32."""
    builder, rng = ModelBuilder("state"), np.random.default_rng(7)
    x, nothing = builder.input((1, 8), "int16", scale=1e-4), np.array(0, np.float32)
    made = builder.constant(np.zeros((1, 8), np.float32)) if op == "constant" else builder.tensor((1, 8), "float32")
    if op == "FILL":
        builder.operator(op, [builder.constant([1, 8]), builder.constant(nothing)], [made])
    elif op == "ZEROS_LIKE":
        builder.operator(op, [builder.add("DEQUANTIZE", [x])], [made])
    zeros = builder.tensor((1, 8), "int16", scale=TINY)
    builder.operator("QUANTIZE", [made], [zeros])
    turned = builder.add("TRANSPOSE", [zeros, builder.constant([1, 0])], shape=(8, 1), scale=TINY)
    back = builder.add("RESHAPE", [turned, builder.constant([1, 8])], shape=(1, 8), scale=TINY)
    data = builder.build(builder.add("ADD", [x, builder.add("MUL", [back, x], scale=1.5e-4)], scale=2e-4))
    model, inputs = parse_model(data, "state"), [rng.integers(-32768, 32768, (1, 8)).astype(np.int16)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    for found in (run(model, inputs), execute(compile_model(model, PRESETS["n8"]).program, inputs)):
        np.testing.assert_array_equal(found.outputs[0], expected)


def test_zeros_have_the_least_normal_scale() -> None:
    builder = ModelBuilder("rnn")
    model = parse_model(builder.build(first_step(builder, "ADD", np.random.default_rng(7))), "rnn", check=False)
    scales = [tensor.scale for tensor in model.main.tensors if tensor.quantization is not None]
    assert scales.count(MIN_SCALE) == 6
    assert min(scales) == MIN_SCALE


def constant(builder: ModelBuilder, number: int) -> int:
    return builder.constant(np.full((1, 8), number, np.int16), scale=0.0, name="state")


def added(builder: ModelBuilder) -> int:
    """A sum with a tensor that is not zero."""
    return builder.add("ADD", [builder.input((1, 8), "int16", scale=0.1), constant(builder, 3)], scale=0.1)


def both(builder: ModelBuilder) -> int:
    """A sum of zeros whose larger scale is too small."""
    builder.input((1, 8), "int16", scale=0.1)
    return builder.add("ADD", [constant(builder, 0), constant(builder, 0)], scale=0.1)


def looked_up(builder: ModelBuilder) -> int:
    """A function whose table depends on the scale."""
    builder.input((1, 8), "int16", scale=0.1)
    return builder.add("TANH", [constant(builder, 0)], scale=2.0**-15)


def moved(builder: ModelBuilder) -> int:
    """Bytes that are not the zero point of the tensor they are moved to."""
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
def test_damaged_operators_are_not_zeros(inputs: tuple[int, ...]) -> None:
    """Operators that lack required inputs are rejected for that, or for the scale."""
    builder = ModelBuilder("m")
    builder.input((1, 8), "int16", scale=0.1)
    made = builder.tensor((1, 8), "int16", scale=0.0)
    builder.operator("FILL", inputs, [made])
    with pytest.raises(ModelError, match="scale is 0, expected"):
        parse_model(builder.build(made), "m.tflite")


def pruned(builder: ModelBuilder, op: str, bias: tuple[int, ...] | None, scale: float = 0.0) -> int:
    """Filters, one of which is all zeros with scale 0, as the converter writes them without a bias.

    Scales derived from a bias and a state's scale of 0 (Keras' GRU) are infinite, and their biases have none.
    """
    rng, scales = np.random.default_rng(3), [0.01, scale, 0.02]
    x = builder.input((1, 4, 4, 3) if op != "FULLY_CONNECTED" else (2, 6), "int16", scale=1e-4)
    shape, axis = {"FULLY_CONNECTED": ((3, 6), 0), "DEPTHWISE_CONV_2D": ((1, 2, 2, 3), 3)}.get(op, ((3, 2, 2, 3), 0))
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    np.moveaxis(weights, axis, 0)[1] = 0
    inputs = [x, builder.constant(weights, scale=scales, dimension=axis)]
    if bias is not None:
        inputs.append(builder.constant(np.array(bias, np.int64), scale=[1e-4 * each for each in scales]))
    return builder.add(op, inputs, scale=1e-4)


@pytest.mark.parametrize(("op", "bias"), [("FULLY_CONNECTED", None)] + [
    (op, (700, 0, -9000)) for op in ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")])
def test_filters_of_zeros_equal_litert(op: str, bias: tuple[int, ...] | None,
                                       oracles: Callable[[str], Oracle]) -> None:
    builder, rng = ModelBuilder("pruned"), np.random.default_rng(5)
    data = builder.build(pruned(builder, op, bias))
    model = parse_model(data, "pruned").under("litert")
    inputs = [rng.integers(-32768, 32768, model.main.tensors[0].shape).astype(np.int16)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    assert expected[..., 0].any() and not expected[..., 1].any()
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected)
    np.testing.assert_array_equal(execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs[0], expected)


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("scale", [float("inf"), float("nan")])
def test_filters_of_zeros_without_a_finite_scale_equal_tflm(op: str, scale: float,
                                                            oracles: Callable[[str], Oracle]) -> None:
    builder, rng = ModelBuilder("pruned"), np.random.default_rng(5)
    data = builder.build(pruned(builder, op, (700, 0, -9000), scale))
    model = parse_model(data, "pruned").under("tflm")
    inputs = [rng.integers(-32768, 32768, model.main.tensors[0].shape).astype(np.int16)]
    expected = oracles("tflm").run(data, inputs)[0]
    assert expected[..., 0].any() and not expected[..., 1].any()
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected)
    np.testing.assert_array_equal(execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs[0], expected)


@pytest.mark.parametrize("scale", [0.0, float("inf"), float("nan")])
@pytest.mark.parametrize("bias", [(1, 1, 1), (1, 0, 1)])
def test_filters_that_are_not_zeros_need_a_scale(bias: tuple[int, ...], scale: float) -> None:
    """The first has a bias where the scale is invalid; the second is also read by another operator."""
    builder = ModelBuilder("pruned")
    made = [pruned(builder, "FULLY_CONNECTED", bias, scale)]
    if not bias[1]:
        made.append(builder.add("ABS", [1], scale=0.1))
    with pytest.raises(ModelError, match=f"tensor 1 '.*', quantization: scale is {scale:g}, expected a finite normal"):
        parse_model(builder.build(*made), "pruned.tflite")


def products_of_zeros(data: np.ndarray) -> bytes:
    """As ai-edge-quantizer writes the product with a first state: a scale for each channel, for which LiteRT has 0."""
    b = ModelBuilder("state")
    state = b.constant(data, scale=[7.9e-12, 7.8e-12, 7.7e-12], dimension=1)
    x = b.input((3, 2), scale=0.01, zero_point=9)
    return b.build(b.add("BATCH_MATMUL", [state, x], shape=(4, 2), scale=3.9e-12, zero_point=-7, adj_x=False,
                         adj_y=False))


def test_zeros_with_a_scale_for_each_channel(oracles: Callable[[str], Oracle]) -> None:
    data = products_of_zeros(np.zeros((4, 3), np.int8))
    model = parse_model(data, "state")
    x = np.random.default_rng(0).integers(-128, 128, (3, 2)).astype(np.int8)
    expected = oracles("litert-ref").run(data, [x])[0]
    np.testing.assert_array_equal(run(model, [x]).outputs[0], expected)
    np.testing.assert_array_equal(execute(compile_model(model, PRESETS["n8"]).program, [x]).outputs[0], expected)


def test_others_with_a_scale_for_each_channel_are_refused() -> None:
    with pytest.raises(ModelError, match="has 3 scales, an operand of BATCH_MATMUL takes one there, constant or not; "
                                         "quantize it per tensor$"):
        parse_model(products_of_zeros(np.eye(4, 3, dtype=np.int8)), "state")
