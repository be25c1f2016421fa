"""The choice of copies that permute axes and can be done in the scratchpad, by the array and the vector unit."""

import itertools
import math

from tq_hw.compiler.ir.layers import GROUP, Layer
from tq_hw.compiler.ir.staged import Move, Transpose
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import block_count, lane_digits
from tq_hw.isa.config import Config

__all__ = ["as_transpose"]
#: Least bytes for which loading the weights is worth it.
_LEAST_BYTES = 2048
#: Least bytes of a word for reads that exchange digits of a lane's number.
_LEAST_WORD_BYTES = 8
#: Largest share of the scratchpad for the bytes of such a transpose, twice.
_DIGIT_SHARE = 8
#: Estimated cycles of a transpose through memory: by byte if it stores single bytes or uses the array, and for waits.
_STORE_CYCLES, _ARRAY_CYCLES, _MEMORY_CYCLES = 1.25, 0.45, 250
#: Estimated cycles of a step's waits.
_STEP_CYCLES = 60


def as_transpose(layer: Layer, config: Config, least_bytes: int = _LEAST_BYTES, *, few: bool = False) -> Layer:
    """Return a move of at least `least_bytes` as a transpose if `emit_transpose` can emit it; others unchanged.

    With `few`, also one of few words that the array cannot transpose, if that is faster than a move.
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
            words = _digit_words(source, target, config) if few and not on_array else 0
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


def _digit_words(source: Value, target: Value, config: Config) -> int:
    """Return the words for wide reads that exchange digits of a lane's number; 0 if they cannot or are slower."""
    if config.word_bytes != config.block or config.block < _LEAST_WORD_BYTES:
        return 0
    digits = lane_digits(config)
    n, h, w, channels = source.shape
    blocks, padded = block_count(channels, config), block_count(target.shape[3], config) * config.block
    words = n * h * w // target.shape[3] * blocks * padded
    limit = 8 * config.vector_register_words // config.beats_per_word
    if (channels % (config.block // digits[-1]) or 2 * words > config.scratchpad_words // _DIGIT_SHARE
            or max(n, h, w, padded, blocks) > limit):
        return 0
    # Each step reads all words and writes them again; a copy comes first.
    beats = config.beats_per_word
    cycles = (len(digits) * (1 + beats) + beats) * words + (len(digits) + 1) * _STEP_CYCLES
    size = target.size_bytes
    memory = min(_STORE_CYCLES * size, max(_ARRAY_CYCLES * size, _STORE_CYCLES * _LEAST_BYTES)) + _MEMORY_CYCLES
    return 2 * words if cycles < memory else 0
