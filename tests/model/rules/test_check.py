import re
from functools import partial

import numpy as np
import pytest

from tests.model.rules.refusals import edit_operator, edit_tensor, message_of, options
from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Quantization, Subgraph
from tq_hw.model.rules.check import check_model, rules_of
from tq_hw.model.rules.signatures import SIGNATURES
from tq_hw.model.samples.build import ModelBuilder


def conv(op="CONV_2D", channels=2, weight_scale=(0.1, 0.2), **options):
    """One convolution: input 0, weights 1, bias 2, output 3."""
    builder = ModelBuilder("m")
    image = builder.input((1, 5, 5, 3 if op == "CONV_2D" else channels), scale=0.5, zero_point=-3, name="in")
    shape = (channels, 3, 3, 3) if op == "CONV_2D" else (1, 3, 3, channels)
    weights = builder.constant(np.ones(shape, np.int8), scale=weight_scale, name="w",
                               dimension=0 if op == "CONV_2D" else 3)
    bias = builder.bias(image, weights, [1] * channels, name="b")
    return builder.model(builder.add(op, [image, weights, bias], scale=0.25, zero_point=4, **options))


def unary(op, source=(0.05, 0), result=(0.05, 0), **options):
    builder = ModelBuilder("m")
    image = builder.input((1, 4), scale=source[0], zero_point=source[1], name="in")
    return builder.model(builder.add(op, [image], scale=result[0], zero_point=result[1], **options))


def binary(op, first=0.05, second=0.05, result=0.05, **options):
    builder = ModelBuilder("m")
    inputs = [builder.input((1, 4), scale=scale) for scale in (first, second)]
    return builder.model(builder.add(op, inputs, scale=result, **options))


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_accepts_a_convolution(op):
    check_model(conv(op))


def test_an_unknown_operator_is_left_to_the_compiler():
    check_model(edit_operator(conv(), op="CUSTOM:X", inputs=(), outputs=(), options={}))


@pytest.mark.parametrize("inputs, message", [
    ((0,), "has 1 inputs, expected 2 to 3"), ((0, 1, 2, 2), "has 4 inputs, expected 2 to 3"),
    ((-1, 1, 2), "input 0 is missing"), ((), "has 0 inputs, expected 2 to 3"),
])
def test_counts_inputs(inputs, message):
    assert message_of(edit_operator(conv(), inputs=inputs)) == message


def test_counts_outputs():
    assert message_of(edit_operator(conv(), outputs=())) == "has 0 outputs, expected 1"


@pytest.mark.parametrize("index, changes, message", [
    (0, {"dtype": "float32"}, "input 0, tensor 0 'in', has type float32, expected int8 or int16; quantize the whole "
     "model to int8, or leave the operator to LiteRT on the host by `tq-hw compile --partition`"),
    (2, {"dtype": "int8"}, "input 2, tensor 2 'b', has type int8, expected int32 or int64"),
    (0, {"dtype": "complex64"}, "input 0, tensor 0 'in', has type complex64, expected int8 or int16; leave spectra to "
     "LiteRT on the host by `tq-hw compile --partition`"),
    (2, {"dtype": "int64"}, "Give int8 activations an int32 bias, int16 ones an int64 bias or an int32 one that "
     "quantized_bias_type names. Found int64 for tensor 2 'b'."),
    (0, {"dtype": "int16"}, "Use the same type for inputs and outputs. Found int16 for tensor 0 'in' and int8 for "
     "tensor 3 't3'."),
    (0, {"quantization": None}, "input 0, tensor 0 'in', has no quantization, int8 needs a scale and a zero point"),
    (3, {"quantization": None}, "output 0, tensor 3 't3', has no quantization, int8 needs a scale and a zero point"),
    (0, {"quantization": Quantization((0.5,) * 3, (0,) * 3, 3)}, "input 0, tensor 0 'in', has 3 scales, an "
     "activation has one: per-axis scales are for constant weights"),
    (1, {"quantization": None}, "Give weights scales, and constant ones zero point 0. Found no quantization for "
     "tensor 1 'w'."),
    (1, {"quantization": Quantization((0.1, 0.2), (0, -1))}, "Give weights scales, and constant ones zero point 0. "
     "Found zero point -1 for tensor 1 'w'."),
    (1, {"quantization": Quantization((0.1,) * 3, (0,) * 3, 3)}, "Give weights one scale, or one for each output "
     "channel. Found scales along axis 3 for tensor 1 'w', output channels are axis 0."),
    (2, {"quantization": Quantization((0.05, 0.1), (0, 1))}, "Give the bias zero point 0. Found zero point 1 for "
     "tensor 2 'b'."),
    (3, {"quantization": Quantization((1e-12,), (0,))}, "Keep the rescaling multiplier below 2^30: the kernels shift "
     "left by at most 30 bits. Found multiplier 1e+11 from the scales."),
    (3, {"shape": (1, 5, 5, 3)}, "output 0 has shape [1, 5, 5, 3], expected [1, 5, 5, 2]"),
    (2, {"shape": (1,)}, "bias has shape [1], expected 2 elements"),
    (0, {"shape": (1, 0, 5, 3)}, "Do not leave a data tensor empty. Found shape [1, 0, 5, 3] for tensor 0 'in'."),
    (0, {"shape": (5, 5, 3)}, "input has shape [5, 5, 3] of rank 3, expected rank 4"),
    (0, {"shape": (1, 5, 5, 4)}, "input has 4 channels and weights have shape [2, 3, 3, 3]: channels do not match"),
])
def test_a_convolution_obeys_the_rules(index, changes, message):
    assert message_of(edit_tensor(conv(), index, **changes)) == message


