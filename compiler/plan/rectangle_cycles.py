"""Estimates of a layer's cycles by the size of its rectangles, to choose a size."""

from tq_hw.compiler.ir.layers import Layer, Mac, MaxPool
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.ir.window import window
from tq_hw.compiler.plan.dilated import banks_meet
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["rectangle_count", "rectangle_cycles", "streamed_cycles"]

#: Cycles in addition to those of pixels: per operation of the array, per rectangle, per rectangle without overlap.
_OPERATION_CYCLES, _RECTANGLE_CYCLES, _WAIT_CYCLES = 12, 40, 100
#: Cycles of a row that is a separate run in memory.
_RUN_CYCLES = 4


def _bus_cycles(value: Value, rows: int, cols: int, blocks: int, config: Config) -> int:
    """Cycles of a load or store of a rectangle."""
    channels = value.shape[3]
    if blocks >= block_count(channels, config):
        runs = 1 if value.place.row_bytes == cols * channels else rows
        return runs * ceil_div(ceil_div(rows, runs) * cols * channels, config.bus_bytes)
    beats = max(blocks, blocks * config.block // config.bus_bytes) + (channels % config.bus_bytes > 0)
    return rows * cols * beats * 9 // 8  # an allowance for waits between short runs


def _array_cycles(layer: Mac, rows: int, cols: int, blocks: int, config: Config) -> int:
    """Cycles of all operations of a rectangle; a tile takes at least as many slots as there are rows of weights."""
    kernel_rows, kernel_cols = layer.kernel
    if not layer.depthwise:
        tiles = ceil_div(rows * cols, config.acc_words)
        steps = block_count(layer.inputs[0].shape[3], config) * config.slices * kernel_rows * kernel_cols
        return blocks * steps * max(rows * cols, tiles * config.gemm_rows)
    phases = min(layer.dilation[1], cols)
    count = ceil_div(cols, phases)
    tiles = ceil_div(rows * count, config.acc_words)
    singly = banks_meet(layer, config)
    steps = ceil_div(kernel_rows, 1 if singly else config.groups) * ceil_div(kernel_cols, 3)
    operations = phases * tiles * kernel_rows if singly else min(phases, 2)
    slots = phases * max(steps, config.beats_per_acc_word) * max(rows * count, tiles * 3 * config.groups)
    return blocks * (slots + operations * _OPERATION_CYCLES)


def rectangle_cycles(layer: Mac, plan: LayerPlan, config: Config) -> float:
    """Estimate the cycles of a layer, or a row phase, in a plan's rectangles; its input comes from memory."""
    rows, cols, blocks = plan.rows, plan.cols, plan.blocks
    images, height, width, channels = layer.output.shape
    extent = [(kernel - 1) * dilation for kernel, dilation in zip(layer.kernel, layer.dilation, strict=True)]
    source = layer.inputs[0]
    bus = _bus_cycles(source, min(source.shape[1], rows + extent[0]), min(
        source.shape[2], cols + extent[1]), blocks if layer.depthwise else block_count(source.shape[3], config), config)
    if plan.out_words:
        bus += _bus_cycles(layer.output, rows, cols, blocks, config)
    array = _array_cycles(layer, rows, cols, blocks, config)
    count = images * ceil_div(height, rows) * ceil_div(width, cols) * ceil_div(block_count(channels, config), blocks)
    return count * (_RECTANGLE_CYCLES + (max(bus, array) if plan.slots > 1 else bus + array + _WAIT_CYCLES))


def rectangle_count(layer: Layer, plan: LayerPlan, config: Config) -> int:
    """Number of rectangles of a layer."""
    images, height, width, channels = layer.output.shape
    blocks = ceil_div(block_count(channels, config), plan.blocks)
    return images * ceil_div(height, plan.rows) * ceil_div(width, plan.cols) * blocks


def _work_cycles(layer: Layer, plan: LayerPlan, config: Config) -> int:
    """Cycles of the array, or of a vector operation, for one rectangle."""
    slots = plan.rows * plan.cols
    if isinstance(layer, Mac):
        blocks = plan.blocks * config.sub_blocks
        if plan.fold is not None:
            return blocks * len(plan.fold.steps) * slots
        return _array_cycles(layer, plan.rows, plan.cols, blocks, config)
    taps = layer.kernel[0] * layer.kernel[1] if isinstance(layer, MaxPool) else 1
    return slots * plan.blocks * config.beats_per_word * taps


def streamed_cycles(layer: Layer, plan: LayerPlan, config: Config) -> float:
    """Estimate the cycles of a layer whose rectangles pass through the strip buffers of `plan`.

    Input that two rectangles read counts for each of them. The first load and the last store do not overlap with work.
    """
    stride, extent, _ = window(layer)
    loads = 0
    for value, words in zip(layer.inputs, plan.in_words, strict=True):
        if words:
            _, height, width, channels = value.shape
            rows = min(height, (plan.rows - 1) * stride[0] + extent[0])
            cols = min(width, (plan.cols - 1) * stride[1] + extent[1])
            blocks = block_count(channels, config)
            if not isinstance(layer, Mac) or layer.depthwise:
                blocks = min(blocks, plan.blocks)
            loads += max(words, rows * _RUN_CYCLES + _bus_cycles(value, rows, cols, blocks, config))
    stores = _bus_cycles(layer.output, plan.rows, plan.cols, plan.blocks, config) if plan.out_words else 0
    work = _work_cycles(layer, plan, config)
    each = max(loads + stores, work) if plan.slots > 1 else loads + work + stores + _WAIT_CYCLES
    # The last rectangle of a row or column may be smaller.
    images, height, width, channels = layer.output.shape
    whole = images * height / plan.rows * width / plan.cols * block_count(channels, config) / plan.blocks
    return loads + stores + rectangle_count(layer, plan, config) * _RECTANGLE_CYCLES + whole * each
