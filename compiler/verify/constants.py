"""Checks of weights and parameters: words with the bytes of a layer's constants."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.meaning import Sums, Tile
from tq_hw.compiler.verify.areas import ADDRESSES, Area
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Index
from tq_hw.compiler.verify.pad import SIZE_BITS
from tq_hw.isa.config import Config
from tq_hw.model.errors import DataflowError

__all__ = ["channels_of", "constants", "holds"]


def channels_of(sums: Sums | None, config: Config) -> Index | None:
    """Return the number of columns with a channel in each block of a tile, None for all; the others have no meaning."""
    if not isinstance(sums, Tile):
        return None
    channels = sums.layer.output.shape[3]
    if sums.blocks[1] * config.cols <= channels:
        return None
    blocks = np.full(sums.phases, sums.blocks[0]) if sums.phases > 1 else np.arange(*sums.blocks)
    left: Index = np.minimum(channels - blocks * config.cols, config.cols)
    return left


def constants(machine: Machine, area: Area, wanted: npt.NDArray[np.uint8], channels: Index | None, what: str, *,
              element: int = 0) -> None:
    """Check an area [block, word] with constant bytes [block or one for all, word, byte] from their first byte on.

    The caller has recorded the read, if the area exists. In each block only the first `channels` bytes of every word
    have a meaning; with `element`, only the first `channels` elements of that size over all its words.
    """
    size, width = wanted.shape[2], machine.config.word_bytes
    exists = machine.exists(area)
    if exists and size == width and len(wanted) == area.counts[0] and holds(machine, area, wanted):
        return
    words = area.places() & ADDRESSES - 1
    if not exists:
        machine.words(words)
    found = machine.there(words, what)[..., :size]
    if machine.numbers.are(found, wanted):
        return
    lanes = np.arange(words.shape[1])[:, None] * size * (element > 0) + np.arange(size)
    limits = np.full(len(words), size * words.shape[1]) if channels is None else channels * max(element, 1)
    for block, word in np.ndindex(words.shape):
        means = lanes[min(word, len(lanes) - 1)] < limits[block]
        want = wanted[block % len(wanted), word][means]
        if not machine.numbers.are(found[block, word][means], want):
            at = int(words[block, word])
            first = machine.numbers.describe(int(found[block, word, 0]))
            raise DataflowError(f"{what} at scratchpad word {at} should be {want.tobytes().hex()}; the first byte is "
                                f"{first}, {machine.written_by(at)}")


def holds(machine: Machine, area: Area, data: npt.NDArray[np.uint8]) -> bool:
    """Whether an existing area has full words of these bytes, each block as in the image."""
    codes = area.view(machine.pad.codes)
    if len(data) == 1:
        number = codes.item(0) >> SIZE_BITS
        return machine.numbers.is_constant(number, data.nbytes, data.tobytes()) and codes.tobytes() == (
            _words(area.counts[1], machine.config.word_bytes) + (number << SIZE_BITS)).tobytes()
    codes = codes.reshape(area.counts)
    firsts = codes[:, 0] >> SIZE_BITS
    size = data.nbytes // len(data)
    if not all(machine.numbers.is_constant(first, size, block.tobytes())
               for first, block in zip(firsts.tolist(), data, strict=True)):
        return False
    wanted: Index = _words(area.counts[1], machine.config.word_bytes) + (firsts[:, None] << SIZE_BITS)
    return codes.tobytes() == wanted.tobytes()


@lru_cache(maxsize=256)
def _words(count: int, width: int) -> Index:
    """Return the codes of full, consecutive words from number 0 on."""
    codes: Index = (np.arange(count) * width << SIZE_BITS) + width
    return codes
