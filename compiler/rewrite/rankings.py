"""ARG_MAX, ARG_MIN and places by TOPK_V2 of float32 functions of codes, as rankings of integers in the same order.

A table before the moves replaces each number by its rank among all possible numbers: int8 for at most 256 numbers, else
int32. Equal numbers have equal ranks, so the first of them is found, as in float32. A rising function of the code needs
no table; a falling one needs the opposite extreme.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.rewrite.float_moves import dequantized, moved
from tq_hw.compiler.rewrite.island import BYTES, Island, label, rises
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Quantization, Tensor
from tq_hw.model.rules.signatures import FLOAT_TOPS, RANKINGS
from tq_hw.sim.golden.arith import INT16_CODES
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import Array

__all__ = ["RANKED", "check_ranking"]

_OTHER = {"ARG_MAX": "ARG_MIN", "ARG_MIN": "ARG_MAX"}
#: Moves that exist only for bytes.
_OF_BYTES = ("RESIZE_NEAREST_NEIGHBOR",)
#: Moves that add zeros.
_PADS = ("PAD", "SPACE_TO_BATCH_ND")


@dataclass(frozen=True)
class _Leaf:
    """Numbers before the moves: a function of a tensor of codes, by unsigned code, or a constant."""

    source: Tensor | None
    values: Float32


class _Ranking:
    """The possible numbers of a float32 tensor, and tensors of their ranks.

    Attributes
    ----------
    leaves : by tensor
    numbers : all possible numbers, ascending
    has_two_zeros : whether they are 0 and -0, which have one rank
    """

    def __init__(self, graph: Subject, index: int):
        self._graph = graph
        #: Moves in order, producers first.
        self._moves, self._seen = list[Operator](), set[int]()
        self.leaves: dict[int, _Leaf] = {}
        self._collect(index)
        parts = [leaf.values.reshape(-1) for leaf in self.leaves.values()]
        if any(move.op in _PADS for move in self._moves):
            parts.append(np.zeros(1, np.float32))
        numbers = np.concatenate(parts)
        self.numbers: Float32 = np.unique(numbers)
        self.has_two_zeros = len(np.unique(np.signbit(numbers[numbers == 0]))) > 1
        if np.isnan(self.numbers).any():
            raise UnsupportedError(f"{label(graph.tensors[index])} is NaN for some codes")

    def _collect(self, index: int) -> None:
        graph, tensor = self._graph, self._graph.tensors[index]
        if index in self.leaves:
            return
        if tensor.data is not None:
            self.leaves[index] = _Leaf(None, tensor.data)
            return
        island, move = Island(graph, tensor.shape), graph.maker(index)
        try:
            values = island.values(index)
        except TqError:
            positions = moved(graph, move)
            if move is None or not positions:
                raise
            if id(move) not in self._seen:
                self._seen.add(id(move))
                for position in positions:
                    self._collect(move.inputs[position])
                self._moves.append(move)
            return
        source = island.sources[0] if island.sources else None
        if source is None or source.dtype not in (*BYTES, "int16"):
            raise UnsupportedError(f"{label(tensor)} does not come from a quantized tensor")
        self.leaves[index] = _Leaf(source, np.broadcast_to(values, (1 << 16 if source.dtype == "int16" else 256,)))

    @property
    def is_settled(self) -> bool:
        """Whether no move remains that another pattern will turn into a move of codes."""
        return not any(dequantized(self._graph, move) for move in self._moves)

    def places(self, index: int, at: int, made: list[Operator]) -> int:
        """Add operators that compute a tensor of ranks to `made`, and return the tensor; `at` is their index."""
        if not self._is_byte and any(move.op in _OF_BYTES for move in self._moves):
            raise UnsupportedError(f"{label(self._graph.tensors[index])} can be {len(self.numbers)} different values, "
                                   "more than a byte can distinguish, and is interpolated")
        known = {leaf: self._looked_up(leaf, at, made) for leaf in self.leaves}
        for move in self._moves:
            inputs = list(move.inputs)
            for position in moved(self._graph, move):
                inputs[position] = known[inputs[position]]
            outputs = [self._tensor(each) for each in move.outputs]
            known |= dict(zip(move.outputs, outputs, strict=True))
            made.append(changed(move, inputs=inputs, outputs=outputs))
        return known[index]

    @property
    def _is_byte(self) -> bool:
        return len(self.numbers) <= 256

    @property
    def _kind(self) -> Quantization | None:
        """The quantization that makes a move add the rank of 0; for int32 that is 0."""
        return Quantization((1.0,), (int(self.ranks(np.zeros(1, np.float32))[0]),)) if self._is_byte else None

    def _tensor(self, index: int) -> int:
        like = self._graph.tensors[index]
        return self._graph.add_tensor(Tensor(0, like.name, "int8" if self._is_byte else "int32", like.shape,
                                             self._kind))

    def ranks(self, values: Float32) -> Array:
        """Return the ranks of numbers: int8 if there are at most 256, else int32."""
        places = np.searchsorted(self.numbers, values)
        if self._is_byte:
            return (places.clip(max=255) - 128).astype(np.int8)
        return (places - np.searchsorted(self.numbers, np.float32(0))).astype(np.int32)

    def _looked_up(self, index: int, at: int, made: list[Operator]) -> int:
        leaf = self.leaves[index]
        ranks = self.ranks(leaf.values)
        if leaf.source is None:
            return self._graph.add_constant(ranks, self._kind)
        output = self._tensor(index)
        if leaf.source.dtype == "int16" and np.array_equal(ranks, INT16_CODES):
            made.append(_cast(at, leaf.source.index, output))
            return output
        made.append(Operator(at, "TABLE", (leaf.source.index, self._graph.add_constant(ranks)), (output,)))
        return output


def _cast(at: int, source: int, target: int) -> Operator:
    return Operator(at, "CAST", (source,), (target,), {"in_data_type": "int16", "out_data_type": "int32"})


def _replaced(graph: Subject, op: Operator) -> list[Operator]:
    """Return the operators that replace a ranking of float32; raise `TqError` with the reason if there are none."""
    ranking = _Ranking(graph, op.inputs[0])
    leaf = ranking.leaves.get(op.inputs[0])
    made: list[Operator] = []
    if leaf is not None and leaf.source is not None and leaf.source.dtype in ("int8", "int16"):
        rising = np.roll(leaf.values, len(leaf.values) // 2)
        if rises(rising, strictly=True) or rises(rising[::-1], strictly=True):
            name, codes = op.op if rising[0] < rising[-1] else _OTHER[op.op], leaf.source.index
            if leaf.source.dtype == "int16":
                codes = graph.add_tensor(Tensor(0, leaf.source.name, "int32", leaf.source.shape))
                made.append(_cast(op.index, leaf.source.index, codes))
            return [*made, Operator(op.index, name, (codes, *op.inputs[1:]), op.outputs, op.options)]
    places = ranking.places(op.inputs[0], op.index, made)
    return [*made, changed(op, inputs=(places, *op.inputs[1:]))]


@pattern(*RANKINGS)
def float_ranking(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace ARG_MAX or ARG_MIN of float32 functions of codes by one of integers."""
    if graph.input(op).dtype != "float32":
        return None
    try:
        return Rewrite([op], _replaced(graph, op)) if _Ranking(graph, op.inputs[0]).is_settled else None
    except TqError:
        return None


