"""Attention with transposed scores equals golden: which moves are left, for any heads, and where scores stay."""

import sys
from pathlib import Path

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.ir.layers import Graph, RowProgram
from tq_hw.compiler.ir.staged import Columns, MatMul, Move, Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.specialize import transposed_scores
from tq_hw.compiler.specialize.moved import joined_moves, transposed
from tq_hw.compiler.specialize.values import Users
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.attention import attention
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from attention_cycles import cycles

ODD = Config("odd", 4, 12, 4, 16 << 10)
#: Two output blocks per word, two beats per word of accumulators.
HALVES = Config("halves", 16, 8, 4, 64 << 10)
CONFIGS = [load_config("n16"), load_config("n8"), ODD, HALVES]


def _compare(data: bytes, config: Config) -> Compiled:
    return compared(parse_model(data, "attention"), config)


def _kinds(compiled: Compiled) -> list[type]:
    return [type(layer) for layer in compiled.emitter.graph.layers]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("between", ["", "scale", "mask"])
@pytest.mark.parametrize("apart", [False, True])
def test_scores_lie_across(config: Config, between: str, apart: bool) -> None:
    for tokens, heads, width in (((52, 52), 3, 16), ((70, 33), 2, 7)):
        kinds = _kinds(_compare(attention(*tokens, heads, width, between=between, apart=apart), config))
        assert kinds.count(Columns) == 1
        # Only queries, keys, values and results may move, not scores.
        assert sum(issubclass(kind, Move) for kind in kinds) <= 4


def _ways(data: bytes, config: Config, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the cycles of the ways to lay scores: -1 the chosen one, 0 upright, 1 both products, 2 the first alone."""
    def cycles(way: int) -> int:
        with monkeypatch.context() as patch:
            if way >= 0:
                patch.setattr(transposed_scores, "min", lambda ways, key: ways[way], raising=False)
            return sum(row.cycles for row in compile_model(parse_model(data, "attention"), config).report)
    return {way: cycles(way) for way in (-1, 0, 1, 2)}


@pytest.mark.parametrize("shape", [(16, 4, 12), (16, 1, 64), (24, 2, 16), (32, 2, 16)])
@pytest.mark.parametrize("name", ["n16", "n8"])
def test_the_estimate_chooses(shape: tuple[int, int, int], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, heads, width = shape
    chosen, *ways = _ways(attention(tokens, tokens, heads, width, between="scale"), load_config(name),
                          monkeypatch).values()
    assert chosen <= 1.01 * min(ways)


@pytest.mark.parametrize("between", ["", "scale", "mask"])
@pytest.mark.parametrize("apart", [False, True])
def test_the_first_product_alone_transposes_few_scores(between: str, apart: bool) -> None:
    """The results of SOFTMAX are transposed in the scratchpad; values and results of the second product stay."""
    for shape, heads, width in (((16, 16), 2, 48), ((24, 20), 1, 64)):
        compiled = _compare(attention(*shape, heads, width, between=between, apart=apart), load_config("n16"))
        kinds = _kinds(compiled)
        assert kinds[-4 if heads > 1 else -3:][:3] == [Columns, Transpose, MatMul]
        emitter = compiled.emitter
        if between:
            columns, = (layer for layer in emitter.graph.layers if isinstance(layer, Columns))
            assert emitter.is_resident(columns.inputs[0]) and emitter.is_resident(columns.output)


def test_a_scale_of_scores_is_looked_up_by_the_product() -> None:
    compiled = _compare(attention(52, 52, 3, 16, between="scale"), load_config("n16"))
    assert [layer.table is not None for layer in compiled.emitter.graph.layers if isinstance(layer, MatMul)] == [
        True, False]


def test_keys_that_the_product_turns_need_no_move() -> None:
    compiled = _compare(attention(52, 52, 1, 16, apart=True), load_config("n16"))
    # With one head the model's TRANSPOSE moves nothing; queries, values and results are transposed.
    assert sum(issubclass(kind, Move) for kind in _kinds(compiled)) == 3


def test_scores_that_somebody_sees_stay() -> None:
    compiled = _compare(attention(52, 52, 3, 16, shown=True), load_config("n16"))
    columns, = (layer for layer in compiled.emitter.graph.layers if isinstance(layer, Columns))
    assert columns.inputs[0].name.endswith("(columns)")


def test_few_scores_stay() -> None:
    assert RowProgram in _kinds(_compare(attention(3, 20, 1, 16), load_config("n16")))


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (1, 1, 7, 2), (1, 6, 1, 3), (1, 2, 8, 8)])
def test_two_moves_are_one(shape: tuple[int, int, int, int]) -> None:
    values = [Value("x", 0, shape)]
    layers: list[Move] = []
    for _ in range(2):
        layers.append(transposed(values[-1], Move(0, "TRANSPOSE", (values[-1],), values[-1], ())))
        values.append(layers[-1].output)
    # Two transposes cancel out: a reader gets the bytes of the first one's input.
    reader = Move(1, "RESHAPE", (values[-1],), Value("y", 1, shape), ())
    made = joined_moves(Graph((*layers, reader), (values[0],), (reader.output,)))
    assert [type(layer) for layer in made] == [Move] and made[0].inputs[0].root is values[0]
    # An output needs one move.
    made = joined_moves(Graph(tuple(layers), (values[0],), (values[-1],)))
    move, = made
    assert isinstance(move, Move) and move.inputs == (values[0],) and move.output is values[-1]
    copy, = move.copies
    assert all(source == target for _, source, target in copy.dims)


def test_moves_that_vanish_leave_the_next_attention() -> None:
    """The transpose back and the one that follows are none together, and both programs have transposed scores."""
    b, outputs = ModelBuilder("two"), []
    for _ in range(2):
        q, k, v = (b.input((1, 1, 52, 16), scale=0.03, zero_point=point) for point in (5, -7, 11))
        scores = b.add("BATCH_MATMUL", [q, k], adj_y=True, scale=0.04, zero_point=3)
        made = b.add("BATCH_MATMUL", [b.add("SOFTMAX", [scores]), v], scale=0.004, zero_point=-9)
        outputs.append(b.add("RELU", [b.add("TRANSPOSE", [made, b.constant([0, 1, 3, 2])])]))
    kinds = _kinds(_compare(b.build(*outputs), load_config("n16")))
    assert kinds.count(Columns) == 2


def test_attention_takes_fewer_cycles() -> None:
    for config in (load_config("n16"), load_config("n8")):
        now, upright = (cycles((24, 2, 16), config, transposed) for transposed in (True, False))
        assert now < 0.9 * upright


def test_what_lives_on_has_no_maker() -> None:
    """A persistent value may be read before it is made."""
    state = Value("state", 0, (1, 1, 4, 4), initial=np.zeros(16, np.int8))
    source, made = Value("x", 1, (1, 1, 4, 4)), Value("y", 2, (1, 1, 4, 4))
    for value, there in ((state, False), (Value("z", 3, (1, 1, 4, 4)), True)):
        layers = (transposed(source, Move(0, "TRANSPOSE", (source,), made, ()), value), transposed(value, Move(
            1, "TRANSPOSE", (value,), made, ()), made))
        users = Users(Graph(layers, (source,), (made,)), layers)
        assert (users.maker(value) is layers[0], users.reader(value) is layers[1]) == (there, there)
        assert len(joined_moves(Graph(layers, (source,), (made,)))) == (1 if there else 2)
