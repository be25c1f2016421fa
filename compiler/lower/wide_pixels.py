"""Convolutions of int16 with few channels: neighbouring pixels of a row are one pixel of more channels.

The array multiplies a word of input channels by a word of output channels in each step. `inputs` pixels of a row are
the channels of one wide pixel, which gives `outputs` results side by side; its weights are those of the convolution at
their places, and 0 elsewhere. No byte is moved. A layer of one channel and 80 taps, 4 apart, then takes 3 steps for an
output instead of 80.

Bytes need this less: their windows are folded into whole words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.golden.mac import MacParams

__all__ = ["WidePixels", "find_wide_pixels", "tiled"]

#: Channels of a word, as most machines have them.
_WORD = 16
#: Most channels of wide pixels, and of their results.
_MOST_INPUTS, _MOST_OUTPUTS = 4 * _WORD, 16 * _WORD
#: Cycles of loading a word's square of weights, and least share of cycles that is saved.
_LOADED, _WORTH = 32, 0.8


@dataclass(frozen=True)
class WidePixels:
    """A convolution with wide pixels.

    Members
    -------
    inputs, outputs : pixels in a wide one
    taps, pad : columns of its kernel, and wide pixels before the image
    first : place in the first wide pixel of the first tap of the first result
    stride : of the convolution
    """

    inputs: int
    outputs: int
    taps: int
    pad: int
    first: int
    stride: int

    def weights(self, weights: IntArray) -> IntArray:
        """Return weights [result and channel, row, column, pixel and channel] for [channel, row, column, channel]."""
        count, rows, cols, channels = weights.shape
        made = np.zeros((self.outputs, count, rows, self.taps * self.inputs, channels), weights.dtype)
        for result in range(self.outputs):
            at = self.first + result * self.stride
            made[result, :, :, at:at + cols] = weights
        return made.reshape(self.outputs * count, rows, self.taps, self.inputs * channels)


def find_wide_pixels(source: tuple[int, ...], output: tuple[int, ...], weights: tuple[int, ...], stride: int,
                     pad: int) -> WidePixels | None:
    """Return the fastest wide pixels, None if there are no fast ones.

    `source` and `output` are shapes [image, row, column, channel], `weights` [output channel, row, column, input
    channel]; `stride` and `pad` are those of columns.
    """
    images, rows, width, count = output
    _, _, cols, channels = weights

    def cycles(taps: int, inputs: int, outputs: int) -> int:
        squares = taps * ceil_div(inputs * channels, _WORD) * ceil_div(outputs * count, _WORD)
        return squares * (2 * images * rows * width // outputs + _LOADED)

    found = min(_candidates(source[2], width, count, (cols, channels), stride, pad), default=None,
                key=lambda each: cycles(each.taps, each.inputs, each.outputs))
    usual = cycles(cols, 1, 1)
    return found if found is not None and cycles(found.taps, found.inputs, found.outputs) < _WORTH * usual else None


def _candidates(source: int, width: int, count: int, kernel: tuple[int, int], stride: int,
                pad: int) -> Iterator[WidePixels]:
    cols, channels = kernel
    for outputs in range(1, width + 1):
        inputs = outputs * stride
        if inputs * channels > _MOST_INPUTS or outputs * count > _MOST_OUTPUTS:
            return
        if inputs > 1 and width % outputs == 0 and source % inputs == 0:
            before = ceil_div(pad, inputs)
            first = before * inputs - pad
            taps = ceil_div(first + (outputs - 1) * stride + cols, inputs)
            yield WidePixels(inputs, outputs, taps, before, first, stride)


def tiled(p: MacParams, channels: int, count: int) -> MacParams:
    """Return the rescaling of `count` results of `channels` channels side by side."""
    return replace(p, multiplier=np.tile(np.broadcast_to(p.multiplier, channels), count),
                   shift=np.tile(np.broadcast_to(p.shift, channels), count),
                   real=None if p.real is None else np.tile(np.broadcast_to(p.real, channels), count))
