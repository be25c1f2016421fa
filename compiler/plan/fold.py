"""Patch folding: a first layer of few channels fills the array's rows with a whole window.

For each input row and output column, the load unit writes the window's bytes (kernel columns x channels) as one or more
words ("pieces"). A step reads up to three such words, of neighbouring pieces and kernel rows, and packs their bytes
into the array rows without gaps.
"""


from tq_hw.compiler.ir.fold import FoldPlan, Segment
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["plan_fold", "side_by_side"]

_KERNEL_ROW_LIMIT = 31
#: Most output columns that share a window.
_MOST_COLUMNS = 4


def plan_fold(layer: Mac, config: Config) -> FoldPlan | None:
    """Return the folding of a convolution; None if it saves no steps or the hardware cannot do it.

    The load unit writes one window word per cycle. If that is slower than the array, a window serves several output
    columns, as many as make the layer faster and as a small scratchpad has room for weights.
    """
    kernel_rows, kernel_cols = layer.kernel
    channels = layer.weights.shape[3]
    if layer.dilation != (1, 1) or kernel_rows - 1 > _KERNEL_ROW_LIMIT:
        return None
    plain = kernel_rows * kernel_cols * block_count(channels, config) * config.slices
    _, in_rows, _, _ = layer.inputs[0].shape
    _, rows, cols, outputs = layer.output.shape
    best: tuple[int, FoldPlan] | None = None
    for columns in range(1, _MOST_COLUMNS + 1):
        if columns * layer.stride[1] * channels > config.word_bytes and not (columns == 1 and side_by_side(layer)):
            break
        found = _fold(kernel_rows, (kernel_cols + (columns - 1) * layer.stride[1]) * channels, columns, config)
        if len(found.steps) > config.fold_steps or len(found.steps) >= plain or not _has_room(found, config):
            continue
        array = rows * cols * len(found.steps) * ceil_div(outputs, config.cols)
        cycles = max(array, in_rows * found.pieces * found.words(cols))
        if best is None or cycles < best[0]:
            best = (cycles, found)
    return best[1] if best is not None else None


def side_by_side(layer: Mac) -> bool:
    """Whether the windows of different columns share no byte, and none is outside the image."""
    return (layer.stride[1] == layer.kernel[1] > 1 and not layer.pad[1]
            and layer.inputs[0].shape[2] >= layer.output.shape[2] * layer.stride[1])


def _has_room(found: FoldPlan, config: Config) -> bool:
    """Whether the weights of an output block, which are loaded in one piece, fit half of the smallest ring."""
    words = found.columns * len(found.steps) * config.rows + config.param_words
    return config.sub_blocks * words <= config.scratchpad_words // 8


def _fold(kernel_rows: int, window_bytes: int, columns: int, config: Config) -> FoldPlan:
    pieces = ceil_div(window_bytes, config.word_bytes)
    steps: list[tuple[Segment, ...]] = []
    current: list[Segment] = []
    used = 0
    for kernel_row in range(kernel_rows):
        for piece in range(pieces):
            at, left = piece * config.word_bytes, min(config.word_bytes, window_bytes - piece * config.word_bytes)
            while left:
                if used == config.rows or len(current) == config.feeds:
                    steps.append(tuple(current))
                    current, used = [], 0
                count = min(left, config.rows - used)
                current.append(Segment(kernel_row, piece, at, used, count))
                at, left, used = at + count, left - count, used + count
    steps.append(tuple(current))
    return FoldPlan(pieces, tuple(steps), columns)
