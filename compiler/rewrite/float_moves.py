"""Float32 tensors that are only moved: QUANTIZE goes before the move, or DEQUANTIZE after it.

QUANTIZE and DEQUANTIZE work element by element, so they commute with moves and choices. PAD adds 0, which quantizes to
the zero point and back exactly. Both keep the order of numbers, so they also commute with maxima; only minus infinity
may have the last code.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.rewrite.island import Island
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, changed, pattern
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator
from tq_hw.model.rules.signatures import FLOAT_TOPS
from tq_hw.sim.golden.kernels import KERNELS

__all__ = ["MOVED", "MOVES", "dequantized", "moved"]

#: Positions of the moved inputs; None: all inputs.
MOVES: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "PAD", "MIRROR_PAD",
                     "GATHER", "GATHER_ND", "REVERSE_V2", "TILE", "BROADCAST_TO", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
                     "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "RESIZE_NEAREST_NEIGHBOR", "SPLIT_V",
                     "UNPACK", "REDUCE_MAX", "REDUCE_MIN"), (0,)),
    "SPLIT": (1,), "EMBEDDING_LOOKUP": (1,), "SELECT": (1, 2), "SELECT_V2": (1, 2), "PADV2": (0, 2),
    "ONE_HOT": (2, 3), "DYNAMIC_UPDATE_SLICE": (0, 1), "CONCATENATION": None, "PACK": None}
_CODES = ("int8", "int16")
_EXTREMES = ("REDUCE_MAX", "REDUCE_MIN")


def moved(graph: Subject, op: Operator | None) -> Sequence[int]:
    """Return the positions of the inputs that a float32 move moves, () for another operator."""
    if (op is None or op.op not in MOVES or not op.outputs or graph.output(op).dtype != "float32"
            or op.options.get("fused_activation_function", "NONE") != "NONE"):  # a CONCATENATION may have one
        return ()
    positions = MOVES[op.op]
    return range(len(op.inputs)) if positions is None else positions


@pattern("QUANTIZE")
def quantize_before_move(graph: Subject, op: Operator) -> Rewrite | None:
    """Put the QUANTIZE of a move's result before the move."""
    move, target = graph.maker(op.inputs[0]), graph.output(op)
    positions = moved(graph, move)
    if (move is None or not positions or len(move.outputs) != 1 or target.dtype not in _CODES
            or dequantized(graph, move)):
        return None
    if move.op in _EXTREMES and target.zero_point < 0 and _may_be_infinite(graph, move.inputs[0]):
        return None
    inputs, made = list(move.inputs), []
    for position in positions:
        source = graph.input(move, position)
        if source.dtype != "float32":
            return None
        if source.data is not None:
            try:
                codes = KERNELS["QUANTIZE"](op, graph.subgraph, [source.data])[0]
            except TqError:
                return None
            inputs[position] = graph.add_constant(codes, target.quantization)
        else:
            inputs[position] = graph.add_tensor(target, source.shape)
            made.append(changed(op, inputs=(source.index,), outputs=(inputs[position],)))
    return Rewrite([op], [*made, changed(move, inputs=inputs, outputs=op.outputs)])


def _may_be_infinite(graph: Subject, index: int) -> bool:
    """Whether a tensor may have minus infinity, as a function of one tensor of codes or moved from one.

    False where it cannot be evaluated: packed float32 computes such a tensor then, and refuses infinite numbers.
    """
    maker, data = graph.maker(index), graph.tensors[index].data
    if data is not None or maker is None:
        return data is not None and bool(np.isneginf(data).any())
    if positions := moved(graph, maker):
        return any(_may_be_infinite(graph, maker.inputs[position]) for position in positions)
    try:
        return bool(np.isneginf(Island(graph, graph.tensors[index].shape).values(index)).any())
    except TqError:
        return False


@pattern("QUANTIZE")
def quantize_before_parts(graph: Subject, op: Operator) -> Rewrite | None:
    """Quantize an input of the model, float32 or uint8, before it is cut, not each part."""
    split, target = graph.maker(op.inputs[0]), graph.output(op)
    positions = moved(graph, split)
    if split is None or len(positions) != 1 or len(split.outputs) == 1 or target.dtype not in _CODES:
        return None
    source = graph.input(split, positions[0])
    before = graph.maker(source.index)
    if source.data is not None or (before is not None and (
            before.op != "DEQUANTIZE" or graph.input(before).dtype in _CODES)):
        return None
    inputs, codes = list(split.inputs), graph.add_tensor(target, source.shape)
    inputs[positions[0]] = codes
    outputs = [op.outputs[0] if index == op.inputs[0] else graph.add_tensor(target, graph.tensors[index].shape)
               for index in split.outputs]
    return Rewrite([op], [changed(op, inputs=(source.index,), outputs=(codes,)),
                          changed(split, inputs=inputs, outputs=outputs)])


def dequantized(graph: Subject, op: Operator) -> list[Operator]:
    """Return the DEQUANTIZE of each moved tensor if all codes have one type and quantization, else []."""
    makers = [graph.maker(op.inputs[position]) for position in moved(graph, op)]
    found = [maker for maker in makers if maker is not None and maker.op == "DEQUANTIZE"]
    kinds = [(graph.input(maker).dtype, graph.input(maker).quantization) for maker in found]
    same = len(found) == len(makers) and all(kind == kinds[0] and kind[0] in _CODES for kind in kinds)
    return found if same else []


@pattern(*MOVES)
def dequantize_after_move(graph: Subject, op: Operator) -> Rewrite | None:
    """Put the DEQUANTIZE of moved tensors after the move."""
    makers = dequantized(graph, op)
    if not makers:
        return None
    inputs = list(op.inputs)
    for position, maker in zip(moved(graph, op), makers, strict=True):
        inputs[position] = maker.inputs[0]
    outputs = [graph.add_tensor(graph.input(makers[0]), graph.tensors[index].shape) for index in op.outputs]
    back = [changed(makers[0], inputs=(codes,), outputs=(index,))
            for codes, index in zip(outputs, op.outputs, strict=True)]
    return Rewrite([op], [changed(op, inputs=inputs, outputs=outputs), *back])


@pattern(*FLOAT_TOPS)
def dequantize_after_top(graph: Subject, op: Operator) -> Rewrite | None:
    """Take the largest of the codes instead of the largest of DEQUANTIZE: distinct codes are distinct numbers."""
    before = graph.maker(op.inputs[0])
    if before is None or before.op != "DEQUANTIZE" or graph.input(before).dtype not in _CODES:
        return None
    codes = graph.add_tensor(graph.input(before), graph.output(op).shape)
    return Rewrite([op], [changed(op, inputs=(before.inputs[0], *op.inputs[1:]), outputs=(codes, *op.outputs[1:])),
                          changed(before, inputs=(codes,), outputs=op.outputs[:1])])


#: Patterns in the order in which they are tried.
MOVED = (quantize_before_move, quantize_before_parts, dequantize_after_move, dequantize_after_top)
