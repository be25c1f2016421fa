"""Functions of int16 by linear interpolation between 513 samples.

Source: `common.h LUTPopulateInt16`, `LUTLookup`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.sim.golden.arith import IntArray, round_half_away
from tq_hw.sim.golden.registry import require

__all__ = ["Function", "interpolated", "sampled"]

Floats = npt.NDArray[Any]
Function = Callable[[Floats], Floats]

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
#: Intervals of an interpolated table, and the bits of a code within one.
_STEPS, _STEP_BITS = 512, 7


def sampled(low: float, high: float, scale: float, function: Function, kind: type[np.floating[Any]]) -> IntArray:
    """513 samples, each less half the interpolation error at the middle of its interval, in float32 or double.

    `low` and `high` are the first and the last code times the scale. Raises `UnsupportedError` if a sample is not
    finite.
    """
    step = kind((kind(high) - kind(low)) / kind(_STEPS))
    inverse = kind(65536) / (kind(scale) * kind(_HIGH) - kind(scale) * kind(_LOW))
    at = kind(low) + np.arange(_STEPS + 1).astype(kind) * step
    with np.errstate(over="ignore", invalid="ignore"):
        value, middle = function(at) * inverse, round_half_away(function(at[:-1] + step / kind(2)) * inverse)
    require(bool(np.isfinite(value).all()), "results must be finite in float32 for all codes, otherwise the kernels "
                                            "are undefined; use a smaller input scale")
    samples = round_half_away(value[:-1])
    between = round_half_away((value[1:] + samples.astype(kind)) / kind(2))
    samples -= round_half_away((between - middle) / 2)
    last = round_half_away(function(np.array([high], kind)) * inverse)
    table: IntArray = np.clip(np.concatenate([samples, last]), _LOW, _HIGH).astype(np.int64)
    return table


def interpolated(code: IntArray, table: IntArray) -> IntArray:
    """Interpolated value of a table; an interval has 128 codes, halves round up.

    The kernel computes in int16. If two samples differ by more than that, as for a logarithm near 0, their difference
    wraps, and the line has the opposite slope.
    """
    index = 256 + (code >> _STEP_BITS)
    offset = code & (1 << _STEP_BITS) - 1
    return _wrapped(table[index] + (_wrapped(table[index + 1] - table[index]) * offset + (1 << _STEP_BITS - 1)
                                    >> _STEP_BITS))


def _wrapped(value: IntArray) -> IntArray:
    wrapped: IntArray = (value - _LOW) % (1 << 16) + _LOW
    return wrapped
