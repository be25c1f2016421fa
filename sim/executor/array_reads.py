"""Reads of an array operation (inputs, weights, padding) and its result, for all modes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tq_hw.isa.control import Status
from tq_hw.sim.executor.machine import Index, Ints, Machine
from tq_hw.sim.executor.unknown import Flags

__all__ = ["Gathered", "Slots", "check_banks", "in_image", "read_inside", "weights_of"]

#: Input rows and columns are counted modulo 2 to the power of these.
_COORDINATE_BITS = {"parallel": 18, "serial": 32}


@dataclass(frozen=True)
class Slots:
    """Output row and column of every slot."""

    oy: Index
    ox: Index


def in_image(machine: Machine, at: Index, size: int) -> np.ndarray:
    """Return which rows or columns lie in an image with `size` of them."""
    return np.asarray((at & (1 << _COORDINATE_BITS[machine.config.design]) - 1) < size)


@dataclass(frozen=True)
class Gathered:
    """`sums[slot, block, col]` of a whole operation, and the addresses read for them (-1: none).

    `inputs[slot, ...]` or, depthwise, `inputs[slot, block, ...]`; `weights[block, ...]`; `unknown` as `sums`.
    """

    sums: Ints
    unknown: Flags
    inputs: Index
    weights: Index
    per_block: bool

    def words_read(self, block: int, part: slice) -> Index:
        """Return the scratchpad words that a tile reads."""
        read = self.inputs[part, block] if self.per_block else self.inputs[part]
        words = np.concatenate([read.reshape(-1), self.weights[block].reshape(-1)])
        return np.unique(words[words >= 0])


def weights_of(machine: Machine, fields: Mapping[str, int], steps: int) -> tuple[Ints, Flags, Index]:
    """Return weights[block, step * weight_rows, cols] as int32, their unknown flags, and their addresses."""
    words = (fields["weight_base"]
             + np.arange(fields["out_blocks"], dtype=np.int64)[:, None] * fields["weight_block_step"]
             + np.arange(steps * fields["weight_rows"]))
    words = machine.address(words)
    machine.note_read(words.reshape(-1))
    cols = machine.config.cols
    unknown = np.zeros((*words.shape, cols), bool) if machine.unknown is None else machine.read_unknown(words)[
        ..., :cols]
    return machine.scratchpad[words][..., :cols].view(np.int8).astype(np.int32), unknown, words


def read_inside(machine: Machine, words: Index, inside: np.ndarray) -> tuple[np.ndarray, Flags | None, Index]:
    """Return the int8 lanes of the words inside the image, their unknown flags, and the addresses (-1 outside)."""
    words = machine.address(np.where(inside, words, 0))
    unknown = None if machine.unknown is None else machine.read_unknown(words) & inside[..., None]
    return machine.scratchpad[words].view(np.int8), unknown, np.where(inside, words, -1)


def check_banks(machine: Machine, words: Index) -> None:
    """BANK_CONFLICT if two words of a row lie in one bank; -1 stands for no word."""
    for a in range(words.shape[1]):
        for b in range(a):
            clash = (words[:, a] >= 0) & (words[:, b] >= 0) & ((words[:, a] - words[:, b]) % 4 == 0)
            if clash.any():
                at = int(np.flatnonzero(clash)[0])
                machine.fault(Status.BANK_CONFLICT, f"words {words[at, a]} and {words[at, b]} are read in one cycle "
                                                    f"for slot {at} and lie in one bank")
