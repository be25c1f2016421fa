"""Integer primitives of all kernels, vectorised over numpy.

Sources: LiteRT `tflite/kernels/internal/common.{h,cc}`, `kernel_util.cc`, `padding.h` and gemmlowp
`fixedpoint/fixedpoint.h`, all with `TFLITE_SINGLE_ROUNDING` 0, the published default.

The functions broadcast Python integers or integer arrays, and return int64 arrays of int32 values. A `multiplier` is
int32 in Q0.31; a `shift` is TFLite's signed exponent, positive = left.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import ModelError, UnsupportedError

__all__ = ["INT16_CODES", "INT32_MAX", "INT32_MIN", "INT8_CODES", "UINT8_CODES", "IntArray", "IntLike",
           "Padding", "activation_range", "compute_padding", "divide_toward_zero", "dtype_range",
           "multiply_by_quantized_multiplier", "multiply_wide", "quantize_limit", "quantize_multiplier",
           "quantize_multipliers",
           "round_half_away", "rounding_divide_by_pot", "saturate",
           "saturating_rounding_doubling_high_mul", "wrap_int32"]

IntArray = npt.NDArray[np.int64]
#: All codes in the order of a table's entries, which is that of unsigned codes.
UINT8_CODES = np.arange(1 << 8).astype(np.uint8)
INT8_CODES = UINT8_CODES.view(np.int8)
INT16_CODES = np.arange(1 << 16).astype(np.uint16).view(np.int16)
IntLike = int | npt.NDArray[np.integer]

INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1

_DTYPE_RANGE = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767),
                "int32": (INT32_MIN, INT32_MAX)}


class Padding(NamedTuple):
    """Output size and padding of one spatial axis, in elements.

    `after` equals `before` or exceeds it by one.
    """

    out_size: int
    before: int
    after: int


def _int64(x: IntLike) -> IntArray:
    return np.asarray(x, dtype=np.int64)


def wrap_int32(x: IntLike) -> IntArray:
    """Keep the low 32 bits of `x` as a signed number (two's complement wrap)."""
    return ((_int64(x) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def saturate(x: IntLike, bits: int) -> IntArray:
    """Clamp to the signed range of `bits` bits."""
    return np.clip(_int64(x), -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def divide_toward_zero(numerator: IntLike, denominator: IntLike) -> IntArray:
    """Divide as C does: `-7 / 2 == -3`. `denominator` is positive."""
    n, d = _int64(numerator), _int64(denominator)
    quotient: IntArray = np.where(n >= 0, n // d, -((-n) // d))
    return quotient


def saturating_rounding_doubling_high_mul(a: IntLike, b: IntLike) -> IntArray:
    """High 32 bits of `2 * a * b`, rounded; gemmlowp `SaturatingRoundingDoublingHighMul`.

    `a` and `b` are int32. The source adds 2^30, or 1 - 2^30 when the product is negative, and
    divides by 2^31 toward zero. Both branches equal `floor((a * b + 2^30) / 2^31)`: halves round
    **up** (a * b = -2^30 gives 0, +2^30 gives 1). The one overflow, both INT32_MIN, gives
    INT32_MAX.
    """
    product = _int64(a) * _int64(b)
    high: IntArray = np.minimum((product + (1 << 30)) >> 31, INT32_MAX)
    return high


def rounding_divide_by_pot(x: IntLike, exponent: IntLike) -> IntArray:
    """`x / 2^exponent`, halves away from zero; gemmlowp `RoundingDivideByPOT`.

    `x` is int32 and `exponent` is in 0..31.
    """
    x, exponent = _int64(x), _int64(exponent)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


def multiply_by_quantized_multiplier(x: IntLike, multiplier: IntLike, shift: IntLike) -> IntArray:
    """`x * multiplier * 2^(shift - 31)` rounded twice; `MultiplyByQuantizedMultiplier`.

    `x` is int32, `multiplier` int32 Q0.31, `shift` in -31..31. A left shift is a 32-bit
    multiplication in the source and wraps; then SaturatingRoundingDoublingHighMul (halves up), then
    RoundingDivideByPOT (halves away from zero).
    """
    shift = _int64(shift)
    x = _int64(x)
    if np.any(shift > 0):
        x = wrap_int32(x << np.maximum(shift, 0))
    high = saturating_rounding_doubling_high_mul(x, multiplier)
    return rounding_divide_by_pot(high, np.maximum(-shift, 0))


def multiply_wide(x: IntLike, multiplier: IntLike, shift: IntLike) -> IntArray:
    """`x * multiplier * 2^(shift - 31)` of an int64, rounded once; the other `MultiplyByQuantizedMultiplier`.

    `x` has 48 bits, `shift` is in -31..7. The multiplier is rounded to 15 bits first. Halves round up. The low 32 bits
    of the result are kept, as in the source.
    """
    multiplier, shift = _int64(multiplier), _int64(shift)
    reduced = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
    right = 15 - shift
    return wrap_int32((_int64(x) * reduced + (np.int64(1) << (right - 1))) >> right)


def round_half_away(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """C `round`: nearest integer, halves away from zero, exact for every float32 and float64."""
    x = np.asarray(x, dtype=np.float64)
    magnitude = np.abs(x)
    below = np.floor(magnitude)
    # The fraction of a double is exact, so the comparison with a half is too.
    rounded: npt.NDArray[np.float64] = np.copysign(below + (magnitude - below >= 0.5), x)
    return rounded


def quantize_multiplier(real: float) -> tuple[int, int]:
    """`(multiplier, shift)` with `real = multiplier * 2^(shift - 31)`; `QuantizeMultiplier`.

    `real` is a C double. The multiplier is 0 or has magnitude 2^30 .. 2^31 - 1. A `real` below 2^-32 flushes to (0, 0).

    Raises `ModelError` when `real` is not finite or is 2^31 or more, which needs a shift of more than 31 bits.
    """
    if not math.isfinite(real):
        raise ModelError(f"a rescaling factor must be finite, found {real}; "
                         "check the scales of the operator's tensors")
    fraction, shift = math.frexp(real)
    multiplier = int(round_half_away(fraction * (1 << 31)))
    if abs(multiplier) == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > 31:
        raise ModelError(f"a rescaling factor must be below 2^31, found {real}; "
                         "check the scales of the operator's tensors")
    return multiplier, shift


def quantize_multipliers(reals: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """`quantize_multiplier` of each element: arrays of multipliers and of shifts."""
    pairs = [quantize_multiplier(float(real)) for real in np.asarray(reals, np.float64).ravel()]
    return (np.array([multiplier for multiplier, _ in pairs], np.int64),
            np.array([shift for _, shift in pairs], np.int64))


def dtype_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of a quantized dtype ("int8", "uint8", "int16", "int32")."""
    if dtype not in _DTYPE_RANGE:
        raise UnsupportedError(f"a quantized tensor must be int8, uint8, int16 or int32, "
                               f"not {dtype}")
    return _DTYPE_RANGE[dtype]


def activation_range(activation: str, scale: float, zero_point: int,
                     dtype: str = "int8") -> tuple[int, int]:
    """`(act_min, act_max)` of a fused activation on an output of `scale` and `zero_point`.

    `kernel_util.cc CalculateActivationRangeQuantized`: limits are quantized by a float32 division, rounded half away
    from zero.

    Raises `UnsupportedError` for an activation other than NONE, RELU, RELU6 and RELU_N1_TO_1, and `ModelError` when a
    limit is outside int32.
    """
    low, high = dtype_range(dtype)
    limits: dict[str, tuple[float | None, float | None]] = {
        "NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    if activation not in limits:
        raise UnsupportedError(f"fused activation must be one of {', '.join(limits)}, "
                               f"not {activation}; give the activation an operator of its own")

    real_min, real_max = limits[activation]
    act_min = low if real_min is None else max(low, quantize_limit(activation, real_min, scale, zero_point))
    act_max = high if real_max is None else min(high, quantize_limit(activation, real_max, scale, zero_point))
    return act_min, act_max


def quantize_limit(activation: str, real: float, scale: float, zero_point: int) -> int:
    """Code of an activation limit: a float32 quotient, rounded half away from zero.

    Raises `ModelError` when it is outside int32.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        quotient = float(round_half_away(np.float32(real) / np.float32(scale)))
    if not INT32_MIN <= quotient <= INT32_MAX:
        raise ModelError(f"activation {activation}: {real} is beyond int32 at scale {scale}, where the engines refuse "
                         "it or are undefined")
    return zero_point + int(quotient)


def compute_padding(padding: str, in_size: int, filter_size: int, stride: int,
                    dilation: int = 1) -> Padding:
    """Output size and padding of one axis for "SAME" or "VALID"; `padding.h`.

    SAME gives `ceil(in_size / stride)` outputs; if the total padding is odd, the extra element comes after. A VALID
    filter larger than the input gives `out_size` <= 0, which the caller must refuse.
    """
    effective = (filter_size - 1) * dilation + 1
    if padding == "VALID":
        return Padding((in_size - effective + stride) // stride, 0, 0)
    if padding != "SAME":
        raise UnsupportedError(f"padding must be SAME or VALID, not {padding}")
    out_size = -(-in_size // stride)
    total = max((out_size - 1) * stride + effective - in_size, 0)
    return Padding(out_size, total // 2, total - total // 2)
