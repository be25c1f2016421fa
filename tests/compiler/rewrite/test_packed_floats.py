"""LayerNorm, GroupNorm and other float32 in PyTorch's exports: every operator rounds as LiteRT's."""

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


def number(b: ModelBuilder, value: object) -> int:
    return b.constant(np.array(value, np.int32))


def real(b: ModelBuilder, shape: tuple[int, ...], scale: float = 0.0313, point: int = -9) -> int:
    return b.add("DEQUANTIZE", [b.input(shape, scale=scale, zero_point=point)])


def floats(b: ModelBuilder, *values: float) -> int:
    return b.constant(np.array(values, np.float32))


def codes(b: ModelBuilder, x: int, scale: float = 0.0247, point: int = 3, dtype: str = "int8") -> int:
    return b.add("QUANTIZE", [x], scale=scale, zero_point=point, dtype=dtype)


def layer_norm(b: ModelBuilder, x: int, shape: tuple[int, int, int]) -> int:
    """As litert-torch lowers nn.LayerNorm over the last axis."""
    _, rows, _ = shape
    axes, view = number(b, [0, 2]), number(b, [1, rows, 1])
    mean = b.add("MEAN", [x, axes], shape=(rows,))
    apart = b.add("SQUARED_DIFFERENCE", [x, b.add("RESHAPE", [mean, view], shape=(1, rows, 1))])
    variance = b.add("ADD", [b.add("MEAN", [apart, axes], shape=(rows,)), floats(b, 1e-5)])
    root = b.add("RSQRT", [variance])
    shift = b.add("SUB", [floats(b, 0), b.add("MUL", [root, mean])])
    scaled = b.add("MUL", [x, b.add("RESHAPE", [root, view], shape=(1, rows, 1))])
    return b.add("ADD", [scaled, b.add("RESHAPE", [shift, view], shape=(1, rows, 1))])


def affine(b: ModelBuilder) -> int:
    """With weight and bias, after a residual sum that both branches read."""
    shape = (1, 5, 24)
    rng = np.random.default_rng(3)
    x = b.add("ADD", [real(b, shape), real(b, shape, 0.0719, 100)])
    made = b.add("MUL", [layer_norm(b, x, shape), floats(b, *rng.normal(1, 0.3, 24))])
    made = b.add("ADD", [made, floats(b, *rng.normal(0, 0.3, 24))])
    return codes(b, b.add("ADD", [x, made]), 0.11)


def twice(b: ModelBuilder) -> int:
    """As in nn.TransformerEncoderLayer: the sum after the first one stays in float32."""
    shape = (1, 6, 10)
    first = layer_norm(b, b.add("ADD", [real(b, shape), real(b, shape, 0.0007, -22)]), shape)
    second = layer_norm(b, b.add("ADD", [first, real(b, shape, 0.0053, 5)]), shape)
    return codes(b, b.add("MEAN", [second, number(b, [1])], shape=(1, 10)), 0.011)


def group_norm(b: ModelBuilder) -> int:
    """As in nn.GroupNorm: means over groups of channels, then RELU."""
    shape, groups, view = (1, 6, 4, 5), (1, 3, 2, 20), [1, 6, 1, 1]
    source = b.input(shape, scale=0.0178, zero_point=1)
    x = b.add("DEQUANTIZE", [source])
    grouped = b.add("DEQUANTIZE", [b.add("RESHAPE", [source, number(b, groups)], shape=groups)])
    mean = b.add("MEAN", [grouped, number(b, [2, 3])], shape=(1, 3, 1, 1), options={"keep_dims": True})
    apart = b.add("SUB", [grouped, mean])
    variance = b.add("MEAN", [b.add("MUL", [apart, apart]), number(b, [2, 3])], shape=(1, 3))
    variance = b.add("RESHAPE", [b.add("ADD", [variance, floats(b, 1e-5)]), number(b, [1, 3, 1, 1])],
                     shape=(1, 3, 1, 1))
    root = b.add("RSQRT", [variance])
    shift = b.add("MUL", [b.add("MUL", [mean, floats(b, -1)]), root])
    wide = []
    for each in (root, shift):
        spread = b.add("BROADCAST_TO", [each, number(b, [1, 3, 2, 1])], shape=(1, 3, 2, 1))
        wide.append(b.add("RESHAPE", [spread, number(b, view)], shape=tuple(view)))
    made = b.add("ADD", [b.add("MUL", [x, wide[0]]), wide[1]], options={"fused_activation_function": "RELU"})
    return codes(b, made, 0.0163, -128)


