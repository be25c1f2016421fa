"""Weights of a layer in the order of the array's steps, and the kernel cut into parts."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.emit.image import depthwise_weights, folded_weights, gemm_weights
from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.plan.dilated import banks_meet
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import UnsupportedError

__all__ = ["Kernel", "Packed", "kernel_parts", "pack", "pack_plainly"]


@dataclass(frozen=True)
class Kernel:
    """Part of the kernel that one operation covers: kernel rows, columns, input blocks.

    For a depthwise layer rows and columns count its steps (of `groups` rows, of three columns).
    """

    rows: tuple[int, int]
    cols: tuple[int, int]
    blocks: tuple[int, int]


@dataclass
class Packed:
    """Weights of a layer in the array's layout: [out block, ..., row, col]."""

    mode: ArrayMode
    weights: npt.NDArray[np.int8]
    rows: int
    fold: FoldPlan | None = None
    #: each output block reads only its own channel block (a depthwise kernel on the GEMM path)
    diagonal: bool = False
    #: a dilated depthwise kernel: operations on column phases
    dilated: bool = False
    #: and on single kernel rows, because rows share banks
    singly: bool = False

    def words(self) -> int:
        """Weight words of one output block."""
        return int(np.prod(self.weights.shape[1:-1]))

    def steps(self) -> int:
        """Steps of a tile."""
        return len(self.fold.steps) if self.fold is not None else int(np.prod(self.weights.shape[1:-2]))

    def choose(self, out_blocks: tuple[int, int], k: Kernel | None) -> npt.NDArray[np.int8]:
        """Weights of some output blocks, whole or of a part of the kernel: a view."""
        chosen = self.weights[out_blocks[0]:out_blocks[1]]
        if k is not None and self.mode is ArrayMode.DEPTHWISE:
            return chosen[:, k.rows[0]:k.rows[1], k.cols[0]:k.cols[1]]
        if k is not None:
            return chosen[:, k.rows[0]:k.rows[1], k.cols[0]:k.cols[1], k.blocks[0]:k.blocks[1]]
        return chosen

    def part(self, out_blocks: tuple[int, int], k: Kernel | None) -> bytes:
        """Bytes of some output blocks, whole or of a part of the kernel."""
        return np.ascontiguousarray(self.choose(out_blocks, k)).tobytes()


def pack(layer: Mac, plan: LayerPlan, config: Config) -> Packed:
    """Choose the array mode of a layer and lay out its weights."""
    if plan.fold is not None:
        return Packed(ArrayMode.FOLDED, _windows(layer, plan.fold, config), plan.fold.rows(), plan.fold)
    if layer.depthwise:
        singly = banks_meet(layer, config)
        dilated = layer.dilation[1] != 1 or singly
        small = layer.kernel[0] * 3 * ceil_div(layer.kernel[1], 3) <= config.scratchpad_words // 16
        if not dilated or (small and layer.stride == (1, 1)):
            # Rows that share a bank are separate steps.
            groups = 1 if singly else config.groups
            weights = depthwise_weights(layer.weights, groups, config)
            rows = 3 * (min(groups, layer.kernel[0]) - 1) + min(3, layer.kernel[1])
            return Packed(ArrayMode.DEPTHWISE, weights[:, :, :, :rows], rows, dilated=dilated, singly=singly)
        return Packed(ArrayMode.GEMM, _diagonal(layer, config), config.gemm_rows, diagonal=True)
    channels = layer.weights.shape[3]
    weights = gemm_weights(layer.weights, config)
    rows = min(config.gemm_rows, channels)
    return Packed(ArrayMode.GEMM, weights[..., :rows, :], rows)


def pack_plainly(layer: Mac, config: Config) -> Packed:
    """Lay out weights for operations on whole rectangles: a dilated depthwise kernel becomes a dense one."""
    if layer.depthwise and (layer.dilation[1] != 1 or banks_meet(layer, config)):
        return Packed(ArrayMode.GEMM, _diagonal(layer, config), config.gemm_rows, diagonal=True)
    return pack(layer, LayerPlan(1, 1, (), 0, 1, 1), config)


def _windows(layer: Mac, fold: FoldPlan, config: Config) -> npt.NDArray[np.int8]:
    """[out block, column, step, row, col]: the kernel at each position in the shared window."""
    steps = [[(s.kernel_row, s.first_byte, s.first_row, s.count) for s in step] for step in fold.steps]
    room = (fold.columns - 1) * layer.stride[1]
    placed = []
    for column in range(fold.columns):
        before = column * layer.stride[1]
        wide = np.pad(layer.weights, ((0, 0), (0, 0), (before, room - before), (0, 0)))
        placed.append(folded_weights(wide, steps, config)[:, :, :fold.rows()])
    return np.stack(placed, 1)


def _diagonal(layer: Mac, config: Config) -> npt.NDArray[np.int8]:
    rows, cols, channels = layer.weights.shape
    blocks = ceil_div(channels, config.cols)
    dense = np.zeros((blocks * config.cols, rows, cols, config.block), np.int8)
    for channel in range(channels):
        dense[channel, :, :, channel % config.block] = layer.weights[:, :, channel]
    return gemm_weights(dense, config)


def kernel_parts(layer: Mac, packed: Packed, limit: int) -> Iterator[Kernel]:
    """Cut the kernel by input blocks, by columns or by rows: the coarsest cut that is fine enough."""
    shape = packed.weights.shape
    if packed.mode is ArrayMode.DEPTHWISE:
        rows, cols, blocks, step = shape[1], shape[2], 1, shape[3]
    elif packed.mode is ArrayMode.GEMM:
        rows, cols, blocks, step = shape[1], shape[2], shape[3], shape[4] * shape[5]
    else:
        rows = cols = blocks = step = limit + 1
    if step > limit:
        raise UnsupportedError(
            f"operator {layer.index} ({layer.op}) needs {step} scratchpad words of weights at a time, "
            f"{limit} are left; a larger scratchpad_bytes helps")
    if step * blocks * cols <= limit:
        at_once = limit // (step * blocks * cols)
        for r in range(0, rows, at_once):
            yield Kernel((r, min(rows, r + at_once)), (0, cols), (0, blocks))
    elif step * blocks <= limit:
        at_once = limit // (step * blocks)
        for r, c in itertools.product(range(rows), range(0, cols, at_once)):
            yield Kernel((r, r + 1), (c, min(cols, c + at_once)), (0, blocks))
    else:
        at_once = limit // step
        for r, c, b in itertools.product(range(rows), range(cols), range(0, blocks, at_once)):
            yield Kernel((r, r + 1), (c, c + 1), (b, min(blocks, b + at_once)))
