"""Single layers that are measured like networks, with seeded random weights."""

from collections.abc import Callable

import numpy as np

from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

__all__ = ["LAYERS"]

_FORM = 0.05
Layer = Callable[[ModelBuilder, int], int]


def _model(name: str, shape: tuple[int, ...], layer: Layer) -> Callable[[], Model]:
    def build() -> Model:
        builder = ModelBuilder(name)
        x = builder.input(shape, scale=_FORM, zero_point=3)
        return parse_model(builder.build(layer(builder, x)), name)
    return build


def _conv(outputs: int, kernel: int, *, depthwise: bool = False) -> Layer:
    def add(b: ModelBuilder, x: int) -> int:
        rng = np.random.default_rng(0)
        channels = b.tensors[x].shape[3]
        shape = (1, kernel, kernel, channels) if depthwise else (outputs, kernel, kernel, channels)
        weights = b.constant(rng.integers(-127, 128, shape).astype(np.int8),
                             scale=rng.uniform(0.001, 0.01, outputs).tolist(), dimension=3 if depthwise else 0)
        bias = b.bias(x, weights, rng.integers(-500, 500, outputs))
        return b.add("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, weights, bias], padding="SAME", scale=_FORM,
                     zero_point=3)
    return add


def _matmul(b: ModelBuilder, x: int) -> int:
    depth = b.tensors[x].shape[1]
    data = np.random.default_rng(0).integers(-127, 128, (depth, depth)).astype(np.int8)
    return b.add("FULLY_CONNECTED", [x, b.constant(data, scale=0.004), -1], scale=0.5, zero_point=3)


def _softmax(b: ModelBuilder, x: int) -> int:
    return b.add("SOFTMAX", [x], beta=1.0)


def _resize(b: ModelBuilder, x: int) -> int:
    _, h, w, _ = b.tensors[x].shape
    return b.add("RESIZE_BILINEAR", [x, b.constant([2 * h, 2 * w])], half_pixel_centers=True)


def _add(b: ModelBuilder, x: int) -> int:
    other = b.input(b.tensors[x].shape, scale=0.04, zero_point=-5)
    return b.add("ADD", [x, other], scale=0.09, zero_point=1)


def _transpose(b: ModelBuilder, x: int) -> int:
    return b.add("TRANSPOSE", [x, b.constant([0, 3, 1, 2])])


#: Builders by name.
LAYERS: dict[str, Callable[[], Model]] = {
    "1x1": _model("1x1", (1, 12, 12, 128), _conv(128, 1)),
    "3x3": _model("3x3", (1, 32, 32, 16), _conv(16, 3)),
    "depthwise": _model("depthwise", (1, 24, 24, 64), _conv(64, 3, depthwise=True)),
    "matmul": _model("matmul", (512, 512), _matmul),
    "SOFTMAX": _model("SOFTMAX", (1, 160, 160, 2), _softmax),
    "RESIZE_BILINEAR": _model("RESIZE_BILINEAR", (1, 40, 40, 16), _resize),
    "ADD": _model("ADD", (1, 32, 32, 64), _add),
    "TRANSPOSE": _model("TRANSPOSE", (1, 64, 64, 16), _transpose),
}