def unit_length(b: ModelBuilder) -> int:
    """Division by a root that could be 0, except that a constant is added."""
    x = b.add("ADD", [real(b, (3, 9)), real(b, (3, 9), 0.002, 7)])
    total = b.add("SUM", [b.add("SQUARE", [x]), number(b, [1])], shape=(3, 1), options={"keep_dims": True})
    return codes(b, b.add("DIV", [x, b.add("ADD", [b.add("SQRT", [total]), floats(b, 1e-3)])]), 0.009)


def moves(b: ModelBuilder) -> int:
    """Moves of numbers, padding with zeros, a separate RELU, differences of sums."""
    x = b.add("SUB", [real(b, (2, 3, 4)), b.add("ADD", [real(b, (2, 3, 4), 0.07), real(b, (2, 3, 4), 0.5)])])
    x = b.add("RELU", [b.add("TRANSPOSE", [x, number(b, [2, 0, 1])], shape=(4, 2, 3))])
    x = b.add("PAD", [x, number(b, [[0, 0], [1, 0], [0, 2]])], shape=(4, 3, 5))
    y = b.add("SLICE", [x, number(b, [1, 0, 0]), number(b, [2, 3, 5])], shape=(2, 3, 5))
    return codes(b, b.add("CONCATENATION", [y, b.add("MUL", [y, y])], shape=(2, 3, 10), options={"axis": 2}), 0.31)


def activations(b: ModelBuilder) -> int:
    """Operators that may follow a normalization, of three tensors; of two, they would become tables."""
    x = b.add("ADD", [real(b, (5, 60), 0.05), b.add("ADD", [real(b, (5, 60), 0.002, 7), real(b, (5, 60), 0.01)])])
    ends = [b.add("LEAKY_RELU", [x], options={"alpha": 0.2}), b.add("HARD_SWISH", [x]),
            b.add("MAXIMUM", [x, floats(b, -0.7)]), b.add("MINIMUM", [x, b.add("NEG", [b.add("ABS", [x])])]),
            b.add("RELU6", [x]), b.add("RELU_N1_TO_1", [x])]
    ends += [b.add(op, [x, y], options={"fused_activation_function": fused}) for op, y, fused in (
        ("ADD", x, "RELU6"), ("SUB", floats(b, 0.4), "RELU_N1_TO_1"), ("MUL", x, "RELU6"),
        ("DIV", floats(b, 0.3), "RELU"))]
    ends += [b.add("LOGISTIC", [x]), b.add("MUL", [b.add("LOGISTIC", [b.add("MUL", [x, floats(b, 9)])]), x]),
             b.add("EXP", [b.add("MINIMUM", [x, floats(b, 1.5)])])]
    for name in ("REDUCE_MAX", "REDUCE_MIN"):
        row = b.add(name, [x, number(b, [1])], shape=(5, 1), options={"keep_dims": True})
        ends.append(b.add("SUB", [x, row]))
    # JAX writes these in a softmax, in case a row is empty.
    ends += [b.add("MAXIMUM", [floats(b, -np.inf), x]), b.add("MINIMUM", [x, floats(b, np.inf)])]
    slopes = b.constant(np.linspace(-0.3, 1.4, 60, dtype=np.float32))
    ends.append(b.add("PRELU", [x, slopes], shape=(5, 60)))
    return codes(b, b.add("CONCATENATION", ends, shape=(5, 1080), options={"axis": 1}), 0.047)


def int16(b: ModelBuilder, shape: tuple[int, ...], scale: float) -> int:
    return b.add("DEQUANTIZE", [b.input(shape, "int16", scale=scale)])


