import numpy as np
import pytest

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder

INT32 = np.int32


def shapes_of(op, *inputs, count=1, **options):
    """Infer the shapes; an input is a shape (int8 data), a list (int32 constant), an array or None (absent)."""
    builder = ModelBuilder("m")
    indices = []
    for value in inputs:
        if isinstance(value, tuple):
            indices.append(builder.input(value, scale=0.5))
        else:
            indices.append(-1 if value is None else builder.constant(value))
    results = builder.add_many(op, indices, count, options=options)
    found = [builder.tensors[index].shape for index in results]
    return found[0] if count == 1 else found


def weights(*shape):
    return np.zeros(shape, np.int8)


@pytest.mark.parametrize("size, kernel, stride, dilation, padding, expected", [
    (10, 3, 1, 1, "SAME", 10), (10, 3, 2, 1, "SAME", 5), (11, 3, 2, 1, "SAME", 6), (10, 3, 1, 1, "VALID", 8),
    (10, 3, 2, 1, "VALID", 4), (10, 3, 2, 2, "VALID", 3), (5, 3, 1, 2, "VALID", 1), (2, 7, 3, 1, "SAME", 1),
])
def test_convolution_sizes(size, kernel, stride, dilation, padding, expected):
    found = shapes_of("CONV_2D", (2, size, 4, 3), weights(5, kernel, 1, 3), padding=padding, stride_h=stride,
                      stride_w=2, dilation_h_factor=dilation)
    assert found == (2, expected, 2, 5)


@pytest.mark.parametrize("op, inputs, options, expected", [
    ("CONV_2D", [(1, 4, 4, 6), weights(4, 1, 1, 3)], {}, (1, 4, 4, 4)),
    ("DEPTHWISE_CONV_2D", [(1, 4, 4, 3), weights(1, 3, 3, 6)], {"padding": "VALID"}, (1, 2, 2, 6)),
    ("TRANSPOSE_CONV", [[1, 8, 8, 5], weights(5, 3, 3, 2), (1, 4, 4, 2)], {"stride_h": 2, "stride_w": 2}, (1, 8, 8, 5)),
    ("FULLY_CONNECTED", [(2, 3, 4), weights(5, 4)], {}, (6, 5)),
    ("FULLY_CONNECTED", [(2, 3, 4), weights(5, 12)], {}, (2, 5)),
    ("FULLY_CONNECTED", [(2, 3, 4), weights(5, 4), None], {"keep_num_dims": True}, (2, 3, 5)),
    ("AVERAGE_POOL_2D", [(1, 5, 5, 2)],
     {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2}, (1, 3, 3, 2)),
    ("MAX_POOL_2D", [(1, 5, 5, 2)], {"filter_height": 2, "filter_width": 3, "padding": "VALID"}, (1, 4, 3, 2)),
    ("SOFTMAX", [(2, 3)], {}, (2, 3)),
    ("ADD", [(1, 3, 1), (2, 1, 5)], {}, (2, 3, 5)),
    ("ADD", [(3,), (2, 1)], {}, (2, 3)),
    ("LESS", [(), (4,)], {}, (4,)),
    ("PRELU", [(1, 2, 3), (3,)], {}, (1, 2, 3)),
    ("MEAN", [(1, 2, 3, 4), [1, -2]], {}, (1, 4)),
    ("MEAN", [(1, 2, 3, 4), [1, 2, 1]], {"keep_dims": True}, (1, 1, 1, 4)),
    ("SUM", [(2, 3), []], {}, (2, 3)),
    ("ARG_MAX", [(2, 3, 4), [-1]], {}, (2, 3)),
    ("RESIZE_BILINEAR", [(1, 2, 3, 4), [5, 6]], {}, (1, 5, 6, 4)),
    ("BATCH_MATMUL", [(5, 1, 2, 3), (4, 3, 7)], {}, (5, 4, 2, 7)),
    ("BATCH_MATMUL", [(3, 2), (7, 3)], {"adj_x": True, "adj_y": True}, (2, 7)),
    ("SHAPE", [(2, 3, 4)], {}, (3,)),
    ("RESHAPE", [(2, 6), [3, -1]], {}, (3, 4)),
    ("RESHAPE", [(1, 1), [0]], {}, ()),
    ("RESHAPE", [(2, 6)], {"new_shape": (12,)}, (12,)),
    ("RESHAPE", [(2, 6), np.array([[5, 5]], INT32)], {"new_shape": (3, 4)}, (3, 4)),
    ("SQUEEZE", [(1, 2, 1)], {}, (2,)),
    ("SQUEEZE", [(1, 2, 1)], {"squeeze_dims": (-1,)}, (1, 2)),
    ("EXPAND_DIMS", [(2, 3), [-1]], {}, (2, 3, 1)),
    ("EXPAND_DIMS", [(2, 3), [1]], {}, (2, 1, 3)),
    ("TRANSPOSE", [(2, 3, 4), [2, 0, 1]], {}, (4, 2, 3)),
    ("PAD", [(2, 3), np.array([[1, 2], [0, 3]], INT32)], {}, (5, 6)),
    ("SPACE_TO_DEPTH", [(1, 4, 6, 3)], {"block_size": 2}, (1, 2, 3, 12)),
    ("DEPTH_TO_SPACE", [(1, 2, 3, 12)], {"block_size": 2}, (1, 4, 6, 3)),
    ("SPACE_TO_BATCH_ND", [(1, 4, 5, 2), [2, 3], np.array([[1, 1], [0, 1]], INT32)], {}, (6, 3, 2, 2)),
    ("BATCH_TO_SPACE_ND", [(6, 3, 2, 2), [2, 3], np.array([[1, 1], [0, 1]], INT32)], {}, (1, 4, 5, 2)),
    ("GATHER", [(2, 3, 4), np.array([[0, 1]], INT32)], {"axis": 1}, (2, 1, 2, 4)),
    ("GATHER", [(2, 3), np.array([[0], [2]], INT32)], {"axis": 1, "batch_dims": 1}, (2, 1)),
    ("EMBEDDING_LOOKUP", [[1, 0, 1], (2, 5)], {}, (3, 5)),
    ("CONCATENATION", [(1, 2), (1, 3), (1, 4)], {"axis": -1}, (1, 9)),
    ("PACK", [(2, 3), (2, 3)], {"axis": 1}, (2, 2, 3)),
    ("SLICE", [(4, 5), [1, 0], [2, -1]], {}, (2, 5)),
])
def test_infers_the_shape(op, inputs, options, expected):
    assert shapes_of(op, *inputs, **options) == expected


