"""Output shapes of operators that repeat, mirror, pick or choose: TILE, MIRROR_PAD, GATHER_ND, SELECT, ..."""

import math
from collections.abc import Callable

from tq_hw.model.rules.node import Node

__all__ = ["REPEAT_SHAPES", "broadcast"]

Shapes = list[tuple[int, ...]] | None


def broadcast(node: Node, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of two shapes, aligned at their last dimension."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second,
                strict=True)
    result = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise node.error(f"shapes {list(first)} and {list(second)} cannot be broadcast")
        result.append(other if one == 1 else one)
    return tuple(result)


def _tile(node: Node) -> Shapes:
    shape = node.shape(0)
    counts = node.integers(1, "multiples", len(shape))
    if counts is None:
        return None
    if min(counts, default=0) < 0:
        raise node.error(f"multiples is {counts}, expected 0 or more")
    return [tuple(size * count for size, count in zip(shape, counts, strict=True))]


def _broadcast_to(node: Node) -> Shapes:
    shape, target = node.shape(0), node.integers(1, "shape")
    if target is None:
        return None
    if broadcast(node, shape, tuple(target)) != tuple(target):
        raise node.error(f"input has shape {list(shape)}, which cannot be broadcast to {target}")
    return [tuple(target)]


def _reverse(node: Node) -> Shapes:
    shape = node.shape(0)
    axes = node.integers(1, "axes")
    if axes is not None:
        found = [node.axis(axis, len(shape)) for axis in axes]
        if len(set(found)) != len(found):
            raise node.error(f"axes is {axes}, expected each once")
    return [shape]


def _mirror_pad(node: Node) -> Shapes:
    shape = node.shape(0)
    if node.shape(1) != (len(shape), 2):
        raise node.error(f"padding has shape {list(node.shape(1))}, expected {[len(shape), 2]}")
    pads = node.integers(1, "padding", 2 * len(shape), any_rank=True)
    if pads is None:
        return None
    inside = int(node.text("mode") == "REFLECT")
    for axis, size in enumerate(shape):
        if not 0 <= min(pads[2 * axis:2 * axis + 2]) <= max(pads[2 * axis:2 * axis + 2]) <= max(size - inside, 0):
            raise node.error(f"padding of axis {axis} is {pads[2 * axis:2 * axis + 2]}, expected 0 to "
                             f"{size - inside} with mode {node.text('mode')}")
    return [tuple(size + pads[2 * axis] + pads[2 * axis + 1] for axis, size in enumerate(shape))]


def _gather_nd(node: Node) -> Shapes:
    shape, indices = node.shape(0), node.shape(1)
    if not shape or not indices or indices[-1] > len(shape):
        raise node.error(f"input has shape {list(shape)}, indices {list(indices)}: expected a rank of 1 or more, and "
                         "no more numbers in an index than the input has axes")
    _check_indices(node, 1, shape)
    return [(*indices[:-1], *shape[indices[-1]:])]


def _check_indices(node: Node, position: int, shape: tuple[int, ...]) -> None:
    data = node.input(position).data
    if data is None or not data.size:
        return
    for axis in range(data.shape[-1]):
        numbers = data[..., axis]
        if not 0 <= int(numbers.min()) <= int(numbers.max()) < shape[axis]:
            raise node.error(f"indices of axis {axis} run from {numbers.min()} to {numbers.max()}, expected 0 to "
                             f"{shape[axis] - 1}")


def _scatter_nd(node: Node) -> Shapes:
    indices, updates, sizes = node.shape(0), node.shape(1), node.integers(2, "shape")
    if sizes is None:
        return None
    shape = tuple(sizes)
    if not indices or indices[-1] > len(shape) or min(shape, default=1) < 0:
        raise node.error(f"indices have shape {list(indices)}, shape is {sizes}: expected no more numbers in an index "
                         "than there are sizes")
    expected = (*indices[:-1], *shape[indices[-1]:])
    if updates != expected:
        raise node.error(f"updates have shape {list(updates)}, expected {list(expected)}")
    _check_indices(node, 0, shape)
    return [shape]


def _select(node: Node) -> Shapes:
    condition, x, y = (node.shape(position) for position in range(3))
    if x != y:
        raise node.error(f"shapes {list(x)} and {list(y)} differ; SELECT_V2 broadcasts")
    if condition not in (x, ()) and condition != x[:1] and math.prod(condition) != 1:
        raise node.error(f"condition has shape {list(condition)}, expected {list(x)}, {list(x[:1])} or one element")
    return [x]


def _select_v2(node: Node) -> Shapes:
    return [broadcast(node, broadcast(node, node.shape(0), node.shape(1)), node.shape(2))]


def _update_slice(node: Node) -> Shapes:
    shape, update = node.shape(0), node.shape(1)
    if len(update) != len(shape) or any(part > size for part, size in zip(update, shape, strict=True)):
        raise node.error(f"update has shape {list(update)}, expected at most {list(shape)}")
    node.integers(2, "start indices", len(shape))
    return [shape]


def _one_hot(node: Node) -> Shapes:
    indices, depth = node.shape(0), node.integers(1, "depth", 1, any_rank=True)
    for position, what in ((2, "on value"), (3, "off value")):
        if math.prod(node.shape(position)) != 1:
            raise node.error(f"{what} has shape {list(node.shape(position))}, expected one element")
    if depth is None:
        return None
    if depth[0] < 0:
        raise node.error(f"depth is {depth[0]}, expected 0 or more")
    axis = node.axis(node.option("axis"), len(indices) + 1)
    return [(*indices[:axis], depth[0], *indices[axis:])]


def _top_k(node: Node) -> Shapes:
    shape, count = node.shape(0), node.integers(1, "k", 1, any_rank=True)
    if count is None:
        return None
    if not shape or not 0 <= count[0] <= shape[-1]:
        raise node.error(f"k is {count[0]}, expected 0 to the size of the last axis of {list(shape)}")
    return [(*shape[:-1], count[0])] * 2


#: Rules by operator.
REPEAT_SHAPES: dict[str, Callable[[Node], Shapes]] = {
    "TILE": _tile, "BROADCAST_TO": _broadcast_to, "REVERSE_V2": _reverse, "MIRROR_PAD": _mirror_pad,
    "GATHER_ND": _gather_nd, "SCATTER_ND": _scatter_nd, "SELECT": _select, "SELECT_V2": _select_v2,
    "ONE_HOT": _one_hot, "DYNAMIC_UPDATE_SLICE": _update_slice, "TOPK_V2": _top_k,
}
