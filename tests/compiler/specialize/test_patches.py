"""compiler.specialize.patches: adjacent patches fill the words of the array, with the same integers."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Mac
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute


def patches(shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int], *, padding: str = "VALID",
            before: str | None = None) -> Model:
    """A convolution that divides an image into patches; `before` it an operator."""
    builder, rng = ModelBuilder("patches"), np.random.default_rng(3)
    source = builder.input(shape, scale=0.02, zero_point=3)
    if before is not None:
        source = builder.add(before, [source], scale=1 / 256, zero_point=-128)
    weights = builder.constant(rng.integers(-127, 128, (24, *kernel, shape[3])).astype(np.int8),
                               scale=rng.uniform(0.0005, 0.002, 24).tolist(), dimension=0)
    bias = builder.bias(source, weights, rng.integers(-500, 500, 24))
    made = builder.add("CONV_2D", [source, weights, bias], padding=padding, stride_h=stride[0], stride_w=stride[1],
                       scale=0.05, zero_point=-4)
    return parse_model(builder.build(made), "patches")


def kernel_of(model: Model, config: Config) -> tuple[int, int]:
    """Compile, compare the executor with the golden model, return the kernel of the convolution's layer."""
    compiled = compile_model(model, config)
    shape = model.main.tensors[model.main.inputs[0]].shape
    rng = np.random.default_rng(5)
    for x in (rng.integers(-128, 128, shape).astype(np.int8), np.full(shape, 127, np.int8)):
        right, found = golden.run(model, [x]).outputs, execute(compiled.program, [x]).outputs
        assert all(map(np.array_equal, right, found))
    convolution, = (layer for layer in compiled.emitter.graph.layers if isinstance(layer, Mac))
    return convolution.kernel


@pytest.mark.parametrize("config", ["n16", "n8", "n9x8", "n16x8"])
@pytest.mark.parametrize(("shape", "kernel", "stride"), [
    ((1, 48, 48, 3), (16, 16), (16, 16)), ((1, 30, 47, 3), (15, 15), (15, 15)), ((2, 20, 70, 4), (5, 17), (3, 17)),
    ((1, 33, 70, 1), (33, 33), (33, 33))])
def test_large_patches_become_a_column(config: str, shape: tuple[int, ...], kernel: tuple[int, int],
                                       stride: tuple[int, int]) -> None:
    assert kernel_of(patches(shape, kernel, stride), PRESETS[config]) == (kernel[0], 1)


@pytest.mark.parametrize("config", ["n16", "n8", "n9x8", "n16x8"])
@pytest.mark.parametrize(("shape", "kernel", "before"), [
    ((1, 32, 32, 3), (8, 8), None), ((1, 21, 37, 3), (7, 7), None), ((2, 25, 20, 3), (6, 6), "LOGISTIC"),
    ((1, 16, 30, 5), (3, 5), None)])
def test_smaller_ones_are_folded_or_a_column(config: str, shape: tuple[int, ...], kernel: tuple[int, int],
                                             before: str | None) -> None:
    assert kernel_of(patches(shape, kernel, kernel, before=before), PRESETS[config]) in (kernel, (kernel[0], 1))


@pytest.mark.parametrize(("kernel", "stride", "padding"), [
    ((16, 16), (16, 15), "VALID"), ((16, 16), (16, 17), "VALID"), ((16, 16), (16, 16), "SAME")])
def test_patches_with_gaps_padding_or_in_common_stay(kernel: tuple[int, int], stride: tuple[int, int],
                                                     padding: str) -> None:
    assert kernel_of(patches((1, 40, 40, 3), kernel, stride, padding=padding), PRESETS["n16"]) == kernel


@pytest.mark.parametrize(("shape", "size", "kernel"), [((1, 32, 32, 8), 4, (4, 4)), ((1, 64, 64, 3), 16, (16, 1))])
def test_what_a_layer_makes_goes_through_memory_where_that_pays(shape: tuple[int, ...], size: int,
                                                                kernel: tuple[int, int]) -> None:
    """In the scratchpad its pixels would have words of their own."""
    model = patches(shape, (size, size), (size, size), before="LOGISTIC")
    assert kernel_of(model, PRESETS["n16"]) == kernel
