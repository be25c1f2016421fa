"""TANH, ELU and SIGN of computed float32: every bit equals LiteRT's, which uses the C library."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import floats, real
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.float32 import UNARY
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate


def of_sum(op: str, scale: float, count: int = 640) -> bytes:
    """Functions of a sum of two tensors, as an output in float32, and in codes after a product."""
    b, shape = ModelBuilder(op), (count // 16, 16)
    x = b.add("ADD", [real(b, shape, scale, -3), real(b, shape, scale / 32, 7)])
    made = b.add(op, [x])
    scaled = b.add("MUL", [made, floats(b, *np.linspace(0.5, 1.5, 16))])
    return b.build(made, b.add("QUANTIZE", [scaled], scale=max(scale, 0.002), zero_point=-20))


@pytest.mark.parametrize("op", ["TANH", "ELU", "SIGN"])
@pytest.mark.parametrize("scale", [1e-30, 3e-6, 0.002, 0.01, 0.03, 0.08, 0.2, 1.0, 1e5])
def test_equals_the_engine(oracles: Callable[[str], Oracle], op: str, scale: float) -> None:
    """Where e^x - 1 is x, around each multiple of ln 2, where the results become integers, and beyond."""
    engine = oracles("litert-ref")
    if op == "ELU":
        # The reference resolver has no ELU. The optimized DEQUANTIZE rounds differently, unless all sums are exact.
        engine, scale = oracles("litert-opt"), 2.0 ** round(np.log2(scale))
    data = of_sum(op, scale)
    model, rng = parse_model(data, op), np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, (40, 16)).astype(np.int8) for _ in range(2)]
    # 0, whose sign is visible in the output.
    inputs[0][0, :4], inputs[1][0, :4] = -3, 7
    program = compile_model(model, load_config("n16")).program
    results = zip(execute(program, inputs).outputs, run(model, inputs).outputs, engine.run(data, inputs), strict=True)
    for position, (found, golden, expected) in enumerate(results):
        assert found.tobytes() == golden.tobytes()
        if position == 0 or op != "ELU":  # the optimized QUANTIZE rounds differently, too
            assert golden.tobytes() == expected.tobytes()


@pytest.mark.parametrize("op", ["TANH", "ELU"])
def test_ends_of_what_is_computed(op: str) -> None:
    """The compiler replaces larger numbers by 9.5 and -20; from there on, results are integers."""
    numbers = np.linspace(9.5, 44, 100_000, dtype=np.float32) if op == "TANH" else -np.linspace(
        20, 80, 100_000, dtype=np.float32)
    assert set(UNARY[op](numbers)) == {1 if op == "TANH" else -1}


@pytest.mark.parametrize("op", ["TANH", "ELU", "SIGN"])
def test_in_rtl(op: str) -> None:
    model = parse_model(of_sum(op, 0.03, count=16), op)
    inputs = [np.linspace(start, 127, 16).astype(np.int8).reshape(1, 16) for start in (-128, 0)]
    program = compile_model(model, load_config("n8")).program
    for found, expected in zip(simulate(program, inputs).outputs, run(model, inputs).outputs, strict=True):
        assert found.tobytes() == expected.tobytes()


def test_cell_of_an_lstm_in_float(litert: Oracle) -> None:
    """As PyTorch's "PT2E" leaves it between int8 dense layers: gates, a state over two steps, and the output."""
    b, state = ModelBuilder("lstm"), None
    for step in range(2):
        gate, forget, new, out = (b.add("ADD", [real(b, (1, 8), 0.05, step), real(b, (1, 8), 0.02)]) for _ in range(4))
        gate, forget, out = (b.add("LOGISTIC", [each]) for each in (gate, forget, out))
        added = b.add("MUL", [gate, b.add("TANH", [new])])
        state = added if state is None else b.add("ADD", [b.add("MUL", [forget, state]), added])
        given = b.add("MUL", [out, b.add("TANH", [state])])
    data = b.build(b.add("QUANTIZE", [given], scale=1 / 128))
    model, rng = parse_model(data, "lstm"), np.random.default_rng(1)
    inputs = [rng.integers(-128, 128, (1, 8)).astype(np.int8) for _ in model.main.inputs]
    program = compile_model(model, load_config("n16")).program
    assert execute(program, inputs).outputs[0].tobytes() == litert.run(data, inputs)[0].tobytes()


def test_root_of_a_magnitude_with_its_sign(litert: Oracle) -> None:
    """`nn.LPPool2d`: means of squares have no negative sign."""
    b = ModelBuilder("pool")
    x = real(b, (1, 6, 6, 3), 0.02, 9)
    pool = {"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2, "padding": "VALID"}
    mean = b.add("AVERAGE_POOL_2D", [b.add("MUL", [x, x])], shape=(1, 3, 3, 3), options=pool)
    size = b.add("RELU", [b.add("ABS", [mean])])
    data = b.build(b.add("SQRT", [b.add("MUL", [b.add("MUL", [b.add("SIGN", [mean]), size]), floats(b, 4)])]))
    model = parse_model(data, "pool")
    inputs = [np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)]
    inputs[0][0, :4, :2] = 9
    program = compile_model(model, load_config("n8")).program
    assert execute(program, inputs).outputs[0].tobytes() == litert.run(data, inputs)[0].tobytes()
