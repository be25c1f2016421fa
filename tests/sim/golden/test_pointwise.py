"""Functions of one int8 against LiteRT, and compiled: an operator of a file `pointwise_*.py` is a line here."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.pointwise import POINTWISE
from tq_hw.sim.golden.run import run

#: Engines that each operator is held against.
ENGINES = {"ABS": ("litert-ref", "tflm"), "RELU_0_TO_1": ("litert-ref",)}


def test_every_operator_is_listed() -> None:
    assert sorted(ENGINES) == sorted(POINTWISE)


@pytest.mark.parametrize("op", ENGINES)
def test_equals_the_engines(op: str, agree: Callable[..., None]) -> None:
    every = np.arange(-128, 128).astype(np.int8)
    for seed in range(8):
        rng, b = np.random.default_rng(seed), ModelBuilder(op)
        scale, point, out_point = float(rng.uniform(0.002, 0.1)), *(int(n) for n in rng.integers(-128, 128, 2))
        x = b.input((256,), scale=scale, zero_point=point)
        data = b.build(b.add(op, [x], shape=(256,), scale=scale * (1, 0.3, 1.7, 3)[seed % 4], zero_point=out_point))
        for engine in ENGINES[op]:
            agree(engine, data, [[every]])
        model = parse_model(data, op)
        found = execute(compile_model(model, load_config("n16")).program, [every]).outputs[0]
        np.testing.assert_array_equal(found, run(model, [every]).outputs[0], strict=True)


@pytest.mark.parametrize(("output", "message"), [
    ({"shape": (3, 1)}, "operator 0 (ABS): output must have shape (3,), not (3, 1)"),
    ({"shape": (3,), "dtype": "int32"},
     "operator 0 (ABS): output must be int8 with a scale and a zero point, not int32")])
def test_refusals(output: dict[str, object], message: str) -> None:
    b = ModelBuilder("m")
    out = b.add("ABS", [b.input((3,), scale=0.1)], **output)  # type: ignore[arg-type]  # mixed options
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(out), "m"), load_config("n16"))
    assert str(caught.value) == message
