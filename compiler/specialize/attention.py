"""Attention whose scores fit in the scratchpad: both products and SOFTMAX work there.

After `transposed_scores.py` and `matrices.py` the operands of the first product are a whole matrix and one that was
transposed as a whole, its results are read by columns, and so on up to the transpose of the second product's results.
Here the products name these whole tensors as their inputs and outputs, and scores are [1, heads, keys, queries], as the
second product takes them for weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer
from tq_hw.compiler.ir.staged import Columns, MatMul, Move, Parts, Staged, Transpose
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.specialize.in_place import part_of, replaced
from tq_hw.compiler.specialize.transpose import FEW_BYTES, as_transpose
from tq_hw.compiler.specialize.values import Users
from tq_hw.isa.config import Config

__all__ = ["attention_inside"]

#: Share of the scratchpad for all tensors of an attention, in eighths.
_EIGHTHS = 5


@dataclass
class _Attention:
    """The layers of an attention, and what replaces them.

    Members
    -------
    gone, made : layers before and after
    results, whole : the second product's results, and the matrix that they are rows of
    """

    gone: list[Layer]
    made: list[Layer]
    results: Value
    whole: Value


def attention_inside(graph: Graph, config: Config) -> Graph:
    """Return the graph in which the products of small attentions are parts of whole tensors."""
    if not config.block == config.cols == config.word_bytes == config.slices * config.gemm_rows:
        return graph
    for layer in graph.layers:
        if isinstance(layer, Columns) and not layer.upright:
            found = _attention(graph.layers, layer, config, Users(graph, graph.layers))
            if found is not None:
                graph = _replaced(graph, found)
    return graph


def _attention(layers: Sequence[Layer], program: Columns, config: Config, users: Users) -> _Attention | None:
    """Return the attention around a SOFTMAX; None if a product has other operands, or not all tensors fit."""
    between: list[Elementwise] = []
    first: Layer | None = users.maker(program.inputs[0])
    while isinstance(first, Elementwise) and len(first.inputs) == 1:
        between.insert(0, first)
        first = users.maker(first.inputs[0])
    after = users.reader(program.output)
    if not (isinstance(first, MatMul) and isinstance(after, MatMul) and len(first.inputs) == len(after.inputs) == 2
            and after.inputs[1].root is program.output.root and after.output.root is after.output
            and not users.is_kept(after.output)):
        return None
    left, gone = _rows_of(users, first.inputs[0], config)
    if left is None or not all(map(_is_plain, (first, after))) or not all(
            _is_reshaped(value) and _stays(layers, value.root, config) for value in (
                first.inputs[1], after.inputs[0])) or not _stays(layers, left.root, config):
        return None
    _, heads, keys, queries = first.output.shape
    across = Pitch(0, queries, heads * queries)
    if first.output.place != across or after.inputs[1].place != across or any(
            value.root.shape != (1, keys, heads, queries)
            for value in (first.output, after.inputs[1], *(layer.output for layer in (*between, program)))):
        return None
    scores = _upright((*between, program), first.output.root, (1, heads, keys, queries))
    whole = replace(after.output, shape=(1, 1, heads * after.output.shape[2], queries))
    tensors = [left.root, first.inputs[1].root, after.inputs[0].root, scores[0], scores[-1]]
    if sum(blocked_words(tensor, config) for tensor in tensors) > config.scratchpad_words * _EIGHTHS // 8:
        return None
    made: list[Layer] = [_parts(first, left, first.inputs[1], scores[0], scores[0])]
    for layer, source, target in zip((*between, program), scores, scores[1:], strict=False):
        changed = replace(layer, inputs=(source,), output=target)
        made.append(replace(changed, upright=True) if isinstance(changed, Columns) else changed)
    output = replace(after.output, alias_of=whole)
    made.append(_parts(after, after.inputs[0], scores[-1], output, whole))
    return _Attention([*gone, first, *between, program, after], made, after.output, whole)


def _stays(layers: Sequence[Layer], value: Value, config: Config) -> bool:
    """Whether a tensor can be in the scratchpad: layers make it there, perhaps by a transpose of one that they make."""
    maker = next((layer for layer in layers if layer.output.root is value), None)
    if isinstance(maker, Move):
        turned = as_transpose(maker, config, FEW_BYTES, few=0)
        return isinstance(turned, Transpose) and _stays(layers, maker.inputs[0].root, config)
    return maker is not None and not isinstance(maker, Staged)


def _is_plain(product: MatMul) -> bool:
    return not product.wide and not product.raw and product.bias is None


def _parts(product: MatMul, left: Value, right: Value, output: Value, whole: Value) -> Parts:
    """Return the layer of a product with other operands."""
    inputs = tuple(value if value.root is value else replace(value, alias_of=value.root, pitch=value.place)
                   for value in (left, right))
    return Parts(product.index, product.op, (left.root, right.root), whole, replace(
        product, inputs=inputs, output=output))


def _is_reshaped(value: Value) -> bool:
    """Whether matrices are successive rows of one matrix, the root."""
    _, matrices, rows, cols = value.shape
    return (value.dense and not value.flip and value.root is not value
            and value.root.shape == (1, 1, matrices * rows, cols))


def _rows_of(users: Users, value: Value, config: Config) -> tuple[Value | None, list[Layer]]:
    """Return matrices as columns of one matrix, the root, and the copy that is then unnecessary; None if not."""
    move = users.maker(value)
    part = part_of(move) if isinstance(move, Move) and len(move.copies) == 1 else None
    if move is None or part is None or part.flip or users.is_kept(value):
        return None, []
    _, matrices, rows, cols = part.shape
    channels, place = part.root.shape[3], part.place
    fits = (part.root.shape == (1, 1, rows, channels) and part.root.initial is None and part.root.data is None
            and place.pixel_bytes == channels and place.row_bytes == cols and cols % config.block == 0
            and place.offset_bytes % config.block == 0 and place.offset_bytes + matrices * cols <= channels)
    return (part if fits else None), [move]


def _upright(layers: Iterable[Layer], scores: Value, shape: tuple[int, int, int, int]) -> list[Value]:
    """Return the scores, and the results of layers over them, in another shape."""
    return [replace(value, shape=shape) for value in (scores, *(layer.output.root for layer in layers))]


def _replaced(graph: Graph, found: _Attention) -> Graph:
    """Replace the layers of an attention; others see its results as views of the whole matrix, or as that matrix."""
    layers: list[Layer] = []
    for layer in graph.layers:
        if layer is found.gone[-1]:
            layers += found.made
        elif layer not in found.gone:
            layers.append(layer)
    seen = (value for layer in layers for value in layer.inputs if value.root is found.results)
    places = {value: found.whole for value in seen if value.dense and value.shape == found.whole.shape}
    return replaced(replace(graph, layers=tuple(layers)), {
        found.results: replace(found.results, alias_of=found.whole)} | places, {})