def slopes(b: ModelBuilder) -> int:
    """In 16x8 models the converter leaves PReLU per channel in float32."""
    alphas = b.constant(np.array([[[0.25, -0.1, 0, 1.5]]], np.float32))
    return codes(b, b.add("PRELU", [int16(b, (1, 3, 5, 4), 1.3e-4), alphas], shape=(1, 3, 5, 4)), 9.1e-5, 0, "int16")


def squash(b: ModelBuilder) -> int:
    """As in capsules of 16x8 models: int16 on both sides."""
    x, total = int16(b, (1, 12, 6), 3.1e-5), int16(b, (1, 12, 1), 1.7e-4)
    total = b.add("ADD", [b.add("ABS", [total]), floats(b, 1e-4)])
    factor = b.add("DIV", [total, b.add("ADD", [total, floats(b, 1)])])
    return codes(b, b.add("MUL", [x, b.add("DIV", [factor, b.add("SQRT", [total])])]), 2.9e-5, 0, "int16")


def both_widths(b: ModelBuilder) -> int:
    """int16 and int8 together, with results of both widths, some out of range of int16."""
    x, y = int16(b, (4, 33), 3.3e-4), real(b, (4, 33))
    made = b.add("ADD", [b.add("MUL", [x, y]), y])
    again = b.add("DEQUANTIZE", [b.add("QUANTIZE", [made], dtype="int16", scale=1.1e-4)])
    return codes(b, b.add("SUB", [again, b.add("MUL", [x, x])]), 0.05)


def wide_norm(b: ModelBuilder) -> int:
    """LayerNorm of int16 to int16."""
    shape = (1, 5, 12)
    x = b.add("ADD", [int16(b, shape, 2e-4), int16(b, shape, 3e-5)])
    return codes(b, layer_norm(b, x, shape), 9e-5, 0, "int16")


BUILDERS = (affine, twice, group_norm, unit_length, moves, activations)
OF_INT16 = (slopes, squash, both_widths, wide_norm)


def corners(model: Model, seed: int) -> list[np.ndarray]:
    """Random codes, rows of one code, and rows of the two extremes."""
    rng, inputs = np.random.default_rng(seed), []
    for index in model.main.inputs:
        tensor = model.main.tensors[index]
        dtype = np.dtype(tensor.dtype)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = rng.integers(low, high + 1, tensor.shape).astype(dtype)
        x[..., :1, :] = rng.integers(low, high + 1)
        x[..., -1, :] = rng.choice(np.array([low, high]), x[..., -1, :].shape)
        inputs.append(x)
    return inputs


def hold(litert: Oracle, data: bytes, *configs: str, sets: int = 3) -> None:
    model = parse_model(data, "norm")
    programs = [compile_model(model, load_config(config)).program for config in configs]
    replaced = Model(model.name, (packed_floats(rewrite(model.main, LIBRARY)),))
    for seed in range(sets):
        inputs = corners(model, seed)
        expected = litert.run(data, inputs)[0]
        for outputs in (*(run(each, inputs).outputs for each in (model, replaced)),
                        *(execute(program, inputs).outputs for program in programs)):
            np.testing.assert_array_equal(outputs[0], expected, strict=True)


def built(builder: Callable[[ModelBuilder], int]) -> bytes:
    b = ModelBuilder(builder.__name__)
    return b.build(builder(b))


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: each.__name__)
def test_equals_the_engine(litert: Oracle, builder: Callable[[ModelBuilder], int]) -> None:
    data = built(builder)
    names = {op.op for op in packed_floats(rewrite(parse_model(data, "norm").main, LIBRARY)).operators}
    assert not names & {"DEQUANTIZE", "QUANTIZE", "MEAN", "RSQRT"}
    assert "PACKED_CODES" in names
    assert builder is not activations or {"PACKED_MAX", "PACKED_MIN", "PACKED_EXP", "SELECT_V2"} <= names
    hold(litert, data, "n8")


