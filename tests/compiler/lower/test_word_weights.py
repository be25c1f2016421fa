"""FULLY_CONNECTED of int16 by int16, which TFLite's converter makes of products of two matrices in 16x8 models."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

UNIT = 2.0**-15


def build(shape: tuple[int, ...], units: int, scale: float, *, keep: bool = False, constant: bool = False) -> bytes:
    b, depth = ModelBuilder("words"), shape[-1]
    x = b.input(shape, "int16", scale=UNIT)
    if constant:
        draws = np.random.default_rng(units).integers(-(1 << 15), 1 << 15, (units, depth))
        weights = b.constant(draws.astype(np.int16), scale=2e-4)
    else:
        weights = b.input((units, depth), "int16", scale=2e-4)
    rows = (*shape[:-1], units) if keep else (int(np.prod(shape[:-1])), units)
    return b.build(b.add("FULLY_CONNECTED", [x, weights, -1], shape=rows, scale=scale,
                         options={"keep_num_dims": keep}))


@pytest.mark.parametrize("name", ["n8", "n16"])
@pytest.mark.parametrize(("shape", "units", "keep", "constant"), [
    ((7, 6), 7, False, False), ((1, 40), 3, False, False), ((2, 3, 9), 5, True, False), ((2, 3, 9), 5, False, False),
    ((5, 17), 11, False, True)])
@pytest.mark.parametrize("scale", [1e-7, 3e-5, 2e-3])
def test_equals_litert(shape: tuple[int, ...], units: int, keep: bool, constant: bool, scale: float, name: str,
                       oracles: Callable[[str], Oracle]) -> None:
    """From results that are saturated to small ones."""
    data = build(shape, units, scale, keep=keep, constant=constant)
    model, rng = parse_model(data, "words"), np.random.default_rng(units)
    program = compile_model(model, load_config(name)).program
    for most in (1 << 15, 99):
        inputs = [rng.integers(-most, most, model.main.tensors[index].shape).astype(np.int16)
                  for index in model.main.inputs]
        expected = oracles("litert-ref").run(data, inputs)[0]
        np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
        np.testing.assert_array_equal(run(model.under("litert"), inputs).outputs[0], expected, strict=True)
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], expected, strict=True)


def test_in_rtl() -> None:
    model = parse_model(build((3, 5), 4, 3e-5), "words")
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-(1 << 15), 1 << 15, shape).astype(np.int16) for shape in ((3, 5), (4, 5))]
    program = compile_model(model, load_config("tiny")).program
    np.testing.assert_array_equal(simulate(program, inputs).outputs[0], run(model, inputs).outputs[0])
