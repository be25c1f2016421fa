"""Patches without overlap, as in vision transformers: the pixels of a patch's row become one long pixel.

If a kernel is as wide as its stride, each byte of a row belongs to only one window. In memory a window's row of `cols`
pixels of `channels` bytes is also a pixel of `cols * channels` bytes: the same bytes under another shape. A word that
had three of 16 bytes is then full, and the kernel has one column.
"""

from dataclasses import replace

from tq_hw.compiler.ir.layers import Graph, Mac
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.plan.fold import plan_fold, side_by_side
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["long_patches"]

#: Cycles of a store and a load, in addition to those of the bytes.
_WAY_CYCLES = 600


def long_patches(graph: Graph, config: Config) -> Graph:
    """Return the graph with kernels of one column, where these take fewer cycles."""
    made = {layer.output.root for layer in graph.layers}
    return replace(graph, layers=tuple(
        _long(layer, layer.inputs[0].root in made, config) if isinstance(layer, Mac) else layer
        for layer in graph.layers))


def _long(layer: Mac, made: bool, config: Config) -> Mac:
    """Return the layer with long pixels, if these are possible and faster; `made`: another layer writes its input."""
    source = layer.inputs[0]
    (rows, cols), channels = layer.kernel, source.shape[3]
    if (layer.depthwise or layer.region is not None or layer.input_table is not None or layer.dilation[1] != 1
            or not side_by_side(layer) or not source.dense or source.root.data is not None
            or source.root.initial is not None or plan_fold(layer, config) is not None):
        return layer
    n, h, w, outputs = layer.output.shape
    steps = rows * (cols * block_count(channels, config) - block_count(cols * channels, config))
    # In the scratchpad each pixel has separate words, so the output of a layer is stored and loaded again as patches.
    way = 2 * source.size_bytes // config.bus_bytes + _WAY_CYCLES if made else 0
    if n * h * w * ceil_div(outputs, config.cols) * steps <= way:
        return layer
    weights = layer.weights.reshape(outputs, rows, 1, cols * channels)
    return replace(layer, inputs=(_patch_rows(source, w, cols),), weights=weights, stride=(layer.stride[0], 1))


def _patch_rows(source: Value, patches: int, cols: int) -> Value:
    """Return the same bytes with `cols` pixels as one; pixels at the end of a row that no window covers are omitted."""
    n, h, w, c = source.shape
    pitch = None if w == patches * cols else Pitch(0, w * c, cols * c)
    return replace(source, shape=(n, h, patches, cols * c), alias_of=source, pitch=pitch)
