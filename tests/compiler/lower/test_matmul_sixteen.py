"""BATCH_MATMUL of int16 by constants of int8, which ai-edge-quantizer's 16x8 leaves: LiteRT's integers."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

RNG = np.random.default_rng(0)


def product(shape: tuple[int, ...], dims: tuple[int, ...], scale: float, *, adj_x: bool = False, adj_y: bool = False,
            zero_point: int = 0, given: bool = False) -> bytes:
    b = ModelBuilder("product")
    x = b.input(shape, "int16", scale=3e-4)
    quantization = {"scale": 0.01, "zero_point": zero_point}
    y = b.input(dims, **quantization) if given else b.constant(RNG.integers(-128, 128, dims).astype(np.int8),
                                                               **quantization)
    return b.build(b.add("BATCH_MATMUL", [x, y], scale=scale, zero_point=0, adj_x=adj_x, adj_y=adj_y))


@pytest.mark.parametrize("scale", [1e-2, 3e-4, 3e-6])
@pytest.mark.parametrize(("shape", "dims", "turned"), [
    ((1, 5, 40), (40, 7), ""), ((2, 3, 5, 8), (8, 4), ""), ((5, 8), (3, 8), "y"), ((6, 4), (6, 5), "x"),
    ((2, 5, 8), (2, 8, 3), ""), ((5, 8), (2, 3, 8), "y"), ((3, 8, 5), (1, 3, 8), "xy")])
def test_equals_litert(shape: tuple[int, ...], dims: tuple[int, ...], turned: str, scale: float,
                       oracles: Callable[[str], Oracle]) -> None:
    data = product(shape, dims, scale, adj_x="x" in turned, adj_y="y" in turned)
    model = parse_model(data, "product")
    x = RNG.integers(-2**15, 2**15, shape).astype(np.int16)
    expected = oracles("litert-ref").run(data, [x])[0]
    for ours in (run(model, [x]), execute(compile_model(model, load_config("n8")).program, [x])):
        np.testing.assert_array_equal(ours.outputs[0], expected, strict=True)


@pytest.mark.parametrize(("data", "reason"), [
    (product((3, 4), (4, 2), 0.1, given=True), "Use the same type for inputs and outputs. Found int16 for tensor 0 "
     "'t0' and int8 for tensor 1 't1'."),
    (product((3, 4), (4, 2), 0.1, zero_point=5), "Give int16 activations zero point 0. Found zero point 5 for tensor "
     "1 't1'.")])
def test_what_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_model(data, "product")
    assert str(caught.value) == f"product: subgraph 0, operator 0 BATCH_MATMUL: {reason}"
