"""Sampled functions of int16: samples that are far apart, and messages about those that are infinite in float32."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.libm import expf
from tq_hw.sim.golden.run import run
from tq_hw.sim.golden.sampled import sampled
from tq_hw.sim.oracles import Oracle

ALL = np.arange(-(1 << 15), 1 << 15).astype(np.int16)[None]
MESSAGE = ("results must be finite in float32 for all codes, otherwise the kernels are undefined; use a smaller input "
           "scale")


def test_an_infinite_sample_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        sampled(-89.0, 89.0, 1.0, expf, np.float32)
    assert str(caught.value) == MESSAGE


def test_a_finite_function_at_float32s_end_is_not() -> None:
    assert sampled(-88.0, 88.0, 1.0, expf, np.float32).max() == 32767


@pytest.mark.parametrize(("scale", "out"), [(0.0744, 2.38e-4), (0.001, 1e-4), (1.0, 4e-4), (30.0, 3.2e-4)])
def test_interpolation_between_samples_that_are_far_apart_wraps(oracles: Callable[[str], Oracle],
                                                                scale: float, out: float) -> None:
    """Around 0 a logarithm jumps from the least code: the difference does not fit an int16."""
    b = ModelBuilder("log")
    data = b.build(b.add("LOG", [b.input(ALL.shape, "int16", scale=scale)], scale=out))
    model = parse_model(data, "log")
    expected = oracles("litert-ref").run(data, [ALL])[0]
    np.testing.assert_array_equal(run(model, [ALL]).outputs[0], expected, strict=True)


def test_such_a_line_is_in_the_compiled_table() -> None:
    b = ModelBuilder("log")
    model = parse_model(b.build(b.add("LOG", [b.input((1, 256), "int16", scale=0.0744)], scale=2.38e-4)), "log")
    codes = ALL[:, (1 << 15) - 128:(1 << 15) + 128]
    found = execute(compile_model(model, load_config("n8")).program, [codes]).outputs[0]
    np.testing.assert_array_equal(found, run(model, [codes]).outputs[0], strict=True)


def test_a_model_is_refused_by_operator() -> None:
    b = ModelBuilder("exp")
    made = b.add("EXP", [b.input((1, 4), "int16", scale=0.003)], scale=0.01)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(made), "exp"), load_config("n8"))
    assert str(caught.value) == f"operator 0 (EXP): {MESSAGE}"
