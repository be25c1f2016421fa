"""LOGISTIC, TANH and SOFTMAX of int16: the functions of 16x8 models.

Sources: `integer_ops/logistic.h`, `integer_ops/tanh.h`, `reference/softmax.h SoftmaxInt16`,
`common.h LUTPopulateInt16`, and the `Prepare` functions in `activations.cc`.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.sim.golden.arith import (
    IntArray,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tq_hw.sim.golden.fixedpoint import count_leading_zeros
from tq_hw.sim.golden.interpolated import looked_up
from tq_hw.sim.golden.libm import expf
from tq_hw.sim.golden.registry import Array, float_option, narrow, output_tensor, require, require_dtype
from tq_hw.sim.golden.sampled import interpolated, sampled

__all__ = ["GateParams", "WideSoftmaxParams", "gate_params", "logistic", "softmax", "softmax_params",
           "softmax_tables", "tanh"]

Floats = npt.NDArray[Any]

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
#: Largest difference from the row's maximum; larger ones are clamped to it.
_REACH = 10.0


@dataclass(frozen=True)
class GateParams:
    """From an input to its argument times 3 * 4096: `(x * multiplier + half) >> shift`, int32."""

    multiplier: int
    shift: int


@dataclass(frozen=True)
class WideSoftmaxParams:
    """From a difference to units of 10 / 65535."""

    multiplier: int
    shift: int


def _check(op: Operator, subgraph: Subgraph, *, scaled: bool) -> Tensor:
    tensor, output = require_dtype(op, subgraph, "int16"), output_tensor(op, subgraph)
    require(output.dtype == "int16" and tensor.zero_point == output.zero_point == 0,
            f"input and output must be int16 with zero point 0, found {tensor.zero_point}, {output.dtype} and "
            f"{output.zero_point}")
    require(not scaled or output.scale == 2.0**-15, f"output must have scale 1/32768, found {output.scale}")
    return tensor


def gate_params(op: Operator, subgraph: Subgraph) -> GateParams:
    """Derive the integers of a LOGISTIC or TANH of int16.

    Raises `UnsupportedError` for an input scale with which the kernel's product exceeds int32.
    """
    scale = _check(op, subgraph, scaled=True).scale
    power = float(np.float32(math.log2(scale)))
    left = 12 + round(power)
    if abs(power - round(power)) < 1e-3 and left in ((0,) if op.op == "LOGISTIC" else (0, 1)):
        return GateParams(3 << left, 0)
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        shift, factor = shift + 1, factor * 2.0
    require(factor < 1 << 16, f"input scale must be below {(1 << 16) / 12288}, found {scale}")
    # The kernel would treat a factor of 0 as a power of two.
    require(int(factor) > 0, f"input scale must be above 2^-45, found {scale}")
    return GateParams(int(factor), shift)


def _argument(x: IntArray, p: GateParams) -> IntArray:
    return wrap_int32(x * p.multiplier + (1 << p.shift >> 1)) >> p.shift


def logistic(x: IntArray, p: GateParams) -> IntArray:
    """Logistic in Q0.15."""
    scaled = _argument(x, p)
    index = np.abs(scaled) >> 9
    value = np.where(index >= 255, 0x7FFF << 10, looked_up(np.abs(scaled), 9))
    return _int16(np.where(scaled >= 0, value + (1 << 9), (1 << 25) - value + (1 << 9) - 1) >> 10)


def tanh(x: IntArray, p: GateParams) -> IntArray:
    """Hyperbolic tangent in Q0.15."""
    scaled = _argument(x, p)
    index = np.abs(scaled) >> 8
    value = np.where(index >= 255, 0xFFFF << 8, looked_up(np.abs(scaled), 8))
    return _int16(np.where(scaled >= 0, value - (1 << 23) + (1 << 7), -value + (1 << 23) + (1 << 7) - 1) >> 8)


def _int16(x: IntArray) -> IntArray:
    wrapped: IntArray = ((x + (1 << 15)) & 0xFFFF) - (1 << 15)
    return wrapped


def _exp(x: Floats) -> Floats:
    """The C library's exponential: numpy's may differ in the last bit."""
    return expf(x) if x.dtype == np.float32 else np.array([math.exp(each) for each in x.tolist()])


def _reciprocal(x: Floats) -> Floats:
    result: Floats = x.dtype.type(1) / (x.dtype.type(1) + x)
    return result


@cache
def softmax_tables(profile: str) -> tuple[IntArray, IntArray]:
    """e^x for x of -10..0, and 1 / (1 + x) for x of 0..1, by code; TFLite Micro computes them in float32."""
    kind: type[np.floating[Any]] = np.float32 if profile == "tflm" else np.float64
    reach, one, two = (float(kind(number) / kind(65535)) for number in (_REACH, 1.0, 2.0))
    return (sampled(float(kind(reach) * kind(-65535)), 0.0, two, _exp, kind),
            sampled(0.0, float(kind(one) * kind(65535)), two, _reciprocal, kind))


def softmax_params(op: Operator, subgraph: Subgraph) -> WideSoftmaxParams:
    """Derive the integers of a SOFTMAX of int16."""
    tensor = _check(op, subgraph, scaled=False)
    scale = float(np.float32(tensor.scale) * np.float32(float_option(op, "beta")))
    return WideSoftmaxParams(*quantize_multiplier(scale / (_REACH / 65535)))


def softmax(x: IntArray, p: WideSoftmaxParams, exponentials: IntArray, reciprocals: IntArray) -> Array:
    """Softmax over the last axis, int16 in Q0.15."""
    diff = x - x.max(axis=-1, keepdims=True)
    code = np.clip(multiply_by_quantized_multiplier(diff, p.multiplier, p.shift) + _HIGH, _LOW, _HIGH)
    powers = interpolated(code, exponentials)
    total = wrap_int32(powers.sum(axis=-1, keepdims=True))
    headroom = count_leading_zeros(total)
    normal = ((total << headroom - 1) + (1 << 13)) >> 14
    scale = interpolated(np.clip(normal - (1 << 15) - (1 << 16), _LOW, _HIGH), reciprocals)
    right = 31 - headroom
    return narrow((powers * scale + (np.int64(1) << right - 1)) >> right, 0, _HIGH, "int16")
