"""Random inputs that are indices stay in the tables that they reach."""

import numpy as np

from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def test_indices_lie_in_the_smallest_table() -> None:
    """As Keras writes an Embedding: indices below 0 count from the end."""
    b = ModelBuilder("text")
    x = b.input((1, 300), "int32")
    outputs = []
    for rows in (50, 9):
        moved = b.add("ADD", [x, b.constant(rows)])
        index = b.add("SELECT_V2", [b.add("LESS", [x, b.constant(0)]), moved, x])
        table = b.constant(np.zeros((rows, 4), np.int8), scale=0.5)
        outputs.append(b.add("GATHER", [table, index], scale=0.5, axis=0))
    drawn = draw_inputs(parse_model(b.build(*outputs), "text"), 2, 0)
    assert {int(each) for inputs in drawn for each in inputs[0].ravel()} == set(range(9))
