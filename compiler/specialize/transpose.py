"""The choice of copies that permute axes and can be done in the scratchpad, by the array and the vector unit."""

import itertools
import math

from tq_hw.compiler.ir.layers import GROUP, Layer
from tq_hw.compiler.ir.staged import Move, Transpose
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.transposes import THROUGH_CYCLES, byte_cycles, digit_cycles, transposed_words
from tq_hw.isa.config import Config

__all__ = ["FEW_BYTES", "as_transpose", "move_cycles"]
#: Least bytes of a transpose of few words.
FEW_BYTES = 256
#: Least bytes for which loading the weights is worth it.
_LEAST_BYTES = 2048


def as_transpose(layer: Layer, config: Config, least_bytes: int = _LEAST_BYTES, *, few: int | None = None) -> Layer:
    """Return a move of at least `least_bytes` as a transpose if `emit_transpose` can emit it; others unchanged.

    With `few`, also one of few words that the array cannot transpose, if that is faster than a move: by the estimate,
    in which a move takes `few` cycles more.
    """
    if (not isinstance(layer, Move) or len(layer.copies) != 1 or len(layer.inputs) != 1
            or layer.output.size_bytes < least_bytes):
        return layer
    (copy,), (source,), target = layer.copies, layer.inputs, layer.output
    if copy.source or copy.source_offset or copy.target_offset or not (source.dense and target.dense):
        return layer
    strides, to = ([math.prod(shape[axis + 1:]) for axis in range(4)] for shape in (source.shape, target.shape))
    for axes in itertools.permutations(range(4)):
        if (axes[3] in (1, 2) and tuple(source.shape[axis] for axis in axes) == target.shape
                and merged(zip(target.shape, (strides[a] for a in axes), to, strict=True)) == merged(copy.dims)):
            on_array = _on_array(source, target, config)
            words = 0
            if few is not None and not on_array and digit_cycles(source, target, config) < byte_cycles(
                    layer, few):
                words = 4 * transposed_words(source, target, config)
            if on_array or words:
                first, second, third, last = axes
                return Transpose(layer.index, layer.op, layer.inputs, target, layer.copies,
                                 (first, second, third, last), words)
    return layer


def _on_array(source: Value, target: Value, config: Config) -> bool:
    """Whether the array can transpose: a word is GROUP bytes of GROUP pixels, from one row of accumulators."""
    square = {config.block, config.cols, config.gemm_rows, config.word_bytes} == {GROUP ** 2}
    return (square and config.fold_steps > 1 and source.shape[3] % GROUP == 0
            and target.shape[3] % config.block == 0)


def move_cycles(move: Move, config: Config, *, inside: bool = False) -> float:
    """Estimate the cycles of a move through memory, or in the scratchpad; `inside`: its bytes are there."""
    if len(move.copies) != 1 or move.copies[0].source:
        return move.output.size_bytes
    made = as_transpose(move, config, 0, few=0)
    fewest = digit_cycles(made.inputs[0], made.output, config) if isinstance(made, Transpose) else math.inf
    return min(fewest + (0 if inside else THROUGH_CYCLES), byte_cycles(move))
