"""Estimated cycles of the two ways to transpose few bytes: by wide reads in the scratchpad, and through memory."""

import math

from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["ARRAY_BYTES", "THROUGH_CYCLES", "byte_cycles", "digit_cycles", "lane_digits", "transposed_words"]

#: Least bytes of a word for reads that exchange digits of a lane's number.
_LEAST_WORD_BYTES = 8
#: Largest share of the scratchpad for the bytes of such a transpose: at both ends, and between two steps.
_DIGIT_SHARE = 4
#: Estimated cycles of a step's waits.
_STEP_CYCLES = 60
#: Estimated cycles of a move: by byte if it stores single bytes, or if it uses the array; half of the waits.
_STORE_CYCLES, _ARRAY_CYCLES, _MEMORY_CYCLES = 0.85, 0.45, 100
#: Estimated cycles of a run, and bytes of a run that are moved in a cycle.
_RUN_CYCLES, _RUN_BYTES = 2, 4
#: Estimated cycles of the waits for a load and a store of all bytes.
THROUGH_CYCLES = 170
#: Least bytes of a move for which loading the array's weights is worth it.
ARRAY_BYTES = 2048


def lane_digits(config: Config) -> tuple[int, ...]:
    """Return the digits of a lane's number, the lowest first, each 4 or 2: bytes that int32 or int16 reads separate."""
    twos = config.block.bit_length() - 1
    return (4,) * (twos // 2) + (2,) * (twos % 2)


def transposed_words(source: Value, target: Value, config: Config) -> int:
    """Return the words between the steps of wide reads that exchange digits of a lane's number."""
    n, h, w, channels = source.shape
    padded = block_count(target.shape[3], config) * config.block
    return n * h * w // target.shape[3] * block_count(channels, config) * padded


def digit_cycles(source: Value, target: Value, config: Config) -> float:
    """Estimate the cycles of wide reads that exchange digits of a lane's number; infinite if they cannot."""
    if config.word_bytes != config.block or config.block < _LEAST_WORD_BYTES:
        return math.inf
    digits, words = lane_digits(config), transposed_words(source, target, config)
    counts = (*source.shape[:3], block_count(source.shape[3], config), target.shape[3] + config.block)
    limit = 8 * config.vector_register_words // config.beats_per_word
    if (source.shape[3] % (config.block // digits[-1]) or max(counts) > limit
            or 4 * words > config.scratchpad_words // _DIGIT_SHARE):
        return math.inf
    # Each step reads all words and writes them again; a copy comes first.
    beats = config.beats_per_word
    return (len(digits) * (1 + beats) + beats) * words + (len(digits) + 1) * _STEP_CYCLES


def byte_cycles(move: Move, more: int = 0) -> float:
    """Estimate the cycles of a move through memory, by runs or single bytes, or with the array, and of `more`."""
    dims, size = merged(move.copies[0].dims), move.output.size_bytes
    run = max((count for count, *steps in dims if steps == [1, 1]), default=1)
    if run > 1:
        return 2 * _MEMORY_CYCLES + more + size / run * max(_RUN_CYCLES, run / _RUN_BYTES)
    outer = size // math.prod(dim[0] for dim in dims[-2:])
    return (_MEMORY_CYCLES * (2 + outer) + more
            + min(_STORE_CYCLES * size, max(_ARRAY_CYCLES * size, _STORE_CYCLES * ARRAY_BYTES)))
