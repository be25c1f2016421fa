"""Bias scales that differ from input scale times weight scale: rejected exactly where the engines reject them."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.model.errors import ModelError, ToolError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.oracles import Oracle

ENGINES = ("litert-ref", "tflm")


def weights_of(b: ModelBuilder, shape: tuple[int, ...], axis: int, per_channel: bool) -> int:
    data = np.random.default_rng(1).integers(-100, 100, shape).astype(np.int8)
    return b.constant(data, scale=[0.2, 0.21, 0.19] if per_channel else 0.2, dimension=axis if per_channel else 0)


def one_layer(op: str, scale: float | list[float] | None, per_channel: bool) -> bytes:
    b = ModelBuilder(op)
    bias = [100, -2000, 30]
    if op == "FULLY_CONNECTED":
        x = b.input((1, 4), scale=0.1)
        return b.build(b.add(op, [x, weights_of(b, (3, 4), 0, per_channel), b.constant(bias, scale=scale)], scale=0.5))
    x = b.input((1, 3, 3, 3), scale=0.1)
    depthwise = op == "DEPTHWISE_CONV_2D"
    weights = weights_of(b, (1, 2, 2, 3) if depthwise else (3, 2, 2, 3), 3 if depthwise else 0, per_channel)
    inputs = [x, weights, b.constant(bias, scale=scale)]
    if op == "TRANSPOSE_CONV":
        inputs = [b.constant([1, 3, 3, 3]), weights, x, inputs[2]]
    return b.build(b.add(op, inputs, scale=0.5, padding="SAME"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
@pytest.mark.parametrize("scale", [0.02, 0.022, 0.02999, 0.03001, 0.01001, 0.00999, 1e3, 1e-30, None])
def test_engines_agree_on_bias_scales(op: str, per_channel: bool, scale: float | None, engine: str,
                                      oracles: Callable[[str], Oracle], agree: Callable[..., None]) -> None:
    data = one_layer(op, scale, per_channel)
    shape = (1, 4) if op == "FULLY_CONNECTED" else (1, 3, 3, 3)
    x = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    refused = op == "FULLY_CONNECTED" and not per_channel and abs(0.02 - (scale or 0.0)) / 0.5 > 0.02
    if refused:
        with pytest.raises(ModelError, match="keep the bias scale within 1/50 of the output scale"):
            parse_model(data, "m")
        with pytest.raises(ToolError, match="scale_diff / output_scale"):
            oracles(engine).run(data, [x])
    else:
        parse_model(data, "m")
        agree(engine, data, [[x]])


def test_accepts_scales_along_the_axis_of_a_bias(oracles: Callable[[str], Oracle],
                                                 agree: Callable[..., None]) -> None:
    """As ai-edge-quantizer writes a dense layer's bias times ConvNeXt's layer scale: LiteRT does not load the file."""
    b = ModelBuilder("layer_scale")
    bias = b.constant(np.array([[[100, -2000, 30]]], np.int32), scale=[0.02, 0.021, 0.019], dimension=0)
    x = b.input((1, 2, 4), scale=0.1)
    y = b.add("FULLY_CONNECTED", [x, weights_of(b, (3, 4), 0, per_channel=True), bias], scale=0.5, keep_num_dims=True)
    data = b.build(y)
    agree("tflm", data, [[np.random.default_rng(2).integers(-128, 128, (1, 2, 4)).astype(np.int8)]])
    with pytest.raises(ToolError, match="num_scales must be 1 for per-layer quantization"):
        oracles("litert-ref").run(data, [np.zeros((1, 2, 4), np.int8)])
