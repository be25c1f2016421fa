"""Rules about types, scales and zero points; `table.py` says how a rule reads and which operators keep it."""

from collections.abc import Sequence

from tq_hw.model.graph import Tensor
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.signatures import COMPARISONS

__all__ = ["FIXED_OUTPUTS", "WEIGHT_AXES", "bias_of", "constraint_bias_scale",
           "constraint_bias_zero_point", "constraint_computed_weights", "constraint_dense_weights_are_symmetric",
           "constraint_fixed_output", "constraint_one_weight_scale", "constraint_same_quantization",
           "constraint_same_type", "constraint_weight_axis", "constraint_weights_are_symmetric", "label", "source_of"]

#: (scale, zero point) of int8 outputs that the specification fixes.
FIXED_OUTPUTS = {"L2_NORMALIZATION": (1 / 128, 0), "TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128),
                 "SOFTMAX": (1 / 256, -128), "LOG_SOFTMAX": (16 / 256, 127)}
#: Operators of which LiteRT refuses every other scale and zero point; of the others some are within its tolerance.
_REFUSED = ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
#: Relative distance from the scale of a SOFTMAX up to which LiteRT takes another one, 0.001f.
_NEAR = 0.0010000000474974513
#: Axis of the output channels in the weights.
WEIGHT_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0, "FULLY_CONNECTED": 0}

#: `GetQuantizedConvolutionMultipler` in LiteRT's and TFLite Micro's kernel_util.cc.
_BIAS_SCALE_TOLERANCE = 0.02
_LSTM_WEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8)


def label(tensor: Tensor) -> str:
    """Return what messages call a tensor."""
    return f"tensor {tensor.index} {tensor.name[:60]!r}"


def source_of(node: Node) -> Tensor:
    """Return the input that carries the data."""
    return node.input(2 if node.operator.op == "TRANSPOSE_CONV" else 0)


def bias_of(node: Node) -> Tensor | None:
    """Return the bias, or None when there is none."""
    return node.optional(3 if node.operator.op in ("TRANSPOSE_CONV", "SVDF") else 2)


def _weights(node: Node) -> list[Tensor]:
    positions = {"SVDF": (1, 2), "UNIDIRECTIONAL_SEQUENCE_LSTM": _LSTM_WEIGHTS}.get(node.operator.op, (1,))
    return [tensor for position in positions if (tensor := node.optional(position)) is not None]


def constraint_weights_are_symmetric(node: Node) -> str | None:
    """Give weights scales, and constant ones zero point 0."""
    for weights in _weights(node):
        if weights.quantization is None:
            return f"no quantization for {label(weights)}"
        points = sorted(set(weights.quantization.zero_point) - {0})
        if points and weights.data is not None:
            return f"zero point {points[0]} for {label(weights)}"
    return None


def constraint_dense_weights_are_symmetric(node: Node) -> str | None:
    """Give weights scales, and constant ones zero point 0 where they have several or activations are int16."""
    weights = node.input(1)
    if weights.quantization is not None and len(weights.quantization.scale) == 1 and node.input(0).dtype == "int8":
        return None
    return constraint_weights_are_symmetric(node)


def constraint_one_weight_scale(node: Node) -> str | None:
    """Give weights one scale: the kernel has no per-channel scales."""
    for weights in _weights(node):
        if weights.quantization is not None and len(weights.quantization.scale) != 1:
            return f"{len(weights.quantization.scale)} scales for {label(weights)}"
    return None


def constraint_computed_weights(node: Node) -> str | None:
    """Give computed weights one scale."""
    weights = node.input(1)
    if weights.data is None and weights.quantization is not None and len(weights.quantization.scale) != 1:
        return f"{len(weights.quantization.scale)} scales for {label(weights)}"
    return None


def constraint_weight_axis(node: Node) -> str | None:
    """Give weights one scale, or one for each output channel."""
    weights, axis = node.input(1), WEIGHT_AXES[node.operator.op]
    quantization = weights.quantization
    if quantization is None or len(quantization.scale) == 1 or quantization.dimension == axis:
        return None
    return f"scales along axis {quantization.dimension} for {label(weights)}, output channels are axis {axis}"


def constraint_bias_zero_point(node: Node) -> str | None:
    """Give the bias zero point 0."""
    bias = bias_of(node)
    if bias is None or bias.quantization is None or not any(bias.quantization.zero_point):
        return None
    return f"zero point {max(bias.quantization.zero_point, key=abs)} for {label(bias)}"


