"""The choice to load constants as coded rows: if that is fewer bytes and not slower."""

from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.weight_code import encode_rows

__all__ = ["coded_rows"]

#: Coded bytes must be at most 7/8 of the plain bytes, and the cycles of their load at most 9/8.
_MOST_BYTES, _MOST_CYCLES, _PARTS = 7, 9, 8


def coded_rows(data: bytes, row_bytes: int, config: Config, memory: Memory) -> bytes | None:
    """Return the coded run of rows of `row_bytes` bytes, in whole beats; None if a plain load is better.

    It is also None without a decoder, or if a row is not `cols` bytes.
    """
    if not config.compressed_weights or row_bytes != config.cols:
        return None
    coded = encode_rows(data, row_bytes)
    beats, plain = (ceil_div(size, config.bus_bytes) for size in (len(coded.data), len(data)))
    if _PARTS * beats > _MOST_BYTES * plain:
        return None
    takes = max(memory.cycles(config, beats), coded.cycles)
    if _PARTS * takes > _MOST_CYCLES * max(memory.cycles(config, plain), len(data) // row_bytes):
        return None
    return coded.data.ljust(beats * config.bus_bytes, b"\0")
