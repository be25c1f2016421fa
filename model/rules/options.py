"""Rules about options, multipliers and states; `table.py` says how a rule reads and which operators keep it."""

import math

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.quantization import WEIGHT_AXES, bias_of, label, source_of
from tq_hw.model.rules.variables import LSTM_CELL, LSTM_HIDDEN, STATE_POSITIONS

__all__ = ["constraint_activation_is_a_range", "constraint_comparison_scale", "constraint_difference_scale",
           "constraint_hard_swish_input", "constraint_hard_swish_scale", "constraint_index_type",
           "constraint_lstm_activation", "constraint_lstm_cell_scale", "constraint_lstm_is_plain",
           "constraint_lstm_output", "constraint_multiplier_fits", "constraint_no_fused_activation",
           "constraint_not_empty",
           "constraint_softmax_scale", "constraint_square_scale", "constraint_state_is_variable",
           "constraint_sum_scale", "constraint_svdf_activation", "constraint_weights_are_constant",
           "constraint_weights_format", "multipliers"]

_MAX_LEFT_SHIFT = 30


def constraint_activation_is_a_range(node: Node) -> str | None:
    """Fuse no activation other than RELU, RELU6 and RELU_N1_TO_1."""
    activation = node.text("fused_activation_function")
    return None if activation in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1") else activation


def constraint_no_fused_activation(node: Node) -> str | None:
    """Fuse no activation: the kernel has none."""
    activation = node.text("fused_activation_function")
    return None if activation == "NONE" else activation


def constraint_svdf_activation(node: Node) -> str | None:
    """Fuse RELU: an int8 SVDF has no other activation."""
    activation = node.text("fused_activation_function")
    return None if activation == "RELU" else activation


def constraint_lstm_activation(node: Node) -> str | None:
    """Fuse TANH: an int8 LSTM has no other activation."""
    activation = node.text("fused_activation_function")
    return None if activation == "TANH" else activation


def constraint_weights_format(node: Node) -> str | None:
    """Store weights in DEFAULT format, not shuffled."""
    found = node.text("weights_format")
    return None if found == "DEFAULT" else f"weights_format {found}"


def constraint_multiplier_fits(node: Node) -> str | None:
    """Keep the rescaling multiplier below 2^30: the kernels shift left by at most 30 bits."""
    largest = max(multipliers(node), default=0.0)
    return None if largest < 2.0**_MAX_LEFT_SHIFT else f"multiplier {largest:g} from the scales"


def multipliers(node: Node) -> list[float]:
    """Return the real rescaling factors of an operator, one or one for each channel."""
    op = node.operator.op
    if source_of(node).quantization is None or node.output().quantization is None:
        return []
    source, output = source_of(node).scale, node.output().scale
    if op in WEIGHT_AXES:
        weights = node.input(1).quantization
        return [source * scale / output for scale in weights.scale] if weights else [0.0]
    if op == "SVDF":
        state = node.input(4).scale
        return [source * node.input(1).scale / state, state * node.input(2).scale / output]
    if op in ("MUL", "BATCH_MATMUL", "PRELU"):
        products = [source * node.input(1).scale / output]
        return [*products, source / output] if op == "PRELU" else products
    if op == "LEAKY_RELU":
        alpha = abs(float(node.operator.options["alpha"]))  # type: ignore[arg-type]  # schema: float32
        return [source / output, source * alpha / output]
    return [source / output]


def constraint_sum_scale(node: Node) -> str | None:
    """Keep twice the larger input scale below 2^20 output scales (int16: 2^15), else the kernels abort."""
    return _scale_of_sums(node)


def constraint_difference_scale(node: Node) -> str | None:
    """Keep twice the larger input scale below 2^20 output scales (int16: 2^15), else LiteRT's result is undefined."""
    return _scale_of_sums(node)


def _scale_of_sums(node: Node) -> str | None:
    bits = {"int8": 20, "int16": 15}.get(node.output().dtype)
    if bits is None:
        return None
    larger, output = max(node.input(0).scale, node.input(1).scale), node.output().scale
    return None if 2 * larger < 2.0**bits * output else f"input scale {larger:g}, output scale {output:g}"


def constraint_square_scale(node: Node) -> str | None:
    """Keep the square of the larger input scale below 2^12 output scales: the kernels abort above that."""
    if node.output().dtype != "int8":
        return None
    larger, output = max(node.input(0).scale, node.input(1).scale), node.output().scale
    return None if larger * larger < 2.0**12 * output else f"input scale {larger:g}, output scale {output:g}"


