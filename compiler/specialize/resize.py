"""RESIZE_BILINEAR on the array: output pixels at constant distances have the same weights.

Along an axis, the outputs form groups whose taps have a constant step and a common fraction. A pair of groups, one of
rows and one of columns, is a depthwise layer of up to 2x2 taps whose output is every n-th pixel of the result.
Fractions of few bits give int8 weights that sum to a power of two, so the division is a rounding shift.

If a word has many pixels of few channels, its bytes are the channels of one wide pixel instead. Each wide pixel gives a
few output words, by a matrix that is the same for all words except those at the borders.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.compiler.ir.staged import Resize
from tq_hw.compiler.ir.taps import Group, groups
from tq_hw.compiler.ir.value import IntArray, Pitch, Value
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Alu, Destination, Source

__all__ = ["resize_on_array"]

#: Bits of the fractions of a resize.
_FRACTION_BITS = 10
#: A resize of more layers than this is computed by the vector unit.
_LAYERS = 64
#: Words of at least this many pixels are wide pixels.
_WIDE_PIXELS = 8


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
    """Return the smallest weights of a group, or None if its two taps are not neighbours."""
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


@dataclass(frozen=True)
class _Span:
    """Wide pixels [first, last) of a row; the taps of `matrix[output, tap, input]`: left neighbour, itself, right."""

    first: int
    last: int
    matrix: IntArray


def _spans(layer: Resize, config: Config) -> tuple[list[_Span], int] | None:
    """Cut the wide pixels of a row into stretches with one matrix; also return the weights' bits. None: not useful."""
    source, output = layer.inputs[0], layer.output
    _, _, width, c = source.shape
    pixels, scale = config.block // c, output.shape[2] // width
    if (pixels < _WIDE_PIXELS or config.block % c or width % pixels or output.shape[2] != scale * width
            or not source.dense or output.place.pixel_bytes != c):
        return None
    inside = [fraction for low, high, fraction in layer.cols if low != high]
    bits = _FRACTION_BITS
    while bits and all(fraction % (1 << _FRACTION_BITS - bits + 1) == 0 for fraction in inside):
        bits -= 1
    spans: list[_Span] = []
    for word in range(width // pixels):
        taps = np.zeros((scale * pixels, 3 * pixels), np.int64)
        for out, (low, high, fraction) in enumerate(layer.cols[word * scale * pixels:(word + 1) * scale * pixels]):
            share = fraction >> _FRACTION_BITS - bits if low != high else 0
            for at, weight in ((low, (1 << bits) - share), (high, share)):
                place = at - (word - 1) * pixels
                if not 0 <= place < 3 * pixels:
                    return None
                taps[out, place] += weight
        matrix = np.kron(taps, np.eye(c, dtype=np.int64)).reshape(scale * config.block, 3, config.block)
        if spans and np.array_equal(spans[-1].matrix, matrix):
            spans[-1] = replace(spans[-1], last=word + 1)
        else:
            spans.append(_Span(word, word + 1, matrix))
    return (spans, bits) if len(spans) <= 3 else None


def _by_words(layer: Resize, rows: Sequence[_Axis | None], host: Value, place: Pitch,
              config: Config) -> list[Layer] | None:
    """Return convolutions over words as wide pixels, one for each group of rows and stretch of words."""
    made = _spans(layer, config)
    if made is None:
        return None
    spans, bits = made
    source, output = layer.inputs[0], layer.output
    _, height, width, c = source.shape
    words = width * c // config.block
    wide = Value(source.name, source.tensor, (1, height, words, config.block), source.zero_point, source.flip, source)
    channels = output.shape[2] * c // words
    layers: list[Layer] = []
    for axis in rows:
        if axis is None:
            return None
        inside = Pitch(place.offset_bytes + axis.first * place.row_bytes, axis.step * place.row_bytes, channels)
        part = Value(output.name, output.tensor, (1, axis.count, words, channels), output.zero_point, alias_of=host,
                     pitch=inside)
        for span in spans:
            weights = np.einsum("k,oti->okti", np.array(axis.weights), span.matrix)
            if weights.max() > 127:
                return None
            layers.append(Mac(
                layer.index, layer.op, (wide,), part, depthwise=False, weights=weights.astype(np.int8),
                bias=np.zeros(channels, np.int64), multiplier=np.zeros(channels, np.int64),
                shift=np.full(channels, -(axis.bits + bits)), stride=(axis.stride, 1), dilation=(1, 1),
                pad=(-axis.low, 1), pad_value=0, zero_point=0, act_min=-128, act_max=127, rounding="shift",
                region=(0, axis.count, span.first, span.last),
                useful_weights=int(np.count_nonzero(weights))))
    return layers


def resize_on_array(layer: Resize, config: Config) -> list[Layer] | None:
    """Return layers with the same output, or None if the weights do not fit or the output cannot be placed."""
    output = layer.output
    n, _, _, c = output.shape
    if layer.inputs[0].shape[:3] == (1, 1, 1):
        copy: dict[str, int] = {"a_source": Source.STREAM, "alu": Alu.PASS, "destination": Destination.OUTPUT}
        return [Elementwise(layer.index, layer.op, layer.inputs, output, copy)]
    host, place = (output, output.place) if output.alias_of is None else (output.alias_of, output.pitch)
    if n != 1 or place is None or host.alias_of is not None:
        return None
    axes = [[_axis(group) for group in groups(taps)] for taps in (layer.rows, layer.cols)]
    if len(axes[0]) * len(axes[1]) > _LAYERS:
        return None
    by_words = _by_words(layer, axes[0], host, place, config)
    if by_words is not None:
        return by_words
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
