"""Attention within the scratchpad equals golden, also if its tensors turn out to be in memory."""

from collections.abc import Callable

import pytest
from compared import compared

from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.ir.staged import Columns, Parts
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.residents import Residents
from tq_hw.model.samples.attention import attention
from tq_hw.model.tflite.reader import parse_model


def _compare(data: bytes, config: str) -> Compiled:
    return compared(parse_model(data, "attention"), config)


def _inside(compiled: Compiled) -> list[bool]:
    """For each product, whether its operands are in the scratchpad."""
    return [all(map(compiled.emitter.is_resident, layer.inputs)) for layer in compiled.emitter.graph.layers
            if isinstance(layer, Parts)]


@pytest.mark.parametrize(("config", "width"), [("n16", 16), ("n16", 32), ("n8", 8), ("n8", 24)])
@pytest.mark.parametrize(("queries", "keys", "heads"), [(32, 32, 2), (25, 25, 3), (40, 17, 1), (20, 36, 2)])
@pytest.mark.parametrize("between", ["", "scale"])
def test_scores_stay_in_the_scratchpad(config: str, width: int, queries: int, keys: int, heads: int,
                                       between: str) -> None:
    compiled = _compare(attention(queries, keys, heads, width, between=between, apart=True, dense=True),
                        config)
    assert _inside(compiled) in ([True, True], [])
    if config == "n16" and queries == keys:
        assert _inside(compiled) == [True, True]
        scores = next(layer for layer in compiled.emitter.graph.layers if isinstance(layer, Columns))
        assert scores.upright and scores.output.shape == (1, heads, keys, queries)


@pytest.mark.parametrize("config", ["n8", "n9x8"])
def test_words_of_eight_bytes(config: str) -> None:
    assert _inside(_compare(attention(32, 32, 2, 8, dense=True), config)) == [True, True]


@pytest.mark.parametrize(("data", "config"), [
    (attention(32, 32, 2, 12, dense=True), "n16"), (attention(32, 32, 2, 16), "n16"),
    (attention(32, 32, 2, 16, dense=True, between="mask"), "n16"),
    (attention(32, 32, 2, 16, dense=True, shown=True), "n16"), (attention(196, 196, 3, 64, dense=True), "n16"),
    (attention(32, 32, 2, 16, dense=True), "n16x8")],
    ids=["heads of parts of words", "inputs", "two operands", "scores are an output", "too large", "two blocks a word"])
def test_what_goes_through_memory(data: bytes, config: str) -> None:
    assert _inside(_compare(data, config)) == []


def _sent_away(monkeypatch: pytest.MonkeyPatch, of: Callable[[list[Parts]], list[Value]]) -> None:
    """Let the plan send some tensors of the products to memory."""
    settle = Residents.settle

    def settled(self: Residents) -> None:
        self.resident -= {id(value) for value in of([
            layer for layer in self.facts.graph.layers if isinstance(layer, Parts)])}
        settle(self)

    monkeypatch.setattr(Residents, "settle", settled)


@pytest.mark.parametrize("heads", [2, 3])
@pytest.mark.parametrize("tokens", [32, 50])
def test_tensors_that_do_not_fit_after_all(tokens: int, heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The products and SOFTMAX then work through memory."""
    data = attention(tokens, tokens, heads, 16, dense=True)
    _sent_away(monkeypatch, lambda parts: [part.inputs[0] for part in parts])
    assert _inside(_compare(data, "n16")) == [False, False]


@pytest.mark.parametrize("tokens", [32, 37])
def test_results_in_memory(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second product stores its results by itself."""
    _sent_away(monkeypatch, lambda parts: [parts[-1].output])
    compiled = _compare(attention(tokens, tokens, 2, 32, dense=True), "n16")
    assert _inside(compiled) == [True, True]
    last = [layer for layer in compiled.emitter.graph.layers if isinstance(layer, Parts)][-1]
    assert not compiled.emitter.is_resident(last.output)
