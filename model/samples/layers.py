"""Seeded random layers and chains of layers: what tests and benches run when they have no model.

`sample(kind, seed)` gives a valid int8 model; the parameters cover what the operators allow: odd sizes, strides,
dilation, SAME and VALID, per-axis and per-tensor scales, activations, zero points at both ends, multipliers above one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.operators import OPERATOR_LAYERS
from tq_hw.model.tflite.reader import parse_model

__all__ = ["KINDS", "LAYERS", "image_input", "sample"]

_ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")
Rng = np.random.Generator


def _choice(rng: Rng, *options: int) -> int:
    return int(rng.choice(options))


def _zero_point(rng: Rng) -> int:
    return _choice(rng, -128, 127, 0, int(rng.integers(-128, 128)))


def _input(b: ModelBuilder, rng: Rng, shape: tuple[int, ...]) -> int:
    return b.input(shape, scale=float(rng.uniform(0.005, 0.1)), zero_point=_zero_point(rng))


def image_input(b: ModelBuilder, rng: Rng, times: int = 1) -> int:
    """Return an input of up to 14 rows and columns, or `times` times as large."""
    batch = 2 if rng.random() < 0.15 else 1
    rows, cols = times * int(rng.integers(1, 15)), times * int(rng.integers(1, 15))
    return _input(b, rng, (batch, rows, cols, _choice(rng, 1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 24)))


def _weights(b: ModelBuilder, rng: Rng, shape: tuple[int, ...], axis: int) -> int:
    data = rng.integers(-127, 128, shape).astype(np.int8)
    scales = rng.uniform(0.0005, 0.01, shape[axis] if rng.random() < 0.8 else 1)
    return b.constant(data, scale=scales.tolist(), dimension=axis if len(scales) > 1 else 0)


def _out(b: ModelBuilder, rng: Rng, source: int, taps: int) -> dict[str, Any]:
    """Output quantization: the spread of an accumulator of `taps` random products, or far from it."""
    spread = b.tensors[source].scale * 0.005 * 74 * 74 * np.sqrt(taps) / 60
    return {"scale": float(spread * rng.choice((0.3, 1.0, 1.0, 8.0))), "zero_point": _zero_point(rng)}


def _window(rng: Rng, size: tuple[int, int], limit: int = 5) -> dict[str, Any]:
    """Kernel, stride and dilation whose extent fits the image."""
    found: dict[str, int] = {}
    for axis, length in zip("hw", size, strict=True):
        kernel = int(rng.integers(1, min(limit, length) + 1))
        room = (length - 1) // (kernel - 1) if kernel > 1 else 1
        found[f"kernel_{axis}"] = kernel
        found[f"dilation_{axis}_factor"] = int(rng.integers(1, min(3, max(1, room)) + 1)) if rng.random() < 0.3 else 1
        found[f"stride_{axis}"] = int(rng.integers(1, 4))
    return found


def _conv(b: ModelBuilder, rng: Rng, x: int) -> int:
    _, h, w, c = b.tensors[x].shape
    p = _window(rng, (h, w))
    out = _choice(rng, 1, 3, 4, 7, 8, 12, 16, 17, 30)
    weights = _weights(b, rng, (out, p.pop("kernel_h"), p.pop("kernel_w"), c), 0)
    taps = int(np.prod(b.tensors[weights].shape[1:]))
    bias = b.bias(x, weights, rng.integers(-20000, 20000, out))
    return b.add("CONV_2D", [x, weights, bias], padding=str(rng.choice(("SAME", "VALID"))),
                 fused_activation_function=str(rng.choice(_ACTIVATIONS)), **p, **_out(b, rng, x, taps))


def _depthwise(b: ModelBuilder, rng: Rng, x: int) -> int:
    _, h, w, c = b.tensors[x].shape
    p = _window(rng, (h, w), 7)
    multiplier = _choice(rng, 1, 1, 1, 1, 2, 3)
    kernel = p.pop("kernel_h"), p.pop("kernel_w")
    weights = _weights(b, rng, (1, *kernel, c * multiplier), 3)
    bias = b.bias(x, weights, rng.integers(-5000, 5000, c * multiplier))
    return b.add("DEPTHWISE_CONV_2D", [x, weights, bias], padding=str(rng.choice(("SAME", "VALID"))),
                 depth_multiplier=multiplier, fused_activation_function=str(rng.choice(_ACTIVATIONS)), **p,
                 **_out(b, rng, x, kernel[0] * kernel[1]))


def _fully_connected(b: ModelBuilder, rng: Rng, x: int) -> int:
    shape = b.tensors[x].shape
    depth = int(np.prod(shape[1:]))
    out = _choice(rng, 1, 5, 10, 16, 33)
    if len(shape) > 2:
        x = b.add("RESHAPE", [x, b.constant([shape[0], depth])], shape=(shape[0], depth))
    weights = _weights(b, rng, (out, depth), 0)
    bias = b.bias(x, weights, rng.integers(-20000, 20000, out)) if rng.random() < 0.8 else -1
    return b.add("FULLY_CONNECTED", [x, weights, bias], fused_activation_function=str(rng.choice(_ACTIVATIONS)),
                 **_out(b, rng, x, depth))


def _add(b: ModelBuilder, rng: Rng, x: int) -> int:
    shape = b.tensors[x].shape
    other = x if rng.random() < 0.2 else _input(b, rng, shape)
    if rng.random() < 0.2:
        other = b.constant(rng.integers(-128, 128, shape).astype(np.int8), scale=0.03, zero_point=_zero_point(rng))
    scale = max(b.tensors[x].scale, b.tensors[other].scale) * float(rng.uniform(0.5, 4))
    return b.add("ADD", [x, other], scale=scale, zero_point=_zero_point(rng),
                 fused_activation_function=str(rng.choice(_ACTIVATIONS)))


def _pool(op: str) -> Callable[[ModelBuilder, Rng, int], int]:
    def add(b: ModelBuilder, rng: Rng, x: int) -> int:
        _, h, w, _ = b.tensors[x].shape
        p = _window(rng, (h, w))
        return b.add(op, [x], filter_height=p["kernel_h"], filter_width=p["kernel_w"], stride_h=p["stride_h"],
                     stride_w=p["stride_w"], padding=str(rng.choice(("SAME", "VALID"))),
                     fused_activation_function=str(rng.choice(_ACTIVATIONS)))
    return add


def _mean(b: ModelBuilder, rng: Rng, x: int) -> int:
    return b.add("MEAN", [x, b.constant([1, 2])], keep_dims=True,
                 scale=b.tensors[x].scale * float(rng.uniform(0.2, 1.5)), zero_point=_zero_point(rng))


def _pad(b: ModelBuilder, rng: Rng, x: int) -> int:
    rows, cols = rng.integers(0, 4, 2), rng.integers(0, 4, 2)
    return b.add("PAD", [x, b.constant(np.array([[0, 0], rows, cols, [0, 0]], np.int32))])


def _softmax(b: ModelBuilder, rng: Rng, x: int) -> int:
    return b.add("SOFTMAX", [x], beta=1.0)


def _quantize(b: ModelBuilder, rng: Rng, x: int) -> int:
    return b.add("QUANTIZE", [x], scale=b.tensors[x].scale * float(rng.uniform(0.3, 3)), zero_point=_zero_point(rng))


#: Layers by kind; each takes a builder, a generator and an image, and gives the layer's output.
LAYERS: dict[str, Callable[[ModelBuilder, Rng, int], int]] = {
    "conv": _conv, "depthwise": _depthwise, "fully_connected": _fully_connected, "add": _add,
    "average_pool": _pool("AVERAGE_POOL_2D"), "max_pool": _pool("MAX_POOL_2D"), "mean": _mean, "pad": _pad,
    "softmax": _softmax, "quantize": _quantize, **OPERATOR_LAYERS,
}

#: What `sample` makes: one layer of each kind, or a chain of two to five.
KINDS = (*LAYERS, "chain")


def sample(kind: str, seed: int) -> Model:
    """Return a random model of `kind`, the same for the same seed."""
    rng = np.random.default_rng([sum(kind.encode()), seed])
    b = ModelBuilder(f"{kind}_{seed}")
    x = image_input(b, rng)
    if kind == "chain":
        for _ in range(int(rng.integers(2, 6))):
            step = str(rng.choice(("conv", "depthwise", "add", "max_pool", "average_pool", "pad", "conv", "quantize")))
            x = LAYERS[step](b, rng, x)
        ending = str(rng.choice(("none", "mean", "fully_connected", "softmax")))
        if ending != "none":
            x = LAYERS[ending](b, rng, x)
    else:
        x = LAYERS[kind](b, rng, x)
    return parse_model(b.build(x), b.name)
