"""Shapes of operators that only hosts run: after a spectrum an open batch is known, so a partition has all shapes."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.rules.propagate import InputShapes, propagate_shapes
from tq_hw.model.rules.shapes_host import BOXES
from tq_hw.model.samples.build import ModelBuilder


def shapes_of(op: str, inputs: list[tuple[int, ...] | list[int] | int], count: int = 1,
              **options: int | str) -> list[tuple[int, ...]]:
    """Infer the shapes; an input is a shape (float32 data) or integers."""
    builder = ModelBuilder("m")
    indices = [builder.input(each, "float32") if isinstance(each, tuple) else builder.constant(np.array(each, np.int32))
               for each in inputs]
    return [builder.tensors[index].shape for index in builder.add_many(op, indices, count, options=options)]


@pytest.mark.parametrize(("op", "inputs", "expected"), [
    ("RFFT2D", [(3, 5, 1, 128), [1, 128]], [(3, 5, 1, 65)]),
    ("RFFT2D", [(4, 7), [6, 9]], [(6, 5)]),
    ("COMPLEX_ABS", [(3, 5)], [(3, 5)]),
    ("BUCKETIZE", [(3, 5)], [(3, 5)]),
    ("UNSORTED_SEGMENT_SUM", [(5, 4), [0, 1, 1, 2, 0], 3], [(3, 4)]),
    ("UNSORTED_SEGMENT_MAX", [(2, 3, 4), [[0, 1, 1], [2, 0, 0]], [7]], [(7, 4)]),
    ("SEGMENT_SUM", [(5, 4), [0, 0, 1, 3, 3]], [(4, 4)]),
    ("NON_MAX_SUPPRESSION_V4", [(9, 4), (9,), 5], [(5,), ()]),
    ("NON_MAX_SUPPRESSION_V5", [(9, 4), (9,), 5], [(5,), (5,), ()]),
])
def test_infers_the_shape(op: str, inputs: list[tuple[int, ...] | list[int] | int],
                          expected: list[tuple[int, ...]]) -> None:
    assert shapes_of(op, inputs, len(expected)) == expected


def test_convolutions_of_volumes() -> None:
    options = {"stride_d": 1, "stride_h": 2, "stride_w": 2, "dilation_d_factor": 2, "dilation_h_factor": 1,
               "dilation_w_factor": 1}
    assert shapes_of("CONV_3D", [(2, 7, 8, 9, 3), (3, 3, 3, 3, 5)], padding="VALID", **options) == [(2, 3, 3, 4, 5)]
    with pytest.raises(ModelError, match=r"input has 4 channels and weights have shape \[3, 3, 3, 3, 5\]: channels do"):
        shapes_of("CONV_3D", [(2, 7, 8, 9, 4), (3, 3, 3, 3, 5)], padding="VALID", **options)


@pytest.mark.parametrize(("op", "inputs", "message"), [
    ("RFFT2D", [(8,), [1, 8]], "input has shape [8], expected rank 2 or more"),
    ("RFFT2D", [(1, 8), [1, 0]], "fft_length is [1, 0], expected 1 or more"),
    ("UNSORTED_SEGMENT_SUM", [(5, 4), [0, 1], 3],
     "data have shape [5, 4] and their segments [2], expected one for each of the first dimensions"),
    ("UNSORTED_SEGMENT_SUM", [(2,), [0, 1], [3, 4]], "num_segments is [3, 4], expected one number of 0 or more"),
    ("ATAN2", [(5, 4), (5, 1)], "inputs have shapes [5, 4] and [5, 1], expected one shape"),
    ("SEGMENT_SUM", [(5, 4), [0, 1]],
     "data have shape [5, 4] and their segments [2], expected one for each row"),
    ("SEGMENT_SUM", [(2, 4), [1, 0]], "segments must be 0 or more and must not decrease"),
    ("NON_MAX_SUPPRESSION_V4", [(9, 4), (9,), -1], "max_output_size is [-1], expected one number of 0 or more"),
])
def test_refuses_what_does_not_fit(op: str, inputs: list[tuple[int, ...] | list[int] | int], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        shapes_of(op, inputs)
    assert str(caught.value) == f"m, operator 0 {op}: {message}"


def test_an_open_batch_after_a_spectrum() -> None:
    """As Keras exports a MelSpectrogram: with a SQUEEZE of complex64, a type that SQUEEZE does not support."""
    b = ModelBuilder("m")
    x = b.input((1, 1, 64), "float32")
    made = [b.tensor(shape, dtype) for shape, dtype in (
        ((1, 1, 33), "complex64"), ((1, 33), "complex64"), ((1, 33), "float32"))]
    b.operator("RFFT2D", [x, b.constant([1, 64])], made[:1])
    b.operator("SQUEEZE", made[:1], made[1:2], {"squeeze_dims": (1,)})
    b.operator("REAL", made[1:2], made[2:])
    model = b.model(made[2])
    tensors = tuple(tensor if tensor.data is not None else replace(tensor, shape_signature=(-1, *tensor.shape[1:]))
                    for tensor in model.main.tensors)
    model = replace(model, subgraphs=(replace(model.main, tensors=tensors),))
    main = propagate_shapes(model, "m", InputShapes(5), rules=False).main
    assert [main.tensors[index].shape for index in made] == [(5, 1, 33), (5, 33), (5, 33)]
    with pytest.raises((ModelError, UnsupportedError), match="operator 1 SQUEEZE: input 0, .* has type complex64"):
        propagate_shapes(model, "m", InputShapes(5), rules=True)


@pytest.mark.parametrize("op", BOXES)
def test_chosen_boxes_have_the_shape_of_kernels(op: str) -> None:
    """TensorFlow stores [1, 5] and adds a RESHAPE; other stored shapes stay."""
    b = ModelBuilder("m")
    boxes, scores = b.input((9, 4), "float32"), b.input((9,), "float32")
    limits = [b.constant(np.array(value, np.float32)) for value in (0.5, 0.1, 0.0)]
    made = [b.tensor((1, 5), "int32"), *([b.tensor((1, 5), "float32")] if op.endswith("V5") else []),
            b.tensor((), "int32")]
    b.operator(op, [boxes, scores, b.constant(np.array(5, np.int32)), *limits[:len(made)]], made)
    chosen = b.add("RESHAPE", [made[0], b.constant([5])], shape=(5,))
    main = propagate_shapes(b.model(chosen), "m", InputShapes(), rules=False).main
    assert [main.tensors[index].shape for index in (*made, chosen)] == [*[(5,)] * (len(made) - 1), (), (5,)]
