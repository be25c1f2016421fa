"""compiler.specialize.output_tables: convolutions and pools look up their results, with the same integers."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac, MaxPool
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

#: A function of one byte: adds it to a model.
Function = Callable[[ModelBuilder, int], int]


def leaky(b: ModelBuilder, x: int) -> int:
    """A function that never falls."""
    return b.add("LEAKY_RELU", [x], alpha=0.1, scale=0.04, zero_point=-9)


def swish(b: ModelBuilder, x: int) -> int:
    """A function that falls and rises."""
    return b.add("MUL", [x, b.add("LOGISTIC", [x], scale=1 / 256, zero_point=-128)], scale=0.02, zero_point=-100)


def conv(b: ModelBuilder, x: int, channels: tuple[int, int], kernel: int = 3, **options: int) -> int:
    """A convolution of `channels` (in, out)."""
    rng = np.random.default_rng(channels[0])
    weights = b.constant(rng.integers(-127, 128, (channels[1], kernel, kernel, channels[0])).astype(np.int8),
                         scale=rng.uniform(0.002, 0.01, channels[1]).tolist(), dimension=0)
    return b.add("CONV_2D", [x, weights, b.bias(x, weights, rng.integers(-900, 900, channels[1]))], padding="SAME",
                 scale=0.05, zero_point=4, **options)


def pool(b: ModelBuilder, x: int, kernel: tuple[int, int] = (2, 2), stride: tuple[int, int] = (2, 2),
         padding: str = "VALID", activation: str = "NONE") -> int:
    """The maxima of windows."""
    return b.add("MAX_POOL_2D", [x], filter_height=kernel[0], filter_width=kernel[1], stride_h=stride[0],
                 stride_w=stride[1], padding=padding, fused_activation_function=activation)


def layers(build: Callable[[ModelBuilder, int], int | list[int]], shape: tuple[int, ...],
           config: str = "n16") -> tuple[Layer, ...]:
    """Compile, compare the executor with the golden model, return the layers."""
    b = ModelBuilder("m")
    made = build(b, b.input(shape, scale=0.05, zero_point=3))
    model = parse_model(b.build(*(made if isinstance(made, list) else [made])), "m")
    compiled = compile_model(model, PRESETS[config])
    rng = np.random.default_rng(5)
    for x in (rng.integers(-128, 128, shape).astype(np.int8), np.full(shape, -128, np.int8)):
        found = execute(compiled.program, [x], check_races=True)
        for right, each in zip(golden.run(model, [x]).outputs, found.outputs, strict=True):
            np.testing.assert_array_equal(each, right, strict=True)
    return compiled.emitter.graph.layers


@pytest.mark.parametrize("config", ["n16", "n8", "n9x8", "n16x8", "tiny", "serial"])
@pytest.mark.parametrize("function", [leaky, swish])
@pytest.mark.parametrize("shape", [(1, 13, 9, 5), (2, 6, 7, 40)])
def test_a_convolution_looks_up_its_results(shape: tuple[int, ...], function: Function, config: str) -> None:
    found = layers(lambda b, x: function(b, conv(b, x, (shape[3], 20))), shape, config)
    assert [type(layer) for layer in found] == [Mac]
    assert isinstance(found[0], Mac) and found[0].output_table is not None


@pytest.mark.parametrize("config", ["n16", "n9x8"])
def test_up_to_eight_convolutions_share_the_entries_of_both_halves(config: str) -> None:
    def build(b: ModelBuilder, x: int) -> int:
        for number in range(9):
            x = conv(b, x, (16, 16))
            x = b.add("LEAKY_RELU", [x], alpha=0.05 * number, scale=0.05, zero_point=number)
        return x
    found = layers(build, (1, 6, 6, 16), config)
    tables = [layer.output_table for layer in found if isinstance(layer, Mac) and layer.output_table is not None]
    assert [(table.half, table.place) for table in tables] == [
        (0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (0, 0)]


def test_what_is_read_twice_stays_a_layer() -> None:
    def build(b: ModelBuilder, x: int) -> list[int]:
        made = conv(b, x, (8, 8))
        return [leaky(b, made), made]
    assert [type(layer) for layer in layers(build, (1, 6, 6, 8))] == [Mac, Elementwise]


@pytest.mark.parametrize("config", ["n16", "n8", "n9x8", "n16x8", "tiny", "serial"])
@pytest.mark.parametrize(("kernel", "stride", "padding", "activation"), [
    ((2, 2), (2, 2), "VALID", "NONE"), ((2, 2), (2, 2), "SAME", "RELU"), ((1, 2), (1, 2), "VALID", "NONE"),
    ((3, 1), (2, 1), "VALID", "RELU6"), ((4, 1), (3, 2), "VALID", "NONE"), ((2, 2), (1, 1), "VALID", "NONE"),
    ((3, 3), (2, 2), "SAME", "RELU"), ((1, 1), (2, 2), "VALID", "NONE")])
def test_pools_look_up_what_comes_before_and_after(kernel: tuple[int, int], stride: tuple[int, int], padding: str,
                                                   activation: str, config: str) -> None:
    for build in (lambda b, x: pool(b, leaky(b, x), kernel, stride, padding, activation),
                  lambda b, x: swish(b, pool(b, x, kernel, stride, padding, activation)),
                  lambda b, x: pool(b, x, kernel, stride, padding, activation)):
        for shape in ((1, 13, 12, 5), (2, 6, 7, 33)):
            assert {type(layer) for layer in layers(build, shape, config)} == {MaxPool}


def test_a_table_that_falls_stays_before_a_pool() -> None:
    """The pool follows a layer of its own, because only the convolution's table gives the right maximum."""
    found = layers(lambda b, x: pool(b, swish(b, conv(b, x, (5, 8)))), (1, 8, 8, 5))
    assert [type(layer) for layer in found] == [Mac, MaxPool]
    assert isinstance(found[0], Mac) and found[0].output_table is not None
    assert isinstance(found[1], MaxPool) and found[1].output_table is None


def test_a_pool_has_one_table() -> None:
    found = layers(lambda b, x: swish(b, pool(b, leaky(b, x))), (1, 8, 8, 5))
    assert [type(layer) for layer in found] == [MaxPool, Elementwise]


@pytest.mark.parametrize(("config", "size"), [("n8", 64), ("n9x8", 64), ("tiny", 32)])
def test_strips_of_a_cascade_share_a_table(config: str, size: int) -> None:
    """The tensors are larger than the scratchpad, so that strips of several layers alternate."""
    def build(b: ModelBuilder, x: int) -> int:
        return leaky(b, conv(b, swish(b, conv(b, leaky(b, conv(b, x, (8, 16))), (16, 16))), (16, 8)))
    found = layers(build, (1, size, size, 8), config)
    assert [type(layer) for layer in found] == [Mac, Mac, Mac]


@pytest.mark.parametrize("config", ["n8", "n9x8"])
def test_strips_of_pools(config: str) -> None:
    def build(b: ModelBuilder, x: int) -> int:
        return pool(b, leaky(b, conv(b, pool(b, leaky(b, conv(b, x, (3, 16)))), (16, 24))))
    assert [type(layer) for layer in layers(build, (1, 96, 96, 3), config)] == [Mac, MaxPool, Mac, MaxPool]
