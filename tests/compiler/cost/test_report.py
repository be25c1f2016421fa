"""compiler.cost.report: what bounds a layer."""

from typing import Any

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def layer(op: str, shape: tuple[int, ...], outputs: int = 0) -> Model:
    """A layer with a 3x3 kernel (convolution), with weights for the whole input, or without weights."""
    builder, rng = ModelBuilder("layer"), np.random.default_rng(0)
    inputs = [x := builder.input(shape, scale=0.05, zero_point=3)]
    if outputs:
        sizes = (outputs, 3, 3, shape[3]) if op == "CONV_2D" else (outputs, shape[1])
        weights = builder.constant(rng.integers(-127, 128, sizes).astype(np.int8), scale=[0.01] * outputs, dimension=0)
        inputs += [weights, builder.bias(x, weights, rng.integers(-99, 100, outputs))]
    elif op == "ADD":
        inputs.append(builder.input(shape, scale=0.04))
    fields: dict[str, Any] = {"padding": "SAME"} if op == "CONV_2D" else {"beta": 1.0} if op == "SOFTMAX" else {}
    scale, zero_point = (1 / 256, -128) if op == "SOFTMAX" else (0.1, 0)
    return parse_model(builder.build(builder.add(op, inputs, scale=scale, zero_point=zero_point, **fields)), "layer")


@pytest.mark.parametrize(("model", "bound"), [
    (layer("CONV_2D", (1, 24, 24, 32), 32), "compute"),
    (layer("FULLY_CONNECTED", (1, 512), 256), "weights"),
    (layer("ADD", (1, 32, 32, 16)), "activations"),
    (layer("SOFTMAX", (1, 8, 8, 48)), "vector"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_bound(model: Model, bound: str) -> None:
    assert [row.bound for row in compile_model(model, PRESETS["n16"]).report] == [bound]
