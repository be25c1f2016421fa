"""Post-training quantization of the digits network, by the TFLite int8 specification.

Activations are int8 with one scale and zero point per tensor, from the range of the training
images; weights are symmetric, -127..127, with one scale per output channel in convolutions
and one for all in FULLY_CONNECTED; biases are int32 with the product of both scales.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from layers import Conv, Dense, DepthwiseConv, Layer, MaxPool, Residual

from tq_hw.model.samples.build import ModelBuilder

__all__ = ["quantize"]


@dataclass(frozen=True)
class Range:
    """Scale and zero point of a tensor."""

    scale: float
    zero_point: int


def _activation(values: np.ndarray) -> Range:
    """Return the int8 quantization that covers the values and 0."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = float(np.float32((high - low) / 255))
    return Range(scale, int(np.clip(round(-128 - low / scale), -128, 127)))


def _int8(values: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    rounded: np.ndarray = np.rint(values / scale) + zero_point
    return rounded.clip(-128, 127).astype(np.int8)


class _Writer:
    """Adds each layer to a model while it runs the calibration images through the float network."""

    def __init__(self, images: np.ndarray):
        self.builder = ModelBuilder("digits")
        self.images = images
        self.input = _activation(images)
        self.tensor = self.builder.input((1, *images.shape[1:]), scale=self.input.scale,
                                         zero_point=self.input.zero_point, name="image")

    def add(self, layer: Layer, name: str) -> None:
        """Add one layer's operators; `name` names its output tensor."""
        before = self.images
        if isinstance(layer, Residual):
            shortcut = self.tensor
            for position, inner in enumerate(layer.branch):
                self.add(inner, f"{name}_{position}")
            self.images = layer(before)
            self.tensor = self._operator("ADD", [shortcut, self.tensor], fused_activation_function="RELU")
        elif isinstance(layer, MaxPool):
            self.images = layer(before)
            self.tensor = self.builder.add("MAX_POOL_2D", [self.tensor], filter_height=2, filter_width=2, stride_h=2,
                                           stride_w=2, padding="VALID")
        elif isinstance(layer, Dense):
            flat = self.builder.constant([1, layer.weights.shape[0]])
            self.tensor = self.builder.add("RESHAPE", [self.tensor, flat], shape=(1, layer.weights.shape[0]))
            self.images = layer(before)
            self._weighted("FULLY_CONNECTED", layer.weights.T, layer.bias, None, 0)
        elif isinstance(layer, Conv):
            self.images = layer(before)
            self._weighted("CONV_2D", layer.weights.transpose(3, 0, 1, 2), layer.bias, (1, 2, 3), 0,
                           **self._window(layer))
        elif isinstance(layer, DepthwiseConv):
            self.images = layer(before)
            self._weighted("DEPTHWISE_CONV_2D", layer.weights[None], layer.bias, (0, 1, 2), 3, **self._window(layer))
        self._rename(name)

    def softmax(self) -> bytes:
        """Add SOFTMAX and return the file."""
        self.tensor = self.builder.add("SOFTMAX", [self.tensor])
        self._rename("probabilities")
        return self.builder.build(self.tensor)

    @staticmethod
    def _window(layer: Conv | DepthwiseConv) -> dict[str, Any]:
        return {"padding": "SAME", "stride_h": layer.stride, "stride_w": layer.stride,
                "fused_activation_function": "RELU" if layer.relu else "NONE"}

    def _weighted(self, op: str, weights: np.ndarray, bias: np.ndarray, over: tuple[int, ...] | None, dimension: int,
                  **options: Any) -> None:
        """Add a multiply-accumulate operator; `over` are the axes that share a scale, None for all."""
        scale = np.maximum(np.abs(weights).max(over, keepdims=True), 1e-6) / 127
        stored = self.builder.constant(np.rint(weights / scale).astype(np.int8), scale=scale.ravel().tolist(),
                                       dimension=dimension)
        source_scale = self.builder.tensors[self.tensor].scale
        addend = np.rint(bias / (source_scale * scale.ravel())).astype(np.int32)
        inputs = [self.tensor, stored, self.builder.bias(self.tensor, stored, addend)]
        self.tensor = self._operator(op, inputs, **options)

    def _operator(self, op: str, inputs: list[int], **options: Any) -> int:
        out = _activation(self.images)
        return self.builder.add(op, inputs, scale=out.scale, zero_point=out.zero_point, **options)

    def _rename(self, name: str) -> None:
        self.builder.tensors[self.tensor] = replace(self.builder.tensors[self.tensor], name=name)


def quantize(layers: list[Layer], images: np.ndarray, test_images: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Return the model file, calibrated with `images`, and `test_images` as int8 inputs (n, 1, 8, 8, 1)."""
    writer = _Writer(images)
    names = {Conv: "conv", Residual: "residual", MaxPool: "pool", Dense: "logits"}
    for position, layer in enumerate(layers):
        writer.add(layer, f"{names[type(layer)]}_{position}")
    return writer.softmax(), _int8(test_images[:, None], writer.input.scale, writer.input.zero_point)