def check_ranking(graph: Subject, op: Operator) -> None:
    """Raise `UnsupportedError` with the reason why a ranking of float32 was not replaced."""
    _replaced(graph, op)


@pattern(*FLOAT_TOPS)
def float_places(graph: Subject, op: Operator) -> Rewrite | None:
    """Replace TOPK_V2 of float32 functions of bytes (`tf.argsort`, nearest neighbours) by one of ranks."""
    if graph.input(op).dtype != "float32":
        return None
    made: list[Operator] = []
    try:
        ranking = _Ranking(graph, op.inputs[0])
        places = ranking.places(op.inputs[0], op.index, made) if ranking.is_settled else -1
        if places < 0 or graph.tensors[places].dtype != "int8":
            return None
        ranks = graph.add_tensor(graph.tensors[places], graph.output(op).shape)
        largest = [_largest(graph, op, ranking, ranks)] if graph.is_used(op.outputs[0]) else []
    except TqError:
        return None
    top = changed(op, inputs=(places, *op.inputs[1:]), outputs=(ranks, *op.outputs[1:]))
    return Rewrite([op], [*made, top, *largest])


def _largest(graph: Subject, op: Operator, ranking: _Ranking, ranks: int) -> Operator:
    """Return the table that gives the largest numbers by their ranks."""
    if ranking.has_two_zeros:
        raise UnsupportedError(f"{label(graph.input(op))} is 0 and -0")
    numbers = np.zeros(256, np.float32)
    numbers[:len(ranking.numbers)] = ranking.numbers
    return Operator(op.index, "TABLE", (ranks, graph.add_constant(np.roll(numbers, 128))), op.outputs[:1])


#: Patterns in the order in which they are tried.
RANKED = (float_ranking, float_places)
