"""Recipes of parts of networks as exporters write them: pixels as rows of a matrix, attention."""

import math

import numpy as np

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["attention", "biased", "centered", "tensordot"]


def _dense(s: Sketch, x: int, units: int) -> int:
    """FULLY_CONNECTED of pixels as Keras writes a Dense of an image, the image again."""
    shape = s.shape(x)
    rows = math.prod(shape[:-1])
    flat = s.b.add("RESHAPE", [x, s.indices([rows, shape[-1]])], shape=(rows, shape[-1]))
    out = s.out(s.b.tensors[x].scale)
    weights = s.weights((units, shape[-1]), 0, shape[-1], s.b.tensors[x].scale, out["scale"])
    made = s.b.add("FULLY_CONNECTED", [flat, weights, -1], keep_num_dims=False, **out)
    whole = (*shape[:-1], units) if s.chance(0.8) else (1, rows // shape[-2], shape[-2], units)
    return s.b.add("RESHAPE", [made, s.indices(list(whole))], shape=whole)


def _channels(s: Sketch, x: int, cuts: list[int]) -> list[int]:
    """Parts of the channels, one after the other."""
    shape = s.shape(x)
    zeros, ones = [0] * (len(shape) - 1), [1] * len(shape)
    return [s.b.add("STRIDED_SLICE", [x, s.indices([*zeros, low]), s.indices([*shape[:-1], high]), s.indices(ones)],
                    shape=(*shape[:-1], high - low))
            for low, high in zip([0, *cuts], [*cuts, shape[-1]], strict=True)]


def tensordot(s: Sketch, x: int) -> list[int]:
    """Pixels as rows of a matrix; then parts of the channels, or one that is a gate of another, and a matrix again."""
    shape, units = s.shape(x), s.channels()
    if len(shape) < 3 or not 0 < math.prod(shape[:-1]) * 2 * units <= s.most_elements:
        raise Unfit
    if s.chance(0.5):
        whole = _dense(s, x, units)
        cuts = sorted({s.between(1, units - 1) for _ in range(s.pick(0, 1, 2, 3))}) if units > 1 else []
        return _channels(s, whole, cuts) if cuts else [whole]
    more = s.pick(0, 0, 1, 3)
    parts = _channels(s, _dense(s, x, 2 * units + more), [units, 2 * units][:1 + bool(more)])
    gate = parts[1]
    if s.chance(0.5) and len(s.shape(gate)) == 4:
        out = s.out()
        kernel = s.weights((1, 3, 3, units), 3, 9, s.b.tensors[gate].scale, out["scale"])
        gate = s.b.add("DEPTHWISE_CONV_2D", [gate, kernel, s.bias(gate, kernel, out["scale"], units)], padding="SAME",
                       depth_multiplier=1, **out)
    else:
        gate = s.b.add("LOGISTIC", [gate])
    made = s.b.add("MUL", [parts[0], gate] if s.chance(0.7) else [gate, parts[0]], **s.out())
    return [_dense(s, made, s.channels()) if s.chance(0.7) else made, *parts[2:]]


def attention(s: Sketch, x: int) -> list[int]:
    """Heads, scores with a scale or a mask between, SOFTMAX, values, and heads together again."""
    shape = s.shape(x)
    if len(shape) < 2 or shape[0] != 1 and len(shape) > 2:
        raise Unfit
    tokens, channels = math.prod(shape[:-1]), shape[-1]
    heads = s.pick(*(count for count in (1, 2, 3, 4) if channels % count == 0))
    width = channels // heads
    if tokens * tokens * heads > s.most_elements or tokens > 500:
        raise Unfit
    others = [y for y in s.live if math.prod(s.shape(y)) == tokens * channels]

    def split(source: int, order: tuple[int, ...]) -> int:
        parts = s.b.add("RESHAPE", [source, s.indices([1, tokens, heads, width])], shape=(1, tokens, heads, width))
        return s.b.add("TRANSPOSE", [parts, s.indices(list(order))])

    turned, (k, v) = s.chance(0.5), (s.pick(x, *others) for _ in range(2))
    left, right = split(x, (0, 2, 1, 3)), split(k, (0, 2, 1, 3) if turned else (0, 2, 3, 1))
    natural = s.b.tensors[x].scale * s.b.tensors[k].scale * 100 * math.sqrt(width)
    scores = s.b.add("BATCH_MATMUL", [left, right], adj_y=turned, **s.out(natural))
    if s.chance(0.4):
        factor = s.b.constant(np.array(s.between(1, 127), np.int8), scale=s.scale(), zero_point=0)
        scores = s.b.add("MUL", [scores, factor], **s.out())
    if s.chance(0.3):
        mask = s.constant((1, 1, tokens, tokens), **s.out())
        scores = s.b.add("ADD", [scores, mask], **s.out())
    weights = s.b.add("SOFTMAX", [scores], options={"beta": 1.0})
    made = s.b.add("BATCH_MATMUL", [weights, split(v, (0, 2, 1, 3))], **s.out(s.b.tensors[v].scale))
    joined = s.b.add("TRANSPOSE", [made, s.indices([0, 2, 1, 3])])
    return [scores, s.b.add("RESHAPE", [joined, s.indices(list(shape))], shape=shape)] if s.chance(0.1) else [
        s.b.add("RESHAPE", [joined, s.indices(list(shape))], shape=shape)]


def biased(s: Sketch, x: int) -> list[int]:
    """A dense layer without bias, perhaps in heads, then a constant of each channel or pixel, and an activation."""
    shape, units = s.shape(x), 4 * s.between(1, 8)
    if len(shape) < 2 or not 0 < math.prod(shape[:-1]) * units <= s.most_elements:
        raise Unfit
    made, pixels = _dense(s, x, units), math.prod(shape[:-1])
    if s.chance(0.4):
        heads = s.pick(2, 4)
        made = s.reshaped(made, (1, pixels, heads, units // heads))
    whole = s.shape(made)
    constant = s.pick(whole[-1:], whole[1:], whole, (1,), whole[-2:])
    other = s.constant(constant)
    operands = [made, other] if s.chance(0.7) else [other, made]
    made = s.b.add(s.pick("ADD", "ADD", "SUB", "MUL"), operands, **s.out())
    return [s.b.add(s.pick("LOGISTIC", "HARD_SWISH"), [made]) if s.chance(0.4) else made]


def centered(s: Sketch, x: int) -> list[int]:
    """Each pixel less the mean of its channels, times a function of it."""
    shape = s.shape(x)
    if len(shape) < 2 or not 0 < math.prod(shape) <= s.most_elements:
        raise Unfit
    mean = s.b.add("MEAN", [x, s.indices([len(shape) - 1])], keep_dims=True, **s.out())
    other = s.b.add("LOGISTIC", [mean]) if s.chance(0.6) else mean
    less = s.b.add(s.pick("SUB", "SQUARED_DIFFERENCE", "ADD"), [x, mean] if s.chance(0.7) else [mean, x], **s.out())
    made = s.b.add("MUL", [less, other] if s.chance(0.5) else [other, less], **s.out())
    return [made, *([mean] if s.chance(0.1) else [])]
