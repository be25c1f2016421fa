"""Random networks whose batch is open, as converters export them: the batch of a reshape is computed from shapes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder

__all__ = ["left_open", "open_network"]

Reshape = Callable[[ModelBuilder, int, tuple[int, ...]], int]


def left_open(build: Callable[[int], Model]) -> Model:
    """Return what `build` makes for batch 1, with every dimension left open that another batch changes."""
    one, two = build(1).main, build(2).main
    tensors = []
    for tensor, other in zip(one.tensors, two.tensors, strict=True):
        shape = tuple(1 if size != grown else size for size, grown in zip(tensor.shape, other.shape, strict=True))
        signature = tuple(-1 if size != grown else size for size, grown in zip(tensor.shape, other.shape, strict=True))
        tensors.append(replace(tensor, shape=shape, shape_signature=signature if -1 in signature else ()))
    return Model("open", (replace(one, tensors=tuple(tensors)),))


def open_network(seed: int, batch: int) -> Model:
    """Return a network of convolutions and reshapes; one seed gives the same network for any batch, unverified."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder("open")
    height, width, channels = (int(size) for size in rng.integers(2, 7, 3))
    x = b.input((batch, height, width, channels), scale=0.5, zero_point=int(rng.integers(-9, 9)), name="image")
    for kind in rng.choice(["conv", "rows", "transpose", "state", "pool"], 4):
        shape = b.tensors[x].shape
        match str(kind):
            case "conv":
                x = _convolution(b, rng, x)
            case "rows":
                x = _reshape(b, rng, x, (batch, shape[1] * shape[2], shape[3]))
                x = _reshape(b, rng, x, shape)
            case "transpose":
                x = b.add("TRANSPOSE", [x, b.constant([0, 2, 1, 3])])
            case "state":
                x = b.add("ADD", [x, _state(b, rng, x)], scale=0.7, zero_point=2)
            case "pool":
                x = b.add("MAX_POOL_2D", [x], padding="SAME", filter_height=2, filter_width=2, stride_h=1, stride_w=2)
    count = int(np.prod(b.tensors[x].shape[1:]))
    x = _reshape(b, rng, x, (batch, count))
    weights = b.constant(rng.integers(-127, 128, (5, count)).astype(np.int8), scale=0.01)
    x = b.add("FULLY_CONNECTED", [x, weights, b.bias(x, weights, rng.integers(-99, 99, 5))], scale=2.0, zero_point=-5)
    return b.model(x)


def _convolution(b: ModelBuilder, rng: np.random.Generator, x: int) -> int:
    channels, count = b.tensors[x].shape[3], int(rng.integers(1, 7))
    weights = b.constant(rng.integers(-127, 128, (count, 3, 3, channels)).astype(np.int8), scale=[0.01] * count)
    bias = b.bias(x, weights, rng.integers(-99, 99, count))
    return b.add("CONV_2D", [x, weights, bias], scale=0.8, zero_point=-3, padding="SAME")


def _state(b: ModelBuilder, rng: np.random.Generator, x: int) -> int:
    """One value for each image and channel, as a recurrent network begins with."""
    batch, _, _, channels = b.tensors[x].shape
    dims = b.add("PACK", [_batch(b, x), b.constant(1), b.constant(1), b.constant(channels)], axis=0)
    value = b.constant(np.array(rng.integers(-128, 128), np.int8), scale=0.25, zero_point=1)
    return b.add("FILL", [dims, value], shape=(batch, 1, 1, channels), dtype="int8", scale=0.25, zero_point=1)


def _batch(b: ModelBuilder, x: int) -> int:
    """Return the first size of a tensor as a scalar."""
    first, second = b.constant([0]), b.constant([1])
    return b.add("STRIDED_SLICE", [_shape(b, x), first, second, second], shrink_axis_mask=1)


def _shape(b: ModelBuilder, x: int) -> int:
    return b.add("SHAPE", [x], out_type="int32")


def _by_pack(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    return b.add("PACK", [_batch(b, x), *(b.constant(size) for size in shape[1:])], axis=0)


def _by_concatenation(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    head = b.add("GATHER", [_shape(b, x), b.constant([0])], axis=0)
    return b.add("CONCATENATION", [head, b.constant(list(shape[1:]))], axis=0)


def _by_product(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    """Count all elements, and divide by those of one image."""
    axes, rest = b.constant([0]), int(np.prod(shape[1:]))
    count = b.add("REDUCE_PROD", [_shape(b, x), axes], shape=(), dtype="int32")
    batch = b.add("FLOOR_DIV", [count, b.constant(rest)], shape=(), dtype="int32")
    head = b.add("EXPAND_DIMS", [batch, b.constant(0)])
    return b.add("CONCATENATION", [head, b.constant(list(shape[1:]))], axis=0)


def _by_rest(b: ModelBuilder, x: int, shape: tuple[int, ...]) -> int:
    return b.constant([-1, *shape[1:]])


_RESHAPES: tuple[Reshape, ...] = (_by_pack, _by_concatenation, _by_product, _by_rest)


def _reshape(b: ModelBuilder, rng: np.random.Generator, x: int, shape: tuple[int, ...]) -> int:
    target = _RESHAPES[int(rng.integers(len(_RESHAPES)))](b, x, shape)
    return b.add("RESHAPE", [x, target], shape=shape)
