"""Widths of the multiplexers that select bytes of words, counted from the positions at which the bytes can lie."""

from functools import cache

from tq_hw.isa.config import Config

__all__ = ["lane_choices", "parameter_choices", "rotated_bytes"]

#: Element sizes of the vector unit's types: int8, int16, int32, uint8 (hdl/vector/beats.py).
_ELEMENT_BYTES = (1, 2, 4, 1)
#: Types of results: the element types except uint8.
_RESULTS = 3
#: Words that the array reads per slot; for each kind of parameter, its bits and its bytes in memory.
_FEEDS, _PARAMETERS = 3, ((32, 4), (32, 4), (6, 1))


def rotated_bytes(config: Config) -> int:
    """Return the total of the bytes, over all stages of the array's rotators, that contribute to a byte in use.

    From each feed, the rows use one byte per row, and the columns use bytes for the depthwise groups
    (hdl/array/feeds.py).
    """
    used = [max(config.rows, config.cols if feed < config.groups else 0) for feed in range(_FEEDS)]
    return sum(_rotator(config.word_bytes, min(count, config.word_bytes)) for count in used)


@cache
def _rotator(word: int, used: int) -> int:
    needed, total, by = set(range(used)), 0, word // 2
    while by:  # the last stage rotates farthest
        total += len(needed)
        needed |= {(byte - by) % word for byte in needed}
        by //= 2
    return total


def lane_choices(config: Config) -> int:
    """Return the inputs, less one each, of the multiplexers for the lanes' operands and the bytes of their results."""
    lanes, positions = config.requantize_lanes, config.beats_per_word
    return _lane_choices(config.word_bytes, lanes, positions)


@cache
def _lane_choices(word: int, lanes: int, positions: int) -> int:
    operands = 0
    places: list[set[int]] = [set() for _ in range(word)]
    for lane in range(lanes):
        firsts = [{(position * lanes + lane) * size % word for position in range(positions)} for size in _ELEMENT_BYTES]
        for part in range(4):
            used = {first + part for some, size in zip(firsts, _ELEMENT_BYTES, strict=True) if part < size
                    for first in some}
            # The bytes above an element are its sign extension.
            operands += len(used) - 1 + any(part >= size for size in _ELEMENT_BYTES)
        for kind in range(_RESULTS):
            for first in firsts[kind]:
                for part in range(_ELEMENT_BYTES[kind]):
                    places[first + part].add(4 * lane + part)
    return 2 * operands + sum(max(0, len(place) - 1) for place in places)


def parameter_choices(config: Config) -> float:
    """Return the inputs, less one each, of the multiplexers for parameters, in bytes."""
    found = 0.0
    for bits, size in _PARAMETERS:
        firsts: dict[int, set[int]] = {}
        each = config.word_bytes // size
        for channel in range(config.cols):
            place = channel % each
            firsts.setdefault(place % config.requantize_lanes, set()).add(place * size)
        found += sum(len(places) - 1 for places in firsts.values()) * bits / 8
    return found
