"""compiler.rewrite.pools: maxima of rows, then of columns, equal those of windows."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.pools import pools_of_lines
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _pool(shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int] = (1, 1), padding: str = "SAME",
          activation: str = "NONE", dtype: str = "int8") -> Model:
    b = ModelBuilder("pool")
    x = b.input(shape, dtype, scale=0.05 if dtype == "int8" else 0.0005, zero_point=-20 if dtype == "int8" else 0)
    return b.model(b.add("MAX_POOL_2D", [x], filter_height=kernel[0], filter_width=kernel[1], stride_h=stride[0],
                         stride_w=stride[1], padding=padding, fused_activation_function=activation))


def _kernels(model: Model, words: int = 1 << 14) -> list[tuple[object, object]]:
    return [(op.options["filter_height"], op.options["filter_width"])
            for op in rewrite(model.main, (pools_of_lines(words, 16),)).operators]


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("kernel", "stride", "activation"), [
    ((5, 5), (1, 1), "NONE"), ((3, 3), (2, 2), "RELU"), ((3, 3), (1, 1), "RELU6"), ((2, 7), (1, 3), "NONE"),
    ((4, 4), (1, 2), "RELU_N1_TO_1")])
def test_lines_are_equal_to_windows(kernel: tuple[int, int], stride: tuple[int, int], activation: str, padding: str,
                                    dtype: str) -> None:
    for shape in ((1, 9, 8, 5), (2, 7, 11, 20)):
        model = _pool(shape, kernel, stride, padding, activation, dtype)
        assert _kernels(model) == [(1, kernel[1]), (kernel[0], 1)]
        inputs = random_inputs(model)
        for config in ("n16", "n9x8", "tiny", "serial"):
            found = execute(compile_model(model, load_config(config)).program, inputs, check_races=True).outputs[0]
            np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def test_what_stays() -> None:
    """Few taps, a single line, the whole image, and a tensor between that is too large for the scratchpad."""
    for model in (_pool((1, 8, 8, 5), (2, 2)), _pool((1, 8, 8, 5), (1, 7)),
                  _pool((1, 6, 6, 5), (6, 6), padding="VALID")):
        assert len(_kernels(model)) == 1
    assert len(_kernels(_pool((1, 16, 16, 40), (5, 5)), 8 * 16 * 16 * 3)) == 2
    assert len(_kernels(_pool((1, 16, 16, 40), (5, 5)), 8 * 16 * 16 * 3 - 1)) == 1
