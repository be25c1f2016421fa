"""POW of float32 that a model computes: x^0.5 as PyTorch's exports of F.normalize and cosine_similarity have it."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.programs.test_packed_power import near_ties
from tests.compiler.rewrite.test_float_outputs import hold as hold_bits
from tests.compiler.rewrite.test_packed_floats import check_refused, codes, floats, hold, int16, number, real
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.bounds import share_of_length
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.packed_floats import packed_floats
from tq_hw.compiler.rewrite.rewrite import Subject, rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate

SHAPE = (1, 5, 12)


def length(b: ModelBuilder, x: int) -> int:
    """The length of each row, as torch.linalg.vector_norm is exported."""
    one = b.add("ABS", [x])
    total = b.add("SUM", [b.add("MUL", [one, one]), number(b, [2])], shape=(1, 5, 1), options={"keep_dims": True})
    return b.add("POW", [total, floats(b, 0.5)], shape=(1, 5, 1))


def normalize(b: ModelBuilder, x: int) -> int:
    wide = b.add("BROADCAST_TO", [b.add("MAXIMUM", [length(b, x), floats(b, 1e-12)]), number(b, SHAPE)], shape=SHAPE)
    return b.add("DIV", [x, wide])


def vector(b: ModelBuilder, scale: float = 0.05, point: int = 0) -> int:
    """With rows of nothing but 0."""
    return b.add("ADD", [real(b, SHAPE, scale, point), real(b, SHAPE, scale / 3, point)])


def embedding(b: ModelBuilder) -> int:
    return normalize(b, vector(b))


def similarity(b: ModelBuilder) -> int:
    """cosine_similarity: products of normalized rows, and their sums."""
    product = b.add("MUL", [normalize(b, vector(b, 0.01)), normalize(b, vector(b, 0.3, 3))])
    return b.add("SUM", [product, number(b, [2])], shape=(1, 5))


def of_int16(b: ModelBuilder) -> int:
    return normalize(b, int16(b, SHAPE, 1.3e-4))


BUILDERS = (embedding, similarity, of_int16)


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: each.__name__)
def test_to_codes(litert: Oracle, builder: Callable[[ModelBuilder], int]) -> None:
    b = ModelBuilder(builder.__name__)
    data = b.build(codes(b, builder(b), 0.009, 0))
    assert {"PACKED_POW", "PACKED_CODES"} <= {op.op for op in packed_floats(parse_model(data, "pow").main).operators}
    hold(litert, data, "n8", "tiny")


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: each.__name__)
def test_to_floats(litert: Oracle, builder: Callable[[ModelBuilder], int]) -> None:
    b = ModelBuilder(builder.__name__)
    hold_bits(litert, b.build(builder(b)), "n8")


def test_lengths(litert: Oracle) -> None:
    """Of themselves, of rows of tiny and of large numbers."""
    b = ModelBuilder("lengths")
    hold_bits(litert, b.build(*(length(b, vector(b, scale)) for scale in (1e-20, 0.7, 1e12))), "n8")


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**-11, 2.0**-2, 2.0**60])
def test_next_to_ties(litert: Oracle, scale: float) -> None:
    """Two int16 make any number of 24 bits: those for which the library does not round correctly are among these."""
    b = ModelBuilder("ties")
    count = 4096
    upper, lower = (b.add("MAXIMUM", [int16(b, (1, count), each), floats(b, 0)]) for each in (512 * scale, scale))
    data = b.build(b.add("POW", [b.add("ADD", [upper, lower]), floats(b, 0.5)], shape=(1, count)))
    chosen = np.random.default_rng(0).permutation(np.concatenate([near_ties(0), near_ties(1)]))[:count] + (1 << 23)
    chosen[:3] = 0, 0xFFFFFF, 0xC7C1F5
    inputs = [(part.astype(np.int16)).reshape(1, count) for part in (chosen >> 9, chosen & 511)]
    expected = litert.run(data, inputs)[0]
    numbers = (chosen * scale).astype(np.float32)
    assert (expected[0] != np.sqrt(numbers)).sum() > 50
    model = parse_model(data, "ties")
    program = compile_model(model, load_config("n8")).program
    for found in (run(model, inputs).outputs[0], execute(program, inputs).outputs[0]):
        assert found.tobytes() == expected.tobytes()


def test_a_part_of_a_vector_is_at_most_its_length() -> None:
    b = ModelBuilder("norm")
    x = vector(b)
    data = b.build(b.add("DIV", [x, b.add("MAXIMUM", [length(b, x), floats(b, 1e-12)])]))
    main = parse_model(data, "norm").main
    share = share_of_length(Subject(main), main.operators[-1])
    assert share is not None
    assert 1 < share < 1.01


def test_in_rtl() -> None:
    b = ModelBuilder("rtl")
    total = b.add("SUM", [b.add("SQUARE", [real(b, (2, 3, 4))]), number(b, [2])], shape=(2, 3))
    model = parse_model(b.build(b.add("POW", [total, floats(b, 0.5)], shape=(2, 3))), "rtl")
    program = compile_model(model, load_config("tiny")).program
    inputs = [np.random.default_rng(0).integers(-128, 128, (2, 3, 4)).astype(np.int8)]
    assert simulate(program, inputs).outputs[0].tobytes() == run(model, inputs).outputs[0].tobytes()


@pytest.mark.parametrize(("end", "reason"), [
    (lambda b, x: b.add("POW", [b.add("MUL", [x, x]), floats(b, 0.25)], shape=(2, 3)),
     "operator 4 (POW) of float32 has exponent 0.25; it must be 0.5 or a single positive whole number"),
    (lambda b, x: b.add("POW", [b.add("MUL", [x, x]), floats(b, 0.5, 0.5, 2)], shape=(2, 3)),
     "operator 4 (POW) of float32 has no constant exponent; it must be 0.5 or a single positive whole number"),
    (lambda b, x: b.add("POW", [b.add("MUL", [x, x]), x]),
     "operator 4 (POW) of float32 has no constant exponent; it must be 0.5 or a single positive whole number"),
    (lambda b, x: b.add("POW", [x, floats(b, 0.5)], shape=(2, 3)), "tensor 4 ('t4') may be negative"),
], ids=["another", "different", "computed", "of negative"])
def test_what_is_not_packed(end: Callable[[ModelBuilder, int], int], reason: str) -> None:
    check_refused(end, reason)


@pytest.mark.parametrize("power", [1, 2, 3, 13])
def test_whole_exponents(litert: Oracle, power: int) -> None:
    """As products: of several tensors, of one as a table, and where the largest number is the limit."""
    b = ModelBuilder("whole")
    x = vector(b, 0.02)
    made = [b.add("MUL", [b.add("POW", [x, floats(b, power)], shape=SHAPE), floats(b, 0.5)]),
            b.add("POW", [real(b, SHAPE, 0.37), floats(b, power)], shape=SHAPE),
            b.add("MINIMUM", [b.add("POW", [real(b, SHAPE, 1e30), floats(b, power)], shape=SHAPE), floats(b, 3e38)])]
    data = b.build(*made, codes(b, made[0], 0.3), b.add("POW", [x, floats(b, 2)], shape=SHAPE))
    names = [op.op for op in rewrite(parse_model(data, "whole").main, LIBRARY).operators]
    assert "POW" not in names
    hold_bits(litert, data, "n8")
