"""Elementwise layers of few words become one program, with the same integers as layer by layer."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.emit.basis import Basis
from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.layers import Elementwise, Mac
from tq_hw.compiler.ir.meaning import Streams
from tq_hw.compiler.plan.places import Choice
from tq_hw.compiler.specialize import fuse
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONFIGS = ["n16", "n8", "tiny"]


class _Net:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.b, self.shape = ModelBuilder(), shape
        self.inputs: list[int] = []

    def input(self, scale: float, zero_point: int) -> int:
        self.inputs.append(self.b.input(self.shape, scale=scale, zero_point=zero_point))
        return self.inputs[-1]

    def op(self, name: str, *ends: int, scale: float = 0.04, zero_point: int = 5) -> int:
        if name == "LOGISTIC":
            return self.b.add(name, list(ends), scale=1 / 256, zero_point=-128)
        if name == "TANH":
            return self.b.add(name, list(ends), scale=1 / 128, zero_point=0)
        return self.b.add(name, list(ends), scale=scale, zero_point=zero_point)

    def compiled(self, config: str, *outputs: int) -> Compiled:
        model = parse_model(self.b.build(*outputs), "chain")
        compiled = compile_model(model, load_config(config))
        for seed in range(2):
            rng = np.random.default_rng(seed)
            arrays = [rng.integers(-128, 128, self.shape).astype(np.int8) for _ in self.inputs]
            found = execute(compiled.program, arrays, seed=seed, check_races=True).outputs
            for one, wanted in zip(found, run(model, arrays).outputs, strict=True):
                np.testing.assert_array_equal(one, wanted)
        return compiled


def _gru(net: _Net) -> list[int]:
    """The elementwise part of a GRU cell."""
    xr, hr, xz, hz, xc, hc = (net.input(0.03 + 0.004 * n, 3 * n - 7) for n in range(6))
    h = net.input(1 / 128, 0)
    r, z = (net.op("LOGISTIC", net.op("ADD", *pair)) for pair in ((xr, hr), (xz, hz)))
    new = net.op("TANH", net.op("ADD", xc, net.op("MUL", r, hc, scale=0.05, zero_point=-3)))
    one = net.b.constant(np.full((1,), 127, np.int8), scale=1 / 127)
    kept = net.op("MUL", z, h, scale=1 / 128, zero_point=2)
    return [net.op("ADD", kept, net.op("MUL", net.op("SUB", one, z, scale=1 / 256, zero_point=-128), new,
                                       scale=1 / 128, zero_point=1), scale=1 / 100, zero_point=0)]


def _two_results(net: _Net) -> list[int]:
    """An intermediate result that is an output, too, is written."""
    x, y = net.input(0.05, -7), net.input(0.03, 12)
    total = net.op("ADD", x, y)
    return [total, net.op("MUL", net.op("LOGISTIC", total), net.op("SQUARED_DIFFERENCE", x, y))]


def _same_twice(net: _Net) -> list[int]:
    """One operand on both sides, extremes without tables, and functions of functions."""
    x, y = net.input(0.05, -7), net.input(0.05, -7)
    most = net.op("MAXIMUM", x, y, scale=0.05, zero_point=-7)
    both = net.op("SUB", net.op("TANH", most), net.op("LOGISTIC", most))
    return [net.op("TANH", net.op("ADD", both, both))]


def _many_tables(net: _Net) -> list[int]:
    """Nine functions, which need more room than the table has."""
    x, y = net.input(0.05, -7), net.input(0.03, 12)
    for number in range(9):
        x = net.op("ADD", net.op("LOGISTIC" if number % 2 else "TANH", x), y, scale=0.02 + number / 300)
    return [x]


CELLS: dict[str, tuple[Callable[[_Net], list[int]], int]] = {
    "gru": (_gru, 1), "two_results": (_two_results, 1), "same_twice": (_same_twice, 1),
    "many_tables": (_many_tables, 3)}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("channels", [8, 20])
@pytest.mark.parametrize("name", CELLS)
def test_one_program_of_a_cell(name: str, channels: int, config: str) -> None:
    make, most = CELLS[name]
    net = _Net((1, channels))
    compiled = net.compiled(config, *make(net))
    layers = compiled.emitter.graph.layers
    assert 1 <= sum(isinstance(layer, Chain) for layer in layers) <= most
    if name == "gru":
        assert not any(isinstance(layer, Elementwise) for layer in layers)


def test_cells_that_follow_each_other_share_a_table() -> None:
    net = _Net((1, 16))
    x, states = net.input(0.05, -7), [net.input(0.03 + n / 100, n) for n in range(4)]
    for h in states:
        x = net.b.add("MAX_POOL_2D", [net.b.add("RESHAPE", [net.op("TANH", net.op("ADD", x, h)), net.b.constant(
            [1, 1, 1, 16])], shape=(1, 1, 1, 16))], filter_height=1, filter_width=1, stride_h=1, stride_w=1,
            padding="SAME")
        x = net.b.add("RESHAPE", [x, net.b.constant([1, 16])], shape=(1, 16))
    compiled = net.compiled("n16", x)
    loads = [operation for operation in compiled.emitter.stream.by_unit[Unit.VECTOR]
             if operation.fields.get("kind") == VectorKind.LOAD_TABLE]
    assert len(loads) == 1


def test_tables_fill_one_half_before_the_other() -> None:
    """Nine tables of three chains take three loads, not four: the third one begins in the half of the second."""
    net = _Net((1, 16))
    x, ends = net.input(0.05, -7), [net.input(0.02 + n / 100, n) for n in range(9)]
    for first in range(0, 9, 3):
        for end in ends[first:first + 3]:
            x = net.op("TANH", net.op("ADD", x, end, scale=0.03 + end / 500))
        x = net.b.add("MAX_POOL_2D", [net.b.add("RESHAPE", [x, net.b.constant([1, 1, 1, 16])], shape=(1, 1, 1, 16))],
                      filter_height=1, filter_width=1, stride_h=1, stride_w=1, padding="SAME")
        x = net.b.add("RESHAPE", [x, net.b.constant([1, 16])], shape=(1, 16))
    compiled = net.compiled("n16", x)
    assert sum(isinstance(layer, Chain) for layer in compiled.emitter.graph.layers) == 3
    loads = [operation.fields["table_first"] for operation in compiled.emitter.stream.by_unit[Unit.VECTOR]
             if operation.fields.get("kind") == VectorKind.LOAD_TABLE]
    assert loads == [0, 256, 0]


def test_a_table_of_the_half_before_is_still_there() -> None:
    """Steps of an LSTM: the logistic of the gates, which the second chain needs again, and two functions of a step."""
    net = _Net((1, 16))
    x, ends = net.input(0.05, -7), [net.input(0.02 + n / 100, n) for n in range(6)]
    for first in range(0, 6, 2):
        gates = net.op("ADD", x, ends[first], scale=0.03 + first / 500)
        c = net.op("MUL", net.op("LOGISTIC", gates), net.op("TANH", gates), scale=0.01 + first / 500)
        c = net.op("ADD", c, ends[first + 1], scale=0.02 + first / 500)
        c = net.b.add("MAX_POOL_2D", [net.b.add("RESHAPE", [c, net.b.constant([1, 1, 1, 16])], shape=(1, 1, 1, 16))],
                      filter_height=1, filter_width=1, stride_h=1, stride_w=1, padding="SAME")
        c = net.b.add("RESHAPE", [c, net.b.constant([1, 16])], shape=(1, 16))
        x = net.op("MUL", net.op("LOGISTIC", gates), net.op("TANH", c), scale=0.01 + first / 500)
    compiled = net.compiled("n16", x)
    loads = [operation.fields["table_first"] for operation in compiled.emitter.stream.by_unit[Unit.VECTOR]
             if operation.fields.get("kind") == VectorKind.LOAD_TABLE]
    assert loads == [0, 256, 0]  # nine tables


def test_tables_come_between_the_sums_that_the_vector_unit_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, as the search may choose, none before the first sums; each table is whole before it is used."""
    monkeypatch.setattr(Basis, "choice", lambda self: Choice(table_pieces=True))
    rng, net = np.random.default_rng(3), _Net((1, 128))
    weights = net.b.constant(rng.integers(-127, 128, (128, 128)).astype(np.int8), scale=0.01)
    h, others = net.input(1 / 128, 0), [net.input(0.03 + n / 100, n) for n in range(8)]
    for number, other in enumerate(others):
        h = net.b.add("FULLY_CONNECTED", [h, weights, net.b.bias(h, weights, np.arange(128, dtype=np.int32))],
                      scale=0.1, zero_point=4)
        h = net.op("ADD", h, other, scale=0.05 + number / 500)
        h = net.op("MUL", net.op("TANH", h), net.op("LOGISTIC", other), scale=0.01, zero_point=number)
        h = net.op("TANH", h)
    vector = net.compiled("n16", h).emitter.stream.by_unit[Unit.VECTOR]
    loads = [(at, f.fields) for at, f in enumerate(vector) if f.fields.get("kind") == VectorKind.LOAD_TABLE]
    assert sum(f["slots"] for _, f in loads) % 256 == 0
    pieces = [at for at, f in loads if f["slots"] == 64]
    between = [at for at in pieces if vector[at - 1].fields.get("use_acc") and vector[at + 1].fields.get("use_acc")]
    assert len(between) >= 12, (len(pieces), len(between))
    assert all(vector[at - 1].fields.get("use_acc") or at - 1 in pieces for at in pieces)