def constraint_softmax_scale(node: Node) -> str | None:
    """Keep beta times the input scale above 2^-26: the kernels abort below that."""
    beta = float(node.operator.options.get("beta", 1.0))  # type: ignore[arg-type]  # schema: float32
    scale = node.input(0).scale
    return None if beta * scale * 2.0**26 > 1 else f"beta {beta:g}, scale {scale:g}"


def constraint_hard_swish_scale(node: Node) -> str | None:
    """Keep the input scale below 128 output scales: the kernels refuse others."""
    source, output = node.input(0).scale, node.output().scale
    return None if source < 128 * output else f"input scale {source:g}, output scale {output:g}"


def constraint_hard_swish_input(node: Node) -> str | None:
    """Keep the input scale below 3 * 2^23: the kernels shift left by at most 30 bits."""
    scale = node.input(0).scale
    return None if scale < 3 * 2.0**23 else f"input scale {scale:g}"


def constraint_state_is_variable(node: Node) -> str | None:
    """Make state inputs variables."""
    for position in STATE_POSITIONS[node.operator.op]:
        if not node.input(position).is_variable:
            return f"{label(node.input(position))}, which is not one"
    return None


def constraint_lstm_cell_scale(node: Node) -> str | None:
    """Give the cell state zero point 0 and a scale that is a power of two, 2^-9 or less."""
    cell = node.input(LSTM_CELL)
    if cell.zero_point:
        return f"zero point {cell.zero_point} for {label(cell)}"
    mantissa, exponent = math.frexp(cell.scale)
    return None if mantissa == 0.5 and exponent - 1 <= -9 else f"scale {cell.scale:.9g} for {label(cell)}"


def constraint_lstm_output(node: Node) -> str | None:
    """Use the same scale and zero point for the output, the output state and the fifth intermediate tensor."""
    state = node.input(LSTM_HIDDEN)
    others = [node.output()]
    if len(node.operator.intermediates) != 5 or node.operator.intermediates[4] < 0:
        return f"{len(node.operator.intermediates)} intermediate tensors, expected 5"
    others.append(node.tensors[node.operator.intermediates[4]])
    for other in others:
        if other.quantization != state.quantization:
            return f"different values for {label(state)} and {label(other)}"
    return None


def constraint_lstm_is_plain(node: Node) -> str | None:
    """Use an LSTM without peepholes, projection, layer normalization and coupled gates."""
    for what, positions in (("peephole weights", (9, 10, 11)), ("a projection", (16, 17)),
                            ("layer normalization", (20, 21, 22, 23))):
        if any(node.optional(position) is not None for position in positions):
            return what
    if any(node.optional(position) is None for position in (1, 5, 12)):
        return "no weights of the input gate (coupled gates)"
    return "diagonal recurrent weights" if node.option("diagonal_recurrent_tensors") else None


def constraint_weights_are_constant(node: Node) -> str | None:
    """Make weights and bias constant, except for the weights of FULLY_CONNECTED."""
    op = node.operator.op
    is_lstm = op == "UNIDIRECTIONAL_SEQUENCE_LSTM"
    # A FULLY_CONNECTED may have weights that are activations.
    positions = {"SVDF": (1, 2), "FULLY_CONNECTED": ()}.get(op, range(1, 18) if is_lstm else (1,))
    weights = [node.optional(position) for position in positions]
    for tensor in (*weights, None if is_lstm else bias_of(node)):
        if tensor is not None and tensor.data is None:
            return f"{label(tensor)}, which is computed at run time; use BATCH_MATMUL for a product of activations"
    return None


def constraint_not_empty(node: Node) -> str | None:
    """Do not leave a data tensor empty."""
    for tensor in node.inputs() + node.outputs():
        if tensor.dtype == "int8" and 0 in tensor.shape:
            return f"shape {list(tensor.shape)} for {label(tensor)}"
    return None


def constraint_index_type(node: Node) -> str | None:
    """Give the output the type named in the options."""
    name = "out_type" if node.operator.op == "SHAPE" else "output_type"
    output = node.output()
    return None if output.dtype == node.text(name) else f"{output.dtype} for {label(output)}, {name} {node.text(name)}"


def constraint_comparison_scale(node: Node) -> str | None:
    """Keep input scales below 1: otherwise TFLite Micro aborts and LiteRT's result is undefined."""
    # An order of int16 is that of their codes.
    ordered = node.operator.op not in ("EQUAL", "NOT_EQUAL")
    if node.input(0).dtype in ("int32", "int64", "bool") or (node.input(0).dtype == "int16" and ordered):
        return None
    larger = max(node.input(0).scale, node.input(1).scale)
    return None if larger < 1 else f"scale {larger:g}"
