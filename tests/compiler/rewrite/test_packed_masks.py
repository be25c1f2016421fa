"""Masks that hide scores from a SOFTMAX in float32: constants, and numbers that an input of the model chooses."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.packed_floats import check_packed
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.isa.config import load_config
from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

Build = Callable[[ModelBuilder], int]
LEAST = np.float32(np.finfo(np.float32).min)
#: Each row sees what is before it; no row is hidden as a whole.
CAUSAL = np.tril(np.ones((5, 5), np.bool_))
SHAPE = (2, 5, 5)


def scores(b: ModelBuilder) -> int:
    """Sums that are not a function of one tensor."""
    parts = [b.add("DEQUANTIZE", [b.input(SHAPE, scale=scale, zero_point=-9)]) for scale in (0.0213, 0.31)]
    return b.add("ADD", parts)


def number(b: ModelBuilder, value: float) -> int:
    return b.constant(np.array(value, np.float32))


def seen(b: ModelBuilder) -> int:
    """Whether words are seen, [1, 5, 5], from an input of int32; all that are not 0 are."""
    words = b.add("RESHAPE", [b.input((1, 5), "int32"), b.constant([1, 1, 5])], shape=(1, 1, 5))
    return b.add("LOGICAL_AND", [b.add("CAST", [words], dtype="bool"), b.constant(CAUSAL[None])])


def twice(b: ModelBuilder, hidden: float = -np.inf) -> int:
    """As in nn.MultiheadAttention with a mask of the future and one of padding; a sum of two is beyond float32."""
    masks = b.add("ADD", [b.constant(np.where(CAUSAL, 0, hidden).astype(np.float32)[None]),
                          chosen(b, b.add("CAST", [b.input((1, 1, 5), "int32")], dtype="bool"), hidden)])
    return b.add("ADD", [masks, scores(b)])


def chosen(b: ModelBuilder, condition: int, hidden: float, other: int | None = None) -> int:
    return b.add("SELECT_V2", [condition, number(b, 0) if other is None else other, number(b, hidden)],
                 dtype="float32")


def added(b: ModelBuilder, hidden: float = LEAST) -> int:
    """As in BERT: the mask is cut and moved before it is added."""
    mask = b.add("RESHAPE", [chosen(b, seen(b), hidden), b.constant([1, 1, 5, 5])], shape=(1, 1, 5, 5))
    mask = b.add("RESHAPE", [mask, b.constant([1, 5, 5])], shape=(1, 5, 5))
    return b.add("ADD", [mask, scores(b)])


def filled(b: ModelBuilder) -> int:
    """As `scores.masked_fill(hidden, finfo.min)`."""
    return chosen(b, seen(b), LEAST, scores(b))


def filled_by_a_constant(b: ModelBuilder) -> int:
    """As `scores.masked_fill(triu, -inf)`."""
    return chosen(b, b.constant(CAUSAL[None]), -np.inf, scores(b))


def added_from_a_choice(b: ModelBuilder) -> int:
    mask = np.where(CAUSAL, np.float32(0.5), np.float32(-np.inf))
    mask[0, 4] = LEAST
    return b.add("ADD", [scores(b), b.constant(mask[None])])


def of_two_numbers(b: ModelBuilder) -> int:
    """Rows that are hidden as a whole see what the larger number hides."""
    return b.add("ADD", [scores(b), b.add("SELECT_V2", [seen(b), b.constant(np.where(CAUSAL, 0, LEAST)[None]),
                                                        number(b, -2.0**110)], dtype="float32")])


def by_a_product(b: ModelBuilder) -> int:
    """As `(1 - mask) * finfo.min` by PyTorch's PT2E, in int8 with a RESHAPE before the product."""
    words = b.add("CAST", [b.input((1, 5), "int32")], dtype="bool")
    hidden = b.add("QUANTIZE", [b.add("SUB", [number(b, 1), b.add("CAST", [words], dtype="float32")])],
                   dtype="int8", scale=1 / 255, zero_point=-128)
    hidden = b.add("RESHAPE", [hidden, b.constant([1, 1, 5])], shape=(1, 1, 5))
    least = b.constant(np.array(-128, np.int8), scale=-float(LEAST) / 255, zero_point=127)
    mask = b.add("MUL", [hidden, least], scale=-float(LEAST) / 255, zero_point=127)
    return b.add("ADD", [scores(b), b.add("DEQUANTIZE", [mask])])


