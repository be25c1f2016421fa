"""Products of matrices within the scratchpad: parts of resident tensors are rows, weights and results.

The words of a resident tensor of pixels [1, 1, rows, columns] are, for each block of columns, those of all rows. If a
block has as many channels as the array has rows and columns, successive rows of it are what the array takes as weights.
So nothing is loaded or stored: a matrix is an address. The last rows of a depth that is not whole
blocks are an operation of their own, with fewer rows of weights.
"""

from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.matmul import Product
from tq_hw.compiler.emit.matmul_programs import negated, zeros
from tq_hw.compiler.emit.matmul_words import even_size
from tq_hw.compiler.ir.staged import Parts
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, block_count
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.stream.stream import Access

__all__ = ["emit_parts"]


@dataclass(frozen=True)
class _Matrices:
    """The matrices [1, matrices, rows, columns] that are parts of a resident tensor.

    Members
    -------
    whole : the tensor's view
    first, step : words from its first word to the first matrix, from one matrix to the next
    rows, blocks : first row of the view, and first block, of the first matrix; and their steps
    """

    whole: View
    first: int
    step: int
    rows: tuple[int, int]
    blocks: tuple[int, int]

    def view(self, matrix: int) -> View:
        """Return the view of one matrix, its columns as blocks and its rows as columns of pixels."""
        whole = self.whole
        return View(whole.buffer, whole.base + self.first + matrix * self.step, whole.words, 0, whole.block_pitch,
                    matrix, host=whole, host_row=(self.rows[0] + matrix * self.rows[1], 0),
                    host_block=self.blocks[0] + matrix * self.blocks[1])


def _matrices(emitter: Emitter, value: Value, tensor: Value) -> _Matrices:
    """Return where the matrices of a view of a resident tensor are."""
    whole, block = emitter.resident(tensor), emitter.config.block
    assert whole is not None, "all tensors are resident"
    rows, place = value.shape[2], value.place
    if value is tensor:
        return _Matrices(whole, 0, whole.row_pitch, (0, 1), (0, 0))
    if value.dense:
        return _Matrices(whole, 0, rows, (0, 0), (0, 0))
    first, step = place.offset_bytes // block, place.row_bytes // block
    return _Matrices(whole, first * whole.block_pitch, step * whole.block_pitch, (0, 0), (first, step))


@dataclass
class _Parts(Product):
    """Emits the operations of a layer; its words are those of the zero points, and of results for the memory."""

    whole: Parts

    def __post_init__(self) -> None:
        config, layer = self.emitter.config, self.layer
        self.config, block = config, config.block
        self.depth, self.cols = layer.inputs[0].shape[3], layer.inputs[1].shape[3]
        self.in_blocks, self.out_blocks = block_count(self.depth, config), block_count(self.cols, config)
        self.block_words, self.size, self.wide, self.added, self.buffers = block, 1, 1, False, 1
        self.negated = [negated(point) for point in layer.zero_points]
        self.zeros = zeros(layer, config)
        full = self.depth // block
        self.parts = [part for part in ((0, full), (full, self.in_blocks)) if part[0] < part[1]]
        self.words_base = self.plan.out_bases[0]
        self.const_base = self.words_base + 2
        self.last_const_base = self.const_base + full * block
        self.words = Access("pad", self.words_base, self.words_base + 1)
        self.const = Access("pad", self.const_base, self.const_base + self.in_blocks * block)
        self.left, self.right = (_matrices(self.emitter, value, tensor) for value, tensor in zip(
            layer.inputs, self.whole.inputs, strict=True))
        most = min(layer.lhs_rows, self.zeros.tile * self.zeros.tiles)
        self.made = None
        if self.emitter.is_resident(self.whole.output):
            self.made = _matrices(self.emitter, layer.output, self.whole.output)
        else:
            self.out_base = self.const.high
            room = self.words_base + self.plan.out_words - self.out_base
            self.buffers = 2 if 2 * most * self.out_blocks <= room else 1
            most = min(most, room // (self.buffers * self.out_blocks))
        self.rows = even_size(layer.lhs_rows, most)
        self.out_words = self.rows * self.out_blocks

    def run(self) -> None:
        """Emit all products; store the whole results if they are needed in memory, too."""
        super().run()
        if self.made is None:
            return
        _, rows, cols, channels = self.whole.output.shape
        self.emitter.finish(self.whole, self.made.whole, Rect(0, (0, rows), (0, cols), (
            0, block_count(channels, self.config))))

    @property
    def is_whole(self) -> bool:
        """Whether the whole depth of a tile's rows is in the scratchpad at once."""
        return True

    def weight_rows(self, part: tuple[int, int]) -> int:
        """Return the rows of weights of each block of a part of the depth."""
        return min(self.config.gemm_rows, self.depth - part[0] * self.config.block)

    def load_rows(self, left: int, span: tuple[int, int], part: tuple[int, int]) -> View:
        """Return the view of a matrix: its rows are there."""
        return self.left.view(left)

    def load_weights(self, matrix: int, o: int, part: tuple[int, int]) -> tuple[int, Access]:
        """Return the address of a block of columns, and its access."""
        view = self.right.view(matrix)
        return view.address(matrix, o, part[0] * self.config.block), view.access((matrix, matrix + 1), (o, o + 1))

    def target(self, number: int, span: tuple[int, int], turn: int) -> View:
        """Return the words of a product: those of the whole results, or a buffer."""
        return super().target(number, span, turn) if self.made is None else self.made.view(number)

    def store(self, number: int, span: tuple[int, int], target: View) -> None:
        """Store some rows of a product, unless they are where they should be."""
        if self.made is None:
            super().store(number, span, target)


def emit_parts(emitter: Emitter, layer: Parts, plan: LayerPlan) -> None:
    """Emit all operations of a layer whose tensors are resident."""
    _Parts(emitter, layer.product, plan, layer.output, layer).run()
