"""Types and scales of the tensors of 16x8 models: int16 activations, int8 weights."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.model.rules.refusals import message_of
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, Quantization
from tq_hw.model.rules.check import check_model
from tq_hw.model.samples.build import ModelBuilder


def conv(bias: Any = np.int64, scale: float = 0.25, **options: Any) -> Model:
    b = ModelBuilder("m")
    image = b.input((1, 5, 5, 3), "int16", scale=0.5, name="in")
    weights = b.constant(np.ones((2, 3, 3, 3), np.int8), scale=[0.1, 0.2], name="w")
    biases = b.constant(np.ones(2, bias), scale=[0.05, 0.1], name="b")
    return b.model(b.add("CONV_2D", [image, weights, biases], scale=scale, **options))


def words(source: str = "int16", scale: Any = 0.1, bias: bool = False, **options: Any) -> Model:
    """A product with weights of int16."""
    b = ModelBuilder("m")
    x, weights = b.input((2, 4), source, scale=0.5, name="in"), b.input((2, 4), "int16", scale=0.1, name="w")
    if not isinstance(scale, float):
        weights = b.constant(np.ones((2, 4), np.int16), scale=scale, name="w")
    biases = b.constant(np.ones(2, np.int64), scale=0.05, name="b") if bias else -1
    return b.model(b.add("FULLY_CONNECTED", [x, weights, biases], scale=0.25, **options))


def unary(op: str, **changes: Any) -> Model:
    b = ModelBuilder("m")
    return b.model(b.add(op, [b.input((1, 4), "int16", scale=0.05, name="in")], **changes))


def add(scale: float, **options: Any) -> Model:
    b = ModelBuilder("m")
    return b.model(b.add("ADD", [b.input((1, 4), "int16", scale=scale) for _ in range(2)], scale=scale, **options))


def edited(model: Model, index: int, **changes: Any) -> Model:
    tensors = list(model.main.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)
    return Model(model.name, (dataclasses.replace(model.main, tensors=tuple(tensors)),))


def test_accepts_what_converters_write() -> None:
    for model in (conv(), conv(quantized_bias_type="int64"), conv(np.int32, quantized_bias_type="int32"),
                  unary("LOGISTIC"), unary("TANH"), unary("SOFTMAX"), unary("RELU"), add(0.3), words(),
                  add(0.25, pot_scale_int16=False)):
        check_model(model)


BIAS = ("Give int8 activations an int32 bias, int16 ones an int64 bias or an int32 one that quantized_bias_type names. "
        "Found ")


@pytest.mark.parametrize("model, message", [
    (conv(np.int32), BIAS + "int32 for tensor 2 'b', quantized_bias_type float32."),
    (conv(np.int64, quantized_bias_type="int32"), BIAS + "int64 for tensor 2 'b', quantized_bias_type int32."),
    (conv(np.int64, quantized_bias_type="int16"), BIAS + "quantized_bias_type int16."),
    (edited(conv(), 0, quantization=Quantization((0.5,), (3,))),
     "Give int16 activations zero point 0. Found zero point 3 for tensor 0 'in'."),
    (edited(conv(), 3, dtype="int8"),
     "Use the same type for inputs and outputs. Found int16 for tensor 0 'in' and int8 for tensor 3 't3'."),
    (conv(scale=0.0001), "Keep the rescaling multiplier of 64-bit sums below 2^7: the kernels shift left by at "
     "most 7 bits. Found multiplier 1000 from the scales."),
    (unary("LOGISTIC", scale=0.25), "Give the output the scale and zero point that the specification fixes. Found "
     "scale 0.25, zero point 0 for tensor 1 't1', expected scale 1/32768, zero point 0; LiteRT refuses the file."),
    (unary("SOFTMAX", dtype="int8"), "Give an int16 SOFTMAX an int16 output. Found int8 for tensor 1 't1'."),
    (unary("HARD_SWISH"), "input 0, tensor 0 'in', has type int16, expected int8; quantize the whole model to int8"),
])
def test_refuses(model: Model, message: str) -> None:
    assert message_of(model) == message


def test_sums_that_are_only_shifted() -> None:
    reason = ("Clear pot_scale_int16 where scales are different powers of two, or ADD broadcasts: shifts are not "
              "supported. Found scales ")
    assert message_of(edited(add(0.25), 1, quantization=Quantization((0.125,), (0,))), UnsupportedError) == (
        f"{reason}0.25, 0.125, 0.25.")
    assert message_of(edited(add(0.25), 1, shape=(4,)), UnsupportedError) == f"{reason}0.25, 0.25, 0.25."


@pytest.mark.parametrize("model, found", [
    (words("int8"), "int8 for tensor 0 'in'."), (words(scale=[0.1, 0.2]), "2 scales for tensor 2 'w'."),
    (words(bias=True), "tensor 2 'b'."), (words(fused_activation_function="RELU"), "RELU."),
    (words(quantized_bias_type="int32"), "quantized_bias_type int32.")],
    ids=["int8", "scales", "bias", "activation", "sums"])
def test_refuses_weights_of_int16(model: Model, found: str) -> None:
    assert message_of(model, UnsupportedError) == (
        "Give weights of int16 to int16 activations, with one scale, sums of 64 bits, no bias and no fused activation. "
        f"Found {found}")
