"""Elementwise float32 operators between a DEQUANTIZE and a QUANTIZE.

Sources: LiteRT's reference kernels: `activations.cc`, `elementwise.cc`, `floor.cc`, `ceil.cc`, `round.h`, `sign.cc`,
`neg.h`, `elu.h`, `leaky_relu.h`, `hard_swish.h`, `logistic.h`, `add.cc`, `sub.cc`, `mul.cc`, `div.cc`, `pow.cc`,
`atan2.cc`, `floor_div.cc`, `floor_mod.h`, `squared_difference.cc`, `maximum_minimum.cc`.

Every step is one float32 operation, as in the sources. Functions of C's library come from `libm.py`, `libm_double.py`
and `libm_angle.py`; GELU follows Eigen (`gelu_float.py`). POW with a single positive whole exponent is products.
"""

import math
from collections.abc import Callable

import numpy as np

from tq_hw.model.errors import InputError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import round_half_away
from tq_hw.sim.golden.gelu_float import gelu
from tq_hw.sim.golden.libm import Float32, expf, expm1f, tanhf
from tq_hw.sim.golden.libm_angle import atan2f
from tq_hw.sim.golden.libm_double import cosf, logf, powf, sinf
from tq_hw.sim.golden.registry import Array, Inputs, Kernel, float_option, require, str_option, value

__all__ = ["BINARY", "CUTOFF", "LEAST", "RANGES", "UNARY", "either", "whole_exponents"]

_ZERO, _ONE, _THREE, _SIX = (np.float32(number) for number in (0, 1, 3, 6))
#: LOGISTIC is 1 above this; below -9 it is the exponential.
CUTOFF, LEAST = np.float32(16.619047164916992188), np.float32(-9)
#: Clamp limits of fused activations, which exclude infinity.
_MOST = float(np.finfo(np.float32).max)
#: Distance of an exponent from a whole number that LiteRT ignores.
_CLOSE = np.float32(1e-5)
RANGES = {"NONE": (-_MOST, _MOST), "RELU": (0, _MOST), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}


def _logistic(x: Float32) -> Float32:
    middle = _ONE / (_ONE + expf(-np.clip(x, LEAST, CUTOFF)))
    return np.where(x > CUTOFF, _ONE, np.where(x < LEAST, expf(np.minimum(x, LEAST)), middle))


def _round(x: Float32) -> Float32:
    """Round to nearest even, by adding 0 or 1 to the next lower integer, so that -0.3 gives 0 and not -0."""
    return np.where(x == 0, x, np.rint(x) + np.float32(0))


def _rsqrt(x: Float32) -> Float32:
    result: Float32 = np.asarray(_ONE / np.sqrt(x), np.float32)
    return result


def _elu(x: Float32) -> Float32:
    return np.where(x < 0, expm1f(np.minimum(x, _ZERO)), x)


def _hard_swish(x: Float32) -> Float32:
    result: Float32 = x * np.minimum(_SIX, np.maximum(_ZERO, x + _THREE)) / _SIX
    return result


def _floor_mod(x: Float32, y: Float32) -> Float32:
    rest = np.fmod(x, y)
    result: Float32 = np.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
    return result


def _floor_div(x: Float32, y: Float32) -> Float32:
    """The kernel divides in double, so that no quotient is rounded up to an integer."""
    result: Float32 = np.floor(np.divide(x, y, dtype=np.float64)).astype(np.float32)
    return result


def _prelu(x: Float32, y: Float32) -> Float32:
    result: Float32 = np.where(x >= 0, x, np.multiply(x, y))
    return result


def _clamped(low: float, high: float) -> Callable[[Float32], Float32]:
    return lambda x: np.clip(x, np.float32(low), np.float32(high))


#: Functions of one number; GELU and LEAKY_RELU also have an option.
UNARY: dict[str, Callable[[Float32], Float32]] = {
    "ABS": np.abs, "NEG": np.negative, "SQRT": np.sqrt, "RSQRT": _rsqrt, "SQUARE": lambda x: x * x,
    "EXP": expf, "LOG": logf, "SIN": sinf, "COS": cosf, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": _round,
    "SIGN": np.sign, "TANH": tanhf, "LOGISTIC": _logistic, "ELU": _elu, "HARD_SWISH": _hard_swish,
    "RELU": _clamped(0, np.inf), "RELU6": _clamped(0, 6), "RELU_N1_TO_1": _clamped(-1, 1),
    "RELU_0_TO_1": _clamped(0, 1)}
#: Functions of two numbers.
BINARY: dict[str, Callable[[Float32, Float32], Float32]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide, "POW": powf, "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum, "SQUARED_DIFFERENCE": lambda x, y: np.square(np.subtract(x, y)),
    "FLOOR_DIV": _floor_div, "FLOOR_MOD": _floor_mod,
    "PRELU": _prelu, "ATAN2": atan2f}


def whole_exponents(op: Operator, subgraph: Subgraph, exponents: Array) -> dict[np.float32, int]:
    """Return the exponents of a POW for which LiteRT multiplies instead of calling the library, and the whole numbers.

    They are positive and less than 1e-5 from a whole number. The tensor of the exponent has a single element and a
    shape other than the base's.
    """
    base, power = (subgraph.tensors[index].shape for index in op.inputs)
    if math.prod(power) != 1 or base == power:
        return {}
    wholes = {each: int(round_half_away(each)) for each in np.unique(exponents) if 0.5 <= each < 1 << 31}
    return {each: whole for each, whole in wholes.items() if abs(each - np.float32(whole)) < _CLOSE}


def _power(x: Float32, whole: int) -> Float32:
    """Return a power by squares and products, each of which is at most the largest number."""
    if whole == 1:
        return x
    half = _power(x, whole // 2)
    made: Float32 = np.clip(half * half, -_MOST, _MOST)
    return np.clip(made * x, -_MOST, _MOST).astype(np.float32) if whole % 2 else made


def _float(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    x = value(inputs, 0)
    with np.errstate(all="ignore"):
        if op.op == "GELU":
            result = gelu(op, x)
        elif op.op == "LEAKY_RELU":
            result = np.where(x > 0, x, x * np.float32(float_option(op, "alpha")))
        elif op.op in UNARY:
            result = UNARY[op.op](x)
        else:
            y = value(inputs, 1)
            if op.op == "FLOOR_DIV" and not y.all():
                raise InputError("a divisor is 0, which the kernel rejects")
            result = BINARY[op.op](x, y)
            if op.op == "POW":
                for exponent, whole in whole_exponents(op, subgraph, y).items():
                    result = np.where(y == exponent, _power(x, whole), result)
            if "fused_activation_function" in op.options:
                low, high = RANGES[str_option(op, "fused_activation_function")]
                result = np.clip(result, np.float32(low), np.float32(high))
    return [np.asarray(result, np.float32)]


def either(other: Kernel | None) -> Kernel:
    """Return a kernel that computes float32 inputs here and passes others to `other`, if there is one."""
    def run(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
        if value(inputs, 0).dtype == np.float32:
            return _float(op, subgraph, inputs)
        require(other is not None, f"its inputs must be float32, not {value(inputs, 0).dtype.name}")
        assert other is not None
        return other(op, subgraph, inputs)
    return run
