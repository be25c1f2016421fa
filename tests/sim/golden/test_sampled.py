"""Functions of int16 that are infinite in float32 are refused, by name and with what would help."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden.libm import expf
from tq_hw.sim.golden.sampled import sampled

MESSAGE = ("results must be finite in float32 for all codes, else the kernels are undefined; use a smaller input scale")


def test_an_infinite_sample_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        sampled(-89.0, 89.0, 1.0, expf, np.float32)
    assert str(caught.value) == MESSAGE


def test_a_finite_function_at_float32s_end_is_not() -> None:
    assert sampled(-88.0, 88.0, 1.0, expf, np.float32).max() == 32767


def test_a_model_is_refused_by_operator() -> None:
    b = ModelBuilder("exp")
    made = b.add("EXP", [b.input((1, 4), "int16", scale=0.003)], scale=0.01)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(made), "exp"), load_config("n8"))
    assert str(caught.value) == f"operator 0 (EXP): {MESSAGE}"
