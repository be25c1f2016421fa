"""Random indices stay in the range of the tables that they reach."""

import numpy as np
import pytest

from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def test_indices_lie_in_the_smallest_table() -> None:
    """As Keras exports an Embedding: negative indices count from the end."""
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


@pytest.mark.parametrize("dtype", ["string", "float16", "float64", "complex64", "uint64", "int4"])
def test_what_is_not_drawn_is_named(dtype: str) -> None:
    b = ModelBuilder("odd")
    b.input((2, 3), dtype, name="words")
    model = b.model(b.add("LOGISTIC", [b.input((2, 3), scale=0.1)]))
    with pytest.raises(UnsupportedError) as error:
        draw_inputs(model, 1, 0)
    assert str(error.value) == (f"model input 'words' (tensor 0) is {dtype}; random inputs must be int8, "
                                "uint8, int16, uint16, uint32, int32, int64, bool or float32")
