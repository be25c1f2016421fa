"""How the first rectangle of a layer that waits for memory is begun: by slices of its input channels.

A tile needs all channels of its pixels, and the weights of an output block for all of them. A slice of the channels, with
the weights of these channels for `acc_open` output blocks, comes in a fraction of that time; while the array adds its
products to as many open accumulator buffers, the next slice comes.

The last slice is twice as long as the others: the vector unit must be through with a buffer before the array adds to the
next but one, which is in the same memory (docs/units/array.md); once it is late it stays so.
"""

from itertools import pairwise

from tq_hw.compiler.ir import Mac
from tq_hw.compiler.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["lead_rows", "slices"]


def lead_rows(layer: Mac, config: Config) -> int:
    """Output rows of the first rectangle that is begun by slices, 0 where a layer cannot.

    As few as let the array work on all slices but the last until that has come.
    """
    _, height, width, channels = layer.output.shape
    pixelwise = layer.kernel == layer.stride == (1, 1) and layer.region is None and layer.input_table is None
    if (layer.depthwise or not pixelwise or config.acc_open == 0 or config.acc_open % config.sub_blocks
            or channels <= (config.acc_open - 1) * config.cols):
        return 0
    blocks = block_count(layer.inputs[0].shape[3], config)
    most = min(height, config.acc_words // width)
    for rows in range(1, most + 1):
        # Cycles of one input block: of the array, of the bus.
        work = config.acc_open * config.slices * rows * width
        comes = (rows * width * config.block
                 + config.acc_open * config.slices * config.gemm_rows * config.cols) // config.bus_bytes
        if (blocks - 2) * work >= (blocks - 1) * comes:
            return rows
    return most if blocks > 2 else 0


def slices(blocks: int, size: int) -> list[tuple[int, int]]:
    """Cut input blocks into slices of `size`, the last one of up to twice as many."""
    starts = list(range(0, max(1, blocks - size), size))
    return list(pairwise([*starts, blocks]))
