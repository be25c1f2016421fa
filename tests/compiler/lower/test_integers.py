"""Compiled integer arithmetic: quotients near multiples and powers of two, powers, and unsupported cases."""

from collections.abc import Iterator

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import ENGINES, Oracle, available
from tq_hw.sim.rtl.simulate import simulate

LEAST, MOST = -(1 << 31), (1 << 31) - 1
DIVISIONS = ("FLOOR_DIV", "FLOOR_MOD", "DIV")
BITS = ("BITWISE_XOR", "RIGHT_SHIFT")
UNARY = ("NEG", "ABS", "SIGN")
REDUCTIONS = ("SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")


@pytest.fixture(scope="module")
def litert() -> Iterator[Oracle]:
    if not available("litert-ref"):
        pytest.skip(f'{ENGINES["litert-ref"][0]} is not installed: pip install "tq-hw[oracles]"')
    with Oracle("litert-ref") as oracle:
        yield oracle


def hostile(rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers of all magnitudes, those near powers of two, and the extremes of int32."""
    near = (np.int64(1) << rng.integers(0, 32, count)) + rng.integers(-2, 3, count)
    any_size = rng.integers(LEAST, MOST + 1, count) >> rng.integers(0, 31, count)
    ends = rng.choice([LEAST, LEAST + 1, -1, 0, 1, MOST], count)
    chosen = rng.choice(3, count, p=(0.45, 0.45, 0.1))
    return np.clip(np.choose(chosen, (near * rng.choice([-1, 1], count), any_size, ends)), LEAST, MOST)


def operands(seed: int, count: int, dtype: str = "int32") -> list[np.ndarray]:
    """Dividends, some near multiples of their divisors; no divisor is 0, and none is -1 for the least dividend."""
    rng = np.random.default_rng(seed)
    x, y = hostile(rng, count), hostile(rng, count)
    if dtype != "int32":
        x, y = (rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, count) for _ in range(2))
    y = np.where((y == 0) | ((y == -1) & (x == LEAST)), 7, y)
    product = y * hostile(rng, count) + rng.integers(-1, 2, count)
    x = np.where((abs(product) <= np.iinfo(dtype).max) & (rng.random(count) < 0.5), product, x)
    return [x.astype(dtype), y.astype(dtype)]


def binary(op: str, dims: tuple[int, ...], dtype: str = "int32") -> bytes:
    b = ModelBuilder(op)
    quantized = {} if dtype == "int32" else {"scale": 0.1}
    return b.build(b.add(op, [b.input(dims, dtype, **quantized) for _ in range(2)]))


@pytest.mark.parametrize(("op", "dtype"), [
    *((op, "int32") for op in (*DIVISIONS, *BITS)),
    *((op, dtype) for op in (*DIVISIONS[:2], *BITS) for dtype in ("int8", "int16"))])
def test_quotients_and_bits_equal_the_engine(litert: Oracle, op: str, dtype: str) -> None:
    data, inputs = binary(op, (4000,), dtype), operands(1, 4000, dtype)
    model = parse_model(data, op)
    expected = litert.run(data, inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    for config in ("tiny", "n16"):
        found = execute(compile_model(model, PRESETS[config]).program, inputs).outputs[0]
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", DIVISIONS)
def test_many_quotients_equal_golden(op: str) -> None:
    model = parse_model(binary(op, (100_000,)), op)
    program = compile_model(model, PRESETS["n16"]).program
    for seed in range(20):
        inputs = operands(seed, 100_000)
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], run(model, inputs).outputs[0])


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_equal_the_engine(litert: Oracle, op: str) -> None:
    b = ModelBuilder(op)
    data = b.build(b.add(op, [b.input((700,), "int32")]))
    inputs = [hostile(np.random.default_rng(2), 700).astype(np.int32)]
    expected = litert.run(data, inputs)[0]
    found = execute(compile_model(parse_model(data, op), PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


def powers(exponent: int | list[int]) -> bytes:
    b = ModelBuilder("powers")
    return b.build(b.add("POW", [b.input((300,), "int32"), b.constant(exponent)], shape=(300,)))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 10, 30, 31, 32, 33, 1 << 30])
def test_powers_equal_the_engine(litert: Oracle, exponent: int) -> None:
    most = int(MOST ** (1 / exponent)) if exponent else MOST
    inputs = [np.random.default_rng(exponent).integers(-most, most + 1, 300).astype(np.int32)]
    inputs[0][:3] = -most, most, 0
    data = powers(exponent)
    expected = litert.run(data, inputs)[0]
    model = parse_model(data, "powers")
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    found = execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("op", (*DIVISIONS, *BITS, *UNARY, "POW"))
def test_equals_golden_on_the_rtl(op: str) -> None:
    inputs = operands(3, 300)
    if op in (*DIVISIONS, *BITS):
        data = binary(op, (300,))
    elif op == "POW":
        data, inputs = powers(3), [inputs[0] % 1290]
    else:
        b = ModelBuilder(op)
        data, inputs = b.build(b.add(op, [b.input((300,), "int32")])), inputs[:1]
    model = parse_model(data, op)
    found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize(("data", "inputs", "message"), [
    *((binary(op, (1,)), (7, 0), f"operator 0 ({op}): a divisor is 0, which the engines reject") for op in DIVISIONS),
    (binary("FLOOR_MOD", (1,)), (LEAST, -1), "operator 0 (FLOOR_MOD): -2147483648 divided by -1 crashes the engines"),
    (binary("DIV", (1,)), (LEAST, -1), "operator 0 (DIV): -2147483648 divided by -1 overflows int32: the engines' "
     "result is undefined")])
def test_inputs_without_a_result(data: bytes, inputs: tuple[int, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run(parse_model(data, "m"), [np.array([each], np.int32) for each in inputs])
    assert str(caught.value) == message


def test_a_power_that_leaves_int32() -> None:
    with pytest.raises(InputError) as caught:
        run(parse_model(powers(3), "m"), [np.full(300, 1291, np.int32)])
    assert str(caught.value) == "operator 0 (POW): a power overflows int32: the engine's result is undefined"


def computed_exponent() -> bytes:
    b = ModelBuilder("m")
    return b.build(b.add("POW", [b.input((3,), "int32"), b.input((3,), "int32")]))


def no_exponent() -> bytes:
    b = ModelBuilder("m")
    return b.build(b.add("POW", [b.input((1,), "int32"), b.constant(np.zeros(0, np.int32))], shape=(0,)))


@pytest.mark.parametrize(("data", "found"), [
    (computed_exponent(), "input 1 (tensor 1, 't1') computed at run time"),
    (powers(-2), "-2"), (powers([1, 2] * 150), "1, 2"), (powers(list(range(300))), "0, 1, 2, 3, ..."),
    (no_exponent(), "none")])
def test_refused_exponents(data: bytes, found: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(data, "m"), PRESETS["n8"])
    assert str(caught.value) == ("operator 0 (POW): The exponents must be constants of the model, all equal and 0 or "
                                 f"more; found {found}")


def test_of_other_scales_codes_are_divided_all_the_same(litert: Oracle) -> None:
    b = ModelBuilder("m")
    x, y = b.input((256,), scale=0.1, zero_point=5), b.input((256,), scale=3.0, zero_point=-7)
    data = b.build(b.add("FLOOR_DIV", [x, y], scale=0.02, zero_point=1))
    inputs = operands(4, 256, "int8")
    found = execute(compile_model(parse_model(data, "m"), PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


def reduction(op: str, dims: tuple[int, ...], axes: int | list[int]) -> bytes:
    b = ModelBuilder(op)
    return b.build(b.add(op, [b.input(dims, "int32"), b.constant(axes)],
                         options={"output_type": "int64"} if op.startswith("ARG") else {"keep_dims": False}))


@pytest.mark.parametrize(("dims", "axes"), [((5, 300), [1]), ((300, 7), [0]), ((2, 9, 5, 3), [1, 3]), ((3, 40), [])])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_equal_the_engine(litert: Oracle, op: str, dims: tuple[int, ...], axes: list[int]) -> None:
    rng, count = np.random.default_rng(6), int(np.prod(dims))
    data = reduction(op, dims, (axes or [0])[0] if op.startswith("ARG") else axes)
    model = parse_model(data, op)
    for values in (hostile(rng, count), rng.integers(-2, 2, count), np.full(count, LEAST), np.full(count, MOST)):
        inputs = [values.astype(np.int32).reshape(dims)]
        expected = litert.run(data, inputs)[0]
        for config in ("tiny", "n16"):
            found = execute(compile_model(model, PRESETS[config]).program, inputs).outputs[0]
            np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.xdist_group("tiny")
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_on_the_rtl(op: str) -> None:
    model = parse_model(reduction(op, (4, 50), 1 if op.startswith("ARG") else [1]), op)
    inputs = [hostile(np.random.default_rng(7), 200).astype(np.int32).reshape(4, 50)]
    found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)


@pytest.mark.parametrize("op", ["EQUAL", "NOT_EQUAL"])
@pytest.mark.parametrize("dims", [(6, 4), (1, 4), None])
def test_truth_values_are_compared(litert: Oracle, op: str, dims: tuple[int, ...] | None) -> None:
    b, rng = ModelBuilder(op), np.random.default_rng(8)
    x = b.input((6, 4), "bool")
    data = b.build(b.add(op, [x, b.constant(np.array([True])) if dims is None else b.input(dims, "bool")]))
    inputs = [rng.random((6, 4)) < 0.5, *([] if dims is None else [rng.random(dims) < 0.5])]
    found = execute(compile_model(parse_model(data, op), PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, litert.run(data, inputs)[0], strict=True)


@pytest.mark.parametrize("ratio", [1e-6, 0.004, 1.0, 700.0])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_numbers_with_a_scale_become_codes(litert: Oracle, dtype: str, ratio: float) -> None:
    b = ModelBuilder("codes")
    x = b.input((700,), "int32", scale=0.013, zero_point=5)
    codes = b.tensor((700,), dtype, scale=float(np.float32(0.013 / ratio)), zero_point=7 if dtype == "int8" else 0)
    b.operator("QUANTIZE", [x], [codes])
    data, inputs = b.build(codes), [hostile(np.random.default_rng(9), 700).astype(np.int32)]
    model, expected = parse_model(data, "m"), litert.run(b.build(codes), inputs)[0]
    np.testing.assert_array_equal(run(model, inputs).outputs[0], expected, strict=True)
    found = execute(compile_model(model, PRESETS["n8"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.xdist_group("tiny")
def test_codes_on_the_rtl() -> None:
    b = ModelBuilder("codes")
    x = b.input((300,), "int32", scale=0.013, zero_point=5)
    codes = b.tensor((300,), "int8", scale=900.0, zero_point=-3)
    b.operator("QUANTIZE", [x], [codes])
    model, inputs = parse_model(b.build(codes), "m"), [hostile(np.random.default_rng(9), 300).astype(np.int32)]
    found = simulate(compile_model(model, PRESETS["tiny"]).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
