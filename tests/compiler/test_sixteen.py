"""16x8 operators, compiled: random models of one operator on executor and RTL equal golden; messages about others."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.programs.sixteen import packed_multipliers, rescale_wide, wide_parameters
from tq_hw.isa.config import load_config
from tq_hw.isa.uop import UOP, Destination, Multiply, ShiftSource, Source
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, OptionValue
from tq_hw.model.random.sixteen import random_sixteen
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor.uop import evaluate
from tq_hw.sim.golden.arith import multiply_wide, wrap_int32
from tq_hw.sim.oracles import Oracle

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
sys.path.insert(0, str(Path(__file__).parents[1] / "sim/golden"))
from agreement import Refused, check_model, check_oracle, random_config
from random_sixteen import OPERATORS

#: Tables of 64 pages take long to compile, so there is only one of them.
PAGED = ("ABS", "NEG", "EXP", "LOG", "RSQRT", "SQRT")
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check(op: str, seed: int, config: str, engine: str = "executor") -> None:
    data = OPERATORS[op](np.random.default_rng([16, seed, *op.encode()]), op)
    chosen = random_config(seed) if config == "random" else load_config(config)
    check_model(parse_model(data, op), chosen, seed, engine=engine, trials=False)


@pytest.mark.parametrize("op", [op for op in OPERATORS if op not in PAGED])
def test_equals_golden(op: str) -> None:
    configs = ("tiny", "n8", "n16", "n16x8", "n9x8", "serial", "random", "random")
    for seed, config in enumerate(configs if op in PRODUCTS else configs[:1] if op == "GELU" else configs[:2]):
        check(op, seed, config)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_golden_in_a_sweep(op: str) -> None:
    for seed in range(10, 150):
        check(op, seed, "random")


@pytest.mark.parametrize("seed, config", [(0, "tiny"), (1, "n8"), (2, "n16x8"), (3, "random")])
def test_fully_connected_as_litert_rescales_it(seed: int, config: str) -> None:
    data = OPERATORS["FULLY_CONNECTED"](np.random.default_rng([18, seed]), "FULLY_CONNECTED")
    chosen = random_config(seed) if config == "random" else load_config(config)
    check_model(parse_model(data, "dense").under("litert"), chosen, seed, trials=False)


def repeated(scale: float, bias: int = 0) -> Model:
    """A dense layer of 600 inputs, four different numbers, so that sums of 127 times the largest exceed int32."""
    b = ModelBuilder("dense")
    x = b.add("TILE", [b.input((1, 4), "int16", scale=2.0**-12), b.constant(np.array([1, 150], np.int32))])
    weights = np.repeat(np.array([127, -127, 100, 3], np.int8), 600).reshape(4, 600)
    w = b.constant(weights, scale=[0.003, 0.0031, 0.0032, 0.05], dimension=0)
    return b.model(b.add("FULLY_CONNECTED", [x, w, b.bias(x, w, [bias] * 4)], scale=scale)).under("litert")


@pytest.mark.parametrize("config", ["tiny", "n16"])
@pytest.mark.parametrize("bias", [0, 1 << 29, -1 << 29])
def test_sums_beyond_int32_as_litert_rescales_them(config: str, bias: int) -> None:
    check_model(repeated(0.0007, bias), load_config(config), sets=6, trials=False)


@pytest.mark.xdist_group("tiny")
def test_sums_beyond_int32_on_the_rtl() -> None:
    check_model(repeated(0.0007, 1 << 29), load_config("tiny"), engine="rtl", trials=False)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("op", (*PRODUCTS, "ADD", "TANH", "AVERAGE_POOL_2D", "SOFTMAX", "SUM", "SQUARED_DIFFERENCE",
                                "PRELU", "LESS", "EQUAL", "DIV"))
def test_equals_golden_on_the_rtl(op: str) -> None:
    check(op, 1, "tiny", "rtl")


def test_graphs_equal_golden() -> None:
    for seed in range(20):
        check_model(random_sixteen(seed), random_config(seed), seed, trials=False)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["canon", "litert", "tflm"])
def test_many_graphs_equal_golden(profile: str) -> None:
    for seed in range(20, 300):
        # Operators without int16 kernel in the profile's engine are rejected.
        with suppress(Refused):
            check_model(random_sixteen(seed).under(profile), random_config(seed), seed, trials=False)


@pytest.mark.xdist_group("tiny")
def test_graphs_on_the_rtl_equal_golden() -> None:
    for seed in range(4):
        check_model(random_sixteen(seed), load_config("tiny"), seed, engine="rtl", trials=False)


@pytest.mark.parametrize("engine", ["litert-ref", "tflm"])
def test_golden_of_graphs_equals_the_public_engines(engine: str, oracles: Callable[[str], Oracle]) -> None:
    compared = 0
    for seed in range(30):
        # Either engine has int16 operators that the other one lacks.
        with suppress(Refused):
            check_oracle(random_sixteen(seed), seed, oracles(engine))
            compared += 1
    assert compared > 10


def product(op: str, shape: tuple[int, ...], dims: tuple[int, ...], **options: OptionValue) -> Model:
    """One operator with these weights and 48-bit sums."""
    rng, b = np.random.default_rng(1), ModelBuilder(op)
    axis = 3 if op.startswith("DEPTHWISE") else 0
    x = b.input(shape, "int16", scale=2.0**-12)
    weights = b.constant(rng.integers(-127, 128, dims).astype(np.int8), dimension=axis,
                         scale=rng.uniform(0.001, 0.01, dims[axis]).tolist())
    bias = b.bias(x, weights, rng.integers(-2**30, 2**30, dims[axis]))
    return parse_model(b.build(b.add(op, [x, weights, bias], scale=0.004, options=options)), op)


@pytest.mark.parametrize("op, shape, dims, options", [
    ("FULLY_CONNECTED", (3, 600), (40, 600), {}),
    ("CONV_2D", (2, 9, 31, 5), (7, 5, 5, 5), {"padding": "VALID", "stride_h": 2, "stride_w": 2}),
    ("DEPTHWISE_CONV_2D", (1, 9, 40, 20), (1, 3, 3, 20), {"padding": "SAME"}),
])
def test_weights_in_parts_and_images_in_rectangles(op: str, shape: tuple[int, ...], dims: tuple[int, ...],
                                                   options: dict[str, OptionValue]) -> None:
    check_model(product(op, shape, dims, **options), load_config("tiny"), sets=1, trials=False)


@pytest.mark.parametrize(("left", "most"), [(True, 6), (False, -8)])
def test_the_program_is_the_kernel_for_all_exponents(left: bool, most: int) -> None:
    """Sums of up to 39 bits, multipliers of all kinds, shifts from -31 on."""
    rng, count = np.random.default_rng(0), 50_000
    multiplier, shift = rng.integers(1 << 30, 1 << 31, count), rng.integers(-31, most + 1, count)
    multiplier[:50], shift[:50], multiplier[50:90] = 0, min(most, 0), (1 << 31) - 1
    size = 1 << rng.integers(1, 39, count)
    total = rng.integers(-size, size)
    low = rng.integers(-2**28, 2**28, count)
    high = (total - low) >> 8
    low = total - 256 * high
    factor, right = wide_parameters(multiplier, shift)
    registers = dict.fromkeys(range(8), low)
    fields = [field.name for register in UOP for field in register.fields]
    for uop in rescale_wide(-(1 << 15), (1 << 15) - 1, left=left):
        u = dict.fromkeys(fields, 0) | {name: int(value) for name, value in uop.items()}
        constant = np.full(count, u["immediate"])
        a, b = ({Source.IMMEDIATE: constant, Source.REGISTER: registers[u[f"{name}_register"]],
                 Source.ACC_OR_BIAS: bias, Source.STREAM: stream}[Source(u[f"{name}_source"])]
                for name, bias, stream in (("a", low, high),
                                           ("b", 0 * low, packed_multipliers(multiplier, shift))))
        by = {ShiftSource.IMMEDIATE: u["shift"], ShiftSource.PARAM: right}.get(ShiftSource(u["shift_source"]), 0)
        result = evaluate(u, wrap_int32(a).astype(np.int32), wrap_int32(b).astype(np.int32),
                          factor if u["multiply"] == Multiply.HIGH_PARAM else u["immediate"], by,
                          u["destination"] == Destination.OUTPUT)
        registers[u["d_register"]] = result.astype(np.int64)
    np.testing.assert_array_equal(result, np.clip(multiply_wide(total, multiplier, shift), -(1 << 15), (1 << 15) - 1))


def dense(scale: float = 0.004, bias: int = 5) -> Model:
    b = ModelBuilder("dense")
    x = b.input((1, 4), "int16", scale=2.0**-12)
    weights = b.constant(np.ones((3, 4), np.int8), scale=0.01)
    return b.model(b.add("FULLY_CONNECTED", [x, weights, b.bias(x, weights, [bias] * 3)], scale=scale))


@pytest.mark.parametrize("model, message", [
    (dense(bias=1 << 31).under("litert"), "sums of 2147352576..2147614716 exceed int32, on which LiteRT rescales in "
     "double; smaller weights or fewer inputs help, and so does --profile canon"),
    (dense(scale=4e-6).under("litert"), "LiteRT rescales sums of int16 in double, by 0.610352: factors of 1/2 and more "
     "are not supported; use a larger output scale, or --profile canon"),
    (dense(scale=3e-8), "a rescaling multiplier must be below 64 where activations are int16, found one of 2^6 or "
     "more; use a larger output scale"),
    (dense(bias=1 << 40), "sums of 1099511496704..1099511758844 exceed the 40 bits that are kept of them; use smaller "
     "biases or fewer inputs"),
])
def test_refuses(model: Model, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("tiny"))
    assert str(caught.value) == f"operator 0 (FULLY_CONNECTED): {message}"


def test_refuses_sums_beyond_int32_that_count() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(repeated(0.2), load_config("tiny"))
    assert str(caught.value) == ("operator 1 (FULLY_CONNECTED): sums of -2496921600..2496921600 exceed int32, on which "
                                 "LiteRT rescales in double; smaller weights or fewer inputs help, and so does "
                                 "--profile canon")


def matmul(depth: int, scale: float) -> Model:
    b = ModelBuilder("matmul")
    left, right = (b.input(shape, "int16", scale=2.0**-12) for shape in ((2, depth), (depth, 2)))
    return b.model(b.add("BATCH_MATMUL", [left, right], scale=scale))


@pytest.mark.parametrize("model, message", [
    (matmul(512, 2.0**-4), "sums of products of int16 must have at most 511 terms, whose 40 bits are kept, found 512"),
    (matmul(4, 2.0**-31), "a rescaling multiplier must be below 64 where activations are int16, found one of 2^7 or "
     "more; use a larger output scale"),
])
def test_refuses_products(model: Model, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("tiny"))
    assert str(caught.value) == f"operator 0 (BATCH_MATMUL): {message}"
