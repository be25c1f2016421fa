"""How a model's first layer begins, whose input comes from memory: by slices of its channels.

A tile needs all channels of its pixels, and an output block's weights for all of them. A slice of the channels, with
its weights for `acc_open` output blocks, comes in a fraction of that time; while the array adds its products to as many
open accumulator buffers, the next slice comes.

The last slice is twice as long as the others: the vector unit must be through with a buffer before the array adds to
the next but one, which is in the same memory (docs/units/array.md); once it is late it stays so.
"""

from itertools import pairwise

from tq_hw.compiler.ir.layers import Graph, Mac
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["leads", "slices"]

#: Commands of a slice: two loads and an operation of the array.
_COMMAND_BYTES = 120


def _rows(layer: Mac, config: Config) -> int:
    """Output rows of the first rectangle that is begun by slices, 0 where a layer cannot.

    As few as let the array work on all slices but the last until that has come, and on this until the weights of the
    next output block are there.
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
        # Of one input block, and of the weights of the output block after it.
        array_cycles = config.acc_open * config.slices * rows * width
        load_cycles = (rows * width * config.block + config.acc_open * weights + _COMMAND_BYTES) // config.bus_bytes
        next_weights_cycles = blocks * weights // config.bus_bytes
        loads_cycles = (blocks - 1) * load_cycles
        if (blocks - 2) * array_cycles >= loads_cycles and blocks * array_cycles >= loads_cycles + next_weights_cycles:
            return rows
    return most if blocks > 2 else 0


def leads(graph: Graph, config: Config) -> list[int]:
    """Numbers of rows to try for the first rectangle of the first layer, begun by slices; none where it cannot be.

    Fewer than the bus asks for are there sooner, and leave more room to others.
    """
    layer = graph.layers[0] if graph.layers else None
    rows = _rows(layer, config) if isinstance(layer, Mac) else 0
    return sorted({max(rows - 1, 0), *(rows * share // 8 for share in (8, 7, 6))} - {0}, reverse=True)


def slices(blocks: int) -> list[tuple[int, int]]:
    """Cut input blocks into slices of one, the last one of two."""
    return list(pairwise([*range(blocks - 1), blocks]))
