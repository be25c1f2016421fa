"""Permutations between few planes and pixels on the array, for models whose inputs and outputs have channels first.

    planes [channels, pixels], where `group` neighbouring pixels are the channels of a wide pixel:
        a convolution of kernel (channels, 1) with weights of 0 and 1 gives the same pixels, channels last
    pixels [pixels, channels], where `group` pixels are a wide one:
        for each channel a convolution of kernel (1, 1) picks its bytes

A move takes a cycle for each byte. The convolutions take the square of the channels in slots for each word of pixels.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.layers import Layer, Mac
from tq_hw.compiler.ir.staged import Move, Transpose
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.isa.config import Config

__all__ = ["planes_on_array"]

#: Least bytes for which this is faster, and most bytes of weights for each of them.
_LEAST_BYTES, _WEIGHTS = 512, 3
#: Divisor of the block: most channels, and least pixels in a wide one, for which this is faster than a move.
_SHARE = 2
#: Most wide pixels of a row: commands have 16 bits for the offset of their first bytes.
_WIDE = 8192


def planes_on_array(layer: Layer, config: Config) -> list[Layer] | None:
    """Return convolutions that replace a move between few planes and pixels; None for another move."""
    if (not isinstance(layer, Move) or isinstance(layer, Transpose) or len(layer.copies) != 1
            or len(layer.inputs) != 1 or layer.output.size_bytes < _LEAST_BYTES):
        return None
    (copy,), (source,), target = layer.copies, layer.inputs, layer.output
    if (copy.source or copy.source_offset or copy.target_offset or not (source.dense and target.dense)
            or source.size_bytes != target.size_bytes):
        return None
    for images in sorted({1, source.shape[0]}):
        size = target.size_bytes // images
        whole = [(images, size, size)] if images > 1 else []
        for channels in range(2, config.block // _SHARE + 1):
            pixels = size // channels
            group = max(each for each in range(1, config.block + 1) if pixels % each == 0)
            weights = (channels * group) ** 2
            if size % channels or group < config.block // _SHARE or weights > _WEIGHTS * target.size_bytes:
                continue
            if merged(copy.dims) == merged([*whole, (pixels, 1, channels), (channels, pixels, 1)]):
                return _joined(layer, images, channels, group)
            if merged(copy.dims) == merged([*whole, (channels, 1, pixels), (pixels, channels, 1)]) and images == 1:
                return _parted(layer, channels, group)
    return None


def _picks(layer: Layer, source: Value, output: Value, weights: npt.NDArray[np.int8]) -> Mac:
    """Return a convolution that only picks bytes."""
    nothing = np.zeros(len(weights), np.int64)
    return Mac(layer.index, layer.op, (source,), output, depthwise=False, weights=weights, bias=nothing,
               multiplier=nothing, shift=nothing, stride=(weights.shape[1], 1), dilation=(1, 1), pad=(0, 0),
               pad_value=0, zero_point=0, act_min=-128, act_max=127, rounding="shift", useful_weights=0)


def _seen(value: Value, shape: tuple[int, int, int, int], pitch: Pitch) -> Value:
    return replace(value, shape=shape, alias_of=value, pitch=pitch, data=None, initial=None)


def _joined(layer: Move, images: int, channels: int, group: int) -> list[Layer]:
    """Return layers that turn planes into pixels, `group` of them in a wide pixel."""
    (source,), target = layer.inputs, layer.output
    plane = target.size_bytes // (images * channels)
    weights = np.zeros((group, channels, channels, 1, group), np.int8)
    for pixel in range(group):
        weights[pixel, range(channels), range(channels), 0, pixel] = 1
    kernel = weights.reshape(group * channels, channels, 1, group)
    return [_picks(layer, _seen(source, (images, channels, count, group), Pitch(first * group, plane, group)),
                   _seen(target, (images, 1, count, group * channels),
                         Pitch(first * group * channels, plane * channels, group * channels)), kernel)
            for first, count in _stretches(plane // group)]


def _parted(layer: Move, channels: int, group: int) -> list[Layer]:
    """Return layers that turn pixels into planes, with separate convolutions for each plane."""
    (source,), target = layer.inputs, layer.output
    plane, wide = target.size_bytes // channels, group * channels
    layers: list[Layer] = []
    for first, count in _stretches(plane // group):
        part = _seen(source, (1, 1, count, wide), Pitch(first * wide, plane * channels, wide))
        for channel in range(channels):
            weights = np.zeros((group, 1, 1, wide), np.int8)
            weights[range(group), 0, 0, np.arange(group) * channels + channel] = 1
            place = Pitch(channel * plane + first * group, plane, group)
            layers.append(_picks(layer, part, _seen(target, (1, 1, count, group), place), weights))
    return layers


def _stretches(count: int) -> list[tuple[int, int]]:
    """Return the first wide pixel and the length of each stretch."""
    return [(first, min(_WIDE, count - first)) for first in range(0, count, _WIDE)]
