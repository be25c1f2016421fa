"""SOFTMAX and BATCH_MATMUL in float32 between int8 tensors, as in PyTorch's exports of attention."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.packed_floats import check_packed, packed_floats
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

Build = Callable[[ModelBuilder], int]


def real(b: ModelBuilder, shape: tuple[int, ...], scale: float = 0.0213, point: int = -9) -> int:
    return b.add("DEQUANTIZE", [b.input(shape, scale=scale, zero_point=point)])


def codes(b: ModelBuilder, x: int, scale: float = 1 / 256, point: int = -128) -> int:
    return b.add("QUANTIZE", [x], scale=scale, zero_point=point)


def rows(b: ModelBuilder) -> int:
    return codes(b, b.add("SOFTMAX", [real(b, (3, 5, 11))]))


def falling(b: ModelBuilder) -> int:
    """Numbers fall as codes rise, and several codes have the least number, several the largest."""
    x = b.add("NEG", [b.add("TANH", [real(b, (4, 9), 0.11, 7)])])
    return codes(b, b.add("SOFTMAX", [x], options={"beta": 2.5}))


def attention(b: ModelBuilder) -> int:
    """As in exports of timm's blocks: scores in int8, everything after them in float32."""
    weights = b.add("SOFTMAX", [real(b, (1, 2, 6, 6), 0.31)])
    weights = b.add("RESHAPE", [weights, b.constant(np.array([2, 6, 6], np.int32))], shape=(2, 6, 6))
    return codes(b, b.add("BATCH_MATMUL", [weights, real(b, (2, 6, 5), 0.0113, 13)]), 0.0028, -13)


def of_sums(b: ModelBuilder) -> int:
    return codes(b, b.add("SOFTMAX", [sums(b, (3, 2, 13))]))


def multi_head(b: ModelBuilder) -> int:
    """As in exports of nn.MultiheadAttention: queries and keys are scaled, and everything after that is in float32."""
    heads = [b.add("MUL", [sums(b, (2, 6, 4)), b.constant(np.array(0.5946, np.float32))]) for _ in range(2)]
    weights = b.add("SOFTMAX", [b.add("BATCH_MATMUL", heads, adj_y=True)])
    return codes(b, b.add("BATCH_MATMUL", [weights, real(b, (2, 6, 4), 0.0113, 13)]), 0.0028, -13)


def sums(b: ModelBuilder, shape: tuple[int, ...]) -> int:
    return b.add("ADD", [real(b, shape, 0.07), real(b, shape, 0.003, 100)])


def turned(b: ModelBuilder) -> int:
    return codes(b, b.add("BATCH_MATMUL", [sums(b, (2, 7, 3)), sums(b, (2, 5, 7))], adj_x=True, adj_y=True), 0.9, 3)


def one_for_all(b: ModelBuilder) -> int:
    return codes(b, b.add("BATCH_MATMUL", [sums(b, (3, 2, 4)), sums(b, (2, 1, 4, 3))]), 0.9, 3)


def matrix(b: ModelBuilder) -> int:
    return codes(b, b.add("BATCH_MATMUL", [sums(b, (4, 6)), sums(b, (3, 6))], adj_y=True), 0.5, 3)


def causal(b: ModelBuilder) -> int:
    """Masks with minus infinity and other numbers, per row and for all rows, as first and as second operand of ADD."""
    later = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
    padding = np.array([0, -0.7, 0, 0, -np.inf, -np.inf], np.float32)
    ends = []
    for mask, first, beta in ((later, False, 1.0), (padding, True, 1.0), (later[None], False, 0.17)):
        pair = [sums(b, (2, 6, 6)), b.constant(mask)]
        ends.append(b.add("SOFTMAX", [b.add("ADD", pair[::-1] if first else pair)], options={"beta": beta}))
    return codes(b, b.add("CONCATENATION", ends, shape=(2, 6, 18), options={"axis": 2}))


def least_masks(b: ModelBuilder) -> int:
    """As transformers write masks: the least number of float32, which a score does not change; with another number."""
    later = np.triu(np.full((6, 6), np.finfo(np.float32).min, np.float32), 1)
    ends = [b.add("SOFTMAX", [b.add("ADD", [sums(b, (2, 6, 6)), b.constant(mask)])], options={"beta": beta})
            for mask, beta in ((later, 1.0), (np.where(later < 0, np.float32(-1.5e30), -0.25 * later), 3.0))]
    return codes(b, b.add("CONCATENATION", ends, shape=(2, 6, 12), options={"axis": 2}))


def lengths(b: ModelBuilder) -> int:
    """As F.normalize is exported: of large and of small vectors, and of zeros."""
    ends = [b.add("L2_NORMALIZATION", [b.add("MUL", [sums(b, (4, 9)), b.constant(np.array(factor, np.float32))])])
            for factor in (1.0, 1e-7, 1e-25, 1e8)]
    ends.append(b.add("L2_NORMALIZATION", [real(b, (4, 9), 0.1, 0)]))
    return codes(b, b.add("CONCATENATION", ends, shape=(4, 45), options={"axis": 1}), 0.0079, 0)


