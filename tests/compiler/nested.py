"""Models with nested tensors, several levels deep."""

from collections.abc import Callable

import numpy as np

from tq_hw.model.samples.build import ModelBuilder

__all__ = ["CASES", "Net"]


class Net:
    """A model of 1x1 convolutions on one image."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.b, self.rng = ModelBuilder(), np.random.default_rng(7)
        self.x = self.b.input((1, *shape), scale=0.05, zero_point=3)

    def conv(self, x: int, channels: int) -> int:
        b = self.b
        data = self.rng.integers(-127, 128, (channels, 1, 1, b.tensors[x].shape[3])).astype(np.int8)
        weights = b.constant(data, scale=0.004)
        return b.add("CONV_2D", [x, weights, b.bias(x, weights, self.rng.integers(-500, 500, channels))],
                     padding="SAME", scale=0.05, zero_point=3)

    def concat(self, *parts: int) -> int:
        return self.b.add("CONCATENATION", list(parts), axis=3)

    def slice(self, x: int, first: int, channels: int) -> int:
        b = self.b
        return b.add("SLICE", [x, b.constant([0, 0, 0, first]), b.constant([*b.tensors[x].shape[:3], channels])])

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        return self.b.add("RESHAPE", [x, self.b.constant(list(shape))], shape=shape)

    def add(self, *parts: int) -> int:
        return self.b.add("ADD", list(parts), scale=0.07, zero_point=-2)


def _nested(n: Net) -> list[int]:
    """The network whose outputs were all wrong at 1x1, because parts of a part never reached the host."""
    return [n.conv(n.concat(n.conv(n.x, 16), n.concat(n.conv(n.x, 16), n.conv(n.x, 32))), 16)]


def _inception(n: Net) -> list[int]:
    """Three levels, with parts of parts on both sides."""
    x = n.conv(n.x, 16)
    left = n.concat(n.concat(n.conv(x, 16), n.conv(x, 32)), n.conv(x, 16))
    return [n.conv(n.concat(left, n.concat(n.conv(x, 16), n.conv(x, 48))), 24)]


def _read_inside(n: Net) -> list[int]:
    """The inner concatenation and one of its parts have other readers."""
    part = n.conv(n.x, 32)
    inner = n.concat(n.conv(n.x, 16), part)
    outer = n.concat(n.conv(inner, 16), inner)
    return [n.conv(outer, 16), n.conv(part, 16)]


def _dense_block(n: Net) -> list[int]:
    """Each concatenation is the beginning of the next one."""
    joined = n.conv(n.x, 16)
    for _ in range(4):
        joined = n.concat(joined, n.conv(joined, 16))
    return [n.conv(joined, 8)]


def _uneven(n: Net) -> list[int]:
    """Inner parts that are no whole words."""
    return [n.conv(n.concat(n.conv(n.x, 16), n.concat(n.conv(n.x, 5), n.conv(n.x, 11)), n.conv(n.x, 7)), 16)]


def _residual(n: Net) -> list[int]:
    """Sums of parts, of hosts, and of slices of hosts."""
    inner = n.concat(n.conv(n.x, 16), n.conv(n.x, 16))
    outer = n.concat(inner, n.conv(n.x, 32))
    total = n.add(outer, n.conv(outer, 64))
    return [n.add(n.slice(total, 0, 32), n.slice(outer, 32, 32)), n.add(inner, n.slice(total, 16, 32))]


def _shuffled(n: Net) -> list[int]:
    """The halves of one tensor are joined again in the opposite order, inside another concatenation."""
    x = n.conv(n.x, 64)
    low, high = n.slice(x, 0, 32), n.slice(x, 32, 32)
    return [n.conv(n.concat(n.conv(low, 16), n.concat(high, low)), 16)]


def _reshaped(n: Net) -> list[int]:
    """Parts and hosts seen in other shapes."""
    _, h, w, _ = n.b.tensors[n.x].shape
    parts = [n.reshape(n.conv(n.x, 16), (1, h * w, 1, 16)) for _ in range(3)]
    joined = n.reshape(n.concat(parts[0], n.concat(parts[1], parts[2])), (1, h, w, 48))
    return [n.conv(joined, 16), n.conv(n.reshape(parts[1], (1, h, w, 16)), 16)]


def _output(n: Net) -> list[int]:
    """All of them are outputs of the model, too."""
    part = n.conv(n.x, 16)
    inner = n.concat(part, n.conv(n.x, 16))
    outer = n.concat(inner, n.conv(inner, 16))
    return [part, inner, outer, n.conv(outer, 16)]


CASES: dict[str, Callable[[Net], list[int]]] = {
    "nested": _nested, "inception": _inception, "read_inside": _read_inside, "dense_block": _dense_block,
    "uneven": _uneven, "residual": _residual, "shuffled": _shuffled, "reshaped": _reshaped, "output": _output}