@pytest.mark.parametrize("begin, end, strides, masks, expected", [
    ([1, 0], [4, 5], [1, 2], {}, (3, 3)), ([-2, -1], [4, 0], [1, -2], {}, (2, 2)),
    ([0, 0], [0, 0], [1, 1], {"end_mask": 3}, (4, 5)), ([3, 4], [0, 0], [-1, -1], {"begin_mask": 3}, (3, 4)),
    ([3, 4], [0, 0], [-1, -1], {"end_mask": 3}, (4, 5)), ([1, 0], [2, 5], [1, 1], {"shrink_axis_mask": 1}, (5,)),
    ([9, 0], [2, 5], [1, 1], {"shrink_axis_mask": 1, "begin_mask": 1}, (5,)), ([1], [3], [1], {}, (2, 5)),
    ([2, 0], [1, 5], [1, 1], {}, (0, 5)),
])
def test_strided_slice_agrees_with_numpy(begin, end, strides, masks, expected):
    assert shapes_of("STRIDED_SLICE", (4, 5), begin, end, strides, **masks) == expected
    if not masks:
        index = tuple(slice(*limits) for limits in zip(begin, end, strides, strict=True))
        assert np.zeros((4, 5))[index].shape == expected


def test_splits():
    assert shapes_of("SPLIT", [1], (2, 6), count=3) == [(2, 2)] * 3
    assert shapes_of("SPLIT_V", (2, 6), [1, -1], [1], count=2) == [(2, 1), (2, 5)]
    assert shapes_of("UNPACK", (2, 3), count=2) == [(3,), (3,)]


