"""Output shapes of every operator that has a rule here, and the shape errors of its inputs.

`output_shapes(node)` computes what LiteRT's `Prepare` would. Shapes that depend on a tensor that is
not constant are not known before the run; the answer is then None.
"""

import math
from collections.abc import Callable

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes_host import HOST_SHAPES
from tq_hw.model.rules.shapes_join import JOIN_SHAPES
from tq_hw.model.rules.shapes_move import MOVE_SHAPES
from tq_hw.model.rules.shapes_place import PLACE_SHAPES
from tq_hw.model.rules.shapes_repeat import REPEAT_SHAPES, broadcast
from tq_hw.model.rules.shapes_slice import SLICE_SHAPES

__all__ = ["broadcast", "output_shapes", "window_size"]

Shapes = list[tuple[int, ...]] | None

#: LiteRT's limit for strides, dilations and filters.
_MAX_WINDOW = 2**15 - 1


def output_shapes(node: Node) -> Shapes:
    """Return the shape of each output; None when it depends on data or the operator has no rule.

    Raises `ModelError` when shapes, options or constant parameters of the operator disagree.
    """
    rule = _SHAPES.get(node.operator.op)
    return rule(node) if rule else None


def window_size(node: Node, size: int, kernel: int, stride: int, dilation: int, axis: str) -> int:
    """Return the number of window positions along one axis, as TFLite's `padding.h` counts them."""
    for what, value in (("stride", stride), ("dilation", dilation), ("filter", kernel)):
        if not 1 <= value <= _MAX_WINDOW:
            raise node.error(f"{axis} {what} is {value}, expected 1 to {_MAX_WINDOW}")
    span = (kernel - 1) * dilation + 1
    if node.text("padding") == "SAME":
        return -(-size // stride)
    if size < span:
        raise node.error(f"{axis} is {size}, less than the filter's {span}, with padding VALID")
    return (size - span) // stride + 1


def _conv_2d(node: Node) -> Shapes:
    batch, height, width, channels = node.shape(0, 4)
    out_channels, kernel_h, kernel_w, depth = node.shape(1, 4, "weights")
    if min(depth, channels) < 1 or channels % depth or out_channels % (channels // depth):
        raise node.error(f"input has {channels} channels and weights have shape "
                         f"{list(node.shape(1))}: channels do not match")
    _check_bias(node, 2, out_channels)
    rows = window_size(node, height, kernel_h, node.option("stride_h"),
                       node.option("dilation_h_factor"), "height")
    cols = window_size(node, width, kernel_w, node.option("stride_w"),
                       node.option("dilation_w_factor"), "width")
    return [(batch, rows, cols, out_channels)]


def _depthwise_conv_2d(node: Node) -> Shapes:
    batch, height, width, channels = node.shape(0, 4)
    one, kernel_h, kernel_w, out_channels = node.shape(1, 4, "weights")
    multiplier = node.option("depth_multiplier")
    # An absent multiplier is 0; the kernels divide the channels instead of reading it.
    if one != 1 or channels < 1 or out_channels % channels or \
            multiplier not in (0, out_channels // channels):
        raise node.error(f"input has {channels} channels, weights have shape "
                         f"{list(node.shape(1))}, depth_multiplier is {multiplier}: channels do "
                         f"not match")
    _check_bias(node, 2, out_channels)
    rows = window_size(node, height, kernel_h, node.option("stride_h"),
                       node.option("dilation_h_factor"), "height")
    cols = window_size(node, width, kernel_w, node.option("stride_w"),
                       node.option("dilation_w_factor"), "width")
    return [(batch, rows, cols, out_channels)]


def _transpose_conv(node: Node) -> Shapes:
    out_channels, kernel_h, kernel_w, depth = node.shape(1, 4, "weights")
    batch, height, width, channels = node.shape(2, 4)
    if depth != channels:
        raise node.error(f"input has {channels} channels and weights have shape "
                         f"{list(node.shape(1))}: channels do not match")
    _check_bias(node, 3, out_channels)
    shape = node.integers(0, "output_shape", 4)
    if shape is None:
        return None
    if shape[0] != batch or shape[3] != out_channels:
        raise node.error(f"output_shape is {shape}, expected batch {batch} and {out_channels} "
                         f"channels")
    # The forward convolution over the output has to give the input.
    rows = window_size(node, shape[1], kernel_h, node.option("stride_h"), 1, "height")
    cols = window_size(node, shape[2], kernel_w, node.option("stride_w"), 1, "width")
    if (rows, cols) != (height, width):
        raise node.error(f"output_shape is {shape}, whose windows are {rows} x {cols}, but the "
                         f"input is {height} x {width}")
    return [(shape[0], shape[1], shape[2], shape[3])]


def _check_bias(node: Node, position: int, count: int) -> None:
    bias = node.optional(position)
    if bias is not None and math.prod(bias.shape) != count:
        raise node.error(f"bias has shape {list(bias.shape)}, expected {count} elements")


def _fully_connected(node: Node) -> Shapes:
    shape = node.shape(0)
    rows, depth = node.shape(1, 2, "weights")
    count = math.prod(shape)
    if depth < 1 or count % depth:
        raise node.error(f"input has shape {list(shape)}, weights {[rows, depth]}: the channels of "
                         f"the weights do not divide the input")
    _check_bias(node, 2, rows)
    if node.option("keep_num_dims"):
        if not shape or shape[-1] != depth:
            raise node.error(f"input has shape {list(shape)}, its last dimension must be "
                             f"{depth} with keep_num_dims")
        return [(*shape[:-1], rows)]
    return [(count // depth, rows)]


def _pool_2d(node: Node) -> Shapes:
    batch, height, width, channels = node.shape(0, 4)
    rows = window_size(node, height, node.option("filter_height"), node.option("stride_h"), 1,
                       "height")
    cols = window_size(node, width, node.option("filter_width"), node.option("stride_w"), 1,
                       "width")
    return [(batch, rows, cols, channels)]


def _conv_3d(node: Node) -> Shapes:
    batch, *sizes, channels = node.shape(0, 5)
    *kernel, depth, out_channels = node.shape(1, 5, "weights")
    if depth != channels:
        raise node.error(f"input has {channels} channels and weights have shape {list(node.shape(1))}: channels do "
                         "not match")
    rows = [window_size(node, size, filters, node.option(f"stride_{axis}"), node.option(f"dilation_{axis}_factor"),
                        what)
            for axis, what, size, filters in zip("dhw", ("depth", "height", "width"), sizes, kernel, strict=True)]
    return [(batch, *rows, out_channels)]


def _same(node: Node) -> Shapes:
    return [node.shape(0)]


def _rows(node: Node) -> Shapes:
    if not node.shape(0):
        raise node.error("input is a scalar, expected rank 1 or more")
    return [node.shape(0)]


def _resize(node: Node) -> Shapes:
    batch, _, _, channels = node.shape(0, 4)
    size = node.integers(1, "size", 2)
    if node.option("align_corners") and node.option("half_pixel_centers"):
        raise node.error("align_corners and half_pixel_centers are both set, expected at most one")
    if size is None:
        return None
    if min(size) < 1:
        raise node.error(f"size is {size}, expected 1 or more")
    return [(batch, size[0], size[1], channels)]


def _batch_matmul(node: Node) -> Shapes:
    first, second = node.shape(0), node.shape(1)
    if min(len(first), len(second)) < 2:
        raise node.error(f"shapes {list(first)} and {list(second)} need rank 2 or more")
    rows, depth = first[-2:][::-1] if node.option("adj_x") else first[-2:]
    other, cols = second[-2:][::-1] if node.option("adj_y") else second[-2:]
    if depth != other:
        raise node.error(f"shapes {list(first)} and {list(second)}: inner dimensions {depth} and "
                         f"{other} differ")
    return [(*broadcast(node, first[:-2], second[:-2]), rows, cols)]


def _shape(node: Node) -> Shapes:
    return [(len(node.shape(0)),)]


def _svdf(node: Node) -> Shapes:
    batch, depth = node.shape(0, 2)
    filters, weight_depth = node.shape(1, 2, "feature weights")
    time_filters, memory = node.shape(2, 2, "time weights")
    rank = node.option("rank")
    if rank < 1 or filters % rank or weight_depth != depth or time_filters != filters:
        raise node.error(f"rank {rank}, input {[batch, depth]}, feature weights "
                         f"{[filters, weight_depth]}, time weights {[time_filters, memory]} do "
                         f"not match")
    state = node.shape(4)
    if math.prod(state) != batch * memory * filters:
        raise node.error(f"state has shape {list(state)}, expected {batch} x {memory * filters}")
    _check_bias(node, 3, filters // rank)
    return [(batch, filters // rank)]


def _lstm(node: Node) -> Shapes:
    shape = node.shape(0, 3)
    cells, depth = node.shape(2, 2, "input weights")
    outputs = node.shape(6, 2, "recurrent weights")[1]
    if depth != shape[2]:
        raise node.error(f"input has {shape[2]} channels, weights have {depth}")
    for position in range(1, 9):
        expected = (cells, depth if position < 5 else outputs)
        if node.optional(position) is not None and node.shape(position) != expected:
            raise node.error(f"input {position} has shape {list(node.shape(position))}, expected {list(expected)}")
    for position in range(12, 16):
        if node.optional(position) is not None and node.shape(position) != (cells,):
            raise node.error(f"input {position} has shape {list(node.shape(position))}, expected {[cells]}")
    batch = shape[1] if node.option("time_major") else shape[0]
    for position, what, count in ((18, "output state", outputs), (19, "cell state", cells)):
        if node.shape(position) != (batch, count):
            raise node.error(f"{what} has shape {list(node.shape(position))}, expected "
                             f"{[batch, count]}")
    return [(shape[0], shape[1], outputs)]


_Rule = Callable[[Node], Shapes]
_GROUPS: dict[_Rule, str] = {
    _conv_2d: "CONV_2D", _depthwise_conv_2d: "DEPTHWISE_CONV_2D",
    _transpose_conv: "TRANSPOSE_CONV", _fully_connected: "FULLY_CONNECTED",
    _pool_2d: "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D", _conv_3d: "CONV_3D",
    _rows: "SOFTMAX LOG_SOFTMAX L2_NORMALIZATION",
    _same: "LOGISTIC TANH RELU RELU6 RELU_N1_TO_1 "
           "RELU_0_TO_1 LEAKY_RELU HARD_SWISH QUANTIZE DEQUANTIZE CAST ABS ELU GELU EXP LOG RSQRT "
           "NEG SQRT SQUARE SIN COS FLOOR CEIL ROUND SIGN LOGICAL_NOT",
    _resize: "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", _batch_matmul: "BATCH_MATMUL",
    _shape: "SHAPE", _svdf: "SVDF", _lstm: "UNIDIRECTIONAL_SEQUENCE_LSTM",
}
_SHAPES: dict[str, _Rule] = {op: rule for rule, ops in _GROUPS.items() for op in ops.split()}
_SHAPES |= HOST_SHAPES | JOIN_SHAPES | MOVE_SHAPES | PLACE_SHAPES | REPEAT_SHAPES | SLICE_SHAPES
