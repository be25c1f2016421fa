"""The choice of copies that permute axes and can be done in the scratchpad, by the array and the vector unit."""

import itertools
import math

from tq_hw.compiler.ir.layers import GROUP, Layer
from tq_hw.compiler.ir.staged import Move, Transpose
from tq_hw.compiler.ir.strided import merged
from tq_hw.isa.config import Config

__all__ = ["as_transpose"]
#: Least bytes for which loading the weights is worth it.
_LEAST_BYTES = 2048


def as_transpose(layer: Layer, config: Config, least_bytes: int = _LEAST_BYTES) -> Layer:
    """Return a move of at least `least_bytes` as a transpose if `emit_transpose` can emit it; others unchanged."""
    # A word is GROUP bytes of GROUP pixels, from one row of accumulators.
    square = {config.block, config.cols, config.gemm_rows, config.word_bytes} == {GROUP ** 2}
    if not square or config.fold_steps < 2:
        return layer
    if (not isinstance(layer, Move) or len(layer.copies) != 1 or len(layer.inputs) != 1
            or layer.output.size_bytes < least_bytes):
        return layer
    (copy,), (source,), target = layer.copies, layer.inputs, layer.output
    if copy.source or copy.source_offset or copy.target_offset or not (source.dense and target.dense):
        return layer
    strides, to = ([math.prod(shape[axis + 1:]) for axis in range(4)] for shape in (source.shape, target.shape))
    for axes in itertools.permutations(range(4)):
        if (axes[3] in (1, 2) and tuple(source.shape[axis] for axis in axes) == target.shape
                and source.shape[3] % GROUP == 0 and target.shape[3] % config.block == 0
                and merged(zip(target.shape, (strides[a] for a in axes), to, strict=True)) == merged(copy.dims)):
            first, second, third, last = axes
            return Transpose(layer.index, layer.op, layer.inputs, target, layer.copies, (first, second, third, last))
    return layer
