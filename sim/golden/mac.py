"""Common parts of the multiply-accumulate kernels: rescaling factors and the requantization stages."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.sim.golden.arith import (
    IntArray,
    multiply_wide,
    quantize_multipliers,
    round_half_away,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    input_tensor,
    narrow,
    output_tensor,
    require,
    require_dtype,
)

__all__ = ["DOUBLE_LIMIT", "MacParams", "Stages", "activation_type", "bias_values", "channel_multipliers", "is_wide",
           "requantize",
           "requantize_stages", "weight_tensor"]


#: Rounded double products from this magnitude on are outside int32, at the latest after adding a zero point.
DOUBLE_LIMIT = (1 << 31) - 256


@dataclass(frozen=True, eq=False)
class MacParams:
    """Parameters of a requantization: offsets before the accumulator, and the conversion of the accumulator to int8.

    Members
    -------
    multiplier : int32 Q0.31, one per output channel (the last axis), or one for all
    shift : TFLite's signed exponent, as many, positive = left
    input_zero_point : subtracted from each input value; a padded tap contributes 0
    output_zero_point : added after the shift
    act_min, act_max : clamp limits, applied last
    real : for a kernel that rescales in C double, the factors instead of multiplier and shift, as many
    dtype : of input and output, "int8" or "int16"
    wide : accumulators are int64, and multipliers are reduced to 15 bits
    """

    multiplier: IntArray
    shift: IntArray
    input_zero_point: int
    output_zero_point: int
    act_min: int
    act_max: int
    real: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    dtype: str = field(default="int8", kw_only=True)
    wide: bool = field(default=False, kw_only=True)

    def summed(self, acc: IntArray) -> IntArray:
        """Accumulators in the kernel's integer type."""
        return acc if self.wide else wrap_int32(acc)


@dataclass(frozen=True, eq=False)
class Stages:
    """All intermediate values of a requantization, as arrays of the accumulator's shape.

    Members
    -------
    accumulator : int32 or int64 sum including the bias
    after_multiply : SaturatingRoundingDoublingHighMul of the (left shifted) accumulator; in double, or of int64, it
        includes the shift
    after_shift : RoundingDivideByPOT of that, without the zero point
    after_clamp : the int8 or int16 result
    """

    accumulator: IntArray
    after_multiply: IntArray
    after_shift: IntArray
    after_clamp: Array


def requantize_stages(acc: IntArray, params: MacParams) -> Stages:
    """Requantize accumulators, last axis = output channel, and keep each stage.

    Raises UnsupportedError when a product in double is outside int32, where C leaves the conversion undefined, and when
    an int64 accumulator exceeds the 48 bits that its kernel takes.
    """
    if params.real is not None:
        rounded = round_half_away(acc.astype(np.float64) * params.real)
        if np.any(np.abs(rounded) >= DOUBLE_LIMIT):
            raise UnsupportedError(f"an accumulator times {params.real.max():g} overflows int32: LiteRT's reference "
                                   "kernel is undefined there; use a larger output scale", ", or --profile canon")
        scaled = rounded.astype(np.int64)
        result = narrow(scaled + params.output_zero_point, params.act_min, params.act_max, params.dtype)
        return Stages(acc, scaled, scaled, result)
    if params.wide:
        if np.any(np.abs(acc) >= 1 << 47):
            raise UnsupportedError("an accumulator exceeds 48 bits: the kernel is undefined there; use a smaller "
                                   "bias or fewer inputs")
        scaled = multiply_wide(acc, params.multiplier, params.shift)
        return Stages(acc, scaled, scaled, narrow(scaled, params.act_min, params.act_max, params.dtype))
    left = np.maximum(params.shift, 0)
    shifted = wrap_int32(acc << left) if left.any() else acc
    high = saturating_rounding_doubling_high_mul(shifted, params.multiplier)
    scaled = rounding_divide_by_pot(high, np.maximum(-params.shift, 0))
    result = narrow(scaled + params.output_zero_point, params.act_min, params.act_max, params.dtype)
    return Stages(acc, high, scaled, result)


def requantize(acc: IntArray, params: MacParams) -> Array:
    """Results of accumulators, last axis = output channel."""
    return requantize_stages(acc, params).after_clamp


def is_wide(op: Operator, subgraph: Subgraph) -> bool:
    """Whether activations are int16 and their products are summed in int64."""
    source = input_tensor(op, subgraph, 2 if op.op == "TRANSPOSE_CONV" else 0)
    # TFLite Micro's TRANSPOSE_CONV ignores the option.
    ignored = op.op == "TRANSPOSE_CONV" and subgraph.profile == "tflm"
    named = "int64" if ignored else op.options.get("quantized_bias_type", "int64")
    return source is not None and source.dtype == "int16" and named != "int32"


def activation_type(op: Operator, subgraph: Subgraph, position: int = 0) -> str:
    """Type of an input and the output: int8, or int16 with zero points 0."""
    tensor, output = require_dtype(op, subgraph, "int8", "int16", position=position), output_tensor(op, subgraph)
    require(output.dtype == tensor.dtype, f"output must be {tensor.dtype}, not {output.dtype}")
    points = [tensor.zero_point, output.zero_point]
    require(tensor.dtype == "int8" or not any(points), f"activations of int16 must have zero point 0, found {points}")
    return tensor.dtype


def weight_tensor(op: Operator, subgraph: Subgraph, position: int, axis: int, channels: int,
                  asymmetric: bool = False) -> Tensor:
    """Int8 weights with one scale, or `channels` scales along `axis`, and zero point 0.

    `asymmetric` allows another zero point with a single scale.
    """
    weights = require_dtype(op, subgraph, "int8", position=position)
    quantization = weights.quantization
    if quantization is None:
        raise ModelError(f"weights (tensor {weights.index}) have no quantization parameters")
    if len(quantization.scale) != 1:
        require(quantization.dimension == axis,
                f"weights per axis on dim {axis} expected, found dim {quantization.dimension}")
        require(len(quantization.scale) == channels,
                f"weights need 1 or {channels} scales, found {len(quantization.scale)}")
    require(not any(quantization.zero_point) or (asymmetric and len(quantization.scale) == 1),
            f"weights (tensor {weights.index}) must have zero point 0")
    return weights


def channel_multipliers(input_scale: float, weights: Tensor, output_scale: float,
                        channels: int) -> tuple[IntArray, IntArray]:
    """`(multiplier, shift)` of each output channel from the double product of the scales.

    `kernel_util.cc PopulateConvolutionQuantizationParams`: `input * weight / output` in C doubles,
    a single weight scale broadcast to all channels.
    """
    if weights.quantization is None:
        raise ModelError(f"weights (tensor {weights.index}) have no quantization parameters")
    scales = np.asarray(weights.quantization.scale, np.float64)
    multiplier, shift = quantize_multipliers(input_scale * scales / output_scale)
    return (np.broadcast_to(multiplier, (channels,)).copy(),
            np.broadcast_to(shift, (channels,)).copy())


def bias_values(op: Operator, subgraph: Subgraph, inputs: Inputs, position: int) -> Array | int:
    """Bias per output channel, whatever its shape, or 0 if the operator has none; int64 only with int16."""
    tensor = input_tensor(op, subgraph, position)
    if tensor is None:
        return 0
    require(tensor.dtype == "int32" or (tensor.dtype == "int64" and is_wide(op, subgraph)),
            f"bias (tensor {tensor.index}) must be int32, not {tensor.dtype}")
    bias = inputs[position]
    if bias is None:
        raise ModelError(f"bias (tensor {tensor.index}) has no value")
    return bias.astype(np.int64).reshape(-1)
