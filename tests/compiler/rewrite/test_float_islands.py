"""DEQUANTIZE, float32 operators, QUANTIZE become a table that equals the engines; messages name other cases."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError, TqError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_OPERATORS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.float32 import BINARY, UNARY
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

EVERY = np.arange(-128, 128).astype(np.int8)
#: LiteRT's reference resolver has none of these; its optimized one and TFLite Micro do.
NOT_IN_REFERENCE = ("CEIL", "ELU", "ROUND", "RELU_0_TO_1")
SUPPORTED = ("; supported are float32 operators that together are a function of one int8 or int16 tensor or of two "
             f"int8 tensors, or {', '.join(FLOAT_COMPUTED)} of more int8 or int16 tensors, from DEQUANTIZE to "
             "QUANTIZE or to an output; `tq-hw compile --partition` leaves others to LiteRT on the host")


def islands(op: str, rng: np.random.Generator, count: int) -> bytes:
    """A model of `count` islands of one operator, each on its own input of 256 codes, with scales of all magnitudes."""
    b, outputs = ModelBuilder(op), []
    for _ in range(count):
        scale = float(np.float32(10.0 ** rng.uniform(-3, -1)))
        positive = op in ("LOG", "SQRT", "RSQRT", "POW")
        point = -128 if positive else int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))
        x = b.add("DEQUANTIZE", [b.input((256,), scale=scale, zero_point=point)])
        if positive:
            x = b.add("ADD", [x, b.constant(np.array(scale, np.float32))])
        inputs, number = [x], np.float32(1)
        if op in BINARY:
            number = np.float32(rng.choice([-1, 1]) * rng.uniform(0.3, 3))
            # The engine does not broadcast operands of ATAN2.
            constant = b.constant(np.full(256 if op == "ATAN2" else (), number, np.float32))
            inputs.insert(int(rng.integers(2)) if op in ("SUB", "MAXIMUM", "MUL") else 1, constant)
        options = {"alpha": float(np.float32(rng.uniform(-0.5, 1.5)))} if op == "LEAKY_RELU" else (
            {"approximate": bool(rng.integers(2))} if op == "GELU" else {})
        natural = {"EXP": np.exp((127 - point) * scale) / 200, "RSQRT": 0.006 / scale**0.5,
                   "POW": max(scale ** number, (256 * scale) ** number) / 200}.get(op, scale)
        outputs.append(b.add("QUANTIZE", [b.add(op, inputs, options=options)],
                             scale=float(np.float32(natural * rng.choice([1, 0.3, 1.7, 3]))),
                             zero_point=int(rng.integers(-128, 128))))
    return b.build(*outputs)


def engine_of(op: str) -> str:
    return "litert-opt" if op in NOT_IN_REFERENCE else "litert-ref"


def test_the_kernels_are_those_of_the_rules() -> None:
    assert {*UNARY, *BINARY, "GELU", "LEAKY_RELU"} == set(FLOAT_OPERATORS)


@pytest.mark.parametrize("op", FLOAT_OPERATORS)
def test_golden_equals_the_engine(op: str, oracles: Callable[[str], Oracle]) -> None:
    data = islands(op, np.random.default_rng(0), 16)
    for ours, theirs in zip(run(parse_model(data, op), [EVERY] * 16).outputs,
                            oracles(engine_of(op)).run(data, [EVERY] * 16), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", FLOAT_OPERATORS)
def test_sweep_of_scales(op: str, oracles: Callable[[str], Oracle]) -> None:
    for seed in range(10):
        data = islands(op, np.random.default_rng([seed, 7]), 100)
        for ours, theirs in zip(run(parse_model(data, op), [EVERY] * 100).outputs,
                                oracles(engine_of(op)).run(data, [EVERY] * 100), strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


def tables(model: Model, *ops: str) -> None:
    """Assert that the operators become `ops`, and that the executor's results equal the golden model's."""
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == list(ops)
    inputs = [EVERY.reshape(model.main.tensors[index].shape) for index in model.main.inputs]
    found = execute(compile_model(model, load_config("n8")).program, inputs).outputs
    for ours, theirs in zip(found, run(model, inputs).outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("op", ["SIN", "DIV", "LEAKY_RELU", "SQRT", "LOGISTIC"])
def test_an_island_is_a_table(op: str) -> None:
    tables(parse_model(islands(op, np.random.default_rng(1), 2), op), "TABLE", "TABLE")


def test_results_that_meet_again_and_are_shared() -> None:
    b = ModelBuilder("m")
    x = b.add("DEQUANTIZE", [b.input((4, 64), scale=0.05, zero_point=7)])
    y = b.add("MUL", [x, b.add("LOGISTIC", [x])])
    tables(parse_model(b.build(b.add("QUANTIZE", [y], scale=0.03), b.add("QUANTIZE", [b.add("NEG", [y])], scale=0.04)),
                       "m"), "TABLE", "TABLE")


def test_float_result_that_the_caller_wants_too() -> None:
    b = ModelBuilder("m")
    x = b.add("DEQUANTIZE", [b.input((256,), scale=0.05, zero_point=7)])
    tables(parse_model(b.build(x, b.add("QUANTIZE", [b.add("SQUARE", [x])], scale=0.3)), "m"), "DEQUANTIZE", "TABLE")


Build = Callable[[ModelBuilder, int], int]


def _three(b: ModelBuilder, x: int) -> int:
    for _ in range(2):
        x = b.add("POW", [x, b.add("DEQUANTIZE", [b.input((3,), scale=0.1)])])
    return x


def _other(b: ModelBuilder) -> int:
    return b.add("DEQUANTIZE", [b.input((3,), scale=0.1)])


@pytest.mark.parametrize(("build", "message"), [
    (_three, "operator 2 (POW): input 0, tensor 1 ('t1'), is float32 computed inside the model (operator 4 (POW) of "
     "float32 has no constant exponent; it must be 0.5 or a single positive whole number)"),
    (lambda b, x: b.add("DIV", [x, b.constant(np.array(0, np.float32))]),
     "operator 1 (DIV): input 0, tensor 1 ('t1'), is float32 computed inside the model (a float input must be "
     "finite and below 214748368.0 in magnitude, found nan)"),
    (lambda b, x: b.add("SIN", [b.add("RESHAPE", [b.add("SOFTMAX", [b.add("ADD", [x, _other(b)])]),
                                                  b.constant([3])])]),
     "operator 2 (ADD): input 0, tensor 1 ('t1'), is float32 computed inside the model (operator 5 (SIN) of float32 "
     "is computed only as a function of one int8 or int16 tensor, or of two int8 tensors)")])
def test_what_is_no_table(build: Build, message: str) -> None:
    b = ModelBuilder("m")
    x = b.add("DEQUANTIZE", [b.input((3,), scale=0.1)])
    out = b.add("QUANTIZE", [build(b, x)], scale=0.1)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(out), "m"), load_config("n16"))
    assert str(caught.value) == message + SUPPORTED


def test_a_float_output_that_is_computed() -> None:
    """From two tensors, by an operator that is not emulated."""
    b = ModelBuilder("m")
    x = b.add("ADD", [_other(b), _other(b)])
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(b.add("COS", [x])), "m"), load_config("n16"))
    assert str(caught.value) == (
        "operator 2 (ADD): input 0, tensor 1 ('t1'), is float32 computed inside the model (operator 3 (COS) of "
        "float32 is computed only as a function of one int8 or int16 tensor, or of two int8 tensors)" + SUPPORTED)


def test_mixed_types_are_refused() -> None:
    b = ModelBuilder("m")
    x = b.input((3,), scale=0.1)
    out = b.add("QUANTIZE", [b.add("ADD", [b.add("DEQUANTIZE", [x]), x])], scale=0.1)
    with pytest.raises(ModelError) as caught:
        parse_model(b.build(out), "m")
    assert str(caught.value) == ("m: subgraph 0, operator 1 ADD: input 1, tensor 0 't0', has type int8, expected "
                                 "float32 like the other inputs")


def test_word_numbers_in_int8(oracles: Callable[[str], Oracle]) -> None:
    """DEQUANTIZE and CAST to int32 before a look-up; not every word has a code of its own."""
    rng = np.random.default_rng(3)
    b = ModelBuilder("words")
    words = b.add("CAST", [b.add("DEQUANTIZE", [b.input((1, 256), scale=99 / 255, zero_point=-128)])], dtype="int32")
    table = b.constant(rng.integers(-128, 128, (100, 6)).astype(np.int8), scale=0.02)
    made = b.add("GATHER", [table, words], shape=(1, 256, 6), scale=0.02)
    data = b.build(made)
    model = parse_model(data, "words")
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == ["TABLE", "GATHER"]
    inputs = [EVERY.reshape(1, 256)]
    expected = oracles("litert-ref").run(data, inputs)[0]
    for config in ("n8", "tiny"):
        found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)


def test_numbers_of_intervals_are_a_table(litert: Oracle) -> None:
    """As in Keras' Discretization; a float32 sum of two tensors has no table."""
    b = ModelBuilder("intervals")
    x = b.add("DEQUANTIZE", [b.input((1, 256), scale=0.5, zero_point=-10)])
    options = {"boundaries": (-7.25, -1.0, -1.0, 0.0, 30.0)}
    data = b.build(b.add("BUCKETIZE", [x], dtype="int32", options=options))
    model = parse_model(data, "intervals")
    assert model.main.operators[-1].options["boundaries"] == options["boundaries"]
    expected = litert.run(data, [EVERY[None]])[0]
    assert sorted(set(expected.ravel().tolist())) == [0, 1, 3, 4, 5]
    assert [op.op for op in rewrite(model.main, LIBRARY).operators] == ["TABLE"]
    np.testing.assert_array_equal(run(model, [EVERY[None]]).outputs[0], expected, strict=True)
    found = execute(compile_model(model, load_config("n8")).program, [EVERY[None]]).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


def test_numbers_of_intervals_that_are_no_table() -> None:
    """Boundaries that decrease, and a result of two tensors."""
    b = ModelBuilder("intervals")
    x, y = (b.add("DEQUANTIZE", [b.input((1, 256), scale=0.5)]) for _ in range(2))
    fall = b.add("BUCKETIZE", [x], dtype="int32", options={"boundaries": (1.0, 0.5)})
    model = b.model(fall)
    with pytest.raises(TqError, match=r"not supported: BUCKETIZE \(operator 2\); .*; BUCKETIZE is supported for "
                                       "float32"):
        compile_model(model, load_config("n8"))
    with pytest.raises(TqError, match=r"operator 2 \(BUCKETIZE\): boundaries must not decrease"):
        run(model, [EVERY[None]] * 2)
    b.add("BUCKETIZE", [b.add("ADD", [x, y])], dtype="int32", options={"boundaries": (0.0,)})
    with pytest.raises(TqError, match=r"\(operator 4 \(BUCKETIZE\) reads float32 that is computed operator by "
                                       "operator"):
        compile_model(b.model(len(b.tensors) - 1), load_config("n8"))
