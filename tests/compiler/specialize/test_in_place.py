"""Concatenations and slices without copies equal golden; those that need a copy keep it."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.specialize.in_place import in_place
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIGS = [load_config("n16"), load_config("n9x8"), load_config("tiny"), Config("short", 8, 8, 4, 16 << 10)]


class _Net:
    def __init__(self) -> None:
        self.b, self.rng = ModelBuilder(), np.random.default_rng(5)

    def conv(self, x: int, channels: int, kernel: int = 3) -> int:
        b = self.b
        data = self.rng.integers(-127, 128, (channels, kernel, kernel, b.tensors[x].shape[3])).astype(np.int8)
        weights = b.constant(data, scale=0.004)
        bias = b.bias(x, weights, self.rng.integers(-500, 500, channels))
        return b.add("CONV_2D", [x, weights, bias], padding="SAME", scale=0.05, zero_point=3)

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        return self.b.add("RESHAPE", [x, self.b.constant(list(shape))], shape=shape)

    def concat(self, parts: list[int], axis: int) -> int:
        return self.b.add("CONCATENATION", parts, axis=axis)


def _channels(n: _Net, x: int) -> int:
    return n.conv(n.concat([n.conv(x, 5), n.conv(x, 18), n.conv(x, 16)], 3), 4)


def _rows_and_cols(n: _Net, x: int) -> int:
    """Parts that have gaps themselves do not take over copies of other layers."""
    halves = [n.concat([n.conv(x, 5), n.conv(x, 5)], 1) for _ in range(2)]
    return n.conv(n.concat(halves, 2), 6)


def _heads(n: _Net, x: int) -> int:
    """Boxes of two maps, as detection networks concatenate them."""
    small = n.b.add("MAX_POOL_2D", [x], filter_height=2, filter_width=2, stride_h=2, stride_w=2, padding="SAME")
    _, h, w, _ = n.b.tensors[small].shape
    parts = [n.reshape(n.conv(x, 12), (1, 9 * 7 * 3, 4)), n.reshape(n.conv(small, 8), (1, h * w * 2, 4))]
    return n.b.add("SOFTMAX", [n.concat(parts, 1)], beta=1.0)


def _used_twice(n: _Net, x: int) -> int:
    left = n.conv(x, 16)
    return n.concat([left, n.conv(left, 8), n.conv(left, 3)], 3)


def _split(n: _Net, x: int) -> int:
    wide = n.conv(x, 12)
    begin = [n.b.add("SLICE", [wide, n.b.constant([0, 0, 0, at]), n.b.constant([1, 9, 7, 6])]) for at in (0, 6)]
    rows = n.b.add("SLICE", [wide, n.b.constant([0, 2, 1, 0]), n.b.constant([1, 5, 4, 12])])
    return n.concat([n.reshape(n.conv(begin[0], 4), (1, 252)), n.reshape(n.conv(begin[1], 4), (1, 252)),
                     n.reshape(n.conv(rows, 2), (1, 40))], 1)


def _itself(n: _Net, x: int) -> int:
    left = n.conv(x, 5)
    return n.conv(n.concat([left, left, x], 3), 3)


def _blocks(n: _Net, x: int) -> int:
    """Parts of whole words, written into the resident result; the last one is also read."""
    parts = [n.conv(x, 16), n.conv(x, 32), n.conv(x, 16)]
    return n.concat([n.conv(n.concat([*parts, n.conv(parts[2], 5)], 3), 4), n.conv(parts[2], 3)], 3)


def _upsampled(n: _Net, x: int) -> int:
    """The parts of a resize are parts of its result; 4x has more of them; from 36 to 40 rows stays the general case."""
    for size, half_pixel, corners in (((18, 14), True, False), ((36, 28), False, False), ((40, 28), False, True)):
        x = n.conv(n.b.add("RESIZE_BILINEAR", [x, n.b.constant(list(size))], half_pixel_centers=half_pixel,
                           align_corners=corners), 5, 1)
    return n.b.add("RESIZE_BILINEAR", [x, n.b.constant([80, 112])], half_pixel_centers=True)


CASES: dict[str, tuple[Callable[[_Net, int], int], int]] = {
    "channels": (_channels, 0), "rows_and_cols": (_rows_and_cols, 1), "heads": (_heads, 0),
    "used_twice": (_used_twice, 0), "split": (_split, 0), "itself": (_itself, 1), "blocks": (_blocks, 0),
    "upsampled": (_upsampled, 0)}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("name", CASES)
def test_joined_and_sliced_equal_golden(name: str, config: Config) -> None:
    make, moves = CASES[name]
    net = _Net()
    result = make(net, net.b.input((1, 9, 7, 6), scale=0.05, zero_point=3))
    model = parse_model(net.b.build(result), name)
    assert sum(isinstance(layer, Move) for layer in in_place(legalize(model)).layers) == moves
    image = np.random.default_rng(1).integers(-128, 128, (1, 9, 7, 6)).astype(np.int8)
    found = execute(compile_model(model, config).program, [image], seed=1, check_races=True).outputs
    np.testing.assert_array_equal(found[0], run(model, [image]).outputs[0])
