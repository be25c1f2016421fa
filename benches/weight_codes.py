"""How small the weights of networks become by lossless codes of short blocks, against their entropy.

Weights are read in blocks, in the order of the load unit: for as many output channels as the array has columns, all
kernel positions and input channels, then the next output channels. A block begins at a 32-bit word. It names its code
in four bits and the code's parameter in four more, so that it can be decoded independently. Nothing is stored; the
table is the result.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from yardsticks import MODELS, YARDSTICKS

from tq_hw.isa.sizes import ceil_div
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model

__all__ = ["CODES", "Figures", "block_bits", "entropy_bits", "figures", "main", "weight_streams"]

Bytes = NDArray[np.int8]
_WORD_BITS = 32
_HEADER_BITS = 8
_MOST_PALETTE = 16
_RICE_PARAMETERS = range(7)
#: Operators whose second input is their weights, with the axis of output channels.
_CHANNEL_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}


def _raw(block: Bytes) -> float:
    return 8 * block.size


def _zero_mask(block: Bytes) -> float:
    """One bit per weight, followed by the weights that are not 0."""
    return block.size + 8 * int(np.count_nonzero(block))


def _palette(block: Bytes) -> float:
    """The values that occur, and an index of whole bits per weight."""
    values = len(np.unique(block))
    return np.inf if values > _MOST_PALETTE else 8 * values + block.size * (values - 1).bit_length()


def _narrow(block: Bytes) -> float:
    """The minimum, and each weight's difference from it."""
    span = int(block.max()) - int(block.min())
    return 8 + block.size * span.bit_length()


def _folded(block: Bytes) -> NDArray[np.int64]:
    """Return 0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    wide = block.astype(np.int64)
    return np.where(wide < 0, -2 * wide - 1, 2 * wide)


def _rice_bits(folded: NDArray[np.int64]) -> float:
    return min(float(((folded >> low) + 1 + low).sum()) for low in _RICE_PARAMETERS)


def _rice(block: Bytes) -> float:
    """Golomb-Rice: the high part in unary, `low` bits in binary, with the best `low` of the block."""
    return _rice_bits(_folded(block))


def _mask_rice(block: Bytes) -> float:
    """One bit per weight, and Golomb-Rice codes of the weights that are not 0."""
    return block.size + _rice_bits(_folded(block[block != 0]) - 1)


def _fields(block: Bytes) -> float:
    """A field of `width` bits per weight. All ones is an escape: the weight follows as a byte.

    A width of 1 is the zero mask.
    """
    folded = _folded(block)
    return min(float(width * block.size + 8 * np.count_nonzero(folded >= (1 << width) - 1)) for width in range(1, 8))


#: Functions that return the bits of a block in a code, without the header.
CODES: Mapping[str, Callable[[Bytes], float]] = {
    "raw": _raw, "zero mask": _zero_mask, "palette": _palette, "narrow": _narrow, "fields": _fields, "Rice": _rice,
    "mask + Rice": _mask_rice,
}


def block_bits(block: Bytes, codes: Sequence[str]) -> int:
    """Return the bits of a block in the best of the codes, with the header and padding to whole words."""
    return ceil_div(_HEADER_BITS + int(min(CODES[name](block) for name in codes)), _WORD_BITS) * _WORD_BITS


def entropy_bits(data: Bytes) -> float:
    """Return the bits of all weights by zero-order entropy, without a code table."""
    counts = np.unique(data, return_counts=True)[1]
    return float((counts * np.log2(data.size / counts)).sum())


def weight_streams(model: Model, cols: int) -> Iterator[Bytes]:
    """Yield the int8 weights of each operator in the order of the array's blocks."""
    graph = model.main
    for op in graph.operators:
        if op.op not in _CHANNEL_AXES or len(op.inputs) < 2:
            continue
        data = graph.tensors[op.inputs[1]].data
        if data is None or data.dtype != np.int8:
            continue
        channels = np.moveaxis(data, _CHANNEL_AXES[op.op], 0).reshape(data.shape[_CHANNEL_AXES[op.op]], -1)
        parts = [channels[first:first + cols].T.ravel() for first in range(0, len(channels), cols)]
        yield np.concatenate(parts)


@dataclass(frozen=True)
class Figures:
    """One network's figures: bytes of weights, bits per weight by entropy, and the compression ratio of each choice."""

    weight_bytes: int
    entropy: float
    ratios: Mapping[str, float]


def figures(model: Model, block_bytes: int, cols: int) -> Figures | None:
    """Return the figures of a network; None if it has no int8 weights."""
    streams = list(weight_streams(model, cols))
    if not streams:
        return None
    total = sum(stream.size for stream in streams)
    blocks = [stream[at:at + block_bytes] for stream in streams for at in range(0, stream.size, block_bytes)]
    choices = {name: ("raw", name) for name in CODES if name != "raw"} | {
        "fields, palette": ("raw", "fields", "palette"), "best": tuple(CODES)}
    sizes = {name: sum(block_bits(block, codes) for block in blocks) for name, codes in choices.items()}
    return Figures(total, entropy_bits(np.concatenate(streams)) / total,
                   {name: 8 * total / bits for name, bits in sizes.items()})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="default: the yardsticks, and all of shared/models")
    parser.add_argument("--block-bytes", type=int, default=256, help="weights of a block (default: %(default)s)")
    parser.add_argument("--cols", type=int, default=8, help="columns of the array (default: %(default)s)")
    options = parser.parse_args(arguments)
    names = {yardstick.path: yardstick.name for yardstick in YARDSTICKS if yardstick.build is None and yardstick.exists}
    paths = options.models or [*names, *(path for path in sorted(MODELS.glob("*.tflite")) if path not in names)]
    table = Table("network", "bytes", "entropy", "bound", *(name for name in CODES if name != "raw"),
                  "fields, palette", "best",
                  title=f"times smaller, blocks of {options.block_bytes} weights")
    for path in paths:
        found = figures(read_model(path), options.block_bytes, options.cols)
        if found is not None:
            table.add_row(names.get(path, path.stem), f"{found.weight_bytes:,}", f"{found.entropy:.2f}",
                          f"{8 / found.entropy:.2f}", *(f"{ratio:.2f}" for ratio in found.ratios.values()))
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
