"""Bounds of numbers divided by the length of their vector or by its deviation, and positive divisors of int16."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import codes, floats, hold, number, real
from tq_hw.compiler.rewrite.bounds import deviations, share_of_length
from tq_hw.compiler.rewrite.packed_floats import packed_floats
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.graph import Operator
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.oracles import Oracle

SHAPE = (1, 4, 6)


def vector(b: ModelBuilder) -> int:
    """A sum of three tensors, so that no table replaces it; some rows are all 0."""
    return b.add("ADD", [real(b, SHAPE, 0.05, 0), b.add("ADD", [real(b, SHAPE, 0.002, 0), real(b, SHAPE, 0.01, 0)])])


def squares(b: ModelBuilder, x: int, name: str = "SUM") -> int:
    one = b.add("ABS", [x])
    return b.add(name, [b.add("MUL", [one, one]), number(b, [2])], shape=SHAPE[:2])


def column(b: ModelBuilder, x: int) -> int:
    return b.add("RESHAPE", [x, number(b, [1, 4, 1])], shape=(1, 4, 1))


def normalize(b: ModelBuilder) -> int:
    """As litert-torch lowers F.normalize."""
    x = vector(b)
    length = b.add("MAXIMUM", [b.add("SQRT", [squares(b, x)]), floats(b, 1e-12)])
    return b.add("DIV", [x, column(b, length)])


def by_root(b: ModelBuilder) -> int:
    """As in tf.math.l2_normalize."""
    x = vector(b)
    total = b.add("SUM", [b.add("SQUARE", [x]), number(b, [2])], shape=(1, 4, 1), options={"keep_dims": True})
    return b.add("MUL", [x, b.add("RSQRT", [b.add("MAXIMUM", [total, floats(b, 1e-24)])])])


def by_mean(b: ModelBuilder) -> int:
    x = vector(b)
    length = b.add("ADD", [b.add("SQRT", [b.add("ADD", [squares(b, x, "MEAN"), floats(b, 1e-24)])]), floats(b, 1e-13)])
    wide = b.add("BROADCAST_TO", [column(b, length), number(b, SHAPE)], shape=SHAPE)
    return b.add("DIV", [x, wide])


def ended(b: ModelBuilder, made: int) -> bytes:
    return b.build(codes(b, made, 0.02, 0))


def last(data: bytes) -> tuple[Subject, Operator]:
    """The operator before the QUANTIZE."""
    main = parse_model(data, "norm").main
    return Subject(main), main.operators[-2]


def over_rows(b: ModelBuilder) -> int:
    """As F.normalize over another axis than the last (XCiT): the length has an axis less than the vector."""
    x = vector(b)
    total = b.add("SUM", [b.add("SQUARE", [x]), number(b, [1])], shape=(1, 6))
    return b.add("DIV", [x, b.add("MAXIMUM", [b.add("SQRT", [total]), floats(b, 1e-12)])])


@pytest.mark.parametrize(("builder", "most"), [
    (normalize, 1), (by_root, 1), (by_mean, math.sqrt(6)), (over_rows, 1)])
def test_a_part_of_a_vector_is_at_most_its_length(
        litert: Oracle, builder: Callable[[ModelBuilder], int], most: float) -> None:
    b = ModelBuilder("norm")
    data = ended(b, builder(b))
    share = share_of_length(*last(data))
    assert share is not None
    assert most < share < most * 1.01
    assert "PACKED_CODES" in {op.op for op in packed_floats(parse_model(data, "norm").main).operators}
    hold(litert, data, "n8")


@pytest.mark.parametrize("change", [
    lambda b, x: b.add("DIV", [x, b.add("RESHAPE", [b.add("SQRT", [b.add("SUM", [
        b.add("SQUARE", [x]), number(b, [1])], shape=(1, 6))]), number(b, [1, 1, 6])], shape=(1, 1, 6))]),
    lambda b, x: b.add("DIV", [x, column(b, b.add("SQRT", [squares(b, b.add("MUL", [x, floats(b, 0.1)]))]))]),
    lambda b, x: b.add("DIV", [x, column(b, b.add("SQRT", [b.add("ADD", [squares(b, x), floats(b, -1)])]))]),
    lambda b, x: b.add("DIV", [x, column(b, squares(b, x))]),
    lambda b, x: b.add("DIV", [x, column(b, b.add("MINIMUM", [b.add("SQRT", [squares(b, x)]), floats(b, 1)]))]),
    lambda b, x: b.add("DIV", [x, column(b, b.add("RELU6", [b.add("SQRT", [squares(b, x)])]))]),
    lambda b, x: b.add("DIV", [x, b.add("RESHAPE", [b.add("SQRT", [squares(b, x)]), number(b, [4, 1, 1])],
                                        shape=(4, 1, 1))]),
], ids=["another axis, which is right", "of less", "less", "no root", "minimum", "at most 6", "another shape"])
def test_what_is_no_length(change: Callable[[ModelBuilder, int], int], request: pytest.FixtureRequest) -> None:
    b = ModelBuilder("norm")
    found = share_of_length(*last(ended(b, change(b, vector(b)))))
    assert (found is not None) == ("right" in request.node.callspec.id)


def responses(b: ModelBuilder) -> int:
    """Global response normalization of ConvNeXt V2: lengths of channels, divided by their mean."""
    length = b.add("SQRT", [b.add("SUM", [b.add("SQUARE", [vector(b)]), number(b, [1])], shape=(1, 6))])
    wide = b.add("RESHAPE", [length, number(b, [1, 1, 6])], shape=(1, 1, 6))
    mean = b.add("MEAN", [wide, number(b, [2])], shape=(1, 1, 1), options={"keep_dims": True})
    return b.add("DIV", [wide, b.add("ADD", [mean, floats(b, 1e-12)])])


def shares(b: ModelBuilder) -> int:
    """Magnitudes as parts of their sum over rows (Sinkhorn's iteration)."""
    x = b.add("ABS", [vector(b)])
    total = b.add("SUM", [x, number(b, [1])], shape=(1, 1, 6), options={"keep_dims": True})
    wide = b.add("BROADCAST_TO", [b.add("MAXIMUM", [total, floats(b, 1e-12)]), number(b, SHAPE)], shape=SHAPE)
    return b.add("DIV", [x, wide])


@pytest.mark.parametrize(("builder", "most"), [(responses, 6), (shares, 1)])
def test_a_part_of_a_sum(litert: Oracle, builder: Callable[[ModelBuilder], int], most: float) -> None:
    """At most 1, or the number of elements of a mean, also where all are 0."""
    b = ModelBuilder("shares")
    data = ended(b, b.add("MUL", [builder(b), floats(b, 0.9)]))
    graph, product = last(data)
    share = graph.maker(product.inputs[0])
    assert share is not None
    found = share_of_length(graph, share, positive=True)
    assert found is not None
    assert most < found < most * 1.01
    assert share_of_length(graph, share) is None
    hold(litert, data, "n8")


@pytest.mark.parametrize("change", [
    lambda b, x: b.add("DIV", [x, column(b, b.add("SUM", [less(b, x), number(b, [2])], shape=SHAPE[:2]))]),
    lambda b, x: b.add("DIV", [x, column(b, b.add("REDUCE_MAX", [x, number(b, [2])], shape=SHAPE[:2]))]),
    lambda b, x: b.add("DIV", [x, b.add("SUM", [b.add("RESHAPE", [x, number(b, [1, 6, 4])], shape=(1, 6, 4)),
                                                number(b, [2])], shape=(1, 6))]),
    lambda b, x: b.add("DIV", [x, b.add("ADD", [mean_of(b, x), floats(b, -1)])])],
    ids=["of less", "largest", "of other rows", "less"])
def test_what_is_no_sum(change: Callable[[ModelBuilder, int], int]) -> None:
    b = ModelBuilder("shares")
    x = b.add("ABS", [vector(b)])
    assert share_of_length(*last(ended(b, change(b, x))), positive=True) is None


def mean_of(b: ModelBuilder, x: int, axis: int = 2) -> int:
    shape = [1 if at == axis else size for at, size in enumerate(SHAPE)]
    return b.add("MEAN", [x, number(b, [axis])], shape=tuple(shape), options={"keep_dims": True})


def root_of(b: ModelBuilder, x: int, mean: int, axis: int = 2, more: float = 1e-6) -> int:
    apart = b.add("SQUARED_DIFFERENCE", [x, mean], shape=SHAPE)
    return b.add("RSQRT", [b.add("ADD", [mean_of(b, apart, axis), floats(b, more)])])


def as_sum(b: ModelBuilder, x: int) -> int:
    """As litert-torch lowers nn.LayerNorm."""
    mean = mean_of(b, x)
    root = root_of(b, x, mean)
    return b.add("ADD", [b.add("MUL", [x, root]), b.add("SUB", [floats(b, 0), b.add("MUL", [root, mean])])])


def as_difference(b: ModelBuilder, x: int) -> int:
    mean = mean_of(b, x)
    root = root_of(b, x, mean)
    return b.add("SUB", [b.add("MUL", [root, x]), b.add("MUL", [mean, root])])


def of_one_group(b: ModelBuilder, x: int) -> int:
    """As litert-torch lowers nn.GroupNorm: another shape, squares by MUL, the mean times -1, everything broadcast."""
    flat = b.add("RESHAPE", [x, number(b, [1, 1, 24])], shape=(1, 1, 24))
    mean = b.add("MEAN", [flat, number(b, [1, 2])], shape=(1, 1, 1), options={"keep_dims": True})
    apart = b.add("SUB", [flat, mean], shape=(1, 1, 24))
    total = b.add("MEAN", [b.add("MUL", [apart, apart]), number(b, [1, 2])], shape=(1, 1, 1),
                  options={"keep_dims": True})
    root = b.add("RSQRT", [b.add("ADD", [total, floats(b, 1e-6)])])
    shift = b.add("MUL", [b.add("MUL", [mean, floats(b, -1)]), root])
    root, shift = (b.add("BROADCAST_TO", [each, number(b, [1, 4, 1])], shape=(1, 4, 1)) for each in (root, shift))
    return b.add("ADD", [b.add("MUL", [x, root]), shift])


NORMS = {"sum": (as_sum, 6), "difference": (as_difference, 6), "group": (of_one_group, 24)}


@pytest.mark.parametrize("name", NORMS)
def test_a_deviation_is_a_part_of_all(name: str, litert: Oracle) -> None:
    """Twelve in a row, each added to its own input: bounds that are multiplied would grow without limit."""
    norm, count = NORMS[name]
    b = ModelBuilder("norm")
    x = vector(b)
    for _ in range(12):
        x = b.add("ADD", [x, norm(b, x)])
    data = ended(b, b.add("MUL", [norm(b, x), floats(b, 0.9)]))
    main = parse_model(data, "norm").main
    found = deviations(Subject(main), main.operators[-3])
    assert found is not None
    assert math.sqrt(count) < found < math.sqrt(count) * 1.01
    hold(litert, data, "n8")


def less(b: ModelBuilder, x: int) -> int:
    return b.add("MUL", [x, floats(b, 0.1)])


@pytest.mark.parametrize("change", [
    lambda b, x: (mean_of(b, x), root_of(b, x, mean_of(b, x))),
    lambda b, x: (mean := mean_of(b, x, 1), root_of(b, x, mean)),
    lambda b, x: (mean := mean_of(b, x), root_of(b, less(b, x), mean)),
    lambda b, x: (mean := mean_of(b, x), root_of(b, x, mean, more=-1.0)),
    lambda b, x: (mean := mean_of(b, x), root_of(b, x, mean, 1)),
    lambda b, x: (mean := mean_of(b, less(b, x)), root_of(b, x, mean)),
    lambda b, x: (mean := mean_of(b, x), b.add("SQRT", [root_of(b, x, mean)])),
], ids=["two means", "another axis", "of less", "less", "of other rows", "mean of less", "no root"])
def test_what_is_no_deviation(change: Callable[[ModelBuilder, int], tuple[int, int]]) -> None:
    b = ModelBuilder("norm")
    x = vector(b)
    mean, root = change(b, x)
    made = b.add("SUB", [b.add("MUL", [x, root], shape=SHAPE), b.add("MUL", [root, mean])], shape=SHAPE)
    assert deviations(*last(ended(b, made))) is None


@pytest.mark.parametrize("which", ["product", "shift", "difference"])
def test_an_activation_within_is_no_deviation(which: str) -> None:
    """RELU removes the numbers on one side."""
    b = ModelBuilder("norm")
    relu = {name: {"options": {"fused_activation_function": "RELU"}} if name == which else {}
            for name in ("product", "shift", "difference")}
    x = vector(b)
    mean = mean_of(b, x)
    apart = b.add("SUB", [x, mean], shape=SHAPE, **relu["difference"])
    root = b.add("RSQRT", [b.add("ADD", [mean_of(b, b.add("SQUARE", [apart])), floats(b, 1e-6)])])
    made = b.add("SUB", [b.add("MUL", [x, root], shape=SHAPE, **relu["product"]),
                         b.add("MUL", [root, mean], **relu["shift"])], shape=SHAPE)
    assert deviations(*last(ended(b, made))) is None


def test_a_divisor_of_int16_that_is_positive(litert: Oracle) -> None:
    """As in capsules of 16x8 models with float32 in between."""
    b = ModelBuilder("squash")
    total = b.add("MUL", [x := b.input((1, 9, 3), "int16", scale=1e-4), x], scale=1e-3)
    more = b.add("ADD", [total, b.constant(np.array(1000, np.int16), scale=1e-3)], scale=2e-3)
    made = b.add("DIV", [b.add("DEQUANTIZE", [total]), b.add("DEQUANTIZE", [more])])
    hold(litert, b.build(codes(b, made, 3e-5, 0, "int16")), "n8")
