"""TFLite Micro's 16-bit logistic and tanh: a table of 256 logistic values with linear interpolation.

Sources: `integer_ops/logistic.h` and `integer_ops/tanh.h`, int16. Both scale the argument by 3/4, so the table ends at
10.6.
"""

import numpy as np

from tq_hw.sim.golden.arith import IntArray

__all__ = ["interpolated_logistic", "interpolated_tanh", "logistic_table", "looked_up"]

#: Table entries per unit.
_ENTRIES_IN_ONE = 24


def logistic_table() -> IntArray:
    """Logistic of n / 24 for n = 0..255 in Q0.16, corrected by half the error of linear interpolation.

    The error in the middle between two points is an eighth of the second derivative times the square of their distance.
    The last entry is 2^16 - 1.
    """
    p = 1 / (1 + np.exp(-np.arange(256) / _ENTRIES_IN_ONE))
    second_derivative = p * (1 - p) * (1 - 2 * p)
    table = np.floor(65536 * (p - second_derivative / (16 * _ENTRIES_IN_ONE**2)) + 0.5).astype(np.int64)
    table[-1] = (1 << 16) - 1
    return table


def looked_up(magnitude: IntArray, fraction_bits: int) -> IntArray:
    """Interpolated table at `magnitude`, with `fraction_bits` more fraction bits; constant after the last entry."""
    table = np.append(logistic_table(), 0)
    index = np.minimum(magnitude >> fraction_bits, 255)
    left = table[index] << fraction_bits
    step = table[index + 1] - table[index]
    value: IntArray = np.where(index == 255, left, left + (magnitude & ((1 << fraction_bits) - 1)) * step)
    return value


def interpolated_logistic(x: IntArray) -> IntArray:
    """`1 / (1 + e^-x)` in Q0.15 of x with 12 fraction bits."""
    scaled = x * 3
    # An int16 argument does not reach the table's end.
    value = looked_up(np.abs(scaled), 9)
    return np.where(scaled >= 0, value + (1 << 9), (1 << 25) - value + (1 << 9) - 1) >> 10


def interpolated_tanh(x: IntArray, fraction_bits: int = 12) -> IntArray:
    """Hyperbolic tangent in Q0.15 of x with 9..15 fraction bits."""
    left, right = max(12 - fraction_bits, 0), max(fraction_bits - 12, 0)
    scaled = ((x * 3 << left) + (1 << right >> 1)) >> right
    value = looked_up(np.abs(scaled), 8)
    return np.where(scaled >= 0, value - (1 << 23) + (1 << 7), -value + (1 << 23) + (1 << 7) - 1) >> 8
