"""Arithmetic on shapes: the result of each operator as computed by hand, and cases without a value."""

import numpy as np
import pytest

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shape_values import ELEMENT_LIMIT, shape_values


def evaluate(op, *inputs, dtype="int32", count=1, **options):
    """Evaluate one operator; an input is an array, a number or list (int32), or a shape of unknown int8 data."""
    tensors = []
    for index, value in enumerate(inputs):
        if isinstance(value, tuple):
            tensors.append(Tensor(index, "x", "int8", value))
        else:
            array = value if isinstance(value, np.ndarray) else np.array(value, np.int32)
            tensors.append(Tensor(index, "c", array.dtype.name, array.shape, data=array))
    outputs = tuple(range(len(tensors), len(tensors) + count))
    tensors += [Tensor(index, "y", dtype, ()) for index in outputs]
    results = shape_values(Node(Operator(0, op, tuple(range(len(inputs))), outputs, options), tensors, op))
    if results is None:
        return None
    assert all(result.dtype == dtype and not result.flags.writeable for result in results)
    return results[0].tolist() if count == 1 else [result.tolist() for result in results]


@pytest.mark.parametrize("found, expected", [
    (evaluate("SHAPE", (2, 3, 4)), [2, 3, 4]),
    (evaluate("SHAPE", (2, 3), dtype="int64"), [2, 3]),
    (evaluate("RANK", (2, 3, 4)), 3),
    (evaluate("GATHER", [5, 6, 7], [2, 0], axis=0), [7, 5]),
    (evaluate("GATHER", [[1, 2], [3, 4]], [1], axis=-1), [[2], [4]]),
    (evaluate("SLICE", [5, 6, 7], [1], [-1]), [6, 7]),
    (evaluate("STRIDED_SLICE", [5, 6, 7], [-1], [0], [1], shrink_axis_mask=1), 7),
    (evaluate("STRIDED_SLICE", [5, 6, 7], [0], [0], [-1], begin_mask=1, end_mask=1), [7, 6, 5]),
    (evaluate("STRIDED_SLICE", [5, 6], [0, 0], [0, 2], [1, 1], new_axis_mask=1), [[5, 6]]),
    (evaluate("REDUCE_PROD", [5, 6, 7], [0]), 210),
    (evaluate("BROADCAST_ARGS", [5, 1, 7], [4, 1]), [5, 4, 7]),
    (evaluate("UNSORTED_SEGMENT_PROD", [3, 5, 2, 4], [0, 1, 2, 2], 3), [3, 5, 8]),
    (evaluate("UNSORTED_SEGMENT_PROD", [3, 5, 2], [-1, 2, 0], 4), [2, 1, 5, 1]),
    (evaluate("UNSORTED_SEGMENT_SUM", [[3, 5], [2, 4], [1, 1]], [1, 1, -1], 2), [[0, 0], [5, 9]]),
    (evaluate("UNSORTED_SEGMENT_SUM", [[3, 5], [2, 4]], [[0, 1], [1, 0]], 2), [7, 7]),
    (evaluate("LOGICAL_NOT", np.array([True, False]), dtype="bool"), [False, True]),
    (evaluate("LOGICAL_AND", np.array([True, False]), np.array(True), dtype="bool"), [True, False]),
    (evaluate("TILE", [5, 6], [2]), [5, 6, 5, 6]),
    (evaluate("BROADCAST_TO", [5, 6], [2, 2]), [[5, 6], [5, 6]]),
    (evaluate("REDUCE_PROD", [5, 6, 7], [0], keep_dims=True), [210]),
    (evaluate("REDUCE_PROD", np.zeros(0, np.int32), [0]), 1),
    (evaluate("SUM", [[1, 2], [3, 4]], [-1]), [3, 7]),
    (evaluate("REDUCE_MAX", [5, 7, 6], 0), 7),
    (evaluate("REDUCE_MIN", [5, 7, 6], 0), 5),
    (evaluate("PACK", 5, 6, axis=0, values_count=2), [5, 6]),
    (evaluate("PACK", [1, 2], [3, 4], axis=-1, values_count=2), [[1, 3], [2, 4]]),
    (evaluate("UNPACK", [5, 6], axis=0, num=2, count=2), [5, 6]),
    (evaluate("SPLIT", 0, [5, 6], num_splits=2, count=2), [[5], [6]]),
    (evaluate("SPLIT", -1, [[5, 6, 7, 8]], num_splits=2, count=2), [[[5, 6]], [[7, 8]]]),
    (evaluate("SPLIT_V", [1, 64, 3], [1, 2, 0], 0, num_splits=3, count=3), [[1], [64, 3], []]),
    (evaluate("SPLIT_V", [1, 64, 3], [1, -1], 0, num_splits=2, count=2), [[1], [64, 3]]),
    (evaluate("TRANSPOSE", [[1, 2, 3], [4, 5, 6]], [1, 0]), [[1, 4], [2, 5], [3, 6]]),
    (evaluate("REVERSE_V2", [[1, 2], [3, 4]], [-1]), [[2, 1], [4, 3]]),
    (evaluate("CUMSUM", [1, 2, 3], 0), [1, 3, 6]),
    (evaluate("CUMSUM", [1, 2, 3], 0, exclusive=True), None),
    (evaluate("CONCATENATION", [5], [6, 7], axis=0), [5, 6, 7]),
    (evaluate("RESHAPE", [5], np.zeros(0, np.int32)), 5),
    (evaluate("SQUEEZE", [[5, 6]]), [5, 6]),
    (evaluate("EXPAND_DIMS", 5, 0), [5]),
    (evaluate("CAST", [5, -1], dtype="int64"), [5, -1]),
    (evaluate("CAST", [5, 0], dtype="bool"), [True, False]),
    (evaluate("RANGE", 2, 9, 3), [2, 5, 8]),
    (evaluate("RANGE", 2, -3, -2), [2, 0, -2]),
    (evaluate("FILL", [2, 3], 7), [[7, 7, 7], [7, 7, 7]]),
    (evaluate("WHERE", np.array([[True, False], [True, True]]), dtype="int64"), [[0, 0], [1, 0], [1, 1]]),
    (evaluate("POW", [3, -2], [2, 3]), [9, -8]),
    (evaluate("POW", 3, -1), None),
    (evaluate("FILL", [2], np.array(-5, np.int8), dtype="int8"), [-5, -5]),
    (evaluate("ZEROS_LIKE", (1, 2), dtype="int8"), [[0, 0]]),
    (evaluate("ADD", [1, 2], 10), [11, 12]),
    (evaluate("SUB", [1, 2], 10), [-9, -8]),
    (evaluate("MUL", [3, -2], [4, 5]), [12, -10]),
    (evaluate("DIV", [7, -7, 7, -7], [2, 2, -2, -2]), [3, -3, -3, 3]),
    (evaluate("FLOOR_DIV", [7, -7], 2), [3, -4]),
    (evaluate("FLOOR_MOD", [7, -7], 4), [3, 1]),
    (evaluate("MAXIMUM", [7, -7], 0), [7, 0]),
    (evaluate("MINIMUM", [7, -7], 0), [0, -7]),
    (evaluate("NEG", [7, -7]), [-7, 7]),
    (evaluate("ABS", [7, -7]), [7, 7]),
    (evaluate("EQUAL", [-1, 4], -1, dtype="bool"), [True, False]),
    (evaluate("LESS", [-1, 4], 4, dtype="bool"), [True, False]),
    (evaluate("SELECT_V2", np.array([True, False]), 1, [5, 6]), [1, 6]),
])
def test_values(found, expected):
    assert found == expected


