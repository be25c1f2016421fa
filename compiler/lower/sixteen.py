"""Multiply-accumulate operators of 16x8 models: activations are two byte planes, which both pass the array."""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.sixteen import PlaneMac
from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value
from tq_hw.compiler.lower.doubles import reachable
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.lower.sixteen_doubles import Doubles, wide_doubles
from tq_hw.compiler.programs.sixteen import reduced
from tq_hw.compiler.programs.words import OUT, SAR, STREAM_A, Uop, immediate
from tq_hw.isa.uop import Alu
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, round_half_away, wrap_int32
from tq_hw.sim.golden.mac import MacParams

__all__ = ["plane_mac", "split_planes"]

_INT8, _INT16 = TYPE_CODES["int8"], TYPE_CODES["int16"]
#: A low byte of 0, as stored in its plane.
_LOW_ZERO = -128
#: Largest exponent of the program for 48-bit sums.
_MOST_LEFT = 6


def split_planes(state: Legalizer, op: Operator, source: Value) -> tuple[Value, Value]:
    """Return planes of the upper and lower bytes of int16 elements, the lower bytes less 128."""
    n, h, w, size = source.shape
    shape, planes = (n, h, w, size // 2), []
    parts: tuple[tuple[str, Uop], ...] = (("high", {**immediate(8), **SAR}),
                                          ("low", {**immediate(128), "alu": Alu.ADD}))
    for name, change in parts:
        planes.append(Value(f"{source.name} ({name} bytes)", source.tensor, shape))
        state.layers.append(Flat(op.index, op.op, (source,), planes[-1], source.size_bytes // 2, (_INT16,), _INT8,
                                 ({**STREAM_A, **change, **OUT},)))
    return planes[0], planes[1]


def _planes(state: Legalizer, op: Operator, source: Value) -> tuple[Value, Value]:
    """Return the planes of an activation, which all views of the same bytes share."""
    if source.root not in state.planes:
        state.planes[source.root] = split_planes(state, op, source)
    return state.planes[source.root]


def _rounding(p: MacParams, weights: IntArray, total: IntArray) -> str:
    """Return the rescaling of `total + 256 * high + low`, high and low the planes' sums; refuse sums that overflow."""
    if p.real is not None:
        return "double"
    if not p.wide:
        return "tflite"
    if p.shift.max() > _MOST_LEFT:
        raise UnsupportedError("a rescaling multiplier must be below 64 where activations are int16, found one of "
                               f"2^{int(p.shift.max()) - 1} or more; use a larger output scale")
    least, most = reachable(weights, np.zeros(len(weights), np.int64))
    lowest, highest = ((257 * each + total) for each in (least, most))
    if p.shift[p.multiplier > 0].max(initial=-1) < 0 and lowest.min() >= INT32_MIN and highest.max() <= INT32_MAX:
        return "once"
    if lowest.min() >> 8 < INT32_MIN or highest.max() >> 8 > INT32_MAX or least.min() < INT32_MIN or (
            most.max() > INT32_MAX - 255):
        raise UnsupportedError(f"sums of {lowest.min()}..{highest.max()} exceed the 40 bits that are kept of them; use "
                               "smaller biases or fewer inputs")
    return "wide"


def _most_high(p: MacParams, least: IntArray, most: IntArray, total: IntArray) -> int | None:
    """Return a clamp for sums of the high plane, with which the whole sum fits int32; None if it fits anyway.

    `least..most` are sums of either plane, `total` is added once. A clamped sum is still large enough that its result
    is at the activation's limit.
    """
    assert p.real is not None
    lowest, highest = 257 * least + total, 257 * most + total
    if lowest.min() >= INT32_MIN and highest.max() <= INT32_MAX:
        return None
    beside = int(max(np.abs(least).max(), np.abs(most).max()) + np.abs(total).max())
    kept = (INT32_MAX - beside) >> 8
    ends = round_half_away((256.0 * kept - beside) * np.asarray(p.real))
    if kept < 0 or np.any(ends < max(p.act_max, -p.act_min)):
        raise UnsupportedError(f"sums of {lowest.min()}..{highest.max()} exceed int32, on which LiteRT rescales in "
                               "double; smaller weights or fewer inputs help", ", and so does --profile canon")
    return kept


def _doubles(p: MacParams, weights: IntArray, total: IntArray) -> tuple[Doubles, int | None]:
    """Return multipliers equal to the kernel's doubles, and the clamp of the high plane's sums."""
    assert p.real is not None
    least, most = reachable(weights, np.zeros(len(weights), np.int64))
    kept = _most_high(p, least, most, total)
    limit = INT32_MAX if kept is None else 256 * kept
    lowest, highest = np.maximum(256 * least, -limit) + least + total, np.minimum(256 * most, limit) + most + total
    return wide_doubles(np.broadcast_to(p.real, total.shape), lowest, highest, p.act_min, p.act_max), kept


def plane_mac(state: Legalizer, op: Operator, source: Value, output: Value, weights: IntArray, bias: IntArray | None,
              p: MacParams, *, depthwise: bool = False, stride: tuple[int, int] = (1, 1),
              dilation: tuple[int, int] = (1, 1), pad: tuple[int, int] = (0, 0),
              useful_weights: int | None = None) -> None:
    """Add layers that compute `output` from the int16 activation `source`; both are views of bytes."""
    channels = np.moveaxis(weights, -1, 0) if depthwise else weights
    rows = channels.reshape(len(channels), -1)
    total = 128 * rows.sum(axis=1, dtype=np.int64)
    if bias is not None:
        total = total + bias.astype(np.int64).reshape(-1)
    rounding = _rounding(p, rows, total)
    n, h, w, size = output.shape
    # The sums need no memory: they stay within the layer.
    sums = Value(f"{output.name} (sums)", output.tensor, (n, h, w, size // 2))
    planes = [replace(each, shape=(*source.shape[:3], source.shape[3] // 2), alias_of=each)
              if each.shape[:3] != source.shape[:3] or each.shape[3] * 2 != source.shape[3] else each
              for each in _planes(state, op, source)]
    biases = (total >> 8, total & 255) if rounding == "wide" else (np.zeros_like(total), wrap_int32(total))
    multiplier, shift = reduced(p.multiplier) << 16 if rounding == "once" else p.multiplier, p.shift
    low_words, most_high = None, None
    if rounding == "double":
        made, most_high = _doubles(p, rows, total)
        multiplier, shift, low_words = made.high, np.full(len(total), -made.right), made.low
        # The second program also reads its upper words from the field of the biases.
        biases = total, multiplier
    high, low = (Mac(op.index, op.op, (plane,), sums, depthwise=depthwise, weights=weights, bias=each,
                     multiplier=p.multiplier, shift=p.shift, stride=stride, dilation=dilation, pad=pad, pad_value=zero,
                     zero_point=0, act_min=p.act_min, act_max=p.act_max, useful_weights=useful_weights)
                 for plane, each, zero in zip(planes, biases, (0, _LOW_ZERO), strict=True))
    state.layers.append(PlaneMac(op.index, op.op, (planes[0], planes[1]), output, high, low, multiplier, shift,
                                 rounding, p.act_min, p.act_max, low_words, most_high))
