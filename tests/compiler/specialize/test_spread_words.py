"""A byte of each pixel that all channels share: one word for all blocks of channels."""

from dataclasses import replace

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.compiler.ir.meaning import Streams
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def _model(channels: int, *, table: bool = False, kept: bool = False, side: int = 8) -> Model:
    """Each pixel less a sum of its channels, and times a function of that sum."""
    b = ModelBuilder("words")
    x = b.input((1, side, side, channels), scale=0.05)
    weights = b.constant(np.ones((1, 1, 1, channels), np.int8), scale=0.02)
    made = b.add("CONV_2D", [x, weights, b.bias(x, weights, np.array([4]))], padding="SAME", scale=0.03, zero_point=7)
    other = b.add("LOGISTIC", [made]) if table else made
    less = b.add("SUB", [x, made], scale=0.07, zero_point=-3)
    outputs = [b.add("MUL", [other, less], scale=0.06, zero_point=5)] + ([made] if kept else [])
    return parse_model(b.build(*outputs), "words")


def _layers(model: Model, config: str) -> tuple[Layer, ...]:
    return compared(model, config).emitter.graph.layers


@pytest.mark.parametrize("config", ["n16", "n9x8", "n16x8"])
@pytest.mark.parametrize("channels", [36, 64])
@pytest.mark.parametrize("table", [False, True])
def test_the_sum_is_computed_in_every_channel_of_a_word(config: str, channels: int, table: bool) -> None:
    layers = _layers(_model(channels, table=table), config)
    # The product looks up the sum in a table that includes the function.
    assert [layer.op for layer in layers] == ["CONV_2D", "SUB", "MUL"]
    word, wide = PRESETS[config].block, (1, 8, 8, channels)
    assert layers[0].output.shape == (1, 8, 8, word)
    assert isinstance(layers[0], Mac) and layers[0].macs == 64 * channels
    assert [value.shape for value in layers[-2].inputs] == [wide, (1, 8, 8, word)]
    assert [value.shape for value in layers[-1].inputs] == [(1, 8, 8, word), wide]


def test_a_sum_that_others_need_is_broadcast_to_one_word() -> None:
    layers = _layers(_model(64, kept=True), "n16")
    assert [layer.output.shape[3] for layer in layers] == [1, 16, 64, 16, 64]


def test_a_word_of_all_channels_is_computed_at_once() -> None:
    layers = _layers(_model(12), "n16")
    assert [layer.output.shape[3] for layer in layers] == [12, 12, 12]


def test_layers_of_few_words_are_merged_instead() -> None:
    layers = _layers(_model(64, side=2), "n16")
    assert not any(isinstance(layer, Elementwise) and layer.inputs[1].shape[3] == 16 for layer in layers)


@pytest.mark.parametrize("changed", [{"block": 16}, {"start": 16}, {"col": 0}, {"row": 0}])
def test_the_check_reports_other_words(changed: dict[str, int]) -> None:
    """A block must read the word of its own pixels, whichever block it is."""
    compiled = compile_model(_model(64), PRESETS["n16"])
    operation = next(each for each in compiled.emitter.stream.by_unit[Unit.VECTOR] if compiled.emitter.graph.layers[
        each.layer].op == "SUB" and isinstance(each.meaning, Streams))
    meaning = operation.meaning
    assert isinstance(meaning, Streams) and meaning.b is not None
    operation.meaning = replace(meaning, b=replace(meaning.b, **changed))
    with pytest.raises(DataflowError) as refused:
        Replay(compiled.emitter, compiled.emitter.stream).run()
    assert str(refused.value) == ("RUN 4 of the vector unit for operator 1 (SUB): it takes other elements of "
                                   "'t3 (in each channel)' than its results need")
