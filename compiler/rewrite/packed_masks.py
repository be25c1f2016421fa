"""Masks of attention in computed float32: what they hide has e^x = 0 after SOFTMAX, whatever the scores are.

A mask is added to scores, or chosen by SELECT in their place. It has elements of minus infinity, or of the least
float32 number or so, which packed numbers cannot hold: a small share of them, with the same result, is put in their
place.
"""

import numpy as np

from tq_hw.compiler.rewrite.float_moves import moved
from tq_hw.compiler.rewrite.island import Island
from tq_hw.compiler.rewrite.packed_elements import extreme
from tq_hw.compiler.rewrite.packing import NO_MOVES, Packed, Packing
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array, str_option

__all__ = ["masked"]

#: Numbers from here on down hide a score.
_MASK = -2.0**100
#: A power of two, so that what hides keeps its order, and sums of it keep their rounding.
_SHARE = 2.0**-28
#: Limit of scores: the least share of what hides absorbs them. Different shares differ by more, so that e^x is 0.
_MOST_SCORE = 2.0**46
_LEAST = float(np.finfo(np.float32).min)
#: Operators that give NaN for NaN.
_STRICT = ("ADD", "SUB", "MUL", "DIV", "MEAN", "SUM", "BATCH_MATMUL", "FULLY_CONNECTED", "SQUARED_DIFFERENCE", "RSQRT")


def masked(packing: Packing, op: Operator) -> Packed | None:
    """Return the numbers that a SOFTMAX reads where a mask hides some of them; None if there is no mask.

    A row that is hidden as a whole by finite numbers has the numbers that hide it, in LiteRT as here. If minus infinity
    hides in the end, constants must prove that no row is hidden, or inputs decide and only minus infinity hides: LiteRT
    then has NaN, of which no engine defines a code.
    """
    tree, source = _Tree(packing), packing.graph.input(op)
    if source.data is not None or not tree.hiding(source.index):
        return None
    kept = [each for numbers in tree.numbers for each in numbers[~(numbers <= _MASK)].reshape(-1)]
    scores = [packing.packed(index) for index in tree.scores]
    # A mask with NaN fails this comparison, too.
    if not (np.abs([*kept, *(end for part in scores for end in (part.low, part.high))]) < _MOST_SCORE).all():
        return None
    hiding, shows = tree.hiding(source.index), tree.shows_each_row(source)
    if shows is None and hiding == {-np.inf}:
        shows = _ends_in_codes(packing.graph, op)
    return tree.packed(source.index) if shows or -np.inf not in hiding else None


def _ends_in_codes(graph: Subject, op: Operator) -> bool:
    """Whether NaN in a result would reach QUANTIZE, whatever else is computed from it."""
    reached = set(op.outputs)
    for each in graph.subgraph.operators:
        if each.op == "QUANTIZE" or not reached & set(each.inputs):
            continue
        is_strict = each.op in _STRICT or (moved(graph, each) and each.op not in NO_MOVES)
        if not is_strict or each.options.get("fused_activation_function", "NONE") != "NONE":
            return False
        reached.update(each.outputs)
    return not any(graph.is_output(index) for index in reached)


class _Tree(Packing):
    """Packed numbers in which what hides is reduced to its `_SHARE`; others are those of another `Packing`.

    Attributes
    ----------
    numbers : of the mask, from constants and from functions of one tensor
    scores : tensors that have no number that hides
    """

    def __init__(self, whole: Packing):
        super().__init__(whole.graph, whole.rows)
        self.whole, self.new, self.totals, self._known = whole, whole.new, whole.totals, whole.masks
        self.numbers: list[Array] = []
        self.scores: list[int] = []
        self._hiding: dict[int, set[float]] = {}

    def hiding(self, index: int) -> set[float]:
        """Return the numbers of a tensor that hide scores, as in LiteRT; collect what it comes from."""
        if index not in self._hiding:
            self._hiding[index] = self._look(index)
        return self._hiding[index]

    def _look(self, index: int) -> set[float]:
        parts, maker = self._parts(index), self.graph.maker(index)
        if not parts:
            values = self._values(index)
            self.numbers += [] if values is None else [values]
            return set() if values is None else {float(each) for each in np.unique(values[values <= _MASK])}
        found = [self.hiding(part) for part in parts]
        if any(found):
            self.scores += [part for part, hiding in zip(parts, found, strict=True)
                            if not hiding and self.graph.tensors[part].data is None]
        every = set[float]().union(*found)
        if maker is None or maker.op != "ADD":
            return every
        # A sum beyond float32 is its least number.
        sums = {one + other for one in found[0] for other in found[1]}
        return {max(each, _LEAST) for each in every | sums}

    def _parts(self, index: int) -> list[int]:
        """Return the float32 tensors that a tensor is the sum of, or that its elements come from unchanged."""
        maker = self.graph.maker(index)
        if maker is None or maker.op in NO_MOVES:
            return []
        if maker.op == "ADD" and str_option(maker, "fused_activation_function") == "NONE":
            return list(maker.inputs)
        return [maker.inputs[position] for position in moved(self.graph, maker)]

    def _computed(self, index: int) -> Packed:
        """Return an operator's result; a sum of two numbers that hide is at least what stands for the least number."""
        made, maker = super()._computed(index), self.graph.maker(index)
        if maker is None or maker.op != "ADD" or not all(self.hiding(part) for part in maker.inputs):
            return made
        return extreme(self, maker, made, self.number(_LEAST * _SHARE), least=False)

    def _values(self, index: int) -> Array | None:
        """Return the numbers of a constant, or of a function of one tensor that hides; else None."""
        tensor = self.graph.tensors[index]
        if tensor.data is not None:
            return tensor.data
        try:
            values = np.asarray(Island(self.graph, tensor.shape).values(index), np.float32)
        except TqError:
            return None
        return values if (values <= _MASK).any() else None

    def packed(self, index: int) -> Packed:
        """Return a tensor's packed numbers; raise `TqError` with the reason if there are none."""
        return super().packed(index) if self.hiding(index) else self.whole.packed(index)

    def finite(self, values: Array) -> Array:
        """Return numbers with their `_SHARE` in place of those that hide, minus infinity as the least number."""
        shares = np.maximum(values, np.float32(_LEAST)) * np.float32(_SHARE)
        return np.where(values <= _MASK, shares, values)

    def shows_each_row(self, source: Tensor) -> bool | None:
        """Whether a mask hides no row as a whole; None if inputs of the model decide that."""
        hidden = self._hidden(source.index)
        return None if hidden is None else not np.broadcast_to(hidden, source.shape).all(axis=-1).any()

    def _hidden(self, index: int) -> Array | None:
        """Return which elements a mask hides, None if inputs of the model decide that."""
        tensor, maker, parts = self.graph.tensors[index], self.graph.maker(index), self._parts(index)
        if tensor.data is not None:
            return np.asarray(tensor.data <= _MASK)
        if maker is None or not parts:
            return None if self.hiding(index) else np.zeros(tensor.shape, np.bool_)
        found = {part: self._hidden(part) for part in parts}
        if maker.op == "ADD":
            one, other = (found[part] for part in parts)
            return None if one is None or other is None else one | other
        inputs = [found[each] if each in found else self.graph.tensors[each].data for each in maker.inputs]
        if any(each is None for each in inputs):
            return None
        made: Array = KERNELS[maker.op](maker, self.graph.subgraph, inputs)[maker.outputs.index(index)]
        return made
