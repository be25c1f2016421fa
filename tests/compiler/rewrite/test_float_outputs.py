"""Float32 results that a model computes from codes and returns, ranks or compares: the bits are LiteRT's."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import corners, floats, int16, layer_norm, number, real
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.packed_floats import check_given, packed_floats
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import OptionValue
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

#: Operators of one int8 tensor, compared for all codes.
OF_ONE = ("ABS", "NEG", "SQUARE", "EXP", "FLOOR", "SIGN", "TANH", "LOGISTIC", "HARD_SWISH", "RELU", "RELU6", "SQRT",
          "RSQRT", "LOG", "SIN", "COS")
#: Operators without a float kernel in LiteRT's reference resolver.
OF_MICRO = ("CEIL", "ROUND", "ELU")


def softmax(b: ModelBuilder) -> list[int]:
    """As PyTorch's classifiers end."""
    return [b.add("SOFTMAX", [real(b, (3, 10))], options={"beta": 1.0})]


def log_softmax(b: ModelBuilder) -> list[int]:
    """As PyTorch's classifiers for a negative log likelihood end; for a single class it is 0, not -0."""
    return [b.add("LOG_SOFTMAX", [real(b, (3, classes))]) for classes in (10, 1)]


def attention(b: ModelBuilder) -> list[int]:
    x = real(b, (1, 4, 6))
    scores = b.add("BATCH_MATMUL", [x, real(b, (1, 6, 4), 0.02)], shape=(1, 4, 4))
    shares = b.add("SOFTMAX", [scores], options={"beta": 1.0})
    return [b.add("RESHAPE", [shares, number(b, [16])], shape=(16,)), scores]


def normalized(b: ModelBuilder) -> list[int]:
    """LayerNorm, whose result is an output and is also quantized."""
    x = b.add("ADD", [layer_norm(b, real(b, (1, 4, 16)), (1, 4, 16)), floats(b, *np.linspace(-1, 1, 16))])
    return [x, b.add("QUANTIZE", [b.add("MUL", [x, x])], scale=0.05)]


def embedding(b: ModelBuilder) -> list[int]:
    """F.normalize at the end."""
    x = real(b, (3, 9))
    total = b.add("SUM", [b.add("MUL", [x, x]), number(b, [1])], shape=(3, 1), options={"keep_dims": True})
    return [b.add("DIV", [x, b.add("MAXIMUM", [b.add("SQRT", [total]), floats(b, 1e-12)])])]


def pooled(b: ModelBuilder) -> list[int]:
    x = real(b, (2, 5, 5, 3), 0.7)
    along = number(b, [1, 2])
    return [b.add(name, [x, along], shape=(2, 3)) for name in ("MEAN", "REDUCE_MAX")]


def shared(b: ModelBuilder) -> list[int]:
    """A table and sums that are outputs and are also read by other operators; one is moved, others are combined."""
    x = b.add("LOGISTIC", [real(b, (1, 4, 4, 3))])
    y = b.add("ADD", [x, real(b, (1, 4, 4, 3), 0.5, 3)])
    ends = [b.add("LEAKY_RELU", [y], options={"alpha": 0.1}), b.add("ABS", [y]),
            b.add("EXP", [b.add("MINIMUM", [y, x])])]
    turned = b.add("TRANSPOSE", [b.add("RELU6", [y]), number(b, [0, 3, 1, 2])], shape=(1, 3, 4, 4))
    return [x, y, turned, *ends, b.add("SUB", [y, x]), b.add("MUL", [b.add("LOGISTIC", [y]), b.add("ABS", [y])])]


def of_int16(b: ModelBuilder) -> list[int]:
    x, y = int16(b, (4, 33), 3.3e-4), real(b, (4, 33))
    return [b.add("LOGISTIC", [x]), b.add("ADD", [b.add("MUL", [x, y]), y])]


def halves(b: ModelBuilder) -> list[int]:
    """A SPLIT of which one half is an output, and the other one is read."""
    made = b.add_many("SPLIT", [number(b, 1), b.add("EXP", [b.add("ADD", [real(b, (2, 6)), real(b, (2, 6))])])],
                      2, options={"num_splits": 2})
    return [made[0], b.add("QUANTIZE", [b.add("MUL", [made[1], made[1]])], scale=0.3)]


