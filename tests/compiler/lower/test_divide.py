"""DIV of every dividend by divisors of both signs, and messages about unsupported quotients and products."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

EVERY = np.arange(-128, 128).astype(np.int8)


def quotients(out_scale: float, zero_points: tuple[int, int] = (3, -20)) -> bytes:
    b = ModelBuilder("quotients")
    x = b.input((256, 1), scale=0.05, zero_point=zero_points[0])
    y = b.input((1, 12), scale=0.02, zero_point=zero_points[1])
    return b.build(b.add("DIV", [x, y], scale=out_scale, zero_point=-7))


@pytest.mark.parametrize(("profile", "engine"), [("canon", "litert-ref"), ("tflm", "tflm")])
@pytest.mark.parametrize("out_scale", [0.0003, 0.02, 0.2, 3.0])
def test_quotients_equal_the_engine(oracles: Callable[[str], Oracle], profile: str, engine: str,
                                    out_scale: float) -> None:
    data = quotients(out_scale)
    inputs = [EVERY[:, None], np.array([[-128, -127, -60, -24, -22, -21, -19, -17, 0, 44, 100, 127]], np.int8)]
    model = parse_model(data, "quotients").under(profile)
    expected = oracles(engine).run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected)
    np.testing.assert_array_equal(execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs[0], expected)


def test_a_divisor_of_zero() -> None:
    inputs = [EVERY[:, None], np.full((1, 12), -20, np.int8)]
    with pytest.raises(InputError, match=r"^operator 0 \(DIV\): a divisor is 0, which the engines reject$"):
        run(parse_model(quotients(0.02), "quotients"), inputs)


@pytest.mark.parametrize("zero_point", [-128, -20, 127])
@pytest.mark.parametrize("by_itself", [False, True])
def test_tables_have_an_entry_for_a_divisor_of_zero(oracles: Callable[[str], Oracle], zero_point: int,
                                                    by_itself: bool) -> None:
    """A constant divided by a computed divisor, and a tensor by itself: the engines reject one code only."""
    b = ModelBuilder("reciprocal")
    x = b.input((1, 255), scale=0.02, zero_point=zero_point)
    first = x if by_itself else b.constant(np.full((1, 1), 100, np.int8), scale=0.01, zero_point=-3)
    data = b.build(b.add("DIV", [first, x], scale=0.05, zero_point=1))
    inputs = [EVERY[zero_point != EVERY][None]]
    program = compile_model(parse_model(data, "reciprocal"), PRESETS["n8"]).program
    np.testing.assert_array_equal(execute(program, inputs).outputs[0], oracles("litert-ref").run(data, inputs)[0])


@pytest.mark.parametrize(("op", "out_scale", "message"), [
    ("DIV", 1e-7, "operator 0 (DIV): the first scale divided by the other two must be 2^-15 or more and below 2^23, "
     "where the kernels shift by a negative count; found 2.5e+07"),
    ("REDUCE_PROD", 1e-9, "operator 0 (REDUCE_PROD): a product may exceed 47 bits, or 32 after rescaling: the kernels "
     "are undefined there; reduce fewer elements"),
    ("REDUCE_PROD", 3e-4, "operator 0 (REDUCE_PROD): a product may exceed the 32 bits in which the vector unit "
     "multiplies; a larger output scale or fewer elements help"),
])
def test_refused(op: str, out_scale: float, message: str) -> None:
    data = quotients(out_scale)
    if op == "REDUCE_PROD":
        b = ModelBuilder(op)
        x = b.input((6, 2), scale=0.05)
        data = b.build(b.add(op, [x, b.constant([0])], scale=out_scale))
    with pytest.raises(UnsupportedError) as error:
        compile_model(parse_model(data, op), PRESETS["n8"])
    assert str(error.value) == message