def test_what_a_chain_does_not_need_comes_after_the_one_before() -> None:
    """Products of inputs, which precede all cells in the model, are each computed after the previous cell."""
    rng, net = np.random.default_rng(3), _Net((1, 16))
    weights = net.b.constant(rng.integers(-127, 128, (16, 16)).astype(np.int8), scale=0.01)

    def dense(x: int, scale: float) -> int:
        return net.b.add("FULLY_CONNECTED", [x, weights, net.b.bias(x, weights, np.arange(16, dtype=np.int32))],
                         scale=scale, zero_point=4)
    steps = [dense(net.input(0.03 + n / 100, n), 0.1) for n in range(3)]
    h = net.input(1 / 128, 0)
    for step in steps:
        h = net.op("TANH", net.op("ADD", step, dense(h, 0.2)))
    layers = net.compiled("n16", h).emitter.graph.layers
    assert [type(layer).__name__ for layer in layers] == ["Mac", "Mac", "Chain"] * 3
    assert [layer.output.tensor for layer in layers if isinstance(layer, Mac)][::2] == steps


def test_many_words_stay_layers_of_their_own() -> None:
    net = _Net((1, 64, 16))
    x, y = net.input(0.05, -7), net.input(0.03, 12)
    layers = net.compiled("n16", net.op("TANH", net.op("ADD", x, y))).emitter.graph.layers
    assert not any(isinstance(layer, Chain) for layer in layers)


