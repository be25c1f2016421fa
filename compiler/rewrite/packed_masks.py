"""Masks of attention in computed float32: what they hide has e^x = 0 after SOFTMAX, whatever the scores are.

A mask is added to scores, or chosen by SELECT in their place. It has elements of minus infinity, or of the least
float32 number or so, which packed numbers cannot hold: a number with the same result is put in their place.
"""

import numpy as np

from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.packing import NO_MOVES, Packed, Packing
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.packed_float import packed
from tq_hw.sim.golden.registry import Array, str_option

__all__ = ["masked"]

#: What hides a score, and what replaces it: scores cannot compensate it, and its e^x is still 0.
_MASK, _MOST_SCORE = -2.0**100, 2.0**60


def masked(packing: Packing, op: Operator) -> Packed | None:
    """Return the numbers that a SOFTMAX reads where a mask hides some of them; None if there is no mask.

    A row that is hidden as a whole has equal numbers then. So it has in LiteRT if one finite number hides scores, once
    for each; otherwise constants must prove that no row is.
    """
    tree = _Tree(packing)
    source = packing.graph.input(op)
    if source.data is not None or not tree.hides(source.index):
        return None
    known = np.concatenate([each.data.reshape(-1) for each in tree.constants if each.data is not None])
    hidden, kept = np.unique(known[known <= _MASK]), known[~(known <= _MASK)]
    scores = [packing.packed(index) for index in tree.scores]
    # A mask with NaN fails this comparison, too.
    if not (np.abs([*kept, *(end for part in scores for end in (part.low, part.high))]) < _MOST_SCORE).all():
        return None
    is_equal = len(hidden) == 1 and np.isfinite(hidden).all() and not tree.is_doubled
    if not is_equal and not _shows_each_row(packing.graph, source):
        return None
    return tree.packed(source.index)


def _parts(graph: Subject, index: int) -> list[int]:
    """Return the float32 tensors that a tensor is the sum of, or that its elements come from unchanged."""
    maker = graph.maker(index)
    if maker is None or maker.op in NO_MOVES:
        return []
    if maker.op == "ADD" and str_option(maker, "fused_activation_function") == "NONE":
        return list(maker.inputs)
    return [maker.inputs[position] for position in moved(graph, maker)]


class _Tree(Packing):
    """Packed numbers in which `_MASK` is in place of all constants below it; others are those of another `Packing`.

    Attributes
    ----------
    constants : of the mask, float32
    scores : tensors that have no such constant
    is_doubled : whether one sum adds two of them
    """

    def __init__(self, whole: Packing):
        super().__init__(whole.graph, whole.rows)
        self.whole, self.new, self.totals, self._known = whole, whole.new, whole.totals, whole.masks
        self.constants: list[Tensor] = []
        self.scores: list[int] = []
        self.is_doubled = False
        self._hides: dict[int, bool] = {}

    def hides(self, index: int) -> bool:
        """Whether a tensor has elements that hide scores; collect what it comes from."""
        if index not in self._hides:
            self._hides[index] = self._look(index)
        return self._hides[index]

    def _look(self, index: int) -> bool:
        tensor = self.graph.tensors[index]
        if tensor.data is not None:
            self.constants.append(tensor)
            return bool((tensor.data <= _MASK).any())
        parts = _parts(self.graph, index)
        found = [self.hides(part) for part in parts]
        if any(found):
            maker = self.graph.maker(index)
            self.is_doubled |= maker is not None and maker.op == "ADD" and all(found)
            self.scores += [part for part, hides in zip(parts, found, strict=True)
                            if not hides and self.graph.tensors[part].data is None]
        return any(found)

    def packed(self, index: int) -> Packed:
        """Return a tensor's packed numbers; raise `TqError` with the reason if there are none."""
        return super().packed(index) if self.hides(index) else self.whole.packed(index)

    def _table(self, index: int) -> Packed | None:
        """Return a constant; a table would be made of the constants as they are."""
        data = self.graph.tensors[index].data
        if data is None:
            return None
        finite = np.where(data <= _MASK, np.float32(_MASK), data)
        return Packed(self.graph.add_constant(packed(finite)), _MASK, float(finite.max()))


def _shows_each_row(graph: Subject, source: Tensor) -> bool:
    """Whether constants prove that a mask hides no row as a whole."""
    try:
        hidden = _hidden(graph, source.index)
    except TqError:
        return False
    return hidden is not None and not np.broadcast_to(hidden, source.shape).all(axis=-1).any()


def _hidden(graph: Subject, index: int) -> Array | None:
    """Return which elements a mask hides, None if inputs of the model decide that."""
    tensor, maker, parts = graph.tensors[index], graph.maker(index), _parts(graph, index)
    if tensor.data is not None:
        return np.asarray(tensor.data <= _MASK)
    if maker is None or not parts:
        return np.zeros(tensor.shape, np.bool_)
    found = {part: _hidden(graph, part) for part in parts}
    if maker.op == "ADD":
        one, other = (found[part] for part in parts)
        return None if one is None or other is None else one | other
    inputs = [found[each] if each in found else graph.tensors[each].data for each in maker.inputs]
    if any(each is None for each in inputs):
        return None
    made: Array = KERNELS[maker.op](maker, graph.subgraph, inputs)[maker.outputs.index(index)]
    return made
