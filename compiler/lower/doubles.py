"""Constants with which fixed point gives `round((double)acc * M)` for every accumulator that a layer can have.

Both functions are monotonic in the accumulator, and a clamped result has at most 255 steps. They are therefore equal if
each step is at the same accumulator `t`: the result is `v` or more at `t`, and less at `t - 1`.

The first of these methods with the right steps is used:

1. TFLite's multiplier and shift
2. a truncated product of 31 bits that is rounded once; any multiplier in an interval is right
3. if all channels have one factor: a product that gives the result or one more, and a comparison with the threshold of
   that result, from a table
4. a product of 60 bits
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.layers import Steps, Wide
from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, multiply_by_quantized_multiplier, round_half_away
from tq_hw.sim.golden.mac import DOUBLE_LIMIT, MacParams

__all__ = ["Scaling", "double_scaling", "reachable"]

Doubles = npt.NDArray[np.float64]
_WORD_BITS = 31
#: Bits of the lower word of a wide multiplier.
_LOW_BITS = 29
#: Bound of what a wide multiplier's program drops from a product, in units of the lower word's last bit times 2^31.
_LOST = 1 << 32
_LARGEST_SHIFT = 31
#: Results of this magnitude are clamped for any zero point.
_CLAMPED = 512


@dataclass(frozen=True, eq=False)
class Scaling:
    """The rescaling of accumulators: the members of `ir.Mac` with these names."""

    rounding: str
    multiplier: IntArray
    shift: IntArray
    steps: Steps | None = None
    wide: Wide | None = None


@dataclass(frozen=True, eq=False)
class _Conditions:
    """Conditions [channel, step]: the result is `value` or more at accumulator `up`, less at `down`, if they count."""

    value: npt.NDArray[np.int64]
    up: npt.NDArray[np.int64]
    counts_up: npt.NDArray[np.bool_]
    down: npt.NDArray[np.int64]
    counts_down: npt.NDArray[np.bool_]


def reachable(weights: IntArray, bias: IntArray) -> tuple[IntArray, IntArray]:
    """Least and largest `sum(w * x) + bias` of each row of weights over all int8 x."""
    wide = weights.reshape(weights.shape[0], -1).astype(np.int64)
    products = np.stack([wide * -128, wide * 127])
    return products.min(axis=0).sum(axis=1) + bias, products.max(axis=0).sum(axis=1) + bias


def double_scaling(p: MacParams, lowest: IntArray, highest: IntArray) -> Scaling:
    """Return constants for a kernel that rescales in double; accumulators are in lowest..highest, by channel.

    Raises UnsupportedError if the kernel is undefined, or if no constants give its results.
    """
    assert p.real is not None
    wraps = (lowest < INT32_MIN) | (highest > INT32_MAX)
    least, most = np.where(wraps, INT32_MIN, lowest), np.where(wraps, INT32_MAX, highest)
    real = np.broadcast_to(p.real, least.shape)
    reach = np.maximum(-least, most).astype(np.float64) * real
    if reach.max() >= DOUBLE_LIMIT:
        at = int(reach.argmax())
        raise UnsupportedError(
            f"accumulators of {least[at]}..{most[at]} times {real[at]:g} overflow int32: LiteRT's reference kernel is "
            "undefined there; use a larger output scale", ", or --profile canon")
    steps = _steps(real, p, least, most)
    multiplier, shift = (np.broadcast_to(each, least.shape) for each in (p.multiplier, p.shift))
    if _is_tflite(steps, multiplier, shift, least, most):
        return Scaling("tflite", multiplier, shift)
    found = _single(steps, real)
    if found is None and real.min() == real.max():
        found = _compared(p, float(real[0]), least, most)
    if found is None:
        found = _two_words(steps, real, least, most)
    if found is None:
        raise UnsupportedError(f"no multipliers of {_WORD_BITS + _LOW_BITS} bits give LiteRT's result for every "
                               f"accumulator in {least.min()}..{most.max()} at factors {real.min():g}..{real.max():g}; "
                               "weight scales that differ less help", ", and so does --profile canon")
    return found


def _steps(real: Doubles, p: MacParams, least: IntArray, most: IntArray) -> _Conditions:
    """Find the accumulators at which `round(acc * real)` steps up."""
    value = np.arange(p.act_min + 1, p.act_max + 1) - p.output_zero_point
    with np.errstate(divide="ignore", over="ignore"):
        guess = np.floor((value - 0.5) / real[:, None])
    first = np.clip(guess, least[:, None] - 4.0, most[:, None] + 4.0).astype(np.int64) - 3
    # The first of 8 accumulators that reaches the value. If none does, the step is after the last accumulator.
    at = first
    for width in (4, 2, 1, 1):
        reached = round_half_away((at + width - 1).astype(np.float64) * real[:, None]) >= value
        at = np.where(reached, at, at + width)
    at = np.where(at < first + 8, at, most[:, None] + 1)
    return _Conditions(np.broadcast_to(value, at.shape), np.maximum(at, least[:, None]), at <= most[:, None],
                  np.minimum(at - 1, most[:, None]), at > least[:, None])


def _is_tflite(steps: _Conditions, multiplier: IntArray, shift: IntArray, least: IntArray, most: IntArray) -> bool:
    """Whether TFLite's own multiplier and shift have the same steps."""
    left = np.maximum(shift, 0)
    if ((least << left) < INT32_MIN).any() or ((most << left) > INT32_MAX).any():
        return False
    up, down = (multiply_by_quantized_multiplier(at, multiplier[:, None], shift[:, None])
                for at in (steps.up, steps.down))
    return bool((~steps.counts_up | (up >= steps.value)).all() and (~steps.counts_down | (down < steps.value)).all())