def all_hidden(b: ModelBuilder) -> int:
    """Sums with minus infinity are the least float32 number, so all weights are equal."""
    return b.add("ADD", [scores(b), b.constant(np.full((1, 5, 5), -np.inf, np.float32))])


@pytest.mark.parametrize("build", [added, twice, lambda b: twice(b, LEAST), lambda b: twice(b, -2.0**110),
                                   lambda b: added(b, -np.inf), of_two_numbers, by_a_product, filled,
                                   filled_by_a_constant, added_from_a_choice, all_hidden])
def test_equals_litert(build: Build, litert: Oracle) -> None:
    b = ModelBuilder("masks")
    data = b.build(b.add("QUANTIZE", [b.add("SOFTMAX", [build(b)])], dtype="int8", scale=1 / 256, zero_point=-128))
    model, rng = parse_model(data, "masks"), np.random.default_rng(0)
    program = compile_model(model, load_config("n8")).program
    for words in ([1, 1, 1, 1, 1], [0, 1, 0, 3, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]):
        inputs = [np.array(words, np.int32).reshape(tensor.shape) if tensor.dtype == "int32" else
                  rng.integers(-128, 128, SHAPE).astype(np.int8)
                  for tensor in (model.main.tensors[index] for index in model.main.inputs)]
        np.testing.assert_array_equal(execute(program, inputs).outputs[0], litert.run(data, inputs)[0], strict=True)


def test_minus_infinity_in_place_of_scores(litert: Oracle) -> None:
    """As in PyTorch's `masked_fill`. A row of nothing else is NaN, of which no engine defines a code."""
    b = ModelBuilder("masks")
    weights = b.add("SOFTMAX", [chosen(b, seen(b), -np.inf, scores(b))])
    data = b.build(b.add("QUANTIZE", [b.add("MUL", [weights, number(b, 0.5)])], dtype="int8", scale=1 / 256,
                         zero_point=-128))
    model, rng = parse_model(data, "masks"), np.random.default_rng(1)
    inputs = [rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in range(2)]
    inputs.insert([model.main.tensors[index].dtype for index in model.main.inputs].index("int32"),
                  np.array([[1, 0, 1, 1, 0]], np.int32))
    ours = execute(compile_model(model, load_config("n8")).program, inputs).outputs[0]
    np.testing.assert_array_equal(ours, litert.run(data, inputs)[0], strict=True)
    with pytest.raises(InputError, match="must be finite and below .*, found nan"):
        run(model, [each if each.dtype == np.int8 else 1 - each for each in inputs])


@pytest.mark.parametrize(("build", "reason"), [
    (lambda b: b.add("GELU", [b.add("SOFTMAX", [chosen(b, seen(b), -np.inf, scores(b))])]), "may be inf"),
    (lambda b: chosen(b, b.constant(np.zeros((1, 5, 5), np.bool_)), -np.inf, scores(b)), "may be inf"),
], ids=["not a number", "all hidden"])
def test_what_is_refused(build: Build, reason: str) -> None:
    b = ModelBuilder("not")
    main = parse_model(b.build(b.add("QUANTIZE", [b.add("SOFTMAX", [build(b)])], dtype="int8", scale=1 / 256,
                                     zero_point=-128)), "not").main
    with pytest.raises(UnsupportedError) as caught:
        check_packed(Subject(main), main.operators[-1])
    message = str(caught.value)
    assert message.partition(") ")[2] == f"{reason}, more than float32 operators support", message