def x2(b: ModelBuilder) -> int:
    return b.add("SUB", [real(b, (2, 3)), real(b, (2, 3), 0.05)])


def signed_zeros(b: ModelBuilder) -> list[int]:
    """Results with the signs of their factors, also if they are 0 or are rounded to 0."""
    x, y = (b.add("ADD", [real(b, (3, 30)), real(b, (3, 30), 0.0313, -9)]) for _ in range(2))
    product = b.add("MUL", [x, floats(b, *np.linspace(-2, 2, 30))])
    tiny = b.add("MUL", [b.add("MUL", [x, floats(b, 1e-38)]), b.add("MUL", [y, floats(b, -1e-6)])])
    return [b.add("NEG", [x]), product, b.add("MUL", [product, y]), b.add("NEG", [b.add("MUL", [x, y])]), tiny,
            b.add("DIV", [b.add("MUL", [x, y]), floats(b, 7)]), b.add("HARD_SWISH", [x]),
            b.add("LEAKY_RELU", [b.add("NEG", [y])], options={"alpha": 0.0}), b.add("MUL", [b.add("LOGISTIC", [x]), x])]


def moved_zeros(b: ModelBuilder) -> list[int]:
    """Zeros with signs that are moved, cut, joined, chosen, clamped and added."""
    x, y = (b.add("ADD", [real(b, (3, 30)), real(b, (3, 30), 0.0313, -9)]) for _ in range(2))
    product, table = b.add("MUL", [x, y]), b.add("NEG", [real(b, (3, 30), 0.5, 3)])
    turned = b.add("TRANSPOSE", [product, number(b, [1, 0])], shape=(30, 3))
    parts = b.add_many("SPLIT", [number(b, 1), product], 2, options={"num_splits": 2})
    fill = floats(b, *[-0.0] * 30)
    joined = b.add("CONCATENATION", [table, product, b.add("RESHAPE", [fill, number(b, [1, 30])], shape=(1, 30))],
                   shape=(7, 30), options={"axis": 0})
    where = b.add("GREATER", [x, y], dtype="bool")
    chosen = b.add("SELECT_V2", [where, b.add("NEG", [x]), table], shape=(3, 30))
    wide = b.add("TILE", [b.add("DIV", [b.add("NEG", [x]), floats(b, *[3.0] * 30)]), number(b, [2, 1])], shape=(6, 30))
    ends = [b.add(op, [product]) for op in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")]
    ends += [b.add(op, pair, shape=(3, 30)) for op in ("MAXIMUM", "MINIMUM", "ADD", "SUB")
             for pair in ((product, table), (table, product), (product, floats(b, 0.0)), (product, floats(b, -0.0)),
                          (floats(b, -0.0), product), (product, floats(b, 0.5)), (floats(b, -0.5), product))]
    return [turned, parts[1], joined, chosen, wide, *ends, b.add("SQRT", [b.add("NEG", [b.add("MINIMUM", [
        x, floats(b, 0.0)])])])]


def slopes(b: ModelBuilder) -> list[int]:
    """PRELU of numbers without and with signed zeros, slopes of either sign and 0."""
    x = b.add("ADD", [real(b, (3, 6)), real(b, (3, 6), 0.0313, -9)])
    slope = floats(b, 0.5, -0.5, 0.0, -0.0, 1e-42, -1e-42)
    return [b.add("PRELU", [each, slope], shape=(3, 6)) for each in (x, b.add("NEG", [x]))]


def means(b: ModelBuilder) -> list[int]:
    """Means of what may be as small as numbers get: a tiny sum of either sign becomes 0."""
    x = b.add("MUL", [b.add("ADD", [real(b, (9, 3)), real(b, (9, 3), 0.02, 3)]), floats(b, 1e-44)])
    return [b.add("MEAN", [x, number(b, [1])], shape=(9,))]


def with_relu(b: ModelBuilder) -> list[int]:
    """As GroupNorm and RELU end in PyTorch's exports; no product is so small that it becomes 0."""
    x = real(b, (2, 4, 8))
    apart = b.add("SUB", [x, b.add("MEAN", [x, number(b, [2])], shape=(2, 4, 1), options={"keep_dims": True})])
    more = b.add("MEAN", [b.add("MUL", [apart, apart]), number(b, [2])], shape=(2, 4, 1), options={"keep_dims": True})
    root = b.add("RSQRT", [b.add("ADD", [more, floats(b, 1e-5)])])
    return [b.add("MUL", [apart, root], options={"fused_activation_function": "RELU"})]


BUILDERS = (softmax, log_softmax, attention, normalized, embedding, pooled, shared, of_int16, halves, signed_zeros,
            moved_zeros, slopes, means, with_relu)


def ranked(b: ModelBuilder) -> list[int]:
    """Indices in rows of SOFTMAX, and in sums of two tensors, with equal numbers."""
    shares = b.add("SOFTMAX", [real(b, (3, 10))])
    total = b.add("ADD", [real(b, (3, 10), 0.5, 0), real(b, (3, 10), 0.5, 0)])
    return [shares, b.add("ARG_MAX", [shares, number(b, 1)], options={"output_type": "int64"}),
            b.add("ARG_MIN", [total, number(b, 0)], options={"output_type": "int32"})]


def compared(b: ModelBuilder) -> list[int]:
    """Sums compared with products and with constants on either side, also 0 and -0, and a choice by a comparison."""
    total = b.add("ADD", [real(b, (3, 10)), real(b, (3, 10), 0.0313, -9)])
    product = b.add("MUL", [total, real(b, (3, 10))])
    pairs = {"GREATER": (product, floats(b, 0.5)), "EQUAL": (product, total), "NOT_EQUAL": (product, floats(b, 0)),
             "LESS": (floats(b, *np.linspace(-1, 1, 10)), product), "GREATER_EQUAL": (product, floats(b, -0.0)),
             "LESS_EQUAL": (product, b.add("DIV", [total, floats(b, 3)]))}
    made = [b.add(op, pair, dtype="bool", shape=(3, 10)) for op, pair in pairs.items()]
    made += [b.add(op, [product, floats(b, limit)], dtype="bool", shape=(3, 10)) for op, limit in (
        ("LESS", np.inf), ("EQUAL", np.inf), ("NOT_EQUAL", -np.inf), ("GREATER", -np.inf), ("GREATER_EQUAL", 3e38))]
    mask = b.add("CAST", [made[0]], dtype="float32")
    return [*made, b.add("SELECT_V2", [made[5], total, floats(b, 7)], shape=(3, 10)), b.add("ADD", [mask, total])]


def squares_of_int16(b: ModelBuilder) -> list[int]:
    x, y = (b.add("SQUARE", [int16(b, (4, 33), 1e-3)]) for _ in range(2))
    return [b.add("LESS", [x, y], dtype="bool"), b.add("ARG_MAX", [b.add("SUB", [x, y]), number(b, 1)])]


def hold(litert: Oracle, data: bytes, *configs: str) -> None:
    """Compare the bits of the golden model and of compiled programs with the engine's."""
    model = parse_model(data, "given")
    programs = [compile_model(model, load_config(config)).program for config in configs]
    for seed in range(3):
        inputs = corners(model, seed)
        expected = litert.run(data, inputs)
        for outputs in (run(model, inputs).outputs, *(execute(program, inputs).outputs for program in programs)):
            assert [(each.dtype, each.tobytes()) for each in outputs] == [
                (each.dtype, each.tobytes()) for each in expected]


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: each.__name__)
def test_equals_the_engine(litert: Oracle, builder: Callable[[ModelBuilder], list[int]]) -> None:
    b = ModelBuilder(builder.__name__)
    data = b.build(*builder(b))
    names = {op.op for op in packed_floats(rewrite(parse_model(data, "given").main, LIBRARY)).operators}
    assert "PACKED_FLOAT" in names
    hold(litert, data, "n8", "tiny")