def test_a_part_that_does_not_take_all_is_refused() -> None:
    """The check sees fewer words, then a stream that begins with the second element."""
    net = _Net((1, 8))
    emitter = net.compiled("tiny", *_gru(net)).emitter
    chain = next(number for number, layer in enumerate(emitter.graph.layers) if isinstance(layer, Chain))
    part = next(operation for operation in emitter.stream.by_unit[Unit.VECTOR]
                if operation.layer == chain and operation.fields.get("kind", 0) == VectorKind.PROGRAM)
    slots, meaning = part.fields["slots"], part.meaning
    assert isinstance(meaning, Streams) and meaning.a is not None
    where = "RUN 1 of the vector unit for operator 10 (ADD): it takes "
    part.fields["slots"] = slots - 1
    with pytest.raises(DataflowError, match=f"^{re.escape(where)}1 words of 2$"):
        Replay(emitter, emitter.stream).run()
    part.fields["slots"], part.meaning = slots, replace(meaning, a=replace(meaning.a, start=1))
    with pytest.raises(DataflowError, match=f"^{re.escape(where)}other elements than its results need$"):
        Replay(emitter, emitter.stream).run()


def test_the_check_sees_vectors_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain whose vectors are longer than a register, as if registers were larger."""
    corpus = Path(__file__).parents[1] / "corpus"
    name = "chain_longer_than_a_register"
    model, config = read_model(corpus / f"{name}.tflite"), load_config(str(corpus / f"{name}.toml"))
    real = fuse._joins
    monkeypatch.setattr(fuse, "_joins", lambda layer, config: real(layer, replace(config, vector_words=256)))
    with pytest.raises(DataflowError, match="the vector in register 0 continues in register 1, where that of register "
                                            "1 was written; this is a bug in tq-hw"):
        compile_model(model, config)