@pytest.mark.parametrize("found", [
    evaluate("ADD", (2,), 1), evaluate("RESHAPE", (2,), [2], dtype="int8"),
    evaluate("RELU", [1]), evaluate("ADD", [1], 2, fused_activation_function="RELU"),
    evaluate("CAST", [1], dtype="float32"), evaluate("ADD", np.zeros(ELEMENT_LIMIT + 1, np.int32), 1),
    evaluate("RANGE", 0, ELEMENT_LIMIT + 1, 1), evaluate("FILL", [1 << 30, 1 << 30], 1),
    evaluate("FILL", [2], 1, dtype="int64"), evaluate("GATHER", [[1]], [[0]], axis=1, batch_dims=1),
    evaluate("MUL", np.ones((ELEMENT_LIMIT, 1), np.int32), np.ones((1, 2), np.int32)),
])
def test_no_arithmetic_on_shapes(found):
    assert found is None


@pytest.mark.parametrize("op, inputs, options, message", [
    ("MUL", [1 << 16, 1 << 15], {}, "MUL: gives a number that does not fit int32"),
    ("REDUCE_PROD", [[2] * ELEMENT_LIMIT, [0]], {}, "REDUCE_PROD: gives a number that does not fit int32"),
    ("FLOOR_DIV", [1, 0], {}, "FLOOR_DIV: divides by 0"),
    ("ADD", [[1, 2], [1, 2, 3]], {}, "ADD: shapes [2] and [3] cannot be broadcast"),
    ("NOT_EQUAL", [[1]], {"dtype": "bool"}, "NOT_EQUAL: input 1 is missing"),
    ("RANGE", [1, 2, 0], {}, "RANGE: delta is 0"),
    ("RANGE", [1, 2], {}, "RANGE: has inputs of shapes [[], []], expected start, limit and delta"),
    ("FILL", [[-1], 2], {}, "FILL: dims is [-1], expected at most 8 sizes of 0 or more"),
    ("FILL", [[1] * 9, 2], {}, "FILL: dims is [1, 1, 1, 1, 1, 1, 1, 1, 1], expected at most 8 sizes of 0 or more"),
    ("FILL", [[1], [2, 3]], {}, "FILL: value has shape [2], expected a scalar"),
    ("GATHER", [[5], [1]], {"axis": 0}, "GATHER: indices run from 1 to 1, expected 0 to 0"),
    ("REDUCE_PROD", [[5], [1]], {}, "REDUCE_PROD: axis is 1, expected -1 to 0"),
    ("REDUCE_MAX", [np.zeros(0, np.int32), [0]], {}, "REDUCE_MAX: reduces [0], which has no elements"),
    ("UNSORTED_SEGMENT_SUM", [[5, 6], [0, 2], 2], {}, "UNSORTED_SEGMENT_SUM: has segment 2, expected less than 2"),
    ("UNSORTED_SEGMENT_PROD", [[5, 6], [0], 2], {}, "UNSORTED_SEGMENT_PROD: data have shape [2] and their segments "
     "[1], expected one for each of the first dimensions"),
    ("SELECT_V2", [[1], [1]], {}, "SELECT_V2: input 2 is missing"),
    ("NEG", [[1]], {"count": 2}, "NEG: has 2 outputs, expected 1"),
    ("FILL", [[1], 1], {"count": 2}, "FILL: has 2 outputs, expected 1"),
])
def test_messages(op, inputs, options, message):
    with pytest.raises(ModelError) as error:
        evaluate(op, *inputs, **options)
    assert str(error.value) == message