@pytest.mark.parametrize("changes, message", [
    ({"stride_h": -1}, "height stride is -1, expected 1 to 32767"),
    ({"stride_w": 0}, "width stride is 0, expected 1 to 32767"),
    ({"dilation_h_factor": 0}, "height dilation is 0, expected 1 to 32767"),
    ({"dilation_w_factor": 40000}, "width dilation is 40000, expected 1 to 32767"),
    ({"padding": "VALID", "dilation_h_factor": 3}, "height is 5, less than the filter's 7, with padding VALID"),
    ({"fused_activation_function": "TANH"}, "Fuse no activation other than RELU, RELU6 and RELU_N1_TO_1. Found TANH."),
])
def test_a_convolution_has_valid_options(changes, message):
    assert message_of(options(conv(), **changes)) == message


@pytest.mark.parametrize("scales", [(0.05, 0.11), (1e3,), (1e-30, 1e30)])
def test_the_bias_scale_of_a_convolution_is_not_read(scales):
    check_model(edit_tensor(conv(), 2, quantization=Quantization(scales, (0,) * len(scales))))


def dense(bias_scale, weight_scales=0.2, output_scale=0.5):
    builder = ModelBuilder("m")
    inputs = [builder.input((1, 4), scale=0.1), builder.constant(np.ones((3, 4), np.int8), scale=weight_scales),
              builder.constant([1, 2, 3], scale=bias_scale, name="b")]
    return builder.model(builder.add("FULLY_CONNECTED", inputs, scale=output_scale))


@pytest.mark.parametrize("bias_scale, weight_scales, output_scale", [
    (0.02, 0.2, 0.5), (0.0299, 0.2, 0.5), (0.0101, 0.2, 0.5), ([0.02, 5.0, 5.0], 0.2, 0.5), (None, 0.2, 1.01),
    (1e3, [0.2] * 3, 0.5), (None, [0.2] * 3, 0.5)])
def test_accepts_a_bias_scale(bias_scale, weight_scales, output_scale):
    check_model(dense(bias_scale, weight_scales, output_scale))


@pytest.mark.parametrize("bias_scale, found", [
    (0.0301, "0.0301"), (0.0099, "0.0099"), (1e3, "1000"), (None, "0"), ([5.0, 0.02, 0.02], "5")])
def test_rejects_a_bias_scale(bias_scale, found):
    assert message_of(dense(bias_scale)) == (
        "With one weight scale, keep the bias scale within 1/50 of the output scale of input scale times weight scale. "
        f"Found bias scale {found} for tensor 2 'b', expected 0.02 at output scale 0.5.")


def test_a_bias_needs_no_quantization():
    check_model(edit_tensor(conv(), 2, quantization=None))


def test_a_depth_multiplier_fits_the_channels():
    assert message_of(options(conv("DEPTHWISE_CONV_2D"), depth_multiplier=2)) == (
        "input has 2 channels, weights have shape [1, 3, 3, 2], depth_multiplier is 2: channels do not match")
    check_model(options(conv("DEPTHWISE_CONV_2D"), depth_multiplier=0))


def test_computed_weights_have_one_scale():
    builder = ModelBuilder("m")
    source = builder.input((2, 3), scale=0.1)
    weights = builder.tensor((2, 3), scale=[0.1, 0.2], name="w")
    builder.inputs.append(weights)
    model = builder.model(builder.add("FULLY_CONNECTED", [source, weights, -1], scale=0.2))
    assert message_of(model) == "Give computed weights one scale. Found 2 scales for tensor 1 'w'."


