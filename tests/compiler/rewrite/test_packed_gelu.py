"""GELU of computed float32, in both forms: every bit equals LiteRT's, which uses Eigen."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import floats, real
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate


def gelu(scale: float, *, approximate: bool, count: int = 640) -> bytes:
    """GELU of a sum of two tensors, as an output in float32, and in codes after a product."""
    b, shape = ModelBuilder("gelu"), (count // 16, 16)
    x = b.add("ADD", [real(b, shape, scale, -3), real(b, shape, scale * 0.0313, 7)])
    made = b.add("GELU", [x], options={"approximate": approximate})
    scaled = b.add("MUL", [made, floats(b, *np.linspace(0.5, 1.5, 16))])
    return b.build(made, b.add("QUANTIZE", [scaled], scale=scale, zero_point=-20))


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("scale", [0.002, 0.02, 0.07, 0.2, 1.0])
def test_equals_the_engine(litert: Oracle, scale: float, approximate: bool) -> None:
    """Near 0, where erfc changes its method, where its exponential gives the smallest numbers, and beyond."""
    data = gelu(scale, approximate=approximate)
    model, rng = parse_model(data, "gelu"), np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, (40, 16)).astype(np.int8) for _ in range(2)]
    # 0, whose sign is visible in the output.
    inputs[0][0, :4], inputs[1][0, :4] = -3, 7
    program = compile_model(model, load_config("n16")).program
    for found, golden, expected in zip(execute(program, inputs).outputs, run(model, inputs).outputs,
                                       litert.run(data, inputs), strict=True):
        assert found.tobytes() == golden.tobytes() == expected.tobytes()


@pytest.mark.parametrize("approximate", [False, True])
def test_in_rtl(approximate: bool) -> None:
    model = parse_model(gelu(0.03, approximate=approximate, count=16), "gelu")
    inputs = [np.linspace(start, 127, 16).astype(np.int8).reshape(1, 16) for start in (-128, 0)]
    program = compile_model(model, load_config("n8")).program
    for found, expected in zip(simulate(program, inputs).outputs, run(model, inputs).outputs, strict=True):
        assert found.tobytes() == expected.tobytes()


def test_numbers_that_are_too_large() -> None:
    """The cube in the approximation must be a packed number; the argument of erfc is clipped first."""
    b = ModelBuilder("large")
    x = b.add("ADD", [real(b, (2, 16), 1e12), real(b, (2, 16), 3e10)])
    model = parse_model(b.build(b.add("GELU", [x], options={"approximate": True})), "large")
    with pytest.raises(UnsupportedError, match=r"may be \S+, more than float32 operators support"):
        compile_model(model, load_config("n8"))