def _interval(steps: _Conditions, channel: int, bits: int, lost: int, left_shift: int) -> tuple[int, int]:
    """Multipliers m for which `(acc * 2^left_shift * m - e + 2^(bits-1)) >> bits`, 0 <= e < lost, has the right steps.

    Returns the least and the largest m; there is none if the least is more than the largest.
    """
    low, high = 0, 1 << _WORD_BITS + _LOW_BITS
    half = 1 << bits - 1
    for at, counts, is_up in ((steps.up, steps.counts_up, True), (steps.down, steps.counts_down, False)):
        which = counts[channel]
        for acc, value in zip(at[channel][which].tolist(), steps.value[channel][which].tolist(), strict=True):
            x, bound = acc << left_shift, (value << bits) - half + (lost if is_up else -1)
            # x * m >= bound, or x * m <= bound
            if x == 0:
                if is_up == (bound > 0):
                    return 1, 0
            elif (x > 0) == is_up:
                low = max(low, ceil_div(bound, x))
            else:
                high = min(high, bound // x)
    return low, high


def _fits(low: IntArray, high: IntArray, left_shift: int) -> bool:
    return bool(((low << left_shift) >= INT32_MIN).all() and ((high << left_shift) <= INT32_MAX).all())


def _single(steps: _Conditions, real: Doubles) -> Scaling | None:
    """Multipliers of one word whose truncated product is rounded half up: `acc * m + 2^(bits-1) >> bits`."""
    # Rounding needs a right shift of at least one bit.
    right = np.minimum(-np.frexp(real)[1].astype(np.int64), _LARGEST_SHIFT)
    if (right < 1).any():
        return None
    bits = (_WORD_BITS + right)[:, None]
    # A product is less than 2^62: the bounds are clipped beyond it, and fit int64.
    most = (np.int64(1) << 64 - bits) - 1
    bound = np.clip(2 * steps.value - 1, -most, most) << bits - 1
    low, high = np.zeros(len(real), np.int64), np.full(len(real), INT32_MAX, np.int64)
    for x, counts, is_up in ((steps.up, steps.counts_up, True), (steps.down, steps.counts_down, False)):
        # x * m >= bound, or x * m <= bound
        limit = bound if is_up else bound - 1
        if (counts & (x == 0) & ((limit > 0) if is_up else (limit < 0))).any():
            return None
        divisor = np.where(x == 0, 1, x)
        at_least, at_most = counts & ((x > 0) == is_up) & (x != 0), counts & ((x < 0) == is_up) & (x != 0)
        low = np.maximum(low, np.where(at_least, -(-limit // divisor), 0).max(axis=1, initial=0))
        high = np.minimum(high, np.where(at_most, limit // divisor, INT32_MAX).min(axis=1, initial=INT32_MAX))
    return None if (low > high).any() else Scaling("divide", (low + high) // 2, -right)


def _compared(p: MacParams, real: float, least: IntArray, most: IntArray) -> Scaling | None:
    """A product that gives the result or one more, and a table of the results' thresholds."""
    low, high = least.min(keepdims=True), most.max(keepdims=True)
    steps = _steps(np.array([real]), p, low, high)
    exponent = int(np.frexp(real)[1])
    left = max(exponent, 0)
    right = min(left - exponent, _LARGEST_SHIFT)
    limit = None if _fits(low, high, left) else int(np.ceil(_CLAMPED / real))
    # Rounded up, so that no result is too small.
    multiplier = min(int(real * 2.0 ** (_WORD_BITS + right - left)) + 1, INT32_MAX)
    table = np.full(256, INT32_MIN, np.int64)
    values = steps.value[0] + p.output_zero_point
    table[values & 0xFF] = np.minimum(np.where(steps.counts_up[0], steps.down[0] + 1, high[0] + 1), INT32_MAX)
    made = Steps(multiplier, left, right, limit, table)

    def results(acc: IntArray) -> IntArray:
        x = acc if limit is None else np.clip(acc, -limit, limit)
        product = (x << left) * multiplier >> _WORD_BITS
        about = (product + (1 << right >> 1) >> right) + p.output_zero_point + (right == 0)
        about = np.clip(about, p.act_min, p.act_max)
        found: IntArray = about - (acc < table[about & 0xFF])
        return found
    value = steps.value + p.output_zero_point
    fits = (~steps.counts_up | (results(steps.up) >= value)) & (~steps.counts_down | (results(steps.down) < value))
    count = len(least)
    return Scaling("steps", np.full(count, multiplier), np.full(count, -right), made) if fits.all() else None


def _two_words(steps: _Conditions, real: Doubles, least: IntArray, most: IntArray) -> Scaling | None:
    """Multipliers of two words, with one shift for all channels."""
    largest = float(real.max())
    exponent = int(np.frexp(largest)[1])
    left = max(exponent + 1, 0)
    right = min(left - exponent, _LARGEST_SHIFT)
    limit = None
    if not _fits(least, most, left):
        limit = int(min(np.ceil(_CLAMPED / real.min()), INT32_MAX))
        if limit << left > INT32_MAX:
            return None
    high, low = [], []
    for channel in range(len(real)):
        first, last = _interval(steps, channel, _WORD_BITS + _LOW_BITS + right, _LOST, left)
        last = min(last, (1 << _WORD_BITS + _LOW_BITS) - 1)
        if first > last:
            return None
        middle = (first + last) // 2
        high.append(middle >> _LOW_BITS)
        low.append(middle & (1 << _LOW_BITS) - 1)
    wide = Wide(np.array(high), np.array(low), _LOW_BITS, left, right, limit)
    return Scaling("wide", np.array(high), np.full(len(real), -right), wide=wide)
