"""Scratchpad layout of an LSTM, and the meaning of its words in the graph's terms.

Vectors of cells are stored as [block][image of the batch], those of gates as [gate][block][image]; all blocks have the
same number of cells.
"""

from dataclasses import replace

from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.meaning import Scratch, Walk
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["INT16", "Rooms"]

#: Type code of int16.
INT16 = 1
#: Row length for slots that form a single row.
_ALL = 1 << 30


class Rooms:
    """Buffers of a layer in the scratchpad from word `first` on.

    Members
    -------
    base, whole : first word and words of each buffer
    blocks, width : words of a vector of int8 cells, cells in each word
    wide, size : words and bytes of such a word's cells as int16
    vector : words of a vector of int16 cells
    out_blocks : output blocks of all gates
    """

    def __init__(self, config: Config, layer: Lstm, first: int) -> None:
        self.config, self.layer = config, layer
        self.base: dict[str, int] = {}
        self.whole: dict[str, Access] = {}
        at = first
        for name, words in layer.buffers(config).items():
            self.base[name], self.whole[name] = at, Access("pad", at, at + words)
            at += words
        self.blocks = ceil_div(layer.cells, config.block)
        self.wide = ceil_div(2 * config.block, config.word_bytes)
        self.size = 2 * config.block
        self.width = layer.width(config)
        self.vector = self.blocks * layer.batch * self.wide
        self.out_blocks = 4 * self.blocks * config.sub_blocks

    def gates(self, products: Scratch, block: int, step: int | None = None) -> Walk:
        """Products with the input, of all rows or of one step, from `block` of all gates on: [row][gate][block]."""
        layer, row = self.layer, 4 * self.blocks * self.size
        first, apart = (0, 1) if step is None else (step * layer.batch, 1) if layer.time_major else (step, layer.steps)
        return Walk(products, products.size_bytes, at=first * row + block * self.size, block=self.size,
                    col=apart * row, cols=_ALL)

    def vector_walk(self, scratch: Scratch, first: int = 0) -> Walk:
        """Consecutive words of cells from word `first` on: [gate][block][image]."""
        return Walk(scratch, scratch.size_bytes, at=first * self.size, block=self.layer.batch * self.size,
                    col=self.size, cols=_ALL)

    def states(self, value: Value, first: int = 0, *, made: bool = True) -> Walk:
        """States of all images from word `first` of [block][image] on."""
        size = value.size_bytes // self.layer.batch
        width = size // self.layer.cells * self.width
        return Walk(value, size, block=width, row=width, col=size, cols=self.layer.batch, first=first, span=width,
                    made=made, type=int(width > self.width))

    def results(self, step: int) -> Walk:
        """Hidden states after a step."""
        layer = self.layer
        start, image = (step * layer.batch, 1) if layer.time_major else (step, layer.steps)
        return replace(self.states(layer.output), run=layer.cells, start=start * layer.cells, block=self.width,
                       row=self.width, col=image * layer.cells, span=self.width, type=0)
