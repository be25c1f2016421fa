"""Channels with closer bounds than their tensor: linear attention divides by sums of weights."""

import numpy as np
import pytest

from tests.compiler.rewrite.test_packed_floats import codes, floats, hold, number, real
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.oracles import Oracle

HEADS, TOKENS, DEPTH = 2, 5, 4
WITH_ONES = (HEADS, TOKENS, DEPTH + 1)


def padded_codes(b: ModelBuilder, one: float = 1) -> int:
    """As in exports of litert-torch: the code of 1 is appended."""
    x = b.input((HEADS, TOKENS, DEPTH), scale=0.02, zero_point=-20)
    fill = b.constant(np.array(round(one / 0.02) - 20, np.int8), scale=0.02, zero_point=-20)
    more = b.add("PADV2", [x, number(b, [[0, 0], [0, 0], [0, 1]]), fill], shape=WITH_ONES)
    return b.add("DEQUANTIZE", [b.add("RESHAPE", [more, number(b, WITH_ONES)], shape=WITH_ONES)])


def padded_floats(b: ModelBuilder) -> int:
    x = real(b, (HEADS, TOKENS, DEPTH))
    return b.add("PADV2", [x, number(b, [[0, 0], [0, 0], [0, 1]]), floats(b, 1)], shape=WITH_ONES)


def joined(b: ModelBuilder) -> int:
    ones = b.constant(np.linspace(0.5, 1.5, HEADS * TOKENS, dtype=np.float32).reshape(HEADS, TOKENS, 1))
    return b.add("CONCATENATION", [real(b, (HEADS, TOKENS, DEPTH)), ones], shape=WITH_ONES, options={"axis": 2})


def attention(b: ModelBuilder, values: int, *, activation: str = "RELU", channel: int = DEPTH) -> bytes:
    """Queries times (keys times values), divided by the same product for ones."""
    queries, keys = (b.add(activation, [real(b, shape)]) for shape in (
        (HEADS, TOKENS, DEPTH), (HEADS, DEPTH, TOKENS)))
    flags = {"adj_x": False, "adj_y": False}
    state = b.add("BATCH_MATMUL", [keys, values], shape=(HEADS, DEPTH, DEPTH + 1), options=flags)
    made = b.add("BATCH_MATMUL", [queries, state], shape=WITH_ONES, options=flags)
    above = b.add("SLICE", [made, number(b, [0, 0, 0]), number(b, [HEADS, TOKENS, DEPTH])],
                  shape=(HEADS, TOKENS, DEPTH))
    below = b.add("SLICE", [made, number(b, [0, 0, channel]), number(b, [HEADS, TOKENS, 1])], shape=(HEADS, TOKENS, 1))
    return b.build(codes(b, b.add("DIV", [above, b.add("ADD", [below, floats(b, 1e-3)])]), 0.05))


@pytest.mark.parametrize("values", [padded_codes, padded_floats, joined])
def test_linear_attention(values: object, litert: Oracle) -> None:
    assert callable(values)
    b = ModelBuilder("attention")
    hold(litert, attention(b, values(b)), "n8")


@pytest.mark.parametrize(("one", "activation", "channel"), [
    (1, "TANH", DEPTH), (-1, "RELU", DEPTH), (1, "RELU", DEPTH - 1)],
    ids=["weights of both signs", "less", "a channel of values"])
def test_what_may_be_negative_is_no_divisor(one: int, activation: str, channel: int) -> None:
    b = ModelBuilder("attention")
    data = attention(b, padded_codes(b, one), activation=activation, channel=channel)
    with pytest.raises(UnsupportedError, match=r"\(tensor .*, the divisor of .* may be 0 or negative\)"):
        compile_model(parse_model(data, "attention"), load_config("n8"))
