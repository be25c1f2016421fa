"""RESIZE_BILINEAR on the array: output pixels at even distances see their neighbours under the same weights.

Along an axis the outputs fall into groups whose taps go on in even steps and share a fraction. A pair of groups, one of
rows and one of columns, is a depthwise layer of up to 2x2 taps, its output every so-manieth pixel of the result.
Fractions of few bits give weights that fit int8 and sum to a power of two: the division is a rounding shift.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir import Elementwise, Layer, Mac, Pitch, Resize, Value
from tq_hw.compiler.taps import Group, groups
from tq_hw.isa.uop import Alu, Destination, Source

__all__ = ["resize_on_array"]

#: Bits of the fractions of a resize.
_FRACTION_BITS = 10
#: A result of more layers than this stays with the vector unit.
_LAYERS = 64


@dataclass(frozen=True)
class _Axis:
    """Outputs first, first + step, ...: `count`; taps at low, low + stride, ... with `weights`, which sum to 2^bits."""

    first: int
    step: int
    count: int
    low: int
    stride: int
    weights: tuple[int, ...]
    bits: int


def _axis(group: Group) -> _Axis | None:
    """Weights of a group as small as they can be, or None where its two taps are not neighbours."""
    fraction, bits = group.fraction, _FRACTION_BITS
    low, apart = group.low, group.high - group.low
    stride = group.low_step
    if fraction == 0 or (apart == 0 and group.high_step == group.low_step):
        weights: tuple[int, ...] = (1,)
        bits = 0
    elif apart == 1 and (group.count == 1 or group.high_step == group.low_step):
        while fraction % 2 == 0:
            fraction, bits = fraction // 2, bits - 1
        weights = ((1 << bits) - fraction, fraction)
    else:
        return None
    if group.count > 1 and stride < 1:
        return None
    return _Axis(group.first, group.step, group.count, low, max(stride, 1), weights, bits)


def resize_on_array(layer: Resize) -> list[Layer] | None:
    """Depthwise layers that make the same output, or None where the weights do not fit or the output has no place."""
    output = layer.output
    n, _, _, c = output.shape
    if layer.inputs[0].shape[:3] == (1, 1, 1):
        copy: dict[str, int] = {"a_source": Source.STREAM, "alu": Alu.PASS, "destination": Destination.OUTPUT}
        return [Elementwise(layer.index, layer.op, layer.inputs, output, copy)]
    axes = [[_axis(group) for group in groups(taps)] for taps in (layer.rows, layer.cols)]
    host, place = (output, output.place) if output.alias_of is None else (output.alias_of, output.pitch)
    if n != 1 or len(axes[0]) * len(axes[1]) > _LAYERS or place is None or host.alias_of is not None:
        return None
    layers: list[Layer] = []
    for rows, cols in itertools.product(*axes):
        if rows is None or cols is None:
            return None
        weights = np.outer(rows.weights, cols.weights)
        if weights.max() > 127:
            return None
        inside = Pitch(place.offset_bytes + rows.first * place.row_bytes + cols.first * place.pixel_bytes,
                       rows.step * place.row_bytes, cols.step * place.pixel_bytes)
        part = Value(output.name, output.tensor, (1, rows.count, cols.count, c), output.zero_point, alias_of=host,
                     pitch=inside)
        layers.append(Mac(
            layer.index, layer.op, layer.inputs, part, depthwise=True,
            weights=np.repeat(weights[:, :, None], c, 2).astype(np.int8), bias=np.zeros(c, np.int64),
            multiplier=np.zeros(c, np.int64), shift=np.full(c, -(rows.bits + cols.bits)),
            stride=(rows.stride, cols.stride), dilation=(1, 1), pad=(-rows.low, -cols.low), pad_value=0, zero_point=0,
            act_min=-128, act_max=127, rounding="shift"))
    return layers
