"""The rectangles of a layer, as large as the words for their strip buffers allow."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac, Pad, RowProgram
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.ir.window import window
from tq_hw.compiler.plan.dilated import row_phases, shares
from tq_hw.compiler.plan.layout import block_count, odd, row_words
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.plan.rectangle_cycles import rectangle_count, rectangle_cycles, streamed_cycles
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["Rectangles", "constant_words"]

#: Least output pixels of a strip, where there is a choice.
_STRIP_SLOTS = 128
#: Least output pixels of the rectangles after a large first one.
_LEAST_SLOTS = 32
#: Row phases, and rectangles narrower than the widest, are used if they take less than this share of its cycles.
_WORTH = 0.95
#: A layer of fewer rectangles uses the widest. A rectangle less, with its commands, is worth this many cycles.
_MANY, _WORTH_CYCLES = 16, 200


def constant_words(layer: Layer, fold: FoldPlan | None, config: Config) -> int:
    """Words of weights and parameters of a layer."""
    if not isinstance(layer, Mac):
        return 0
    rows, cols = layer.kernel
    if fold is not None:
        steps = fold.columns * len(fold.steps) * config.rows
    elif layer.depthwise and (layer.stride == (1, 1) or (layer.dilation[1] == 1 and layer.dilation[0] % 2 == 1)):
        steps = (rows + config.groups) * ceil_div(cols, 3) * 3
    else:
        blocks = 1 if layer.depthwise else block_count(layer.weights.shape[3], config)
        steps = rows * cols * blocks * config.slices * config.gemm_rows
    return ceil_div(layer.output.shape[3], config.cols) * (steps + config.param_words)


def _cuts_channels(layer: Layer) -> bool:
    return not isinstance(layer, RowProgram | Pad) and not (isinstance(layer, Mac) and not layer.depthwise)


def _made_here(layer: Layer) -> tuple[int, int]:
    """Rows and columns of the output that a layer computes: all of them, or its region."""
    if isinstance(layer, Mac) and layer.region is not None:
        top, bottom, left, right = layer.region
        return bottom - top, right - left
    return layer.output.shape[1], layer.output.shape[2]


def _halves(size: int) -> list[int]:
    """The size, half of it, a quarter, ... and 1, rounded up."""
    found = [size]
    while found[-1] > 1:
        found.append(ceil_div(found[-1], 2))
    return found


def _halves_down(size: int) -> list[int]:
    """The size, half of it, a quarter, ... and 1, rounded down."""
    return [size >> power for power in range(size.bit_length())]


@dataclass
class Rectangles:
    """Finds the rectangles of one layer at a time.

    Members
    -------
    folds : by index of the layer
    kept : whether a value needs no strips
    """

    config: Config
    folds: Sequence[FoldPlan | None]
    kept: Callable[[Value], bool]
    _row_phases: dict[int, tuple[Mac, ...]] = field(default_factory=dict)
    _phase_plans: dict[tuple[int, int, bool], tuple[float, LayerPlan] | None] = field(default_factory=dict)
    _shapes: dict[tuple[int, int, tuple[bool, ...]], LayerPlan] = field(default_factory=dict)

    def strip_words(self, layer: Layer, index: int, rows: int, cols: int, blocks: int) -> tuple[tuple[int, ...], int]:
        """Words of a strip buffer of each input and of the output, for rectangles of `rows` x `cols` x `blocks`."""
        if isinstance(layer, Staged):
            return (0,) * len(layer.inputs), layer.minimum_words(self.config)
        (sy, sx), (ey, ex), _ = window(layer)
        fold = self.folds[index]
        ins = []
        for position, value in enumerate(layer.inputs):
            n, h, w, c = value.shape
            if self.kept(value):
                ins.append(0)
                continue
            in_rows = min(h, (rows - 1) * sy + ey)
            if isinstance(layer, Pad):
                ins.append(0)
            elif fold is not None and not position:
                ins.append(in_rows * fold.pieces * odd(fold.words(cols)))
            else:
                in_blocks = min(blocks, block_count(c, self.config)) if _cuts_channels(layer) else block_count(
                    c, self.config)
                ins.append(in_rows * row_words(min(w, (cols - 1) * sx + ex), in_blocks))
        out = 0
        if not self.kept(layer.output):
            out_blocks = min(blocks, block_count(layer.output.shape[3], self.config))
            out = rows * row_words(cols, out_blocks)
        return tuple(ins), out

    def _largest(self, layer: Layer, index: int, budget: int) -> LayerPlan | None:
        """Largest rectangle whose strip buffers fit `budget` words, or None."""
        if isinstance(layer, Staged):
            ins, least = self.strip_words(layer, index, 1, 1, 1)
            return LayerPlan(1, 1, ins, budget, 1, 1) if budget >= least else None
        h, w = _made_here(layer)
        all_blocks = block_count(layer.output.shape[3], self.config)
        strips = self.strip_words(layer, index, 1, 1, 1)
        streaming = any(strips[0]) or strips[1] > 0
        # A layer of few words and many micro-operations is faster as a whole.
        whole = not streaming or isinstance(layer, Chain) or (isinstance(layer, Elementwise) and layer.is_plain)
        goal = h if whole else max(1, ceil_div(h, 4))
        if isinstance(layer, Mac) and not layer.depthwise:
            # Fewer slots than rows of weights would not be faster: the batches of a dense layer are computed at once.
            goal = max(goal, min(h, ceil_div(self.config.gemm_rows, w)))
        if streaming:
            # Four strips of an eighth are better than two of a quarter: the first is loaded sooner.
            rows = min(goal, max(ceil_div(h, 8), ceil_div(_STRIP_SLOTS, w)))
            ins, out = self.strip_words(layer, index, rows, w, all_blocks)
            if 4 * (sum(ins) + out) <= min(budget, self.config.scratchpad_words // 4):
                return LayerPlan(rows, w, ins, out, all_blocks, 4, self.folds[index])
        # Reduce rows first, then columns, then to one buffer of each kind, and last channels.
        for blocks, slots, cols, rows in itertools.product(
                _halves(all_blocks) if _cuts_channels(layer) else [all_blocks], (2, 1),
                [w] if isinstance(layer, Pad) else _halves(w), _halves_down(goal)):
            ins, out = self.strip_words(layer, index, rows, cols, blocks)
            if slots * (sum(ins) + out) <= budget:
                return LayerPlan(rows, cols, ins, out, blocks, slots, self.folds[index])
        return None

    def _best_shape(self, layer: Layer, index: int, widest: LayerPlan, budget: int) -> LayerPlan:
        """Return the rectangles with the fewest cycles; narrower and taller ones may share less input."""
        if isinstance(layer, Staged | Pad | RowProgram) or rectangle_count(layer, widest, self.config) < _MANY:
            return widest
        key = index, budget, (*map(self.kept, layer.inputs), self.kept(layer.output))
        if key in self._shapes:
            return self._shapes[key]
        h, w = _made_here(layer)
        most, count = streamed_cycles(layer, widest, self.config), rectangle_count(layer, widest, self.config)
        best, least = widest, most + _WORTH_CYCLES * count
        all_blocks = block_count(layer.output.shape[3], self.config)
        for cols, blocks, slots in itertools.product(
                shares(w), shares(all_blocks) if _cuts_channels(layer) else [all_blocks], (2, 1)):
            for rows in shares(h):
                ins, out = self.strip_words(layer, index, rows, cols, blocks)
                if slots * (sum(ins) + out) <= budget:
                    plan = LayerPlan(rows, cols, ins, out, blocks, slots, self.folds[index])
                    cycles, number = (find(layer, plan, self.config) for find in (streamed_cycles, rectangle_count))
                    worth = cycles < _WORTH * most or (cycles <= most and 2 * number <= count)
                    if worth and cycles + _WORTH_CYCLES * number < least:
                        best, least = plan, cycles + _WORTH_CYCLES * number
                    break
        self._shapes[key] = best
        return best

    def leading(self, layer: Layer, index: int, rows: int, budget: int, ring: int) -> LayerPlan | None:
        """Return rectangles whose first one, of `rows` rows, begins with slices; None if `budget` words are too few.

        Half of the ring, which has `ring` further words, must have room for the blocks of the open buffers.
        """
        if self.folds[index] is not None or self.kept(layer.inputs[0]):
            return None
        per_block = constant_words(layer, None, self.config) // ceil_div(layer.output.shape[3], self.config.cols)
        budget -= max(0, 2 * self.config.acc_open * per_block - ring)
        _, _, w, c = layer.output.shape
        blocks = block_count(c, self.config)
        ins, out = self.strip_words(layer, index, rows, w, blocks)
        words = sum(ins) + out
        slots = 3 if 3 * words <= min(budget, self.config.scratchpad_words // 3) else 2
        if slots * words > budget:
            return None
        return LayerPlan(min(rows, ceil_div(_LEAST_SLOTS, w)), w, ins, out, blocks, slots, lead_rows=rows)

    def _by_phases(self, layer: Mac, index: int, budget: int) -> tuple[float, LayerPlan] | None:
        """Return the row phases' rectangles with the fewest cycles, and these cycles; None if there are no phases."""
        key = index, budget, self.kept(layer.output)
        if key in self._phase_plans:
            return self._phase_plans[key]
        if index not in self._row_phases:
            self._row_phases[index] = row_phases(layer)
        phases = self._row_phases[index]
        best: tuple[float, LayerPlan] | None = None
        if phases:
            tallest = max((phase.inputs for phase in phases), key=lambda inputs: inputs[0].shape[1])
            probe = replace(phases[0], inputs=tallest)
            placed = replace(probe, output=layer.output)
            _, h, w, c = probe.output.shape
            all_blocks = block_count(c, self.config)
            for rows, cols, blocks, slots in itertools.product(
                    shares(h), shares(w), shares(all_blocks) if layer.depthwise else [all_blocks], (2, 1)):
                ins, out = self.strip_words(placed, index, rows, cols, blocks)
                if slots * (sum(ins) + out) <= budget:
                    plan = LayerPlan(rows, cols, ins, out, blocks, slots, row_phases=phases)
                    cycles = len(phases) * rectangle_cycles(probe, plan, self.config)
                    best = (cycles, plan) if best is None or cycles < best[0] else best
        self._phase_plans[key] = best
        return best

    def tile(self, layer: Layer, index: int, usual: int, budget: int) -> LayerPlan | None:
        """Return rectangles of a layer, or of its row phases, with strip buffers in `budget` words; None if none fit.

        The buffers have `usual` words, unless a layer of many rectangles is faster with more.
        """
        found = self._tile(layer, index, min(usual, budget)) or self._tile(layer, index, budget)
        if found is None or found.row_phases:
            return found
        return self._best_shape(layer, index, found, budget)

    def _tile(self, layer: Layer, index: int, budget: int) -> LayerPlan | None:
        whole = self._largest(layer, index, budget)
        if (not isinstance(layer, Mac) or layer.dilation[0] == 1 or self.folds[index] is not None
                or self.kept(layer.inputs[0])):
            return whole
        best = self._by_phases(layer, index, budget)
        if best is None or (whole is not None and best[0] >= _WORTH * rectangle_cycles(layer, whole, self.config)):
            return whole
        return best[1]
