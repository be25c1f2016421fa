"""Float32 sums of three or more int8 tensors: each addition rounds as LiteRT's, for numbers of all magnitudes."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.programs.soft_float import product_program, sum_program
from tq_hw.compiler.rewrite.chains import add_chain
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.isa.uop import UOP, Destination, Source
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.executor.uop import evaluate
from tq_hw.sim.golden.run import run
from tq_hw.sim.golden.soft_float import pack, unpack
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

COUNT = 1024
EXPONENT = -90


def chain(seed: int, terms: int, count: int = COUNT) -> bytes:
    """Sums with scales of all magnitudes, each quantized; in between RELU, differences and functions of one byte."""
    rng = np.random.default_rng([seed, terms])
    b, outputs, reach = ModelBuilder("chain"), [], 0.0
    current = -1
    for number in range(terms):
        scale = float(np.float32(10 ** rng.uniform(-3, -1)))
        x = b.add("DEQUANTIZE", [b.input((count,), scale=scale, zero_point=int(rng.choice([-128, 0, 17])))])
        x = b.add("LEAKY_RELU", [x], options={"alpha": 0.01}) if rng.random() < 0.3 else x
        x = b.add("NEG", [x]) if rng.random() < 0.2 else x
        reach += scale
        if number == 0:
            current = x
            continue
        op = str(rng.choice(["ADD", "ADD", "SUB"]))
        current = b.add(op, [current, x], options={
            "fused_activation_function": str(rng.choice(["NONE", "NONE", "RELU"]))})
        if number > 1:
            outputs.append(b.add("QUANTIZE", [current], scale=float(np.float32(reach * rng.uniform(0.1, 1.5))),
                                 zero_point=int(rng.choice([-128, 127, -3]))))
    return b.build(*outputs)


def check(litert: Oracle, data: bytes, *configs: str) -> None:
    model = parse_model(data, "chain")
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8) for index in model.main.inputs]
    expected = litert.run(data, inputs)
    found = [run(each, inputs).outputs for each in (model, Model(model.name, (rewrite(model.main, LIBRARY),)))]
    found += [execute(compile_model(model, load_config(config)).program, inputs).outputs for config in configs]
    for outputs in found:
        for ours, theirs in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("terms", [3, 4, 6])
def test_equals_the_engine(litert: Oracle, terms: int) -> None:
    data = chain(0, terms)
    names = {op.op for op in rewrite(parse_model(data, "chain").main, LIBRARY).operators}
    assert names == {"FLOAT_SUM", "FLOAT_CODES"}
    check(litert, data, "n8")


def test_small_machine(litert: Oracle) -> None:
    check(litert, chain(1, 4, 100), "tiny", "serial")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_sweep(litert: Oracle, seed: int) -> None:
    check(litert, chain(2 + seed, 3 + seed % 5, 20_000), "n8")


def test_words_in_rtl() -> None:
    model = parse_model(chain(3, 3, 40), "chain")
    program = compile_model(model, load_config("tiny")).program
    inputs = [np.random.default_rng(at).integers(-128, 128, (40,)).astype(np.int8) for at in range(3)]
    np.testing.assert_array_equal(simulate(program, inputs).outputs[0], execute(program, inputs).outputs[0])


def evaluated(uops: list[dict[str, int]], *numbers: np.ndarray) -> np.ndarray:
    """Run a program on float32 numbers."""
    streams = [pack(each, EXPONENT).astype(np.int32) for each in numbers]
    count = len(streams[0])
    registers = [np.zeros(count, np.int32)] * 8
    for uop in uops:
        fields = {field.name: 0 for register in UOP for field in register.fields} | uop
        a_operand, b_operand = (
            {Source.IMMEDIATE: np.full(count, fields["immediate"], np.int32), Source.STREAM: streams[at % len(streams)],
             Source.REGISTER: registers[fields[f"{name}_register"]]}[Source(fields[f"{name}_source"])]
            for at, name in enumerate("ab"))
        result = evaluate(fields, a_operand, b_operand, fields["immediate"], fields["shift"], int16_output=False)
        if fields["destination"] == Destination.OUTPUT:
            return unpack(result.astype(np.int64), EXPONENT)
        registers[fields["d_register"]] = result
    raise AssertionError("the program has no output")


def added(a: np.ndarray, b: np.ndarray, *, relu: bool) -> np.ndarray:
    """Run the program of an addition on float32 numbers."""
    return evaluated(sum_program(0, 0, relu=relu), a, b)


@pytest.mark.parametrize("factor", [0.75, 0.25, 1 / 3, -0.125, 1.25, 0.9999999, 1e-7, -0.2222222])
def test_every_rounding_of_a_product(factor: float) -> None:
    """Numbers of all magnitudes, including ties and 0."""
    rng = np.random.default_rng(7)
    a = np.ldexp(rng.integers(-(1 << 24), 1 << 24, 1 << 14), rng.integers(-40, 20, 1 << 14)).astype(np.float32)
    a[:4096] = np.ldexp(rng.integers(-4096, 4096, 4096), rng.integers(-20, 8, 4096))
    fraction, power = np.frexp(np.float32(factor))
    uops = product_program(int(np.ldexp(fraction, 24)), int(power) - 24)
    np.testing.assert_array_equal(evaluated(uops, a), a * np.float32(factor))


@pytest.mark.parametrize("relu", [False, True])
def test_every_rounding(relu: bool) -> None:
    """Ties, cancellation down to 0, numbers of very different magnitude, powers of two, 0."""
    rng = np.random.default_rng(5)
    a = np.ldexp(rng.integers(-(1 << 24), 1 << 24, 1 << 14), rng.integers(-40, 20, 1 << 14)).astype(np.float32)
    near = np.nextafter(-a, rng.choice(np.array([-9e9, 9e9], np.float32), a.shape).astype(np.float32))
    powers = np.ldexp(rng.choice([-1, 0, 1], a.shape), rng.integers(-40, 20, a.shape)).astype(np.float32)
    half = np.ldexp(rng.integers(-7, 8, a.shape), np.frexp(a)[1] - 26).astype(np.float32)
    for b in (rng.permutation(a), near, -a, powers, half, np.zeros_like(a)):
        b = np.where(np.abs(b) < 2.0**-44, np.float32(0), b)
        want = a + b
        np.testing.assert_array_equal(added(a, b, relu=relu), np.maximum(want, 0) if relu else want)
        np.testing.assert_array_equal(added(b, a, relu=relu), np.maximum(want, 0) if relu else want)


def test_what_words_do_not_hold() -> None:
    b = ModelBuilder("wide")
    one, two, three = (b.add("DEQUANTIZE", [b.input((8,), scale=scale)]) for scale in (1e-30, 1.0, 1e3))
    made = b.add("QUANTIZE", [b.add("ADD", [b.add("ADD", [one, two]), three])], scale=1.0)
    main = parse_model(b.build(made), "wide").main
    with pytest.raises(UnsupportedError, match=r"^its values reach from 2\^-100 to 2\^17, more than words of int32 "
                                               "hold$"):
        add_chain(Subject(main), main.operators[-1])
