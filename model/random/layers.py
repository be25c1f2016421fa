"""Recipes of layers as Keras writes them out: LayerNorm, patches of images, cells of a GRU."""

import math
from typing import Any

import numpy as np

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["cells", "normalized", "patches"]

#: Quantization of a logistic and of a tanh.
_LOGISTIC: dict[str, Any] = {"scale": 1 / 256, "zero_point": -128}
_TANH: dict[str, Any] = {"scale": 1 / 128, "zero_point": 0}


def _mean(s: Sketch, x: int, **out: Any) -> int:
    axis = s.indices([len(s.shape(x)) - 1])
    return s.b.add("MEAN", [x, axis], keep_dims=True, **out)


def normalized(s: Sketch, x: int) -> list[int]:
    """LayerNorm over the last axis: x * (gamma / root) - mean * (gamma / root), and beta."""
    shape = s.shape(x)
    if len(shape) < 2 or shape[-1] < 2 or shape[-1] > 100:
        raise Unfit
    scale, point = s.quantization(x)
    mean = _mean(s, x, **s.pick(s.like(x), {"scale": scale / 4, "zero_point": s.point()}))
    squares = s.b.add("SQUARED_DIFFERENCE", [x, mean], scale=float(np.float32(scale * scale * 60)), zero_point=-128)
    variance = _mean(s, squares, scale=float(np.float32(scale * scale * 25)), zero_point=-128)
    more = s.b.constant(np.array(127, np.int8), scale=1e-3 / 255, zero_point=-128)
    total = s.b.add("ADD", [variance, more], **s.like(variance))
    root = s.b.add("RSQRT", [total], scale=float(np.float32(0.1 / scale / 255)), zero_point=-128)
    gain = s.constant((shape[-1],), scale=0.01, zero_point=s.point())
    factor = s.b.add("MUL", [root, gain], scale=float(np.float32(0.05 / scale / 128)), zero_point=s.pick(0, s.point()))
    left = s.b.add("MUL", [x, factor], **s.out(0.03))
    right = s.b.add("MUL", [mean, factor], **s.out(0.03))
    if s.chance(0.5):
        beta = s.constant((shape[-1],), scale=0.01, zero_point=0)
        right = s.b.add("SUB", [beta, right], **s.out(0.03))
        return [s.b.add("ADD", [left, right], **s.out(0.04))]
    return [s.b.add("SUB", [left, right], **s.out(0.04))]


def patches(s: Sketch, x: int) -> list[int]:
    """An image cut into patches by a convolution as wide as its stride, as rows of tokens."""
    shape = s.shape(x)
    sizes = [size for size in (2, 3, 4) if len(shape) == 4 and min(shape[1:3]) >= size]
    if not sizes:
        raise Unfit
    size, units = s.pick(*sizes), s.channels()
    out = s.out(s.b.tensors[x].scale)
    taps = size * size * shape[3]
    weights = s.weights((units, size, size, shape[3]), 0, taps, s.b.tensors[x].scale, out["scale"])
    made = s.b.add("CONV_2D", [x, weights, s.bias(x, weights, out["scale"], units)], padding="VALID", stride_h=size,
                   stride_w=size, **out)
    _, h, w, _ = s.shape(made)
    tokens = (shape[0], h * w, units)
    return [s.b.add("RESHAPE", [made, s.indices(list(tokens))], shape=tokens)]


def cells(s: Sketch, x: int) -> list[int]:
    """Steps of a GRU, unrolled: each reads a row and the state before it."""
    shape = s.shape(x)
    width, steps = shape[-1] if shape else 0, s.between(1, 3)
    rows = math.prod(shape[:-1]) if shape else 0
    if not 0 < width <= 60 or rows < steps:
        raise Unfit
    units = s.pick(3, 8, 12, 16, 20)
    flat = s.b.add("RESHAPE", [x, s.indices([rows, width])], shape=(rows, width))
    state = s.constant((1, units), scale=1 / 128, zero_point=0)

    def dense(source: int) -> int:
        depth = s.shape(source)[-1]
        out: dict[str, Any] = {"scale": 0.04, "zero_point": s.pick(0, s.point())}
        weights = s.weights((units, depth), 0, depth, s.b.tensors[source].scale, out["scale"])
        return s.b.add("FULLY_CONNECTED", [source, weights, s.bias(source, weights, out["scale"], units)], **out)

    def both(one: int, other: int, op: str = "ADD", **out: Any) -> int:
        return s.b.add(op, [one, other], **(out or {"scale": 0.05, "zero_point": 0}))
    made = []
    for step in range(steps):
        ends = [s.indices(at) for at in ([step, 0], [step + 1, width], [1, 1])]
        row = s.b.add("STRIDED_SLICE", [flat, *ends], shape=(1, width))
        update, reset = (s.b.add("LOGISTIC", [both(dense(row), dense(state))], **_LOGISTIC) for _ in range(2))
        new = s.b.add("TANH", [both(dense(row), both(reset, dense(state), "MUL"))], **_TANH)
        one = s.b.constant(np.array(127, np.int8), scale=1 / 255, zero_point=-128)
        rest = both(one, update, "SUB", **_LOGISTIC)
        state = both(both(rest, new, "MUL", **_TANH), both(update, state, "MUL", **_TANH), **_TANH)
        made.append(state)
    return made if s.chance(0.3) else made[-1:]
