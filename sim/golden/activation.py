"""Unary operators: LOGISTIC, TANH, the RELU family, LEAKY_RELU, PRELU and HARD_SWISH.

Sources: `activations.cc`, `LUTPopulate` in `internal/common.h`, `reference/reference_ops.h ReluX`,
`reference/leaky_relu.h`, `reference/prelu.h`, `reference/hard_swish.h`; for profile tflm `integer_ops/logistic.h`,
`integer_ops/tanh.h` and TFLite Micro's `activations_common.cc`.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden import sixteen
from tq_hw.sim.golden.arith import (
    IntArray,
    activation_range,
    dtype_range,
    multiply_by_quantized_multiplier,
    quantize_limit,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
)
from tq_hw.sim.golden.fixedpoint import high_mul, logistic, rounding_divide_int16, tanh
from tq_hw.sim.golden.libm import Float32, expf, tanhf
from tq_hw.sim.golden.lut import Transform, populate
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    float_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    value,
)

__all__ = ["LeakyReluParams", "PreluParams", "ReluParams", "leaky_relu_params", "logistic_lut",
           "lut", "prelu_params", "relu_params", "tanh_lut"]

@dataclass(frozen=True)
class ReluParams:
    """Derived integers of RELU, RELU6 and RELU_N1_TO_1."""

    input_zero_point: int
    multiplier: int
    shift: int
    output_zero_point: int
    act_min: int
    act_max: int


@dataclass(frozen=True)
class LeakyReluParams:
    """Derived integers of LEAKY_RELU; `alpha_multiplier` is negative for a negative alpha."""

    input_zero_point: int
    multiplier: int
    shift: int
    alpha_multiplier: int
    alpha_shift: int
    output_zero_point: int


@dataclass(frozen=True)
class PreluParams:
    """Derived integers of PRELU: factors for the positive side and for `x * alpha`."""

    input_zero_point: int
    alpha_zero_point: int
    multiplier: int
    shift: int
    alpha_multiplier: int
    alpha_shift: int
    output_zero_point: int


def _lut(scale: float, zero_point: int, output_scale: float, output_zero_point: int, transform: Transform) -> Array:
    """256 int8 results for inputs -128..127, in that order."""
    return narrow(populate(np.arange(-128, 128), scale, zero_point, output_scale, output_zero_point, transform),
                  -128, 127)


def _logistic(x: Float32) -> Float32:
    result: Float32 = np.float32(1.0) / (np.float32(1.0) + expf(-x))
    return result


def logistic_lut(scale: float, zero_point: int) -> Array:
    """LOGISTIC of each int8 input -128..127, output scale 1/256 and zero point -128."""
    return _lut(scale, zero_point, 1.0 / 256, -128, _logistic)


def tanh_lut(scale: float, zero_point: int, output_scale: float = 1.0 / 128, output_zero_point: int = 0) -> Array:
    """TANH of each int8 input -128..127."""
    return _lut(scale, zero_point, output_scale, output_zero_point, tanhf)


def _fixed_point_lut(op: str, scale: float, zero_point: int) -> Array:
    """LOGISTIC or TANH by TFLite Micro's method: 32-bit fixed point with 4 integer bits.

    `scale` is at least 2^-28 and below 2^35.
    """
    integer_bits, output_bits = 4, 8 if op == "LOGISTIC" else 7
    fraction, shift = math.frexp(scale * 2.0 ** (31 - integer_bits))
    multiplier = int(round_half_away(fraction * (1 << 31)))
    radius = math.floor(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**shift)
    x = np.arange(-128, 128) - zero_point
    # Inputs outside the radius saturate and are not shifted.
    inside = np.abs(x) < radius
    scaled = multiply_by_quantized_multiplier(np.where(inside, x, 0), multiplier, min(shift, 31))
    exact = logistic(scaled, integer_bits, 32) if op == "LOGISTIC" else tanh(scaled, integer_bits, 32)
    rounded = rounding_divide_by_pot(exact, 31 - output_bits) - (128 if op == "LOGISTIC" else 0)
    return narrow(np.where(inside, rounded, np.where(x <= -radius, -128, 127)), -128, 127)


def lut(op: Operator, subgraph: Subgraph) -> Array:
    """Table of 256 int8 results, indexed by input + 128, for any operator of this module except PRELU.

    Raises `UnsupportedError` for dtypes other than int8 or, where the operator prescribes it, another output
    quantization.
    """
    tensor = require_dtype(op, subgraph, "int8")
    output = output_tensor(op, subgraph)
    require(output.dtype == "int8", f"output must be int8, not {output.dtype}")
    if op.op == "LOGISTIC":
        require(output.scale == 1.0 / 256 and output.zero_point == -128,
                "output must have scale 1/256 and zero point -128, found "
                f"{output.scale}, {output.zero_point}")
        if subgraph.profile == "tflm":
            return _fixed_point_lut(op.op, tensor.scale, tensor.zero_point)
        return logistic_lut(tensor.scale, tensor.zero_point)
    if op.op == "TANH":
        # TFLite Micro treats any output scale as 1/128.
        if subgraph.profile == "tflm":
            return _fixed_point_lut(op.op, tensor.scale, tensor.zero_point)
        return tanh_lut(tensor.scale, tensor.zero_point, output.scale, output.zero_point)
    every = np.arange(-128, 128).astype(np.int8)
    functions = {"LEAKY_RELU": _leaky_relu, "HARD_SWISH": _hard_swish}
    return functions.get(op.op, _relu)(op, subgraph, every)


def relu_params(op: Operator, subgraph: Subgraph) -> ReluParams:
    """Derive the integers of a RELU, RELU6 or RELU_N1_TO_1."""
    tensor = require_dtype(op, subgraph, "int8", "int16")
    output = output_tensor(op, subgraph)
    multiplier, shift = quantize_multiplier(factor(subgraph, [tensor.scale], output.scale))
    act_min, act_max = activation_range(op.op, output.scale, output.zero_point, tensor.dtype)
    return ReluParams(tensor.zero_point, multiplier, shift, output.zero_point, act_min, act_max)


def leaky_relu_params(op: Operator, subgraph: Subgraph) -> LeakyReluParams:
    """Derive the integers of a LEAKY_RELU."""
    tensor = require_dtype(op, subgraph, "int8", "int16")
    output = output_tensor(op, subgraph)
    positive = factor(subgraph, [tensor.scale], output.scale)
    negative = factor(subgraph, [tensor.scale, float_option(op, "alpha")], output.scale)
    return LeakyReluParams(tensor.zero_point, *quantize_multiplier(positive), *quantize_multiplier(negative),
                           output.zero_point)


def prelu_params(op: Operator, subgraph: Subgraph) -> PreluParams:
    """Derive the integers of a PRELU."""
    tensor = require_dtype(op, subgraph, "int8", "int16")
    alpha = require_dtype(op, subgraph, "int8", position=1)
    output = output_tensor(op, subgraph)
    require(output.dtype == tensor.dtype, f"output must be {tensor.dtype}, not {output.dtype}")
    positive = factor(subgraph, [tensor.scale], output.scale)
    negative = factor(subgraph, [tensor.scale, alpha.scale], output.scale)
    return PreluParams(tensor.zero_point, alpha.zero_point, *quantize_multiplier(positive),
                       *quantize_multiplier(negative), output.zero_point)


def _relu(op: Operator, subgraph: Subgraph, x: Array) -> Array:
    if op.op == "RELU6" and subgraph.profile == "tflm":
        # The kernel clamps to the input's codes of 0 and 6, whatever the output scale is.
        tensor = require_dtype(op, subgraph, "int8", "int16")
        six = min(quantize_limit(op.op, 6.0, tensor.scale, tensor.zero_point), dtype_range(tensor.dtype)[1])
        return narrow(x, tensor.zero_point, six, tensor.dtype)
    p = relu_params(op, subgraph)
    scaled = multiply_by_quantized_multiplier(x.astype(np.int64) - p.input_zero_point,
                                              p.multiplier, p.shift)
    return narrow(scaled + p.output_zero_point, p.act_min, p.act_max, x.dtype.name)


def _leaky_relu(op: Operator, subgraph: Subgraph, x: Array) -> Array:
    p = leaky_relu_params(op, subgraph)
    centred = x.astype(np.int64) - p.input_zero_point
    positive = multiply_by_quantized_multiplier(centred, p.multiplier, p.shift)
    # Multiply the magnitude, then negate: the two roundings are not odd functions.
    negative = multiply_by_quantized_multiplier(centred, abs(p.alpha_multiplier), p.alpha_shift)
    negative = -negative if p.alpha_multiplier < 0 else negative
    return narrow(np.where(centred >= 0, positive, negative) + p.output_zero_point, *dtype_range(x.dtype.name),
                  x.dtype.name)


def _hard_swish(op: Operator, subgraph: Subgraph, x: Array) -> Array:
    tensor, output = require_dtype(op, subgraph, "int8"), output_tensor(op, subgraph)
    output_multiplier, output_exponent = quantize_multiplier(
        factor(subgraph, [tensor.scale, 1 / 128], output.scale))
    reluish_multiplier, reluish_exponent = quantize_multiplier(
        factor(subgraph, [tensor.scale, 1 / 128], 3.0 / 32768))
    require(output_exponent <= 0,
            f"input scale {tensor.scale} must be below 128 times the output scale {output.scale}")
    return hard_swish_int16(x.astype(np.int64) - tensor.zero_point,
                            _high_half(output_multiplier), output_exponent,
                            _high_half(reluish_multiplier), reluish_exponent, output.zero_point)


def _high_half(multiplier: int) -> int:
    """`DownScaleInt32ToInt16Multiplier`: the rounded upper 16 bits."""
    return min((multiplier + (1 << 15)) >> 16, 32767)


def hard_swish_int16(x: IntArray, output_multiplier: int, output_exponent: int,
                     reluish_multiplier: int, reluish_exponent: int,
                     output_zero_point: int) -> Array:
    """HARD_SWISH in 16-bit fixed point; `x` is the input less its zero point.

    The multipliers are int16 Q0.15; `output_exponent` is <= 0; the reluish factor maps a real 3 to 32768.
    """
    hires = x << 7
    preshift = high_mul(hires, output_multiplier, 16)
    reluish = hires
    if reluish_exponent > 0:
        # Shift left by all bits except one first, so that only the last shift can saturate.
        reluish = np.clip(reluish << (reluish_exponent - 1), -32768, 32767)
    reluish = high_mul(reluish, reluish_multiplier, 16)
    if reluish_exponent > 0:
        reluish = np.clip(reluish << 1, -32768, 32767)
    if reluish_exponent < 0:
        reluish = rounding_divide_int16(reluish, -reluish_exponent)
    gate = (reluish + (1 << 15)) >> 1
    product = gate * preshift
    # Truncation toward zero here cancels the bias of the roundings above.
    truncated = np.where(product >= 0, product >> 15, -((-product) >> 15))
    result = rounding_divide_int16(truncated, -output_exponent) + output_zero_point
    wrapped = ((result + (1 << 15)) & 0xFFFF) - (1 << 15)
    return narrow(wrapped, -128, 127)


@kernel("TABLE")
def table(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Table entry for each code: 256 entries for bytes, 65,536 for int16. An operator of the compiler."""
    codes = value(inputs, 0)
    return [value(inputs, 1)[codes.view(np.uint16 if codes.dtype == np.int16 else np.uint8)]]


