"""Float32 islands of two int8 tensors: for every pair of codes the results of LiteRT's float kernels."""


import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

CODES = np.arange(-128, 128).astype(np.int8)
OPERATORS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")


def island(op: str, seed: int) -> bytes:
    """Two tensors with any scales and zero points, a function of one of them, the operator, a clamp or a factor."""
    rng = np.random.default_rng([seed, OPERATORS.index(op)])
    b = ModelBuilder(op)
    scales = [float(np.float32(10 ** rng.uniform(-3, -0.5))) for _ in range(2)]
    # All pairs of codes occur: one tensor along the rows, the other along the columns.
    inputs = [b.input(shape, scale=scale, zero_point=int(rng.choice([-128, 0, int(rng.integers(-128, 128))])))
              for shape, scale in zip(((256, 1), (1, 256)), scales, strict=True)]
    one, other = (b.add("DEQUANTIZE", [each]) for each in inputs)
    if op != "MUL":
        one = b.add("LEAKY_RELU", [one], options={"alpha": 0.01}) if seed % 3 == 0 else one
        other = b.add("LOGISTIC", [other]) if seed % 3 == 1 else other
    reach = scales[0] * scales[1] * 2**15 if op == "MUL" else sum(scales) * 128
    made = b.add(op, [other, one] if seed % 2 else [one, other], shape=(256, 256), options={
        "fused_activation_function": str(rng.choice(["NONE", "RELU", "RELU6"]))} if op in OPERATORS[:3] else {})
    if seed % 4 == 1:
        made = b.add("RELU", [b.add("MUL", [made, b.constant(np.array(0.3, np.float32))])])
    return b.build(b.add("QUANTIZE", [made], scale=float(np.float32(reach / 100 * rng.uniform(0.3, 2))),
                         zero_point=int(rng.integers(-128, 128))))


def check(litert: Oracle, op: str, seed: int, engine: bool = True) -> None:
    data = island(op, seed)
    model = parse_model(data, op)
    assert [each.op for each in rewrite(model.main, LIBRARY).operators] == ["PAIR"]
    inputs = [CODES.reshape(256, 1), CODES.reshape(1, 256)]
    expected = litert.run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    if engine:
        found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("op", OPERATORS)
def test_every_pair_of_codes(litert: Oracle, op: str) -> None:
    check(litert, op, 0)
    check(litert, op, 1, engine=False)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_sweep_of_scales(litert: Oracle, op: str) -> None:
    for seed in range(2, 22):
        check(litert, op, seed)


def test_sums_that_are_moved_by_hand() -> None:
    """With these scales some pairs are so near a half that fixed point alone would give another code."""
    b = ModelBuilder("near")
    one, other = (b.add("DEQUANTIZE", [b.input(shape, scale=scale)]) for shape, scale in (
        ((256, 1), 0.0123), ((1, 256), 0.0456)))
    made = b.build(b.add("QUANTIZE", [b.add("ADD", [one, other], shape=(256, 256))], scale=0.0789 / 3))
    model = parse_model(made, "near")
    subgraph = rewrite(model.main, LIBRARY)
    assert [each.op for each in subgraph.operators] == ["PAIR"]
    inputs = [CODES.reshape(256, 1), CODES.reshape(1, 256)]
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
