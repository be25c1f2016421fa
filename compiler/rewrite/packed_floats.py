"""Float32 operators that no pattern replaced: each is computed in float32, with its numbers packed into int32.

LayerNorm, GroupNorm and attention in PyTorch's exports are computed this way. Every operator rounds as LiteRT's kernels
do, in their order of operations.

An output of the model, such as a final SOFTMAX or LOGISTIC, is returned in float32: from a table if it is a function of
one int8 tensor, else unpacked. Rankings and comparisons work on int32 keys that sort like the numbers.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.island import ENTRIES, Island, label
from tq_hw.compiler.rewrite.packed_cumsums import CUMSUMS
from tq_hw.compiler.rewrite.packed_elements import ELEMENTS
from tq_hw.compiler.rewrite.packed_gelu import GELUS
from tq_hw.compiler.rewrite.packed_pools import POOLS
from tq_hw.compiler.rewrite.packed_resizes import RESIZES
from tq_hw.compiler.rewrite.packed_rows import ROWS
from tq_hw.compiler.rewrite.packed_tanh import TANHS
from tq_hw.compiler.rewrite.packing import Packing
from tq_hw.compiler.rewrite.rewrite import Subject, changed
from tq_hw.compiler.rewrite.sign_words import SignWords
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.model.rules.signatures import COMPARISONS, RANKINGS
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, IntArray
from tq_hw.sim.golden.packed_float import LIMIT, keys_of, packed
from tq_hw.sim.golden.registry import Array

__all__ = ["check_given", "check_packed", "packed_floats"]

_ALL = ROWS | ELEMENTS | GELUS | TANHS | RESIZES | POOLS | CUMSUMS
#: Functions whose emulation takes more cycles than a table of int16, which takes a pass for each 512 codes.
_LONG = ("ELU", "GELU", "TANH")


def packed_floats(subgraph: Subgraph) -> Subgraph:
    """Compute inputs of QUANTIZE, rankings and comparisons, and float32 outputs of the model in packed numbers."""
    graph = Subject(subgraph)
    packing, operators = Packing(graph, _ALL), list[Operator]()
    signs = SignWords(packing)
    found = False
    for op in subgraph.operators:
        given = _given(graph, op)
        left: tuple[Operator, ...] = (op,)
        try:
            for index in given:
                _give(packing, signs, index)
            if given:
                left = (changed(op, outputs=[_instead(graph, index, given) for index in op.outputs]),)
            elif _is_left(graph, op, "QUANTIZE"):
                packing.codes(op)
                left = ()
            elif _is_left(graph, op, *RANKINGS, *COMPARISONS):
                left = (_by_keys(packing, op),)
            found |= left != (op,)
        except TqError:
            packing.new[:] = [each for each in packing.new if not set(given) & set(each.outputs)]
        operators += (*packing.new, *left)
        packing.new.clear()
    if not found:
        return subgraph
    return _without_unused(replace(graph.subgraph, operators=tuple(operators)), len(subgraph.tensors))


def _is_left(graph: Subject, op: Operator, *names: str) -> bool:
    """Whether an operator of one of the names reads a computed float32 tensor."""
    return op.op in names and graph.input(op).dtype == "float32" and any(
        graph.maker(index) is not None for index in op.inputs)


def _by_keys(packing: Packing, op: Operator) -> Operator:
    """Return a ranking or comparison of int32 keys, which sort like the numbers and are equal where they are."""
    graph, inputs = packing.graph, list(op.inputs)
    for position in range(1 if op.op in RANKINGS else 2):
        tensor = graph.input(op, position)
        if tensor.data is not None:
            if np.isnan(tensor.data).any():
                raise UnsupportedError(f"{label(tensor)} is NaN")
            inputs[position] = graph.add_constant(_keys(tensor.data))
            continue
        number = packing.packed(op.inputs[position])
        inputs[position] = packing.add(op, "PACKED_KEY", (number.index,), tensor, (number.low, number.high)).index
    return changed(op, inputs=inputs)


def _keys(data: Array) -> IntArray:
    """Return the keys of a constant; those of infinity and of the like are beyond all others."""
    found = keys_of(packed(np.where(np.abs(data) < LIMIT, data, np.float32(0))))
    return np.where(data >= LIMIT, INT32_MAX, np.where(data <= -LIMIT, INT32_MIN, found)).astype(np.int32)


def _given(graph: Subject, op: Operator) -> list[int]:
    """Return an operator's float32 outputs of the model, except those that the host dequantizes itself."""
    return [index for index in op.outputs if graph.is_output(index) and graph.tensors[index].dtype == "float32"
            and op.op not in ENTRIES]


def _instead(graph: Subject, index: int, given: list[int]) -> int:
    """Return a new tensor for a given one, which only operators that remain in float32 read."""
    return graph.add_tensor(graph.tensors[index]) if index in given else index


def _give(packing: Packing, signs: SignWords, index: int) -> None:
    """Add the operators that compute an output of the model; raise `TqError` with the reason if there are none."""
    maker = packing.graph.maker(index)
    assert maker is not None
    if _give_table(packing, index, maker, "int8") or maker.op in _LONG and _give_table(packing, index, maker, "int16"):
        return
    try:
        _give_number(packing, signs, index, maker)
    except TqError:
        if not _give_table(packing, index, maker, "int16"):
            raise


def _give_table(packing: Packing, index: int, maker: Operator, dtype: str) -> bool:
    """Add a table for an output that is a function of one tensor of type `dtype`; return whether it is one."""
    graph = packing.graph
    island = Island(graph, graph.tensors[index].shape)
    try:
        values = np.broadcast_to(island.values(index), (256 if dtype == "int8" else 1 << 16,)).astype(np.float32)
    except (TqError, ValueError):
        return False
    if len(island.sources) != 1 or island.sources[0].dtype != dtype:
        return False
    if np.isnan(values).any():
        raise UnsupportedError(f"{label(graph.tensors[index])} is NaN for some codes")
    packing.new.append(Operator(maker.index, "TABLE", (island.sources[0].index, graph.add_constant(values)), (index,)))
    return True


def _give_number(packing: Packing, signs: SignWords, index: int, maker: Operator) -> None:
    number, sign = packing.packed(index).index, signs.of(index)
    inputs = (number,) if sign == number else (number, sign)
    packing.new.append(Operator(maker.index, "PACKED_FLOAT", inputs, (index,)))


def _without_unused(subgraph: Subgraph, count: int) -> Subgraph:
    """Remove operators whose results are unread, if these are float32 or tensors from index `count` on."""
    used, kept = set(subgraph.outputs), list[Operator]()
    for op in reversed(subgraph.operators):
        made = [subgraph.tensors[index] for index in op.outputs]
        if used & set(op.outputs) or not made or not all(
                each.dtype == "float32" or each.index >= count for each in made):
            used |= set(op.inputs)
            kept.append(op)
    return replace(subgraph, operators=tuple(reversed(kept)))


def check_given(graph: Subject, index: int) -> None:
    """Raise `TqError` with the reason why a float32 output of the model is not computed."""
    packing = Packing(graph, _ALL)
    _give(packing, SignWords(packing), index)


def check_packed(graph: Subject, op: Operator) -> None:
    """Raise `TqError` with the reason why packed numbers do not compute an input of QUANTIZE, ranking or comparison."""
    packing = Packing(graph, _ALL)
    if op.op == "QUANTIZE":
        packing.codes(op)
    else:
        _by_keys(packing, op)
