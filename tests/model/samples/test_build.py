import numpy as np
import pytest

from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model


def test_infers_output_quantization():
    builder = ModelBuilder()
    image = builder.input((1, 4), scale=0.5, zero_point=7)
    for op, expected in (("SOFTMAX", (1 / 256, -128)), ("TANH", (1 / 128, 0)), ("RELU", (0.5, 7))):
        tensor = builder.tensors[builder.add(op, [image])]
        assert (tensor.scale, tensor.zero_point) == expected
    assert builder.tensors[builder.add("LESS", [image, image])].dtype == "bool"
    assert builder.tensors[builder.add("DEQUANTIZE", [image])].dtype == "float32"
    assert builder.tensors[builder.add("SHAPE", [image])].dtype == "int32"
    assert builder.tensors[builder.add("CAST", [image], out_data_type="int32")].dtype == "int32"


def test_a_bias_has_float32_product_scales():
    builder = ModelBuilder()
    image = builder.input((1, 4), scale=0.3)
    weights = builder.constant(np.zeros((2, 4), np.int8), scale=[0.1, 0.7])
    bias = builder.tensors[builder.bias(image, weights, [1, 2])]
    assert bias.dtype == "int32"
    assert bias.quantization is not None
    assert bias.quantization.scale == tuple(float(np.float32(0.3) * np.float32(scale)) for scale in (0.1, 0.7))


def test_equal_arrays_share_a_buffer():
    array = np.arange(1000, dtype=np.int8)
    sizes = []
    for second in (array, array.copy()):
        builder = ModelBuilder()
        builder.input((1,))
        sizes.append(len(builder.build(builder.constant(array), builder.constant(second))))
    assert sizes[1] - sizes[0] >= 1000


def test_buffers_are_aligned_to_16_bytes():
    builder = ModelBuilder()
    builder.input((1,))
    arrays = [np.full(size, size, np.uint8) for size in (33, 17, 40)]
    data = builder.build(*map(builder.constant, arrays))
    assert [data.index(array.tobytes()) % 16 for array in arrays] == [0, 0, 0]


def test_the_docstring_example_runs():
    builder = ModelBuilder("conv")
    image = builder.input((1, 8, 8, 3), scale=0.5, zero_point=-3)
    weights = builder.constant(np.ones((2, 3, 3, 3), np.int8), scale=[0.1, 0.2])
    bias = builder.bias(image, weights, [5, -7])
    result = builder.add("CONV_2D", [image, weights, bias], scale=0.25, zero_point=4, padding="SAME", stride_h=2,
                         stride_w=2)
    model = parse_model(builder.build(result), "conv.tflite")
    assert model.main.tensors[result].shape == (1, 4, 4, 2)


@pytest.mark.parametrize("operator, message", [
    (Operator(0, "NO_OP", (0,), (1,)), "operator must be in the schema, not 'NO_OP'"),
    (Operator(0, "RELU", (0,), (1,), {"a": 1}), "RELU has no options, not ['a']"),
    (Operator(0, "MUL", (0,), (1,), {"a": 1}), "option of MUL must be one of ['fused_activation_function'], not 'a'"),
    (Operator(0, "MUL", (0,), (1,), {"fused_activation_function": "RELU7"}),
     "fused_activation_function must be one of NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT, not 'RELU7'"),
    (Operator(0, "SOFTMAX", (0,), (1,), {"beta": "x"}), "beta must be of kind float32, not 'x'"),
])
def test_refuses_what_the_schema_does_not_have(operator, message):
    tensors = tuple(Tensor(index, "", "int8", (1,)) for index in range(2))
    with pytest.raises(ValueError) as caught:
        write_model(Model("m", (Subgraph("", tensors, (operator,), (0,), (1,)),)))
    assert str(caught.value) == message


def test_refuses_an_unknown_dtype():
    with pytest.raises(ValueError, match="^dtype must be in the schema, not 'int5'$"):
        write_model(Model("m", (Subgraph("", (Tensor(0, "", "int5", (1,)),), (), (0,), (0,)),)))


def test_a_bias_needs_weights_with_scales():
    builder = ModelBuilder()
    weights = builder.constant(np.zeros((2, 4), np.int8))
    with pytest.raises(ValueError, match="^tensor 0 must have scales to give a bias$"):
        builder.bias(builder.input((1,), scale=1.0), weights, [1])


def test_litert_runs_what_was_built():
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="the oracles are not installed")
    builder = ModelBuilder()
    image = builder.input((1, 4, 4, 2), scale=0.5, zero_point=3)
    pooled = builder.add("MAX_POOL_2D", [image], filter_height=4, filter_width=4, padding="VALID")
    flat = builder.add("RESHAPE", [pooled, builder.constant([1, 2])])
    data = builder.build(builder.add("QUANTIZE", [flat], scale=1.0, zero_point=-10))
    run = interpreter.Interpreter(model_content=data)
    run.allocate_tensors()
    run.set_tensor(run.get_input_details()[0]["index"], np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2))
    run.invoke()
    # (30 - 3) / 2 - 10 and (31 - 3) / 2 - 10.
    assert run.get_tensor(run.get_output_details()[0]["index"]).tolist() == [[4, 4]]
