"""Integers computed from shapes: the results of SHAPE and the operators after it, known before the model runs.

Converters write the arithmetic of open dimensions into the graph: SHAPE, STRIDED_SLICE, GATHER, REDUCE_PROD, PACK,
CONCATENATION, and RESHAPE or FILL at its end. `shape_values` evaluates such an operator when its inputs are known. Only
integers and truth values are computed; quantized data stay with the golden model.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shapes import broadcast, output_shapes
from tq_hw.model.rules.shapes_slice import strided_cuts, strided_ranges

__all__ = ["ELEMENT_LIMIT", "EVALUATED", "ONLY_KNOWN", "shape_values"]

Array = npt.NDArray[Any]

#: An operator with more elements than this is no arithmetic on shapes; it stays in the graph.
ELEMENT_LIMIT = 1 << 12
#: FILL and ZEROS_LIKE keep one element, however large they are; the compiler folds no more either.
_FILL_LIMIT = 1 << 22
_INTEGERS = ("int32", "int64", "bool")


def shape_values(node: Node) -> list[Array] | None:
    """Return the outputs of an operator whose values follow from shapes and constants; None for any other.

    The arrays have the types of the operator's outputs and are read-only. Raises `ModelError` when the operator's
    parameters disagree, a divisor is 0 or a result does not fit its type.
    """
    op = node.operator.op
    if op in _SHAPE_ONLY:
        return _SHAPE_ONLY[op](node)
    if op == "FILL":
        return _fill(node)
    rule = _VALUES.get(op)
    tensors = [*node.inputs(), *node.outputs()]
    if rule is None or not node.operator.inputs or any(tensor.dtype not in _INTEGERS for tensor in tensors):
        return None
    known = [tensor.data for tensor in node.inputs() if tensor.data is not None and tensor.data.size <= ELEMENT_LIMIT]
    if (len(known) != len(node.inputs()) or node.text("fused_activation_function") != "NONE"
            or node.option("batch_dims")):
        return None
    shapes = output_shapes(node)
    if shapes is not None and sum(map(math.prod, shapes)) > ELEMENT_LIMIT:
        return None
    # Python's integers have no width: a result that does not fit is seen.
    results = rule(node, [array.astype(object) for array in known])
    if results is None:
        return None
    return _stored(node, results)


def _stored(node: Node, results: Sequence[Array]) -> list[Array]:
    """Return the results in the types of the outputs."""
    if len(results) != len(node.operator.outputs):
        raise node.error(f"has {len(node.operator.outputs)} outputs, expected {len(results)}")
    stored = []
    # An element that numpy took out of an array of objects is no array any more.
    arrays = [np.array(result, object) for result in results]
    for result, tensor in zip(arrays, node.outputs(), strict=True):
        if tensor.dtype != "bool":
            limits = np.iinfo(tensor.dtype)
            for value in result.ravel():
                if not limits.min <= value <= limits.max:
                    raise node.error(f"gives a number that does not fit {tensor.dtype}")
        array = np.array(result, tensor.dtype)
        array.flags.writeable = False
        stored.append(array)
    return stored


def _shape(node: Node) -> list[Array] | None:
    if node.output().dtype not in _INTEGERS:
        return None
    return _stored(node, [np.array(node.shape(0), object)])


def _rank(node: Node) -> list[Array] | None:
    if node.output().dtype not in _INTEGERS:
        return None
    return _stored(node, [np.array(len(node.shape(0)), object)])


def _repeat(node: Node, value: Array, shape: tuple[int, ...]) -> list[Array] | None:
    """Return one value at every place of `shape`, None if these are too many."""
    if len(node.operator.outputs) != 1:
        raise node.error(f"has {len(node.operator.outputs)} outputs, expected 1")
    if node.output().dtype != value.dtype.name or math.prod(shape) > _FILL_LIMIT:
        return None
    return [np.broadcast_to(value.reshape(()), shape)]


def _fill(node: Node) -> list[Array] | None:
    dims, value = node.integers(0, "dims"), node.input(1).data
    if dims is None or value is None:
        return None
    if value.size != 1:
        raise node.error(f"value has shape {list(value.shape)}, expected a scalar")
    if min(dims, default=0) < 0 or len(dims) > 8:
        raise node.error(f"dims is {dims}, expected at most 8 sizes of 0 or more")
    return _repeat(node, value, tuple(dims))


def _select(node: Node, x: list[Array]) -> list[Array]:
    if len(x) != 3:
        raise node.error(f"has {len(x)} inputs, expected 3")
    broadcast(node, broadcast(node, x[0].shape, x[1].shape), x[2].shape)
    return [np.where(x[0].astype(bool), x[1], x[2])]


def _range(node: Node, x: list[Array]) -> list[Array] | None:
    if len(x) != 3 or any(part.size != 1 for part in x):
        raise node.error(f"has inputs of shapes {[list(part.shape) for part in x]}, expected start, limit and delta")
    start, limit, delta = (part.item() for part in x)
    if delta == 0:
        raise node.error("delta is 0")
    found = range(start, limit, delta)
    return [np.array(found, object)] if len(found) <= ELEMENT_LIMIT else None


def _gather(node: Node, x: list[Array]) -> list[Array]:
    return [np.take(x[0], x[1].astype(np.int64), node.axis(node.option("axis"), x[0].ndim))]


def _slice(node: Node, x: list[Array]) -> list[Array]:
    shape = _expected(node)
    return [x[0][tuple(slice(int(start), int(start) + size) for start, size in zip(x[1], shape, strict=True))]]


def _strided_slice(node: Node, x: list[Array]) -> list[Array]:
    ranges = strided_ranges(node)
    cuts = strided_cuts(x[0].shape, x[1].size, node.operator.options)
    assert ranges is not None and cuts is not None
    taken = x[0].reshape([cut.size for cut in cuts])[np.ix_(*(np.array(one, np.int64) for one, _ in ranges))]
    return [taken.reshape(_expected(node))]


def _broadcast_args(node: Node, x: list[Array]) -> list[Array]:
    if len(x) != 2 or x[0].ndim != 1 or x[1].ndim != 1:
        raise node.error(f"has inputs of shapes {[list(part.shape) for part in x]}, expected two shapes")
    return [np.array(broadcast(node, tuple(x[0].tolist()), tuple(x[1].tolist())), object)]


def _broadcast_to(node: Node, x: list[Array]) -> list[Array]:
    return [np.broadcast_to(x[0], _expected(node))]


def _tile(node: Node, x: list[Array]) -> list[Array]:
    return [np.tile(x[0], [int(count) for count in x[1]])]


def _expected(node: Node) -> tuple[int, ...]:
    shapes = output_shapes(node)
    assert shapes is not None  # all inputs are known
    return shapes[0]


def _reshape(node: Node, x: list[Array]) -> list[Array]:
    return [x[0].reshape(_expected(node))]


def _concatenation(node: Node, x: list[Array]) -> list[Array]:
    return [np.concatenate(x, node.axis(node.option("axis"), x[0].ndim))]


def _pack(node: Node, x: list[Array]) -> list[Array]:
    return [np.stack(x, node.axis(node.option("axis"), x[0].ndim + 1))]


def _unpack(node: Node, x: list[Array]) -> list[Array]:
    axis = node.axis(node.option("axis"), x[0].ndim)
    return [np.take(x[0], at, axis) for at in range(x[0].shape[axis])]


def _split(node: Node, data: Array, axis: Array) -> list[Array]:
    shapes, along = output_shapes(node), node.axis(int(axis.reshape(-1)[0]), data.ndim)
    assert shapes is not None  # all inputs are known
    return np.split(data, np.cumsum([shape[along] for shape in shapes])[:-1], along)


def _transpose(node: Node, x: list[Array]) -> list[Array]:
    order = [int(axis) % max(x[0].ndim, 1) for axis in x[1]]
    return [x[0].transpose(order).reshape(_expected(node))]


def _reverse(node: Node, x: list[Array]) -> list[Array]:
    return [np.flip(x[0], tuple(node.axis(int(axis), x[0].ndim) for axis in x[1].reshape(-1)))]


def _cumsum(node: Node, x: list[Array]) -> list[Array] | None:
    if node.option("exclusive") or node.option("reverse"):
        return None
    return [np.cumsum(x[0], node.axis(int(x[1].reshape(-1)[0]), x[0].ndim), dtype=object)]


def _where(node: Node, x: list[Array]) -> list[Array]:
    return [np.argwhere(x[0].astype(bool))]


def _power(node: Node, x: list[Array]) -> list[Array] | None:
    """Small exponents only: a power may be as long as memory."""
    if len(x) == 2 and not all(0 <= int(exponent) < 64 for exponent in x[1].ravel()):
        return None
    return _binary(np.power)(node, x)


def _reduce(function: Callable[..., Any]) -> Callable[[Node, list[Array]], list[Array]]:
    def rule(node: Node, x: list[Array]) -> list[Array]:
        axes = node.integers(1, "axes", any_rank=True)
        assert axes is not None
        chosen = tuple({node.axis(axis, x[0].ndim) for axis in axes})
        if x[0].size == 0 and function in (np.max, np.min):
            raise node.error(f"reduces {list(x[0].shape)}, which has no elements")
        return [np.array(function(x[0], axis=chosen, keepdims=bool(node.option("keep_dims"))), object)]
    return rule


def _segments(function: np.ufunc, first: int) -> Callable[[Node, list[Array]], list[Array]]:
    """Rows of input 0 join by the segments of input 1; those of negative segments are left out."""
    def rule(node: Node, x: list[Array]) -> list[Array]:
        shape, segments = (output_shapes(node) or [()])[0], [int(each) for each in x[1].ravel()]
        if max(segments, default=-1) >= shape[0]:
            raise node.error(f"has segment {max(segments)}, expected less than {shape[0]}")
        made = np.full(shape, first, object)
        for segment, row in zip(segments, x[0].reshape(len(segments), *shape[1:]), strict=True):
            if segment >= 0:
                made[segment] = function(made[segment], row)
        return [made]
    return rule


def _unary(function: Callable[[Array], Any]) -> Callable[[Node, list[Array]], list[Array]]:
    return lambda node, x: [np.array(function(x[0]), object)]


def _binary(function: Callable[[Array, Array], Any],
            divides: bool = False) -> Callable[[Node, list[Array]], list[Array]]:
    def rule(node: Node, x: list[Array]) -> list[Array]:
        if len(x) != 2:
            raise node.error(f"has {len(x)} inputs, expected 2")
        broadcast(node, x[0].shape, x[1].shape)
        if divides and not all(x[1].ravel()):
            raise node.error("divides by 0")
        return [np.array(function(x[0], x[1]), object)]
    return rule


def _divide(a: Array, b: Array) -> Array:
    """Divide as C does: the quotient is cut towards 0."""
    sign = np.where((a < 0) == (b < 0), 1, -1).astype(object)
    return np.array(sign * (abs(a) // abs(b)), object)


_SHAPE_ONLY: dict[str, Callable[[Node], list[Array] | None]] = {
    "SHAPE": _shape, "RANK": _rank,
    "ZEROS_LIKE": lambda node: _repeat(node, np.zeros((), node.output().dtype), node.shape(0)),
}
_VALUES: dict[str, Callable[[Node, list[Array]], list[Array] | None]] = {
    "GATHER": _gather, "SLICE": _slice, "STRIDED_SLICE": _strided_slice, "RESHAPE": _reshape, "SQUEEZE": _reshape,
    "SPLIT": lambda node, x: _split(node, x[1], x[0]), "SPLIT_V": lambda node, x: _split(node, x[0], x[2]),
    "TRANSPOSE": _transpose, "REVERSE_V2": _reverse, "CUMSUM": _cumsum,
    "EXPAND_DIMS": _reshape, "CONCATENATION": _concatenation, "PACK": _pack, "UNPACK": _unpack, "RANGE": _range,
    "LOGICAL_AND": _binary(np.logical_and), "LOGICAL_OR": _binary(np.logical_or),
    "LOGICAL_NOT": _unary(np.logical_not),
    "BROADCAST_ARGS": _broadcast_args, "BROADCAST_TO": _broadcast_to, "TILE": _tile,
    "SELECT": _select, "SELECT_V2": _select, "CAST": _unary(np.copy), "NEG": _unary(np.negative), "ABS": _unary(abs),
    "REDUCE_PROD": _reduce(np.prod), "SUM": _reduce(np.sum), "REDUCE_MAX": _reduce(np.max),
    "REDUCE_MIN": _reduce(np.min), "ADD": _binary(np.add), "SUB": _binary(np.subtract), "MUL": _binary(np.multiply),
    "MAXIMUM": _binary(np.maximum), "MINIMUM": _binary(np.minimum), "DIV": _binary(_divide, True),
    "FLOOR_DIV": _binary(np.floor_divide, True), "FLOOR_MOD": _binary(np.mod, True), "EQUAL": _binary(np.equal),
    "NOT_EQUAL": _binary(np.not_equal), "LESS": _binary(np.less), "LESS_EQUAL": _binary(np.less_equal),
    "GREATER": _binary(np.greater), "GREATER_EQUAL": _binary(np.greater_equal), "WHERE": _where, "POW": _power,
    "UNSORTED_SEGMENT_PROD": _segments(np.multiply, 1), "UNSORTED_SEGMENT_SUM": _segments(np.add, 0),
}
#: Operators that are evaluated where all that they read is known.
EVALUATED = (*_SHAPE_ONLY, *_VALUES, "FILL")
#: Operators on integers that are taken where they follow from shapes and constants, most of them nowhere else.
ONLY_KNOWN = ("BROADCAST_ARGS", "FILL", "FLOOR_DIV", "FLOOR_MOD", "POW", "RANGE", "RANK", "UNSORTED_SEGMENT_PROD",
              "UNSORTED_SEGMENT_SUM", "WHERE", "ZEROS_LIKE")