@pytest.mark.parametrize("op, inputs, options, message", [
    ("TRANSPOSE_CONV", [[1, 8, 8, 5], weights(5, 3, 3, 2), (1, 4, 4, 3)], {},
     "input has 3 channels and weights have shape [5, 3, 3, 2]: channels do not match"),
    ("TRANSPOSE_CONV", [[1, 8, 8, 4], weights(5, 3, 3, 2), (1, 4, 4, 2)], {},
     "output_shape is [1, 8, 8, 4], expected batch 1 and 5 channels"),
    ("TRANSPOSE_CONV", [[1, 8, 8, 5], weights(5, 3, 3, 2), (1, 4, 4, 2)], {},
     "output_shape is [1, 8, 8, 5], whose windows are 8 x 8, but the input is 4 x 4"),
    ("FULLY_CONNECTED", [(2, 3), weights(5, 4)], {},
     "input has shape [2, 3], weights [5, 4]: the channels of the weights do not divide the input"),
    ("FULLY_CONNECTED", [(2, 4, 2), weights(5, 4)], {"keep_num_dims": True},
     "input has shape [2, 4, 2], its last dimension must be 4 with keep_num_dims"),
    ("MAX_POOL_2D", [(1, 4, 4, 1)], {"filter_height": 0}, "height filter is 0, expected 1 to 32767"),
    ("SOFTMAX", [()], {}, "input is a scalar, expected rank 1 or more"),
    ("ADD", [(2, 4), (3, 4)], {}, "shapes [2, 4] and [3, 4] cannot be broadcast"),
    ("PRELU", [(3,), (2, 3)], {}, "alpha has shape [2, 3], more than the input's [3]"),
    ("MEAN", [(2, 3), [2]], {}, "axis is 2, expected -2 to 1"),
    ("MEAN", [(2, 3), np.ones(1, np.float32)], {}, "axes is float32, expected an integer type"),
    ("MEAN", [(2, 3), [0] * 65], {}, "axes has 65 elements, expected at most 64"),
    ("RESIZE_BILINEAR", [(1, 2, 3, 4), [5, 6]], {"align_corners": True, "half_pixel_centers": True},
     "align_corners and half_pixel_centers are both set, expected at most one"),
    ("RESIZE_BILINEAR", [(1, 2, 3, 4), [5, 0]], {}, "size is [5, 0], expected 1 or more"),
    ("BATCH_MATMUL", [(2, 3), (4, 5)], {}, "shapes [2, 3] and [4, 5]: inner dimensions 3 and 4 differ"),
    ("BATCH_MATMUL", [(2,), (4, 5)], {}, "shapes [2] and [4, 5] need rank 2 or more"),
    ("RESHAPE", [(2, 6), [5, 2]], {}, "cannot reshape 12 elements [2, 6] into [5, 2]"),
    ("RESHAPE", [(2, 6), [-1, 5]], {}, "cannot reshape 12 elements [2, 6] into [-1, 5]"),
    ("RESHAPE", [(2, 6), [-1, -1]], {}, "shape is [-1, -1], expected sizes of 0 or more and at most one -1"),
    ("SQUEEZE", [(1, 2)], {"squeeze_dims": (1,)}, "cannot squeeze axis 1 of [1, 2], its size is not 1"),
    ("TRANSPOSE", [(2, 6), [0, 0]], {}, "perm is [0, 0], expected a permutation of the 2 axes"),
    ("TRANSPOSE", [(2, 6), [0]], {}, "perm has 1 elements, expected 2"),
    ("PAD", [(2, 3), np.array([[1, -2], [0, 3]], INT32)], {}, "padding is [1, -2, 0, 3], expected 0 or more"),
    ("PAD", [(2, 3), [1, 2]], {}, "padding has shape [2], expected [2, 2]"),
    ("SPACE_TO_DEPTH", [(1, 4, 5, 3)], {"block_size": 2}, "input is 4 x 5, not divisible by block_size 2"),
    ("SPACE_TO_DEPTH", [(1, 4, 5, 3)], {"block_size": 0}, "block_size is 0, expected 1 or more"),
    ("DEPTH_TO_SPACE", [(1, 4, 5, 3)], {"block_size": 2},
     "input has 3 channels, not divisible by block_size 2 squared"),
    ("SPACE_TO_BATCH_ND", [(1, 4, 5, 2), [2, 2], np.zeros((2, 2), INT32)], {},
     "padded size [4, 5] is not divisible by block_shape [2, 2]"),
    ("SPACE_TO_BATCH_ND", [(1, 4), [2, 2], np.zeros((2, 2), INT32)], {},
     "input has shape [1, 4], expected rank 3 or 4"),
    ("BATCH_TO_SPACE_ND", [(6, 1, 1, 2), [2, 3], np.array([[2, 2], [0, 1]], INT32)], {},
     "crops [(2, 2), (0, 1)] leave nothing of size [2, 3]"),
    ("BATCH_TO_SPACE_ND", [(5, 1, 1, 2), [2, 3], np.zeros((2, 2), INT32)], {},
     "batch 5 is not divisible by block_shape [2, 3]"),
    ("BATCH_TO_SPACE_ND", [(6, 1, 1, 2), [0, 3], np.zeros((2, 2), INT32)], {},
     "block_shape is [0, 3], expected 1 or more"),
    ("GATHER", [(2, 3), [0, 3]], {"axis": 1}, "indices run from 0 to 3, expected 0 to 2"),
    ("GATHER", [(2, 3), [0]], {"axis": 1, "batch_dims": 1},
     "shapes [2, 3] and [1] differ in the first 1 dimensions"),
    ("GATHER", [(2, 3), [0]], {"batch_dims": 1}, "batch_dims is 1, expected 0 to 0"),
    ("EMBEDDING_LOOKUP", [[2], (2, 5)], {}, "indices run from 2 to 2, expected 0 to 1"),
    ("EMBEDDING_LOOKUP", [[0], (2,)], {}, "table has shape [2], expected rank 2 or more"),
    ("CONCATENATION", [(1, 2), (2, 2)], {"axis": 1}, "shapes [[1, 2], [2, 2]] differ outside axis 1"),
    ("PACK", [(1, 2), (2, 2)], {}, "values_count is 2, shapes are [[1, 2], [2, 2]], expected as many equal shapes"),
    ("SLICE", [(4,), [2], [5]], {}, "slice of axis 0 from 2 of size 5 is out of range of 4"),
    ("SLICE", [(4,), [-1], [1]], {}, "slice of axis 0 from -1 of size 1 is out of range of 4"),
    ("STRIDED_SLICE", [(4,), [0], [4], [0]], {}, "stride of axis 0 is 0"),
    ("STRIDED_SLICE", [(4,), [4], [5], [1]], {"shrink_axis_mask": 1}, "index 4 of axis 0 is out of range of 4"),
    ("STRIDED_SLICE", [(4,), [2], [1], [-1]], {"shrink_axis_mask": 1},
     "stride of axis 0 is -1, expected 1 or more because the axis is shrunk"),
    ("STRIDED_SLICE", [(4,), [0, 0], [4, 0], [1, 1]], {},
     "begin has shape [2], expected at most 1 elements besides new axes and at most one ellipsis, for at least one "
     "axis"),
    ("STRIDED_SLICE", [(4,), [0, 0], [4, 0], [1, 1]], {"ellipsis_mask": 2},
     "begin has shape [2], expected at most 1 elements besides new axes and at most one ellipsis, for at least one "
     "axis"),
    ("SPLIT", [[0], (5, 3)], {"num_splits": 2}, "num_splits is 2, the operator has 1 outputs"),
    ("UNPACK", [(2, 3)], {}, "num is 1, axis 0 has 2 elements, the operator has 1 outputs"),
    ("SPLIT_V", [(2, 6), [5], [1]], {}, "size_splits [5] do not split the 6 elements of axis 1"),
])
def test_refuses_what_does_not_fit(op, inputs, options, message):
    with pytest.raises(ModelError) as caught:
        shapes_of(op, *inputs, **options)
    assert str(caught.value) == f"m, operator 0 {op}: {message}"


