"""Transposes of the heads of an attention as transposes of whole matrices, in the scratchpad."""

import numpy as np
import pytest
from compared import compared

from tq_hw.compiler.ir.staged import Move, Transpose
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def _model(tokens: int, heads: int, width: int) -> Model:
    """Products of each head's columns with their transpose, from a dense layer."""
    b, rng, channels = ModelBuilder("heads"), np.random.default_rng(2), heads * width
    x = b.input((tokens, channels), scale=0.05)
    weights = b.constant(rng.integers(-127, 128, (channels, channels), np.int8), scale=0.01)
    made = b.add("FULLY_CONNECTED", [x, weights], scale=0.1, zero_point=3)
    split = b.add("RESHAPE", [made, b.constant(np.array([1, tokens, heads, width], np.int32))])
    across = b.add("TRANSPOSE", [split, b.constant(np.array([0, 2, 3, 1], np.int32))])
    left = b.constant(rng.integers(-128, 128, (1, heads, 20, width), np.int8), scale=0.02, zero_point=5)
    product = b.add("BATCH_MATMUL", [left, across], scale=0.3, zero_point=-2)
    return parse_model(b.build(product), "heads")


@pytest.mark.parametrize(("tokens", "heads", "width", "config", "whole"), [
    (32, 4, 16, "n16", True), (27, 3, 8, "n16", True), (24, 2, 8, "n9x8", True), (24, 2, 8, "tiny", False),
    (128, 4, 64, "n16", False)])
def test_one_matrix(tokens: int, heads: int, width: int, config: str, whole: bool) -> None:
    """Small matrices only: in memory, rows of pixels are better than a single row."""
    compiled = compared(_model(tokens, heads, width), config)
    moves = [layer for layer in compiled.emitter.graph.layers if isinstance(layer, Move)]
    assert [layer.inputs[0].shape == (1, 1, tokens, heads * width) for layer in moves] == [whole]
    if whole:
        assert isinstance(moves[0], Transpose) and moves[0].output.shape == (1, 1, heads * width, tokens)
        assert all(compiled.emitter.is_resident(value) for value in (*moves[0].inputs, moves[0].output))