def test_computed_weights_are_not_supported():
    assert message_of(edit_tensor(conv(), 1, data=None), UnsupportedError) == (
        "Make weights and bias constant, except for the weights of FULLY_CONNECTED. Found tensor 1 'w', which is "
        "computed at run time; use BATCH_MATMUL for a product of activations.")


def test_shuffled_weights_are_rejected():
    builder = ModelBuilder("m")
    weights = builder.constant(np.ones((4, 8), np.int8), scale=0.1)
    model = builder.model(builder.add("FULLY_CONNECTED", [builder.input((1, 8), scale=0.5), weights], scale=1.0,
                                      weights_format="SHUFFLED4x16INT8"))
    assert message_of(model) == (
        "Store weights in DEFAULT format, not shuffled. Found weights_format SHUFFLED4x16INT8.")


@pytest.mark.parametrize("op, scale, zero_point, text", [
    ("LOGISTIC", 1 / 256, -128, "1/256, zero point -128"), ("SOFTMAX", 1 / 256, -128, "1/256, zero point -128"),
    ("L2_NORMALIZATION", 1 / 128, 0, "1/128, zero point 0"),
    ("LOG_SOFTMAX", 16 / 256, 127, "1/16, zero point 127"),
])
def test_some_outputs_are_fixed(op, scale, zero_point, text):
    check_model(unary(op, result=(scale, zero_point)))
    assert message_of(unary(op, result=(0.5, 1))) == (
        f"Give the output the scale and zero point that the specification fixes. Found scale 0.5, zero point 1 for "
        f"tensor 1 't1', expected scale {text}; LiteRT refuses the file.")


def test_a_softmax_has_a_scale_within_a_thousandth() -> None:
    check_model(unary("SOFTMAX", result=(1.0009 / 256, -128)))
    assert message_of(unary("SOFTMAX", result=(1.0011 / 256, -128))).endswith("LiteRT refuses the file.")


def test_a_tanh_of_int8_has_any_output() -> None:
    check_model(unary("TANH", result=(0.5, 1)))


def test_an_int16_softmax_has_its_own_output():
    check_model(unary("SOFTMAX", result=(1 / 65535, -32768), dtype="int16"))
    assert "expected scale 1/65536, zero point -32768" in message_of(
        unary("SOFTMAX", result=(1 / 256, -128), dtype="int16"))


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools_do_not_rescale(op):
    builder = ModelBuilder("m")
    image = builder.input((1, 4, 4, 1), scale=0.5, name="in")
    assert message_of(builder.model(builder.add(op, [image], scale=0.25))) == (
        "Use the same scale and zero point for inputs and outputs. Found scale 0.5, zero point 0 for tensor 0 'in' and "
        "scale 0.25, zero point 0 for tensor 1 't1'.")


@pytest.mark.parametrize("op, changes", [
    ("CONCATENATION", {"second": 0.06}), ("MAXIMUM", {"second": 0.06}), ("MINIMUM", {"result": 0.06}),
])
def test_some_operators_share_one_quantization(op, changes):
    check_model(binary(op))
    assert message_of(binary(op, **changes)).startswith("Use the same scale and zero point for inputs and outputs. "
                                                        "Found")


def test_moved_data_keeps_its_type():
    model = binary("CONCATENATION")
    assert message_of(edit_tensor(model, 1, dtype="uint8")) == (
        "Use the same type for inputs and outputs. Found int8 for tensor 0 't0' and uint8 for tensor 1 't1'.")


def test_a_concatenation_fuses_nothing():
    assert message_of(options(binary("CONCATENATION"), fused_activation_function="RELU")) == (
        "Fuse no activation: the kernel has none. Found RELU.")


@pytest.mark.parametrize(("op", "why"), [("ADD", "the kernels abort"),
                                         ("SUB", "LiteRT's result is undefined")])
def test_sums_have_a_multiplier_below_one(op, why):
    check_model(binary(op, first=1.0, result=2.0**-18))
    assert message_of(binary(op, first=1.0, result=2.0**-19)) == (
        f"Keep twice the larger input scale below 2^20 output scales (int16: 2^15), else {why}. Found "
        "input scale 1, output scale 1.90735e-06.")


