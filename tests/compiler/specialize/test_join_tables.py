"""compiler.specialize.join_tables: a folded convolution applies the table before it, with the same integers."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Mac
from tq_hw.compiler.ir.staged import Flat
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute


def tabled(shape: tuple[int, ...], scale: float = 0.02, *, kernel: int = 3, stride: int = 1, twice: bool = False,
           before: int = 0, after: str | None = None) -> Model:
    """A logistic, a convolution, and an operator `after`; before them a convolution of `before` channels."""
    builder, rng = ModelBuilder("tabled"), np.random.default_rng(3)
    source = builder.input((*shape[:3], before or shape[3]), scale=scale, zero_point=3)
    if before:
        weights = builder.constant(rng.integers(-127, 128, (shape[3], 1, 1, before)).astype(np.int8), scale=0.01)
        source = builder.add("CONV_2D", [source, weights, builder.bias(source, weights, [9] * shape[3])],
                             scale=0.1, zero_point=3)
    table = builder.add("LOGISTIC", [source], scale=1 / 256, zero_point=-128)
    weights = builder.constant(rng.integers(-127, 128, (8, kernel, kernel, shape[3])).astype(np.int8),
                               scale=rng.uniform(0.001, 0.01, 8).tolist(), dimension=0)
    bias = builder.bias(table, weights, rng.integers(-500, 500, 8))
    made = builder.add("CONV_2D", [table, weights, bias], padding="SAME", stride_h=stride, stride_w=stride, scale=0.05,
                       zero_point=-4)
    if after is not None:
        made = builder.add(after, [made], scale=1 / 256, zero_point=-128)
    return parse_model(builder.build(*([made, table] if twice else [made])), "tabled")


def kinds(model: Model, config: str) -> list[type]:
    """Compile, compare the executor with the golden model, return the layers' types."""
    compiled = compile_model(model, PRESETS[config])
    shape = model.main.tensors[model.main.inputs[0]].shape
    rng = np.random.default_rng(5)
    for x in (rng.integers(-128, 128, shape).astype(np.int8), np.full(shape, 127, np.int8)):
        for right, found in zip(golden.run(model, [x]).outputs, execute(compiled.program, [x]).outputs, strict=True):
            assert np.array_equal(found, right)
    return [type(layer) for layer in compiled.emitter.graph.layers]


@pytest.mark.parametrize("config", ["n16", "n8", "n16x8"])
@pytest.mark.parametrize(("shape", "kernel", "stride"), [
    ((1, 12, 10, 3), 3, 1), ((1, 33, 40, 3), 3, 2), ((2, 9, 9, 1), 5, 1), ((1, 70, 64, 1), 3, 1)])
def test_the_convolution_takes_the_table(config: str, shape: tuple[int, ...], kernel: int, stride: int) -> None:
    assert kinds(tabled(shape, kernel=kernel, stride=stride, scale=0.1), config) == [Mac]


def test_a_table_behind_the_convolution_does_not_displace_its_own() -> None:
    assert kinds(tabled((1, 24, 24, 3), scale=0.1, after="LOGISTIC"), "n16") == [Mac, Elementwise]


def test_no_byte_becomes_the_padding() -> None:
    """The logistic of inputs close to 0 is never -128, which is the padding."""
    assert kinds(tabled((1, 12, 10, 3), scale=0.001), "n16") == [Elementwise, Mac]


def test_others_need_the_table_s_output() -> None:
    found = kinds(tabled((1, 12, 10, 3), scale=0.1, twice=True), "n16")
    assert found[0] in (Elementwise, Flat)
    assert found[1:] == [Mac]


@pytest.mark.parametrize("config", ["n16", "n8", "n16x8"])
@pytest.mark.parametrize("shape", [(1, 9, 7, 1), (2, 1, 1, 1), (1, 40, 33, 2)])
def test_what_a_convolution_makes_is_looked_up_there(config: str, shape: tuple[int, ...]) -> None:
    assert kinds(tabled(shape, scale=0.1, before=5), config) == [Mac, Mac]


def test_many_channels_are_not_folded() -> None:
    assert kinds(tabled((1, 6, 6, 16), scale=0.1), "n16") == [Elementwise, Mac]


def test_what_transposed_convolutions_make_in_phases_is_not_looked_up_from_memory() -> None:
    """TRANSPOSE_CONV with strides writes each part of its output by a layer of its own."""
    builder, rng = ModelBuilder("phases"), np.random.default_rng(3)
    source = builder.input((1, 1, 20, 6), scale=0.05)
    weights = builder.constant(rng.integers(-127, 128, (8, 1, 4, 6)).astype(np.int8), scale=0.01)
    spread = builder.add("TRANSPOSE_CONV", [builder.constant([1, 1, 40, 8]), weights, source], shape=(1, 1, 40, 8),
                         scale=0.1, padding="SAME", stride_h=1, stride_w=2)
    table = builder.add("RELU", [spread], scale=0.05, zero_point=-128)
    weights = builder.constant(rng.integers(-127, 128, (3, 1, 3, 8)).astype(np.int8), scale=0.01)
    made = builder.add("CONV_2D", [table, weights, builder.bias(table, weights, [9, 8, 7])], padding="SAME",
                       stride_h=1, stride_w=1, scale=0.1)
    assert kinds(parse_model(builder.build(made), "phases"), "n16")[-1] is Mac