def constraint_bias_scale(node: Node) -> str | None:
    """With one weight scale, keep the bias scale within 1/50 of the output scale of input scale times weight scale."""
    weights, bias = node.input(1).quantization, bias_of(node)
    if bias is None or weights is None or len(weights.scale) != 1:
        return None
    # The kernels read the first scale, 0 where there is none; of other convolutions they read none.
    found = bias.quantization.scale[0] if bias.quantization is not None else 0.0
    expected, output = source_of(node).scale * weights.scale[0], node.output().scale
    if abs(expected - found) / output <= _BIAS_SCALE_TOLERANCE:
        return None
    return f"bias scale {found:g} for {label(bias)}, expected {expected:g} at output scale {output:g}"


def constraint_same_quantization(node: Node) -> str | None:
    """Use the same scale and zero point for inputs and outputs."""
    tensors = _data_tensors(node)
    first = tensors[0]
    for other in tensors[1:]:
        if (other.quantization is None) != (first.quantization is None):
            return f"quantization for only one of {label(first)} and {label(other)}"
        one, two = first.quantization, other.quantization
        if one and two and (one.scale, one.zero_point) != (two.scale, two.zero_point):
            return (f"scale {one.scale[0]:.9g}, zero point {one.zero_point[0]} for {label(first)} and scale "
                    f"{two.scale[0]:.9g}, zero point {two.zero_point[0]} for {label(other)}")
    return None


def _data_tensors(node: Node) -> Sequence[Tensor]:
    """Return the tensors that carry the data, without axes, shapes and the like."""
    op = node.operator.op
    if op in ("CONCATENATION", "PACK", "MAXIMUM", "MINIMUM", "ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "DIV",
              "FLOOR_DIV", "FLOOR_MOD", "POW", "BITWISE_XOR", "RIGHT_SHIFT", "BATCH_MATMUL"):
        return node.inputs() + node.outputs()
    if op in COMPARISONS:
        return node.inputs()
    if op in ("SELECT", "SELECT_V2"):
        return [node.input(1), node.input(2), *node.outputs()]
    if op == "ONE_HOT":
        return [node.input(2), node.input(3), *node.outputs()]
    if op in ("DYNAMIC_UPDATE_SLICE", "MATRIX_SET_DIAG"):
        return [node.input(0), node.input(1), *node.outputs()]
    if op == "TOPK_V2":
        return [node.input(0), node.output()]
    if op == "SPARSE_TO_DENSE":
        return [node.input(2), node.input(3), *node.outputs()]
    if op in ("PADV2", "DILATE"):
        return [node.input(0), node.input(2), *node.outputs()]
    if op in ("SPLIT", "EMBEDDING_LOOKUP", "SCATTER_ND", "FILL"):
        return [node.input(1), *node.outputs()]
    return [source_of(node), *node.outputs()]


def constraint_same_type(node: Node) -> str | None:
    """Use the same type for inputs and outputs."""
    tensors = _data_tensors(node)
    if node.operator.op == "BATCH_MATMUL" and tensors[0].dtype == "int16" and tensors[1].data is not None:
        # ai-edge-quantizer's 16x8 leaves constants of int8, as weights.
        tensors = [each for each in tensors if each is not tensors[1] or each.dtype != "int8"]
    for other in tensors[1:]:
        if other.dtype != tensors[0].dtype:
            return f"{tensors[0].dtype} for {label(tensors[0])} and {other.dtype} for {label(other)}"
    return None


def constraint_fixed_output(node: Node) -> str | None:
    """Give the output the scale and zero point that the specification fixes."""
    output = node.output()
    scale, zero_point = FIXED_OUTPUTS[node.operator.op]
    near = _NEAR if node.operator.op == "SOFTMAX" else 0.0
    if node.operator.op == "TANH" and output.dtype == "int8":
        return None  # LiteRT's table is of any scale, and exporters of PyTorch give it one
    if output.dtype == "int16" and node.input(0).dtype == "int16":
        scale, zero_point = 2.0**-15, 0
    elif output.dtype == "int16":
        # TFLite Micro's int16 SOFTMAX: converters write 1/65535 or 1/65536.
        scale, zero_point = 2.0**-16, -32768
    if abs(output.scale - scale) <= near * scale and output.zero_point == zero_point:
        return None
    is_refused = output.dtype == node.input(0).dtype and (
        node.operator.op in _REFUSED or abs(output.scale - scale) > _NEAR * scale)
    return (f"scale {output.scale:.9g}, zero point {output.zero_point} for {label(output)}, expected scale "
            f"1/{round(1 / scale)}, zero point {zero_point}{'; LiteRT refuses the file' * is_refused}")
