"""How the first rectangle of a layer that waits for memory is begun: by slices of its input channels.

A tile needs all channels of its pixels, and the weights of an output block for all of them. A slice of the channels, with
the weights of these channels for `acc_open` output blocks, comes in a fraction of that time; while the array adds its
products to as many open accumulator buffers, the next slice comes.
"""

from tq_hw.compiler.ir import Mac
from tq_hw.compiler.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["lead_rows"]


def lead_rows(layer: Mac, config: Config) -> int:
    """Output rows of the first rectangle that is begun by slices, 0 where a layer cannot.

    As few as let the array work on a slice for as long as the next one takes to come.
    """
    _, height, width, channels = layer.output.shape
    pixelwise = layer.kernel == layer.stride == (1, 1) and layer.region is None and layer.input_table is None
    if (layer.depthwise or not pixelwise or config.acc_open == 0 or config.acc_open % config.sub_blocks
            or channels <= (config.acc_open - 1) * config.cols or block_count(layer.inputs[0].shape[3], config) < 2):
        return 0
    # Cycles for each pixel of a slice of one block: of the array, less those of the bus; cycles of the slice's weights.
    gained = config.acc_open * config.slices - config.block / config.bus_bytes
    weights = config.acc_open * config.slices * config.gemm_rows * config.cols / config.bus_bytes
    if gained <= 0:
        return 0
    rows = int(-(-weights / gained // width))
    return rows if rows <= height and rows * width <= config.acc_words else 0