@pytest.mark.parametrize("builder", OF_INT16, ids=lambda each: each.__name__)
def test_int16_equals_the_engine(litert: Oracle, builder: Callable[[ModelBuilder], int]) -> None:
    data = built(builder)
    names = {op.op for op in packed_floats(rewrite(parse_model(data, "norm").main, LIBRARY)).operators}
    assert not names & {"DEQUANTIZE", "QUANTIZE"}
    assert {"PACKED_INTEGER", "PACKED_ROUND"} <= names
    hold(litert, data, "n8", "tiny")


@pytest.mark.parametrize("config", ["tiny", "serial"])
def test_small_machines(litert: Oracle, config: str) -> None:
    hold(litert, built(unit_length), config, sets=1)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-7, 1e-3, 0.7, 300.0])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_scales(litert: Oracle, scale: float, size: int) -> None:
    """From scales where only the 1e-5 matters to scales where it does not matter."""
    b = ModelBuilder("scales")
    x = b.add("ADD", [real(b, (1, 7, size), scale), real(b, (1, 7, size), scale / 3, 1)])
    hold(litert, b.build(codes(b, layer_norm(b, x, (1, 7, size)))), "n8", sets=8)


def test_in_rtl() -> None:
    b = ModelBuilder("rtl")
    shape = (1, 3, 5)
    model = parse_model(b.build(codes(b, layer_norm(b, real(b, shape), shape))), "rtl")
    program = compile_model(model, load_config("tiny")).program
    inputs = corners(model, 0)
    np.testing.assert_array_equal(simulate(program, inputs).outputs[0], execute(program, inputs).outputs[0])


@pytest.mark.parametrize(("end", "reason"), [
    (lambda b, x: b.add("RSQRT", [b.add("MUL", [x, x])]), "tensor 5 ('t5') may be 0 or negative"),
    (lambda b, x: b.add("SQRT", [x]), "tensor 4 ('t4') may be negative"),
    (lambda b, x: b.add("DIV", [x, x]), "tensor 4 ('t4'), the divisor of operator 3 (DIV), may be 0 or negative"),
    (lambda b, x: b.add("LEAKY_RELU", [x], options={"alpha": 1.5}),
     "operator 3 (LEAKY_RELU) of float32 has alpha 1.5, which must be from 0 to 1"),
    (lambda b, x: b.add("EXP", [b.add("MUL", [x, floats(b, 9)])]),
     "operator 4 (EXP) is e^x of a value that may be 99.5, more than 72"),
    (lambda b, x: b.add("COS", [x]), "operator 3 (COS) of float32 is computed only as a function of one "
     "int8 or int16 tensor, or of two int8 tensors"),
    (lambda b, x: b.add("ADD", [x, x], options={"fused_activation_function": "TANH"}),
     "operator 3 (ADD) has TANH; float32 has RELU, RELU6, RELU_0_TO_1, RELU_N1_TO_1"),
    (lambda b, x: b.add("MUL", [x, floats(b, 1e30)]), "tensor 6 ('t6') may be 2^31 times the scale of tensor 7 ('t7')"),
    (lambda b, x: b.add("MUL", [x, floats(b, 1e31)]), "tensor 6 ('t6') may be 1.11e+32, more than float32 operators "
                                                      "support"),
], ids=["rsqrt of 0", "sqrt", "quotient", "leaky", "power", "tanh", "fused", "code", "large"])
def test_what_is_not_packed(end: Callable[[ModelBuilder, int], int], reason: str) -> None:
    check_refused(end, reason)


def check_refused(end: Callable[[ModelBuilder, int], int], reason: str) -> None:
    """Float32 that ends in the operators of `end` stays as it is, for this reason."""
    b = ModelBuilder("not")
    x = b.add("ADD", [real(b, (2, 3)), real(b, (2, 3), 0.05)])
    main = parse_model(b.build(codes(b, end(b, x))), "not").main
    assert packed_floats(main) is main
    with pytest.raises(UnsupportedError) as caught:
        check_packed(Subject(main), main.operators[-1])
    assert str(caught.value) == reason
