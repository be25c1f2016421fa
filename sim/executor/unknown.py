"""Unknown values: bytes that no command has defined, and results computed from them.

A survey keeps a flag for each value of the machine. A result is known only if all of its operands are known. As an
exception, a product with a weight of 0 is known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config
from tq_hw.isa.legality import TABLE_ENTRIES

__all__ = ["Flags", "Unknown", "sums_unknown"]

Flags = npt.NDArray[np.bool_]


@dataclass
class Unknown:
    """Flags of a machine's values: True if the value is unknown.

    Members
    -------
    memory : of each region's bytes
    scratchpad : [words, word_bytes]
    registers : vector registers, [vector_words, requantize_lanes]
    table : its entries
    written : words, modulo 2^16, that earlier chunks of the current vector operation wrote
    stamps, writes : sequence number of each scratchpad word's last write, and the number of all writes
    why : why no result is known although the status is; empty if the flags are valid
    """

    memory: list[Flags]
    scratchpad: Flags
    registers: Flags
    table: Flags
    written: Flags
    stamps: npt.NDArray[np.int64]
    writes: int = 0
    why: str = ""

    @staticmethod
    def of(config: Config, memory: list[Flags]) -> "Unknown":
        """Return the flags at the start of a program."""
        return Unknown(memory, np.ones((config.scratchpad_words, config.word_bytes), bool),
                       np.ones((config.vector_words, config.requantize_lanes), bool), np.ones(TABLE_ENTRIES, bool),
                       np.zeros(1 << 16, bool), np.zeros(config.scratchpad_words, np.int64))

    def stamp(self, words: npt.NDArray[np.int64]) -> None:
        """Record a write."""
        self.writes += 1
        self.stamps[words] = self.writes

    def give_up(self, why: str) -> None:
        """Mark all results as unknown; the first reason is kept."""
        self.why = self.why or why


def sums_unknown(x_unknown: npt.NDArray[Any], weights: npt.NDArray[Any], weights_unknown: npt.NDArray[Any]) -> Flags:
    """Return which sums over k of x[slot, k] * weights[k, col] are unknown."""
    matters = ((weights != 0) | weights_unknown).astype(np.float32)
    known_inputs = x_unknown.astype(np.float32) @ matters > 0
    return np.asarray(known_inputs | weights_unknown.any(axis=0))
