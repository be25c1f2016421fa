"""Output shapes of operators that rearrange or join data: RESHAPE, PAD, TRANSPOSE, GATHER, ..."""

import math
from collections.abc import Callable

from tq_hw.model.rules.node import Node

__all__ = ["MOVE_SHAPES"]

Shapes = list[tuple[int, ...]] | None


def _reshape(node: Node) -> Shapes:
    shape = node.shape(0)
    count = math.prod(shape)
    given = node.optional(1)
    # The kernel takes a shape only of a vector, and the option's otherwise.
    absent = given is None or len(given.shape) != 1
    target = list(_new_shape(node)) if absent else node.integers(1, "shape")
    if target is None:
        return None
    # Old converters write the scalar shape as [0].
    if target == [0] and count == 1:
        return [()]
    unknown = target.count(-1)
    known = math.prod(size for size in target if size != -1)
    if unknown > 1 or min(target, default=1) < -1:
        raise node.error(f"shape is {target}, expected sizes of 0 or more and at most one -1")
    if unknown and known and count % known == 0:
        return [tuple(count // known if size == -1 else size for size in target)]
    if unknown or known != count:
        raise node.error(f"cannot reshape {count} elements {list(shape)} into {target}")
    return [tuple(target)]


def _new_shape(node: Node) -> tuple[int, ...]:
    return _sizes(node, "new_shape")


def _sizes(node: Node, name: str) -> tuple[int, ...]:
    value = node.operator.options.get(name, ())
    return tuple(map(int, value)) if isinstance(value, tuple) else ()


def _squeeze(node: Node) -> Shapes:
    shape = node.shape(0)
    dims = _sizes(node, "squeeze_dims")
    drop = {node.axis(axis, len(shape), "squeeze_dims") for axis in dims}
    if not dims:
        drop = {axis for axis, size in enumerate(shape) if size == 1}
    for axis in drop:
        if shape[axis] != 1:
            raise node.error(f"cannot squeeze axis {axis} of {list(shape)}, its size is not 1")
    return [tuple(size for axis, size in enumerate(shape) if axis not in drop)]


def _expand_dims(node: Node) -> Shapes:
    shape = node.shape(0)
    axis = node.integers(1, "axis", 1)
    if axis is None:
        return None
    at = node.axis(axis[0], len(shape) + 1)
    return [(*shape[:at], 1, *shape[at:])]


def _transpose(node: Node) -> Shapes:
    shape = node.shape(0)
    perm = node.integers(1, "perm", len(shape))
    if perm is None:
        return None
    axes = [node.axis(axis, len(shape), "perm") for axis in perm]
    if len(set(axes)) != len(axes):
        raise node.error(f"perm is {perm}, expected a permutation of the {len(shape)} axes")
    return [tuple(shape[axis] for axis in axes)]


def _pairs(node: Node, position: int, what: str, rank: int) -> list[tuple[int, int]] | None:
    """Return a constant [rank, 2] input as pairs, which have to be 0 or more."""
    if node.shape(position) != (rank, 2):
        raise node.error(f"{what} has shape {list(node.shape(position))}, expected {[rank, 2]}")
    values = node.integers(position, what, 2 * rank, any_rank=True)
    if values is None:
        return None
    if min(values, default=0) < 0:
        raise node.error(f"{what} is {values}, expected 0 or more")
    return list(zip(values[::2], values[1::2], strict=True))


def _pad(node: Node) -> Shapes:
    shape = node.shape(0)
    pads = _pairs(node, 1, "padding", len(shape))
    if node.operator.op == "PADV2" and math.prod(node.shape(2)) != 1:
        raise node.error(f"padding value has shape {list(node.shape(2))}, expected one element")
    if pads is None:
        return None
    return [tuple(size + before + after
                  for size, (before, after) in zip(shape, pads, strict=True))]


def _space_depth(node: Node) -> Shapes:
    batch, height, width, channels = node.shape(0, 4)
    block = node.option("block_size")
    if block < 1:
        raise node.error(f"block_size is {block}, expected 1 or more")
    if node.operator.op == "SPACE_TO_DEPTH":
        if height % block or width % block:
            raise node.error(f"input is {height} x {width}, not divisible by block_size {block}")
        return [(batch, height // block, width // block, channels * block * block)]
    if channels % (block * block):
        raise node.error(f"input has {channels} channels, not divisible by block_size {block} "
                         f"squared")
    return [(batch, height * block, width * block, channels // (block * block))]


def _block(node: Node) -> tuple[tuple[int, ...], list[int] | None]:
    """Return the input shape and the block shape of the space-batch pair."""
    shape = node.shape(0)
    if len(shape) not in (3, 4):
        raise node.error(f"input has shape {list(shape)}, expected rank 3 or 4")
    block = node.integers(1, "block_shape", len(shape) - 2)
    if block is not None and min(block) < 1:
        raise node.error(f"block_shape is {block}, expected 1 or more")
    return shape, block


def _space_to_batch(node: Node) -> Shapes:
    shape, block = _block(node)
    pads = _pairs(node, 2, "padding", len(shape) - 2)
    if block is None or pads is None:
        return None
    padded = [size + sum(pad) for size, pad in zip(shape[1:-1], pads, strict=True)]
    if any(size % step for size, step in zip(padded, block, strict=True)):
        raise node.error(f"padded size {padded} is not divisible by block_shape {block}")
    inner = (size // step for size, step in zip(padded, block, strict=True))
    return [(shape[0] * math.prod(block), *inner, shape[-1])]


def _batch_to_space(node: Node) -> Shapes:
    shape, block = _block(node)
    crops = _pairs(node, 2, "crops", len(shape) - 2)
    if block is None or crops is None:
        return None
    if shape[0] % math.prod(block):
        raise node.error(f"batch {shape[0]} is not divisible by block_shape {block}")
    full = [size * step for size, step in zip(shape[1:-1], block, strict=True)]
    inner = [size - sum(crop) for size, crop in zip(full, crops, strict=True)]
    if min(inner) < 1:
        raise node.error(f"crops {crops} leave nothing of size {full}")
    return [(shape[0] // math.prod(block), *inner, shape[-1])]


def _gather(node: Node) -> Shapes:
    shape, indices = node.shape(0), node.shape(1)
    axis = node.axis(node.option("axis"), len(shape))
    batch_dims = node.option("batch_dims")
    if batch_dims < 0:
        batch_dims += len(indices)
    if not 0 <= batch_dims <= min(axis, len(indices)):
        raise node.error(f"batch_dims is {node.option('batch_dims')}, expected 0 to "
                         f"{min(axis, len(indices))}")
    if shape[:batch_dims] != indices[:batch_dims]:
        raise node.error(f"shapes {list(shape)} and {list(indices)} differ in the first "
                         f"{batch_dims} dimensions")
    _check_indices(node, 1, shape[axis])
    return [(*shape[:axis], *indices[batch_dims:], *shape[axis + 1:])]


def _embedding_lookup(node: Node) -> Shapes:
    table = node.shape(1)
    if len(table) < 2:
        raise node.error(f"table has shape {list(table)}, expected rank 2 or more")
    (count,) = node.shape(0, 1, "indices")
    _check_indices(node, 0, table[0])
    return [(count, *table[1:])]


def _check_indices(node: Node, position: int, count: int) -> None:
    data = node.input(position).data
    if data is not None and data.size and not 0 <= int(data.min()) <= int(data.max()) < count:
        raise node.error(f"indices run from {data.min()} to {data.max()}, expected 0 to "
                         f"{count - 1}")


def _concatenation(node: Node) -> Shapes:
    shapes = [tensor.shape for tensor in node.inputs()]
    axis = node.axis(node.option("axis"), len(shapes[0]))
    rest = {shape[:axis] + (0,) + shape[axis + 1:] for shape in shapes}
    if len(rest) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise node.error(f"shapes {[list(shape) for shape in shapes]} differ outside axis {axis}")
    total = sum(shape[axis] for shape in shapes)
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1:])]


def _pack(node: Node) -> Shapes:
    shapes = [tensor.shape for tensor in node.inputs()]
    if len(set(shapes)) != 1 or node.option("values_count") != len(shapes):
        raise node.error(f"values_count is {node.option('values_count')}, shapes are "
                         f"{[list(shape) for shape in shapes]}, expected as many equal shapes")
    axis = node.axis(node.option("axis"), len(shapes[0]) + 1)
    return [(*shapes[0][:axis], len(shapes), *shapes[0][axis:])]


MOVE_SHAPES: dict[str, Callable[[Node], Shapes]] = {
    "RESHAPE": _reshape, "SQUEEZE": _squeeze, "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose, "PAD": _pad, "PADV2": _pad, "SPACE_TO_DEPTH": _space_depth,
    "DEPTH_TO_SPACE": _space_depth, "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space, "GATHER": _gather,
    "EMBEDDING_LOOKUP": _embedding_lookup, "CONCATENATION": _concatenation, "PACK": _pack,
}
