"""Rules about 16x8 models: activations of int16, weights of int8; see `table.py` for how a rule reads and who keeps it.

Zero points are 0 there, sums have 64 bits unless the bias says 32, and a rescaling factor has 15 bits then.
"""

import math

import numpy as np

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.options import multipliers
from tq_hw.model.rules.quantization import bias_of, label, source_of

__all__ = ["constraint_bias_type", "constraint_int16_output", "constraint_int16_zero_point",
           "constraint_power_of_two_sum", "constraint_wide_multiplier", "constraint_wide_weights", "is_sixteen",
           "power_of_two", "sums_in_32_bits"]

#: The kernels take exponents up to this one.
_MOST_LEFT = 7


def is_sixteen(node: Node) -> bool:
    """Whether the input of an operator that carries the data is an activation of int16."""
    return source_of(node).dtype == "int16"


def sums_in_32_bits(node: Node) -> bool:
    """Whether a product of int16 activations is summed in int32 and rescaled as one of int8."""
    return node.text("quantized_bias_type") == "int32"


def constraint_int16_zero_point(node: Node) -> str | None:
    """Give int16 activations zero point 0."""
    if not is_sixteen(node):
        return None
    for tensor in (*node.inputs(), *node.outputs()):
        is_word = tensor.dtype == "int16" or (tensor.dtype == "int8" and node.operator.op == "BATCH_MATMUL")
        if is_word and tensor.quantization is not None and any(tensor.quantization.zero_point):
            return f"zero point {tensor.zero_point} for {label(tensor)}"
    return None


def constraint_int16_output(node: Node) -> str | None:
    """Give an int16 SOFTMAX an int16 output."""
    output = node.output()
    return None if not is_sixteen(node) or output.dtype == "int16" else f"{output.dtype} for {label(output)}"


def constraint_bias_type(node: Node) -> str | None:
    """Give int8 activations an int32 bias, int16 ones an int64 bias or an int32 one that quantized_bias_type names."""
    bias = bias_of(node)
    named = node.text("quantized_bias_type")
    if not is_sixteen(node):
        return None if bias is None or bias.dtype == "int32" else f"{bias.dtype} for {label(bias)}"
    if named not in ("NONE", "float32", "int32", "int64"):
        return f"quantized_bias_type {named}"
    expected = "int32" if sums_in_32_bits(node) else "int64"
    if bias is None or bias.dtype == expected:
        return None
    return f"{bias.dtype} for {label(bias)}, quantized_bias_type {named}"


def constraint_wide_multiplier(node: Node) -> str | None:
    """Keep the rescaling multiplier of 64-bit sums below 2^7: the kernels shift left by at most 7 bits."""
    if not is_sixteen(node) or sums_in_32_bits(node):
        return None
    largest = max(multipliers(node), default=0.0)
    return None if largest < 2.0**_MOST_LEFT else f"multiplier {largest:g} from the scales"


def constraint_wide_weights(node: Node) -> str | None:
    """Give weights of int16 to int16 activations, with one scale, sums of 64 bits, no bias and no fused activation."""
    weights = node.input(1)
    if weights.dtype != "int16":
        return None
    if not is_sixteen(node):
        return f"{source_of(node).dtype} for {label(source_of(node))}"
    if weights.quantization is None or len(weights.quantization.scale) != 1:
        count = 0 if weights.quantization is None else len(weights.quantization.scale)
        return f"{count} scales for {label(weights)}"
    if (bias := bias_of(node)) is not None:
        return label(bias)
    activation = node.text("fused_activation_function")
    if activation != "NONE":
        return activation
    return "quantized_bias_type int32" if sums_in_32_bits(node) else None


def constraint_power_of_two_sum(node: Node) -> str | None:
    """Clear pot_scale_int16 where scales are different powers of two, or ADD broadcasts: shifts are not supported."""
    if not is_sixteen(node) or not node.option("pot_scale_int16"):
        return None
    tensors = [*node.inputs(), *node.outputs()]
    exponents = {power_of_two(each.scale) for each in tensors}
    # LiteRT aborts where ADD broadcasts.
    is_alike = len(exponents) == 1 and (node.operator.op == "SUB" or node.shape(0) == node.shape(1))
    return None if is_alike or None in exponents else f"scales {', '.join(f'{t.scale:g}' for t in tensors)}"


def power_of_two(scale: float) -> int | None:
    """Return the exponent of a scale that LiteRT takes for a power of two, within a thousandth; None for others."""
    if scale <= 0:
        return None
    logarithm = float(np.float32(math.log2(scale)))
    return round(logarithm) if abs(logarithm - round(logarithm)) < 1e-3 else None