def test_an_uneven_split_is_refused():
    with pytest.raises(ModelError, match="cannot split axis 0 of .5, 3.: 5 is not divisible by 2"):
        shapes_of("SPLIT", [0], (5, 3), count=2)


def test_a_strided_slice_with_sizes_for_ends_is_not_supported():
    with pytest.raises(UnsupportedError) as caught:
        shapes_of("STRIDED_SLICE", (4, 5), [0, 1], [2, 2], [1, 1], offset=True)
    assert str(caught.value) == ("m, operator 0 STRIDED_SLICE: offset is set, which engines interpret differently; "
                                 "give ends instead of sizes")


@pytest.mark.parametrize("options, shape", [
    ({"ellipsis_mask": 1}, (2, 3, 4, 1)), ({"ellipsis_mask": 2}, (1, 3, 4, 5)), ({"new_axis_mask": 1}, (1, 1, 3, 4, 5)),
    ({"ellipsis_mask": 1, "new_axis_mask": 2}, (2, 3, 4, 5, 1)),
    ({"ellipsis_mask": 2, "shrink_axis_mask": 1}, (3, 4, 5)),
])
def test_entries_of_a_strided_slice_over_the_axes(options, shape):
    assert shapes_of("STRIDED_SLICE", (2, 3, 4, 5), [1, 0], [2, 1], [1, 1], **options) == shape


@pytest.mark.parametrize("op, inputs", [
    ("MEAN", [(2, 3)]), ("RESHAPE", [(2, 3)]), ("TRANSPOSE", [(2, 3)]), ("RESIZE_BILINEAR", [(1, 2, 3, 4)]),
])
def test_shapes_that_depend_on_data_have_to_be_given(op, inputs):
    builder = ModelBuilder("m")
    source = builder.input(inputs[0], scale=0.5)
    parameter = builder.input((2,), "int32")
    with pytest.raises(ValueError, match=f"the output shape of {op} must be given, it cannot be inferred"):
        builder.add(op, [source, parameter])
    assert builder.tensors[builder.add(op, [source, parameter], shape=(3, 2))].shape == (3, 2)


def test_a_permutation_is_a_vector() -> None:
    b = ModelBuilder("m")
    x = b.input((4,), scale=0.1)
    with pytest.raises(ModelError) as caught:
        b.add("TRANSPOSE", [x, b.constant(0)])
    assert str(caught.value) == "m, operator 0 TRANSPOSE: perm has shape [], expected a vector"
