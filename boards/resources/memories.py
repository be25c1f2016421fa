"""Multipliers and block RAM of each unit: the cells that Yosys makes from its memories and products.

All families have block RAM of 18 Kbit, which is 36, 18, 9, 4, 2 or 1 bits wide. In a 7 series two of them make up one
block RAM, which counts as one. Most shallow memories become LUTs: see _LUT_DEPTH.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.layout import FETCH_BYTES, LOAD_BYTES, QUEUE_WORDS, UOP_WORDS
from tq_hw.isa.sizes import ceil_div

__all__ = ["block_rams", "lut_memory_bits", "multipliers"]

#: Shapes of a block RAM (width in bits, words), and its count.
_SHAPES = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
_COUNTS = {"ecp5": 1.0, "gowin": 1.0, "xc7": 0.5}
#: Deepest memory that becomes LUTs, in words.
_LUT_DEPTH = {"ecp5": 32, "gowin": 32, "xc7": 64}
#: Multipliers of 18 x 18, or 25 x 18, for a product of 8 x 8 bits.
_PRODUCT = {"ecp5": 1, "gowin": 0.5, "xc7": 1}
#: Multipliers per vector lane and per activation lane; one product of the latter takes 2: a constant has over 18 bits.
_LANE_MULTIPLIERS, _ACTIVATION_MULTIPLIERS = 4, 14
#: Multipliers of 18 x 18, or 25 x 18, for a product of 25 x 8 bits.
_PACKED_MULTIPLIERS = {"ecp5": 2, "gowin": 1.5, "xc7": 1}
#: Beats in the store unit's queue. A beat has a strobe per byte and an end-of-burst bit in addition to its data.
_STORE_BEATS = 512
#: Command queues of the fetch unit, one for each of the four working units.
_COMMAND_QUEUES = 4
#: The exponential table of an activation lane.
_EXPONENT_BITS, _EXPONENT_WORDS = 15, 1024


class _Memory(NamedTuple):
    """Memories of one shape: bits of a word, words, and the number of copies, one per read port.

    `by_bytes`: it has byte write enables; `shallow`: it is block RAM whatever its depth.
    """

    unit: str
    bits: int
    words: int
    copies: int
    by_bytes: bool = False
    shallow: bool = False


def multipliers(config: Config, family: str) -> Mapping[str, float]:
    """Return multipliers by unit, 0.5 for a product in half of one; units that are not listed have none."""
    cells = (ceil_div(config.rows, 2) * _PACKED_MULTIPLIERS[family] if config.dsp_packing
             else config.rows * _PRODUCT[family])
    return {"array": cells * config.cols,
            "vector": _LANE_MULTIPLIERS * config.requantize_lanes + _ACTIVATION_MULTIPLIERS * config.activation_lanes}


def _memories(config: Config) -> Iterator[_Memory]:
    beat = 8 * config.bus_bytes
    yield _Memory("scratchpad", 8 * config.word_bytes, config.scratchpad_words // BANKS, BANKS, True)
    yield _Memory("array", 32 * config.cols, acc_depth(config), 2)
    # Weights of the two rows of a packed cell: those in use and the next ones.
    yield _Memory("array", 8 * config.cols, 4, ceil_div(config.rows, 2) * (config.dsp_packing != 0), shallow=True)
    yield _Memory("vector", 32 * config.requantize_lanes, config.vector_words, 2)
    yield _Memory("vector", 32, 512, 2 * config.requantize_lanes)
    yield _Memory("vector", 32, config.uops, UOP_WORDS * config.block_uops, shallow=True)
    yield _Memory("vector", _EXPONENT_BITS, _EXPONENT_WORDS, config.activation_lanes)
    yield _Memory("load", beat, LOAD_BYTES // config.bus_bytes, 1)
    yield _Memory("store", beat + config.bus_bytes + 1, _STORE_BEATS, 1)
    yield _Memory("fetch", beat, FETCH_BYTES // config.bus_bytes, 1)
    yield _Memory("fetch", 32, QUEUE_WORDS, _COMMAND_QUEUES)


def acc_depth(config: Config) -> int:
    """Return the words of one of the two accumulator memories."""
    return config.acc_words * config.acc_buffers // 2


def lut_memory_bits(config: Config, family: str) -> int:
    """Return the bits of the accumulators if they are made from LUTs, else 0."""
    return 2 * 32 * config.cols * acc_depth(config) if acc_depth(config) <= _LUT_DEPTH[family] else 0


def block_rams(config: Config, family: str) -> Mapping[str, float]:
    """Return block RAMs by unit, of 18 Kbit in an ECP5 and 36 in a 7 series; units that are not listed have none."""
    found: dict[str, float] = {}
    for memory in _memories(config):
        if memory.shallow or memory.words > _LUT_DEPTH[family]:
            # A byte write enable leaves the ninth bit unused.
            least = min(ceil_div(memory.bits, bits // 9 * 8 if memory.by_bytes and bits >= 9 else bits)
                        * ceil_div(memory.words, words) for bits, words in _SHAPES)
            found[memory.unit] = found.get(memory.unit, 0) + memory.copies * least * _COUNTS[family]
    return found
