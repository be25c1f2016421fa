"""Leads: a model's first layer, whose input comes from memory, begins with slices of its channels.

A tile needs all channels of its pixels and the weights of an output block for all channels. A slice of the channels,
with its weights for `acc_open` output blocks, loads in a fraction of that time. While the array adds the products of
one slice to `acc_open` open accumulator buffers, the next slice loads.

The last slice is twice as long as the others. The vector unit must finish a buffer before the array adds to the next
but one, which is in the same memory (docs/units/array.md); a delay there would persist.
"""

from itertools import pairwise

from tq_hw.compiler.ir.layers import Graph, Mac
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["leads", "slices"]

#: Bytes of a slice's commands: two loads and an operation of the array.
_COMMAND_BYTES = 120


def _rows(layer: Mac, config: Config) -> int:
    """Output rows of a first rectangle that begins with slices; 0 if the layer cannot.

    The fewest rows that keep the array busy: with all slices but the last until the last has loaded, and with the last
    until the weights of the next output block have loaded.
    """
    _, height, width, channels = layer.output.shape
    pixelwise = layer.kernel == layer.stride == (1, 1) and layer.region is None and layer.input_table is None
    if (layer.depthwise or not pixelwise or config.acc_open == 0 or config.acc_open % config.sub_blocks
            or channels <= (config.acc_open - 1) * config.cols):
        return 0
    blocks = block_count(layer.inputs[0].shape[3], config)
    most = min(height, config.acc_words // width)
    weights = config.slices * config.gemm_rows * config.cols
    for rows in range(1, most + 1):
        # Cycles of one input block, and of the weights of the output block after it.
        array_cycles = config.acc_open * config.slices * rows * width
        load_cycles = (rows * width * config.block + config.acc_open * weights + _COMMAND_BYTES) // config.bus_bytes
        next_weights_cycles = blocks * weights // config.bus_bytes
        loads_cycles = (blocks - 1) * load_cycles
        if (blocks - 2) * array_cycles >= loads_cycles and blocks * array_cycles >= loads_cycles + next_weights_cycles:
            return rows
    return most if blocks > 2 else 0


def leads(graph: Graph, config: Config) -> list[int]:
    """Row counts to try for a first rectangle that begins with slices; none if the first layer cannot.

    Fewer rows than `_rows` load sooner and leave more room to other layers.
    """
    layer = graph.layers[0] if graph.layers else None
    rows = _rows(layer, config) if isinstance(layer, Mac) else 0
    return sorted({max(rows - 1, 0), *(rows * share // 8 for share in (8, 7, 6))} - {0}, reverse=True)


def slices(blocks: int) -> list[tuple[int, int]]:
    """Cut input blocks into slices of one block; the last slice has two."""
    return list(pairwise([*range(blocks - 1), blocks]))
