"""Sizes of a configuration that determine the cells of each unit."""

from collections.abc import Callable, Sequence

from tq_hw.boards.resources.choices import lane_choices, parameter_choices, rotated_bytes
from tq_hw.boards.resources.memories import acc_depth, lut_memory_bits
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_log2

__all__ = ["sizes_of"]

#: Longest word, in bytes, that does not count as wide.
_WIDE = 16
Sizes = Callable[[Config, str], Sequence[float]]


def _beats(config: Config, family: str) -> Sequence[float]:
    return (1, config.bus_bytes)


def _shifter(config: Config) -> float:
    """Return the size of a barrel shifter for a whole word in bytes."""
    return config.word_bytes * ceil_log2(config.word_bytes)


def _words(config: Config, family: str) -> Sequence[float]:
    return (1, _shifter(config), config.bus_bytes, ceil_log2(config.scratchpad_words))


def _load_luts(config: Config, family: str) -> Sequence[float]:
    # For a wide word, synthesis makes a full multiplexer for each byte instead of the stages of a shifter.
    return (1, _shifter(config), config.bus_bytes, config.word_bytes ** 2 * (config.word_bytes > _WIDE))


def _store_luts(config: Config, family: str) -> Sequence[float]:
    return (*_words(config, family), config.word_bytes ** 2)


def _scratchpad(config: Config, family: str) -> Sequence[float]:
    return (1, config.word_bytes, ceil_log2(config.scratchpad_words))


def _registers(config: Config) -> float:
    """Return the register bits of the cells, and of the delays that stagger the rows' inputs (hdl/array/grid.py)."""
    rows, cols, grouped = config.rows, config.cols, 3 * config.groups
    return (rows * cols * (2 * 8 + 16 + config.partial_sum_bits) + 8 * (grouped * cols + rows - grouped)
            + 8 * (rows * (rows - 1) // 2 + cols * grouped * (config.groups - 1) // 2))


def _array(config: Config, family: str) -> Sequence[float]:
    opens = config.cols * (config.acc_open > 0)
    return (1, config.rows * config.cols, config.cols, _shifter(config), lut_memory_bits(config, family),
            ceil_log2(acc_depth(config)), opens)


def _array_luts(config: Config, family: str) -> Sequence[float]:
    # A cell of a depthwise group has a multiplexer of two bytes; the others have no LUT. Each row has three input
    # words. The rotators of wide words are the critical path of the array and are optimized for speed.
    rotated = rotated_bytes(config)
    return (1, 3 * config.groups * config.cols, config.rows, config.cols, rotated,
            rotated * (config.word_bytes > _WIDE), lut_memory_bits(config, family), config.cols * (config.acc_open > 0))


def _vector(config: Config, family: str) -> Sequence[float]:
    lanes = config.requantize_lanes
    return (1, lanes, config.word_bytes, config.cols, config.activation_lanes, config.uops,
            lanes * config.beats_per_acc_word)


def _vector_luts(config: Config, family: str) -> Sequence[float]:
    # One size for all multiplexers: a separate factor for parameters would depend on the one small 7 series machine.
    choices = lane_choices(config) + parameter_choices(config)
    return (1, config.requantize_lanes, choices, config.activation_lanes, config.uops)


def _constant(config: Config, family: str) -> Sequence[float]:
    return (1,)


#: Sizes that determine a unit's cells; units that are not listed have constant counts.
_SIZES: dict[str, Sizes] = {
    "array": _array, "vector": _vector, "scratchpad": _scratchpad, "load": _words, "store": _words, "fetch": _beats,
    "read_channel": _beats, "write_channel": _beats,
}
#: Units whose LUTs depend on other sizes than their carries and flip-flops.
_SIZES_OF_LUTS: dict[str, Sizes] = {"array": _array_luts, "load": _load_luts, "store": _store_luts,
                                    "vector": _vector_luts}


def sizes_of(unit: str, kind: str, config: Config, family: str) -> Sequence[float]:
    """Return the sizes that determine a unit's cells of a kind."""
    by_unit = _SIZES | _SIZES_OF_LUTS if kind == "luts" else _SIZES
    sizes = by_unit.get(unit, _constant)(config, family)
    return (*sizes, _registers(config)) if (unit, kind) == ("array", "flip_flops") else sizes