def test_comparisons_have_scales_below_one():
    check_model(binary("LESS", first=0.99))
    assert message_of(binary("LESS", second=1.0)) == (
        "Keep input scales below 1: otherwise TFLite Micro aborts and LiteRT's result is undefined. Found scale 1.")


def test_softmax_has_a_multiplier_above_one():
    assert message_of(unary("SOFTMAX", result=(1 / 256, -128), beta=0.0)) == (
        "Keep beta times the input scale above 2^-26: the kernels abort below that. Found beta 0, scale 0.05.")


def test_hard_swish_has_a_multiplier_below_one():
    assert message_of(unary("HARD_SWISH", source=(1.0, 0), result=(1 / 128, 0))) == (
        "Keep the input scale below 128 output scales: the kernels refuse others. Found input scale 1, output scale "
        "0.0078125.")


def test_hard_swish_has_an_input_scale_that_is_shifted_by_at_most_30_bits():
    check_model(unary("HARD_SWISH", source=(2.5e7, 0), result=(2.5e7, 0)))
    assert message_of(unary("HARD_SWISH", source=(3 * 2.0**23, 0), result=(2.5e7, 0))) == (
        "Keep the input scale below 3 * 2^23: the kernels shift left by at most 30 bits. Found input scale "
        "2.51658e+07.")


@pytest.mark.parametrize("model", [
    binary("MUL", 1e5, 1e5, 1e-6), unary("RELU", (1e5, 0), (1e-6, 0)), unary("LEAKY_RELU", (1e5, 0), (1e-6, 0)),
    unary("QUANTIZE", (1e5, 0), (1e-6, 0)),
], ids=["MUL", "RELU", "LEAKY_RELU", "QUANTIZE"])
def test_multipliers_fit(model):
    assert message_of(model).startswith("Keep the rescaling multiplier below 2^30")


def test_quantize_takes_floats():
    builder = ModelBuilder("m")
    check_model(builder.model(builder.add("QUANTIZE", [builder.input((4,), "float32")], scale=0.5)))


def test_an_index_has_the_type_of_the_options():
    builder = ModelBuilder("m")
    model = builder.model(builder.add("ARG_MAX", [builder.input((1, 4), scale=0.5), builder.constant([1])]))
    check_model(model)
    assert message_of(options(model, output_type="int64")) == (
        "Give the output the type named in the options. Found int32 for tensor 2 't2', output_type int64.")


def test_every_rule_is_a_sentence():
    for op in SIGNATURES:
        for sentence in rules_of(op):
            assert sentence.endswith(".")
            assert "\n" not in sentence


def test_a_subgraph_without_operators_is_valid():
    check_model(Model("m", (Subgraph("", (), (), (), ()),)))
    check_model(Model("m", (Subgraph("", (), (Operator(0, "CALL_ONCE", (), ()),), (), ()),)))


def test_weights_of_an_operator_in_float32_are_named():
    builder = ModelBuilder("m")
    weights = builder.constant(np.ones((2, 3), np.int8), scale=[0.1, 0.2], name="w")
    with pytest.raises(UnsupportedError, match="operator 0 DEQUANTIZE: input 0, tensor 0 'w', is weights of 2 scales, "
                       "read by an operator left in float32; quantize the whole model to int8$"):
        check_model(builder.model(builder.add("DEQUANTIZE", [weights])))
    builder.input((2, 3), scale=0.1)
    with pytest.raises(UnsupportedError, match="quantize the whole model to int8, or leave the operator to LiteRT on "
                       "the host by `tq-hw compile --partition`$"):
        check_model(builder.model(builder.add("DEQUANTIZE", [weights])))


def test_quantized_weights_of_a_float32_model_are_named():
    builder = ModelBuilder("m")
    image = builder.input((1, 300), dtype="float32", name="in")
    builder.constant(np.ones((2, 3), np.int8), scale=[0.1])
    op = partial(builder.add, "FULLY_CONNECTED", [image, builder.constant(np.ones((300, 300), np.float32))])
    message = "operator 0 FULLY_CONNECTED: input 0, tensor 0 'in', has type float32, expected int8 or int16; "
    with pytest.raises(ModelError, match=re.escape(
            message + "weights are integers and activations are not (dynamic-range quantization): give the converter a "
            "representative dataset, and quantize the whole model to int8") + "$"):
        check_model(builder.model(op()))
    # If there are int8 activations, too, only this operator was left in float32.
    builder.input((1, 3), scale=0.1)
    with pytest.raises(ModelError, match=re.escape(message + "quantize the whole model to int8")):
        check_model(builder.model(op()))
