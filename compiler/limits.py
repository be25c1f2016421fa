"""How many commands a model may have, so that a small file with enormous shapes does not keep the compiler busy."""

from tq_hw.compiler.ir.layers import Graph, Mac, Resize
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config
from tq_hw.model.errors import UnsupportedError

__all__ = ["command_limit"]

#: A model may have this many commands, and one more for this many bytes of weights at 256 multipliers.
_COMMANDS, _BYTES_PER_COMMAND = 10_000, 8
#: Operators whose weights are the compiler's and not the model's.
_WEIGHTS_OF_ONE = ("AVERAGE_POOL_2D", "MEAN", "SUM", "RESIZE_BILINEAR")


def command_limit(graph: Graph, config: Config) -> int:
    """Return the limit; UnsupportedError for a layer that takes more in any case."""
    layers = [layer for layer in graph.layers if isinstance(layer, Mac)]
    weight_bytes = sum(layer.weights.size for layer in layers if layer.op not in _WEIGHTS_OF_ONE)
    # Lines of a resized image have a few operations each, whatever the model's weights are.
    lines = sum(sum(layer.output.shape[1:3]) * block_count(layer.output.shape[3], config)
                for layer in graph.layers if isinstance(layer, Resize))
    # A small array takes weights in more pieces, and those again for more rectangles.
    pieces = max(1, 256 // (config.rows * config.cols)) ** 2
    limit = _COMMANDS + pieces * weight_bytes // _BYTES_PER_COMMAND + min(_COMMANDS // 2, 16 * lines)
    for layer in layers:
        n, h, w, c = layer.output.shape
        # An array operation fills one accumulator buffer, in one image.
        least = max(n, n * h * w * block_count(c, config) // config.acc_words)
        if least > limit:
            raise UnsupportedError(f"operator {layer.index} ({layer.op}) takes at least {least} commands, a model with "
                                   f"this amount of weights may have {limit}; use a larger configuration or smaller "
                                   "tensors")
    return limit