@pytest.mark.parametrize("builder", [ranked, compared, squares_of_int16], ids=lambda each: each.__name__)
def test_keys_of_numbers(litert: Oracle, builder: Callable[[ModelBuilder], list[int]]) -> None:
    b = ModelBuilder(builder.__name__)
    data = b.build(*builder(b))
    names = {op.op for op in packed_floats(rewrite(parse_model(data, "given").main, LIBRARY)).operators}
    assert "PACKED_KEY" in names
    hold(litert, data, "n8", "tiny")


@pytest.mark.parametrize(("op", "options"), [*((op, {}) for op in (*OF_ONE, *OF_MICRO)),
                                             ("GELU", {"approximate": False}), ("GELU", {"approximate": True})])
def test_tables_of_all_codes(oracles: Callable[[str], Oracle], op: str, options: dict[str, OptionValue]) -> None:
    """Including -0, infinity and the smallest numbers."""
    engine = oracles("tflm" if op in OF_MICRO else "litert-ref")
    point = -128 if op in ("SQRT", "RSQRT", "LOG") else 3
    b = ModelBuilder(op)
    codes = b.input((1, 256), scale=0.37, zero_point=point)
    data = b.build(b.add(op, [b.add("DEQUANTIZE", [codes])], options=options))
    model = parse_model(data, op)
    assert [each.op for each in packed_floats(rewrite(model.main, LIBRARY)).operators] == ["TABLE"]
    every = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    expected = engine.run(data, [every])[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, [every]).outputs[0], execute(program, [every]).outputs[0]):
        assert found.dtype == np.float32
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("op", ["SIN", "ELU", "TANH"])
def test_tables_of_int16(oracles: Callable[[str], Oracle], op: str) -> None:
    """Last operators of 16x8 models that the converter leaves in float32: not emulated, or slower than a table."""
    b = ModelBuilder(op)
    data = b.build(b.add(op, [b.add("DEQUANTIZE", [b.input((2, 40), "int16", scale=2e-4)])]))
    model = parse_model(data, op)
    assert [each.op for each in packed_floats(rewrite(model.main, LIBRARY)).operators] == ["TABLE"]
    codes = np.random.default_rng(5).integers(-2**15, 2**15, (2, 40)).astype(np.int16)
    codes[0, :5] = -2**15, -1, 0, 1, 2**15 - 1
    expected = oracles("tflm" if op in OF_MICRO else "litert-ref").run(data, [codes])[0]
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, [codes]).outputs[0], execute(program, [codes]).outputs[0]):
        assert found.tobytes() == expected.tobytes()