def _wide(op: Operator, subgraph: Subgraph, x: Array) -> Array:
    if op.op in ("LOGISTIC", "TANH"):
        function = sixteen.logistic if op.op == "LOGISTIC" else sixteen.tanh
        return function(x.astype(np.int64), sixteen.gate_params(op, subgraph)).astype(np.int16)
    require(op.op in ("RELU", "RELU6", "LEAKY_RELU"), f"input must be int8, not int16; {op.op} has no int16 kernel")
    require(output_tensor(op, subgraph).dtype == "int16", "output must be int16 like the input")
    return (_leaky_relu if op.op == "LEAKY_RELU" else _relu)(op, subgraph, x)


@kernel("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH")
def unary(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 by table look-up; int16 computed."""
    if require_dtype(op, subgraph, "int8", "int16").dtype == "int16":
        return [_wide(op, subgraph, value(inputs, 0))]
    table = lut(op, subgraph)
    return [table[value(inputs, 0).astype(np.int64) + 128]]


@kernel("PRELU")
def prelu(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 or int16 PRELU: negative inputs are multiplied by a learned int8 slope, which broadcasts."""
    p = prelu_params(op, subgraph)
    x = value(inputs, 0).astype(np.int64) - p.input_zero_point
    alpha = value(inputs, 1).astype(np.int64) - p.alpha_zero_point
    positive = multiply_by_quantized_multiplier(x, p.multiplier, p.shift)
    negative = multiply_by_quantized_multiplier(x * alpha, p.alpha_multiplier, p.alpha_shift)
    dtype = value(inputs, 0).dtype.name
    return [narrow(np.where(x >= 0, positive, negative) + p.output_zero_point, *dtype_range(dtype), dtype)]
