"""Seeded random graphs of 16x8 models: activations of int16, weights of int8, operators after and next to each other.

`random_sixteen(seed)` gives a valid model of up to ten operators, with branches that join again, constant operands,
several outputs, float32 between DEQUANTIZE and QUANTIZE, and sometimes QUANTIZE from and to int8 at its ends.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model
from tq_hw.model.random.sketch import ACTIVATIONS, Unfit
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

__all__ = ["random_sixteen"]

_MOST_ELEMENTS = 2000
#: Codes of a typical value of int16 and of a weight.
_SPREAD, _WEIGHT = 9000.0, 70.0


class _Graph:
    """A model under construction; `live` are its activations of int16."""

    def __init__(self, seed: int) -> None:
        self.rng, self.b = np.random.default_rng([43, seed]), ModelBuilder(f"sixteen_{seed}")
        self.live: list[int] = []

    def pick(self, *options: Any) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def near(self, scale: float) -> float:
        """Return a scale like this one, a power of two now and then."""
        scale *= self.pick(0.5, 1, 1, 2)
        return float(2.0 ** round(math.log2(scale))) if self.rng.random() < 0.2 else float(np.float32(scale))

    def scale(self, x: int) -> float:
        """Scale of a tensor."""
        return self.b.tensors[x].scale

    def shape(self, x: int) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.b.tensors[x].shape

    def image(self, x: int) -> int:
        """Return a tensor with four axes."""
        shape = (*(1,) * (4 - len(self.shape(x))), *self.shape(x))
        return x if shape == self.shape(x) else self.b.add("RESHAPE", [x, self.b.constant(list(shape))], shape=shape)

    def product(self, op: str, x: int, dims: tuple[int, ...], axis: int, taps: int, options: dict[str, Any]) -> int:
        """Add an operator with weights and a bias."""
        b, count = self.b, dims[axis] if self.rng.random() < 0.7 else 1
        target = self.near(self.scale(x) * self.pick(0.5, 1, 3))
        gain = target / (self.scale(x) * _WEIGHT * taps**0.5)
        weights = b.constant(self.rng.integers(-127, 128, dims).astype(np.int8), dimension=axis if count > 1 else 0,
                             scale=(gain * self.rng.uniform(0.5, 1.5, count)).tolist())
        bias = b.bias(x, weights, self.rng.integers(-1 << 22, 1 << 22, dims[axis]))
        return b.add(op, [x, weights, bias], scale=target, options={
            **options, "fused_activation_function": self.pick(*ACTIVATIONS)})


def _window(g: _Graph) -> dict[str, Any]:
    return {"padding": "SAME", "stride_h": g.pick(1, 1, 2), "stride_w": g.pick(1, 1, 2)}


def _conv(g: _Graph, x: int) -> int:
    x, kernel = g.image(x), g.pick((1, 1), (3, 3), (1, 3), (2, 2))
    depth, channels = g.shape(x)[3], int(g.rng.integers(1, 20))
    return g.product("CONV_2D", x, (channels, *kernel, depth), 0, math.prod(kernel) * depth, _window(g))


def _depthwise(g: _Graph, x: int) -> int:
    x, kernel = g.image(x), g.pick((3, 3), (1, 3), (2, 2))
    return g.product("DEPTHWISE_CONV_2D", x, (1, *kernel, g.shape(x)[3]), 3, math.prod(kernel), _window(g))


def _dense(g: _Graph, x: int) -> int:
    depth = g.shape(x)[-1]
    return g.product("FULLY_CONNECTED", x, (int(g.rng.integers(1, 20)), depth), 0, depth, {"keep_num_dims": True})


def _binary(g: _Graph, x: int) -> int:
    op = g.pick("ADD", "SUB", "MUL", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE")
    same = [y for y in g.live if y != x and g.shape(y) == g.shape(x) and (
        op != "MAXIMUM" or g.scale(y) == g.scale(x))]
    scale = g.scale(x) if op == "MAXIMUM" else g.near(g.scale(x))
    dims = g.pick(g.shape(x), g.shape(x)[-1:])
    other = g.pick(*same) if same else g.b.constant(g.rng.integers(-9999, 9999, dims).astype(np.int16), scale=scale)
    options: dict[str, Any] = {} if op in ("MUL", "MAXIMUM") else {"pot_scale_int16": False}
    if op == "MAXIMUM":
        return g.b.add(op, [x, other])
    if op == "SQUARED_DIFFERENCE":
        return g.b.add(op, [x, other], scale=g.near(max(g.scale(x), g.scale(other))**2 * _SPREAD))
    natural = g.scale(x) * g.scale(other) * _SPREAD if op == "MUL" else max(g.scale(x), g.scale(other))
    return g.b.add(op, [x, other], scale=g.near(natural), fused_activation_function=g.pick(*ACTIVATIONS), **options)


def _divided(g: _Graph, x: int) -> int:
    """Division by a constant without zeros."""
    divisors = g.rng.integers(1, 9999, g.pick(g.shape(x), g.shape(x)[-1:])) * g.pick(-1, 1)
    other = g.b.constant(divisors.astype(np.int16), scale=g.near(2.0**-12))
    return g.b.add("DIV", [x, other], scale=g.near(g.scale(x) / (g.scale(other) * g.pick(1, 30, 3000))),
                   fused_activation_function=g.pick(*ACTIVATIONS))


def _choice(g: _Graph, x: int) -> int:
    """Select between two tensors by a comparison; at scales of 1 and more the engines abort."""
    if g.scale(x) >= 1:
        raise Unfit
    same = [y for y in g.live if y != x and g.shape(y) == g.shape(x) and g.scale(y) == g.scale(x)]
    other = g.pick(*same) if same else g.b.constant(g.rng.integers(-9999, 9999, g.shape(x)).astype(np.int16),
                                                    scale=g.scale(x))
    condition = g.b.add(g.pick("LESS", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"), [x, other])
    return g.b.add("SELECT_V2", [condition, x, other])


def _prelu(g: _Graph, x: int) -> int:
    x = g.image(x)
    slopes = g.b.constant(g.rng.integers(-127, 128, (1, 1, g.shape(x)[3])).astype(np.int8), scale=g.near(2.0**-8))
    return g.b.add("PRELU", [x, slopes], scale=g.near(g.scale(x)))


def _matmul(g: _Graph, x: int) -> int:
    """Product of rows with rows of a tensor, or with a constant."""
    rows, depth = int(np.prod(g.shape(x)[:-1])), g.shape(x)[-1]
    left = g.b.add("RESHAPE", [x, g.b.constant([rows, depth])], shape=(rows, depth))
    same = [y for y in g.live if g.shape(y)[-1] == depth and np.prod(g.shape(y)[:-1]) <= 40]
    right = g.pick(*same, -1) if same else -1
    if right < 0:
        dims = int(g.rng.integers(1, 20)), depth
        right = g.b.constant(g.rng.integers(-9999, 9999, dims).astype(np.int16), scale=g.near(2.0**-13))
    else:
        dims = int(np.prod(g.shape(right)[:-1])), depth
        right = g.b.add("RESHAPE", [right, g.b.constant(list(dims))], shape=dims)
    natural = g.scale(left) * g.scale(right) * _SPREAD * depth**0.5
    return g.b.add("BATCH_MATMUL", [left, right], scale=g.near(natural), adj_x=False, adj_y=True)


def _unary(g: _Graph, x: int) -> int:
    op = g.pick("LOGISTIC", "TANH", "RELU", "LEAKY_RELU", "SOFTMAX")
    options: dict[str, Any] = {"alpha": 0.25} if op == "LEAKY_RELU" else {}
    if op in ("RELU", "LEAKY_RELU"):
        options["scale"] = g.near(g.scale(x))
    return g.b.add(op, [x], **options)


def _pool(g: _Graph, x: int) -> int:
    x = g.image(x)
    return g.b.add(g.pick("AVERAGE_POOL_2D", "MAX_POOL_2D"), [x], filter_height=g.pick(1, 2, 3),
                   filter_width=g.pick(2, 3), **_window(g))


def _resize(g: _Graph, x: int) -> int:
    x = g.image(x)
    sizes = [g.shape(x)[axis] * g.pick(1, 2, 2, 3) for axis in (1, 2)]
    return g.b.add("RESIZE_BILINEAR", [x, g.b.constant(sizes)], align_corners=False,
                   half_pixel_centers=g.pick(True, False))


def _mean(g: _Graph, x: int) -> int:
    axes = sorted(g.rng.choice(len(g.shape(x)), g.pick(1, 1, min(2, len(g.shape(x)))), replace=False).tolist())
    op = g.pick("MEAN", "MEAN", "SUM")
    return g.b.add(op, [x, g.b.constant(axes)], keep_dims=True, scale=g.near((0.5 if op == "MEAN" else 4) * g.scale(x)))


def _top(g: _Graph, x: int) -> int:
    """The largest elements of rows; their indices are an output of the model."""
    return g.b.add_many("TOPK_V2", [x, g.b.constant(int(g.rng.integers(1, min(4, g.shape(x)[-1]) + 1)))], 2)[0]


def _move(g: _Graph, x: int) -> int:
    op, rank = g.pick("TRANSPOSE", "PAD", "CONCATENATION", "STRIDED_SLICE"), len(g.shape(x))
    if op == "TRANSPOSE":
        return g.b.add(op, [x, g.b.constant(g.rng.permutation(rank).tolist())])
    if op == "PAD":
        return g.b.add(op, [x, g.b.constant(g.rng.integers(0, 2, (rank, 2)).astype(np.int32))])
    if op == "CONCATENATION":
        same = [y for y in g.live if g.shape(y) == g.shape(x) and g.scale(y) == g.scale(x)]
        return g.b.add(op, [x, g.pick(*same)], axis=rank - 1)
    ends = [g.pick(size, max(1, size - 1)) for size in g.shape(x)]
    return g.b.add(op, [x, g.b.constant([0] * rank), g.b.constant(ends), g.b.constant([1] * rank)])


def _bytes(g: _Graph, x: int) -> int:
    """To int8 and back."""
    small = g.b.add("QUANTIZE", [x], scale=g.near(256 * g.scale(x)), zero_point=int(g.rng.integers(-20, 20)))
    return g.b.add("QUANTIZE", [small], dtype="int16", scale=g.near(g.scale(x)), zero_point=0)


def _floating(g: _Graph, x: int) -> int:
    """Float32 operators on two tensors, or on one and numbers, as converters do without an int16 kernel."""
    same = [y for y in g.live if y != x and g.shape(y) == g.shape(x)]
    other, real = g.pick(*same) if same else x, g.b.add("DEQUANTIZE", [x])
    ends = [g.scale(each) * _SPREAD for each in (x, other)]
    numbers = g.rng.uniform(-ends[1], ends[1], g.shape(x)).astype(np.float32)
    second = g.b.add("DEQUANTIZE", [other]) if same else g.b.constant(numbers)
    op = g.pick("ADD", "SUB", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "DIV")
    if op == "DIV":
        least = g.b.constant(np.array(ends[1] / 8, np.float32))
        second = g.b.add("ADD", [g.b.add("MUL", [second, second]), g.b.add("MUL", [least, least])])
    natural = {"MUL": ends[0] * ends[1], "SQUARED_DIFFERENCE": max(ends)**2, "DIV": 8 * ends[0] / ends[1]**2}
    made = g.b.add(op, [real, second], shape=g.shape(x))
    return g.b.add("QUANTIZE", [made], dtype="int16", scale=g.near(natural.get(op, max(ends)) / _SPREAD), zero_point=0)


_RECIPES: tuple[tuple[Callable[[_Graph, int], int], int], ...] = (
    (_conv, 4), (_depthwise, 2), (_dense, 3), (_binary, 5), (_unary, 4), (_pool, 2), (_mean, 1), (_move, 3),
    (_bytes, 1), (_matmul, 2), (_resize, 1), (_choice, 1), (_prelu, 1), (_divided, 1), (_floating, 2), (_top, 1))


def random_sixteen(seed: int) -> Model:
    """Return a random 16x8 model, the same for the same seed."""
    g = _Graph(seed)
    for _ in range(g.pick(1, 1, 2)):
        dims = (1, *(int(size) for size in g.rng.integers(1, 9, 2)), int(g.rng.integers(1, 12)))
        g.live.append(g.b.input(dims[-g.pick(2, 4, 4):], "int16", scale=g.near(2.0**-12)))
    chances = np.array([weight for _, weight in _RECIPES], float)
    for _ in range(g.pick(1, 2, 3, 4, 6, 8)):
        x = g.pick(*g.live[-3:])
        before = len(g.b.tensors), len(g.b.operators)
        try:
            made = _RECIPES[int(g.rng.choice(len(_RECIPES), p=chances / chances.sum()))][0](g, x)
            if math.prod(g.shape(made)) > _MOST_ELEMENTS or g.scale(made) > 1e3 or g.scale(made) < 1e-9:
                raise Unfit
        except (Unfit, ModelError):
            del g.b.tensors[before[0]:], g.b.operators[before[1]:]
            continue
        g.live.append(made)
    if not g.b.operators:
        g.live.append(_unary(g, g.live[0]))
    read = {x for op in g.b.operators for x in op.inputs}
    outputs = [y for op in g.b.operators for y in op.outputs if y not in read]
    used = {x for op in g.b.operators for x in op.inputs}
    g.b.inputs = [x for x in g.b.inputs if x in used]
    return parse_model(write_model(g.b.model(*outputs)), g.b.name)
