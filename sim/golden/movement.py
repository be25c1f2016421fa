"""Operators that only move whole tensors or blocks of them; values are copied unchanged.

Sources: `concatenation.cc`, `reshape.cc`, `squeeze.cc`, `expand_dims.cc`, `transpose.cc`, `pad.cc`,
`reference/space_to_depth.h`, `depth_to_space.h`, `space_to_batch_nd.h`, `batch_to_space_nd.h`,
`pack.cc`, `unpack.cc`, `shape.cc`. Input and output share their quantization.
"""

import numpy as np

from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    int_option,
    ints_option,
    kernel,
    normalize_axis,
    output_tensor,
    require,
    require_same_quantization,
    str_option,
    value,
)

__all__ = ["pad_value", "reshape_to"]


@kernel("CONCATENATION")
def concatenation(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Join along an axis."""
    activation = str_option(op, "fused_activation_function")
    require(activation == "NONE", f"fused activation must be NONE, not {activation}")
    require_same_quantization(op, subgraph)
    arrays = [value(inputs, position) for position in range(len(inputs))]
    axis = normalize_axis(int_option(op, "axis"), arrays[0].ndim)
    return [np.concatenate(arrays, axis=axis)]


def reshape_to(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Resolve the single -1 of a new shape for `count` elements."""
    known = int(np.prod([extent for extent in shape if extent != -1], dtype=np.int64))
    if shape.count(-1) == 1 and known and count % known == 0:
        shape = tuple(count // known if extent == -1 else extent for extent in shape)
    if -1 in shape or int(np.prod(shape, dtype=np.int64)) != count:
        raise ModelError(f"shape {list(shape)} does not hold {count} elements")
    return shape


@kernel("RESHAPE")
def reshape(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Reshape to the vector of input 1 or, without one, to option `new_shape`."""
    x = value(inputs, 0)
    requested = inputs[1] if len(inputs) > 1 else None
    if requested is not None and requested.ndim == 1:
        shape = tuple(int(extent) for extent in requested)
    elif "new_shape" in op.options:
        shape = ints_option(op, "new_shape")
        # Old converters wrote [0] for a scalar.
        shape = () if shape == (0,) else shape
    else:
        raise ModelError("the new shape is in neither input 1 nor option new_shape")
    return [x.reshape(reshape_to(shape, x.size))]


@kernel("SQUEEZE")
def squeeze(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Drop the listed axes of size 1, or all of them when none is listed."""
    x = value(inputs, 0)
    listed = ints_option(op, "squeeze_dims")
    dropped = {normalize_axis(axis, x.ndim) for axis in listed}
    if not listed:
        dropped = {axis for axis, extent in enumerate(x.shape) if extent == 1}
    for axis in dropped:
        if x.shape[axis] != 1:
            raise ModelError(f"axis {axis} of shape {list(x.shape)} must have size 1")
    return [x.squeeze(tuple(sorted(dropped)))]


@kernel("EXPAND_DIMS")
def expand_dims(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Insert an axis of size 1 at the position in input 1."""
    x = value(inputs, 0)
    axis = int(value(inputs, 1).reshape(-1)[0])
    return [np.expand_dims(x, normalize_axis(axis, x.ndim + 1))]


@kernel("TRANSPOSE")
def transpose(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Permute the axes as listed in input 1."""
    x = value(inputs, 0)
    permutation = [normalize_axis(int(axis), x.ndim) for axis in value(inputs, 1)]
    if sorted(permutation) != list(range(x.ndim)):
        raise ModelError(f"permutation {permutation} does not list each of {x.ndim} axes once")
    return [x.transpose(permutation)]


def pad_value(op: Operator, subgraph: Subgraph, inputs: Inputs) -> int:
    """Raw value of the padding of PAD (the output zero point), PADV2 or SPACE_TO_BATCH_ND."""
    output = output_tensor(op, subgraph)
    if op.op == "PADV2":
        return int(value(inputs, 2).reshape(-1)[0])
    return output.zero_point if output.quantization is not None else 0


@kernel("PAD", "PADV2")
def pad(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Surround with a constant; input 1 is [rank, 2] with the counts before and after."""
    x = value(inputs, 0)
    counts = [(int(before), int(after)) for before, after in value(inputs, 1)]
    if len(counts) != x.ndim or min((min(pair) for pair in counts), default=0) < 0:
        raise ModelError(f"paddings {counts} must be {x.ndim} pairs of non-negative counts")
    is_real = x.dtype == np.float32 and op.op == "PADV2"
    fill = value(inputs, 2).reshape(-1)[0] if is_real else pad_value(op, subgraph, inputs)
    # numpy rejects an empty list of pairs.
    return [np.pad(x, counts, constant_values=fill) if counts else x]


@kernel("SPACE_TO_DEPTH")
def space_to_depth(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Gather each block of pixels into the channels of one pixel."""
    x, block = value(inputs, 0), int_option(op, "block_size")
    batch, height, width, depth = x.shape
    if block < 1 or height % block or width % block:
        raise ModelError(f"block size {block} must divide {height}x{width}")
    split = x.reshape(batch, height // block, block, width // block, block, depth)
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(
        batch, height // block, width // block, block * block * depth)]


@kernel("DEPTH_TO_SPACE")
def depth_to_space(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Spread the channels of one pixel over a block of pixels."""
    x, block = value(inputs, 0), int_option(op, "block_size")
    batch, height, width, depth = x.shape
    if block < 1 or depth % (block * block):
        raise ModelError(f"block size {block} squared must divide {depth} channels")
    split = x.reshape(batch, height, width, block, block, depth // (block * block))
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(
        batch, height * block, width * block, depth // (block * block))]


def _blocks(x: Array, block: Array, pairs: Array) -> tuple[list[int], list[tuple[int, int]]]:
    if x.ndim not in (3, 4) or len(block) != x.ndim - 2 or pairs.shape != (x.ndim - 2, 2):
        raise UnsupportedError(f"input must have 3 or 4 dimensions with a block of 1 or 2 sizes, "
                               f"found {x.ndim} and {len(block)}")
    sizes = [int(size) for size in block]
    counts = [(int(before), int(after)) for before, after in pairs]
    if min(sizes) < 1 or min(min(pair) for pair in counts) < 0:
        raise ModelError(f"block {sizes} must be positive, paddings or crops {counts} not negative")
    return sizes, counts


@kernel("SPACE_TO_BATCH_ND")
def space_to_batch(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Pad with the output zero point, then move each position in a block into the batch."""
    x = value(inputs, 0)
    sizes, counts = _blocks(x, value(inputs, 1), value(inputs, 2))
    padded = np.pad(x, [(0, 0), *counts, (0, 0)],
                    constant_values=pad_value(op, subgraph, inputs))
    split: list[int] = [x.shape[0]]
    for extent, size in zip(padded.shape[1:-1], sizes, strict=True):
        if extent % size:
            raise ModelError(f"block {sizes} must divide the padded size {padded.shape[1:-1]}")
        split += [extent // size, size]
    spatial = range(1, len(split), 2)
    order = [*(axis + 1 for axis in spatial), 0, *spatial, len(split)]
    moved = padded.reshape(*split, x.shape[-1]).transpose(order)
    return [moved.reshape(-1, *(split[axis] for axis in spatial), x.shape[-1])]


@kernel("BATCH_TO_SPACE_ND")
def batch_to_space(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Move batches back to their positions in blocks of pixels, then crop."""
    x = value(inputs, 0)
    sizes, counts = _blocks(x, value(inputs, 1), value(inputs, 2))
    places = int(np.prod(sizes))
    if x.shape[0] % places:
        raise ModelError(f"batch {x.shape[0]} must be a multiple of the {places} pixels of a block")
    rank = len(sizes)
    moved = x.reshape(*sizes, x.shape[0] // places, *x.shape[1:])
    order = [rank, *(axis for pair in zip(range(rank + 1, 2 * rank + 1), range(rank), strict=True)
                     for axis in pair), 2 * rank + 1]
    extents = [extent * size for extent, size in zip(x.shape[1:-1], sizes, strict=True)]
    full = moved.transpose(order).reshape(x.shape[0] // places, *extents, x.shape[-1])
    window = tuple(slice(before, extent - after)
                   for extent, (before, after) in zip(extents, counts, strict=True))
    cropped: Array = full[(slice(None), *window)]
    return [cropped]


@kernel("PACK")
def pack(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Stack along a new axis."""
    arrays = [value(inputs, position) for position in range(len(inputs))]
    return [np.stack(arrays, axis=normalize_axis(int_option(op, "axis"), arrays[0].ndim + 1))]


@kernel("UNPACK")
def unpack(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Split along an axis, which disappears."""
    x = value(inputs, 0)
    return list(np.moveaxis(x, normalize_axis(int_option(op, "axis"), x.ndim), 0))


@kernel("SHAPE")
def shape_of(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Dimensions of the input as int32 or int64."""
    return [np.array(value(inputs, 0).shape, output_tensor(op, subgraph).dtype)]