def logarithms(b: ModelBuilder) -> int:
    """LOG_SOFTMAX, the logarithm of a sum of powers, and softplus."""
    x = sums(b, (4, 9))
    powers = b.add("EXP", [b.add("ABS", [x])])
    total = b.add("SUM", [powers, b.constant(np.array([1], np.int32))], shape=(4, 1), options={"keep_dims": True})
    soft = b.add("LOG", [b.add("ADD", [powers, b.constant(np.array(1, np.float32))])])
    ends = [b.add("LOG_SOFTMAX", [x]), b.add("LOG", [total]), soft]
    return codes(b, b.add("CONCATENATION", ends, shape=(4, 19), options={"axis": 1}), 0.11, 31)


BUILDERS = (rows, falling, of_sums, attention, multi_head, turned, one_for_all, matrix, logarithms, causal,
            least_masks, lengths)


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: each.__name__)
def test_equals_the_engine(litert: Oracle, builder: Build) -> None:
    b = ModelBuilder(builder.__name__)
    data = b.build(builder(b))
    model = parse_model(data, "rows")
    replaced = Model(model.name, (packed_floats(rewrite(model.main, LIBRARY)),))
    assert not {op.op for op in replaced.main.operators} & {
        "DEQUANTIZE", "QUANTIZE", "SOFTMAX", "BATCH_MATMUL", "L2_NORMALIZATION"}
    program = compile_model(model, load_config("n8")).program
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8)
                  for index in model.main.inputs]
        inputs[0].reshape(-1, inputs[0].shape[-1])[0] = rng.integers(-128, 128)
        expected = litert.run(data, inputs)[0]
        for outputs in (*(run(each, inputs).outputs for each in (model, replaced)), execute(program, inputs).outputs):
            np.testing.assert_array_equal(outputs[0], expected, strict=True)


def test_lengths_of_int16_and_as_outputs(litert: Oracle) -> None:
    b = ModelBuilder("lengths")
    x = b.add("DEQUANTIZE", [b.input((5, 8), "int16", scale=3e-4)])
    data = b.build(b.add("L2_NORMALIZATION", [x]))
    model = parse_model(data, "lengths")
    codes_of = np.random.default_rng(0).integers(-(1 << 15), 1 << 15, (5, 8)).astype(np.int16)
    codes_of[0], codes_of[1, :4] = 0, 0
    expected = litert.run(data, [codes_of])[0]
    for made in (run(model, [codes_of]), execute(compile_model(model, load_config("n8")).program, [codes_of])):
        assert made.outputs[0].tobytes() == expected.tobytes()


def small(seed: int) -> tuple[Model, list[np.ndarray]]:
    b = ModelBuilder("small")
    weights = b.add("SOFTMAX", [real(b, (1, 3, 3), 0.31)])
    model = parse_model(b.build(codes(b, b.add("BATCH_MATMUL", [weights, real(b, (1, 3, 2))]), 0.01)), "small")
    rng = np.random.default_rng(seed)
    return model, [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8)
                   for index in model.main.inputs]


@pytest.mark.parametrize("config", ["tiny", "serial", "n9x8"])
def test_machines(config: str) -> None:
    model, inputs = small(1)
    found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


def test_in_rtl() -> None:
    model, inputs = small(2)
    program = compile_model(model, load_config("tiny")).program
    np.testing.assert_array_equal(simulate(program, inputs).outputs[0], run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_softmax_of_real_numbers(litert: Oracle, beta: float) -> None:
    """The golden model alone, from float32 to float32."""
    b = ModelBuilder("real")
    data = b.build(b.add("SOFTMAX", [b.input((400, 50), "float32")], options={"beta": beta}))
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(400, 50)) * np.geomspace(0.01, 60, 400)[:, None]).astype(np.float32)
    np.testing.assert_array_equal(run(parse_model(data, "real"), [x]).outputs[0], litert.run(data, [x])[0])


@pytest.mark.parametrize(("build", "reason"), [
    (lambda b: b.add("SOFTMAX", [b.add("LOG", [real(b, (2, 3))])]),
     "tensor 2 ('t2') is NaN for some codes"),
    (lambda b: b.add("SOFTMAX", [real(b, (2, 3))], options={"beta": -1.0}),
     "operator 1 (SOFTMAX) has beta -1.0, which must be positive"),
    (lambda b: b.add("BATCH_MATMUL", [real(b, (1, 200, 200)), real(b, (1, 200, 200))]),
     "operator 2 (BATCH_MATMUL) has 8000000 products, of float32 at most 4194304 are computed"),
    (lambda b: b.add("LOG", [b.add("ABS", [sums(b, (2, 3))])]),
     "operator 4 (LOG) is the logarithm of numbers between 0 and 9.6; it is computed from 1 to 2^23"),
    (lambda b: b.add("SOFTMAX", [b.add("ADD", [sums(b, (2, 3)), b.constant(
        np.array([[0, np.nan, -np.inf]], np.float32))])]), "tensor 5 ('t5') is NaN for some codes"),
], ids=["infinite", "beta", "large", "logarithm", "not_a_number"])
def test_what_is_refused(build: Build, reason: str) -> None:
    b = ModelBuilder("not")
    main = parse_model(b.build(codes(b, build(b))), "not").main
    with pytest.raises(UnsupportedError) as caught:
        check_packed(Subject(main), main.operators[-1])
    assert str(caught.value) == reason
