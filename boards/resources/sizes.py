"""The sizes of a configuration that the cells of each unit grow with."""

from collections.abc import Callable, Sequence

from tq_hw.boards.resources.choices import lane_choices, parameter_choices, rotated_bytes
from tq_hw.boards.resources.memories import acc_depth, lut_memory_bits
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_log2

__all__ = ["sizes_of"]

#: Bytes of the longest word that is not wide.
_WIDE = 16
Sizes = Callable[[Config, str], Sequence[float]]


def _beats(config: Config, family: str) -> Sequence[float]:
    return (1, config.bus_bytes)


def _shifter(config: Config) -> float:
    """Size of a shifter of a whole word by any number of bytes."""
    return config.word_bytes * ceil_log2(config.word_bytes)


def _words(config: Config, family: str) -> Sequence[float]:
    return (1, _shifter(config), config.bus_bytes, ceil_log2(config.scratchpad_words))


def _load_luts(config: Config, family: str) -> Sequence[float]:
    # Of a wide word synthesis makes a choice among all bytes for each byte, not stages of a shifter.
    return (1, _shifter(config), config.bus_bytes, config.word_bytes ** 2 * (config.word_bytes > _WIDE))


def _store_luts(config: Config, family: str) -> Sequence[float]:
    return (*_words(config, family), config.word_bytes ** 2)


def _scratchpad(config: Config, family: str) -> Sequence[float]:
    return (1, config.word_bytes, ceil_log2(config.scratchpad_words))


def _registers(config: Config) -> float:
    """Bits of the registers of cells and of what comes to the rows one after another (hdl/array/grid.py)."""
    rows, cols, grouped = config.rows, config.cols, 3 * config.groups
    return (rows * cols * (2 * 8 + 16 + config.partial_sum_bits) + 8 * (grouped * cols + rows - grouped)
            + 8 * (rows * (rows - 1) // 2 + cols * grouped * (config.groups - 1) // 2))


def _array(config: Config, family: str) -> Sequence[float]:
    opens = config.cols * (config.acc_open > 0)
    return (1, config.rows * config.cols, config.cols, _shifter(config), lut_memory_bits(config, family),
            ceil_log2(acc_depth(config)), opens)


def _array_luts(config: Config, family: str) -> Sequence[float]:
    # A cell of a depthwise group chooses between two bytes; the others have no LUT. Each row is fed from three words.
    # The rotators of wide words are what is late in the array, and made for speed.
    rotated = rotated_bytes(config)
    return (1, 3 * config.groups * config.cols, config.rows, config.cols, rotated,
            rotated * (config.word_bytes > _WIDE), lut_memory_bits(config, family), config.cols * (config.acc_open > 0))


def _vector(config: Config, family: str) -> Sequence[float]:
    lanes = config.requantize_lanes
    return (1, lanes, config.word_bytes, config.cols, config.activation_lanes, config.uops,
            lanes * config.beats_per_acc_word)


def _vector_luts(config: Config, family: str) -> Sequence[float]:
    # One size for all choices: a factor of its own for parameters would rest on the one small machine of a 7 series.
    choices = lane_choices(config) + parameter_choices(config)
    return (1, config.requantize_lanes, choices, config.activation_lanes, config.uops)


def _constant(config: Config, family: str) -> Sequence[float]:
    return (1,)


#: Sizes that a unit's cells grow with; of units that are not named no cell does.
_SIZES: dict[str, Sizes] = {
    "array": _array, "vector": _vector, "scratchpad": _scratchpad, "load": _words, "store": _words, "fetch": _beats,
    "read_channel": _beats, "write_channel": _beats,
}
#: Where LUTs grow with others than carries and flip-flops do.
_SIZES_OF_LUTS: dict[str, Sizes] = {"array": _array_luts, "load": _load_luts, "store": _store_luts,
                                    "vector": _vector_luts}


def sizes_of(unit: str, kind: str, config: Config, family: str) -> Sequence[float]:
    """Return the sizes that a unit's cells of a kind grow with."""
    by_unit = _SIZES | _SIZES_OF_LUTS if kind == "luts" else _SIZES
    sizes = by_unit.get(unit, _constant)(config, family)
    return (*sizes, _registers(config)) if (unit, kind) == ("array", "flip_flops") else sizes