def test_constants(litert: Oracle) -> None:
    """Constant factors of the model are an output of it, too."""
    b = ModelBuilder("constants")
    factors = floats(b, 0.5, -0.0, 3e4)
    made = b.add("QUANTIZE", [b.add("MUL", [real(b, (2, 3)), factors])], scale=0.1)
    hold(litert, b.build(made, factors), "n8")


def test_in_rtl() -> None:
    b = ModelBuilder("rtl")
    x = real(b, (2, 5))
    model = parse_model(b.build(*(b.add(op, [x]) for op in ("LOGISTIC", "SOFTMAX", "LOG_SOFTMAX"))), "rtl")
    program = compile_model(model, load_config("n8")).program
    inputs = corners(model, 0)
    for found, expected in zip(simulate(program, inputs).outputs, run(model, inputs).outputs, strict=True):
        assert found.tobytes() == expected.tobytes()


ZERO = "may be -0, which float32 operators do not distinguish from 0"


@pytest.mark.parametrize(("end", "reason"), [
    (lambda b, x: b.add("REDUCE_MAX", [b.add("NEG", [x]), number(b, [1])], shape=(2,)), f"tensor 7 ('t7') {ZERO}"),
    (lambda b, x: b.add("MUL", [x, x2(b)], options={"fused_activation_function": "RELU"}), f"tensor 10 ('t10') {ZERO}"),
    (lambda b, x: b.add("SQRT", [real(b, (2, 3))]), "tensor 7 ('t7') is NaN for some codes"),
    (lambda b, x: b.add("COS", [x]), "operator 3 (COS) of float32 is computed only as a function of one "
     "int8 or int16 tensor, or of two int8 tensors")],
    ids=["largest", "fused", "root", "tanh"])
def test_what_is_not_given(end: Callable[[ModelBuilder, int], int], reason: str) -> None:
    b = ModelBuilder("not")
    x = b.add("ADD", [real(b, (2, 3)), real(b, (2, 3), 0.05)])
    main = parse_model(b.build(end(b, x)), "not").main
    assert packed_floats(main) is main
    with pytest.raises(UnsupportedError) as caught:
        check_given(Subject(main), main.outputs[0])
    assert str(caught.value) == reason
