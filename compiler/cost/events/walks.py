"""Banks of the words of loads, stores and the vector unit's outputs."""

from functools import lru_cache

import numpy as np

from tq_hw.isa.config import BANKS

__all__ = ["bank_masks"]


def bank_masks(base: int, *loops: tuple[int, int]) -> bytes:
    """Return bit masks of the banks of loops from a word on; a loop is its count and step, innermost first."""
    return _walk(tuple((count, step % BANKS) for count, step in loops), base % BANKS)


@lru_cache(maxsize=1 << 12)
def _walk(loops: tuple[tuple[int, int], ...], base: int) -> bytes:
    words = np.array([base])
    for count, step in loops:
        words = (words[None, :] + (np.arange(count) * step)[:, None]).reshape(-1)
    return bytes((1 << words % BANKS).astype(np.uint8))
